"""What a search comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lmm.messages import Usage
from lmm_education.material import FOUND, FOUND_SECTION, Passage, as_json


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found for a question.

    `text` is what was looked up: the question without its marks and its instructions; `asked` is that without its
    marks alone, as a model is to answer it. `types` and `documents` are those that the question or the options named.
    `hits` are passages, or with `companion` whole sections, best first; `sections` those that the passages voted for,
    best first. `questions` are the sub-questions that were asked too, such as what is to be compared. `languages` are
    those in which words were compared. `relevance` says on one scale for all questions how well the best passage fits
    (see `lmm_education.search.ranking`), None where nothing was looked up. `notices` tell what could not be done;
    `usage` is that of the models that were asked for it.
    """

    question: str
    text: str
    hits: tuple[Passage, ...] = ()
    sections: tuple[Passage, ...] = ()
    types: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    asked: str = ""
    companion: bool = False
    reranker: str = "none"
    relevance: float | None = None
    notices: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage, compare=False)

    def as_json(self) -> dict[str, Any]:
        """For programs: what ``lmm search --json`` prints."""
        return {
            "question": self.question,
            "searched": self.text,
            "types": list(self.types),
            "documents": list(self.documents),
            "questions": list(self.questions),
            "companion": self.companion,
            "reranker": self.reranker,
            "relevance": self.relevance,
            "hits": [as_json(hit, FOUND) for hit in self.hits],
            "sections": [as_json(section, FOUND_SECTION) for section in self.sections],
            "notices": list(self.notices),
        }
