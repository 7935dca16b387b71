"""What a search comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm.messages import Usage
from lmm_education.material import Hit, Place


@dataclass(frozen=True, slots=True)
class FoundSection:
    """A section in which something was found. `score` is its votes', comparable within one result only.

    `hits` are the passages that voted for it, best first; those beyond the result's limit have no text.
    `text`, `level`, and `before` and `after`, the headings of its neighbours, are empty where sections are
    not stored.
    """

    id: str
    score: float
    place: Place
    title: str = ""
    text: str = ""
    level: int = 0
    before: str = ""
    after: str = ""
    hits: Sequence[Hit] = ()

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "section": self.id,
            "score": round(self.score, 6),
            **_place(self.place),
            "title": self.title,
            "level": self.level,
            "before": self.before,
            "after": self.after,
            "passages": [hit.id for hit in self.hits],
        }


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found for a question.

    `text` is what was looked up: the question without its marks. `types` and `documents` are those that the
    question or the options named. `hits` are passages, or with `companion` whole sections, best first;
    `sections` those that the passages voted for, best first. `questions` are the sub-questions that were
    asked too. `languages` are those in which words were compared. `relevance` says on one scale for all questions how
    well the best passage fits (see `lmm_education.search.ranking`), None where nothing was looked up.
    `notices` tell what could not be done; `usage` is that of the models that were asked for it.
    """

    question: str
    text: str
    hits: tuple[Hit, ...] = ()
    sections: tuple[FoundSection, ...] = ()
    types: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
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
            "hits": [hit_as_json(hit) for hit in self.hits],
            "sections": [section.as_json() for section in self.sections],
            "notices": list(self.notices),
        }


def hit_as_json(hit: Hit) -> dict[str, Any]:
    """A hit for programs; ``fields`` has the payload fields that were asked for."""
    return {
        "id": hit.id,
        "what": hit.what,
        "score": round(hit.score, 6),
        "legs": {name: round(score, 6) for name, score in hit.legs.items()},
        **_place(hit.place),
        "title": hit.title,
        "section": hit.section,
        "type": hit.kind,
        "text": hit.text,
        "fields": dict(hit.payload),
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "document": place.document,
        "file": place.file,
        "lines": list(place.lines),
        "headings": list(place.headings),
    }
