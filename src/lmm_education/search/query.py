"""Search queries: options, the marks ``*types*`` and ``@documents`` in a question, conditions, and results."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm.messages import Usage
from lmm.type_names import names_of
from lmm_education.catalogue import StoredName
from lmm_education.errors import SearchError
from lmm_education.material import FOUND, FOUND_SECTION, Passage, as_json
from lmm_education.options import SearchOptions, Value
from lmm_education.payloads import PLACE
from lmm_education.store.port import Match, Where

# Fields of a chunk that can be named directly; all others refer to its metadata.
FIELDS = (*PLACE, "title", "section", "order", "type", "text", "language", "hash", "metadata")
_RENAMED = {"doc": "document", "lang": "language"}
_TYPE = re.compile(r"(?<![*\w])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![*\w])")
_DOCUMENT = re.compile(r"(?<![\w@])@(?:\"([^\"\n]+)\"|([^\s\"@]+))")
# A title in quotes: of several words, or after a word for where something stands.
_TITLE = re.compile(
    r"(?P<there>\b(?:in|from|of|im|in|aus|von|laut|dans|en|nel|van|document|dokument|file|datei|chapter|kapitel)\s+)?"
    r"[\"“„«](?P<title>[^\"“”„«»\n]{2,120})[\"”“»]",
    re.IGNORECASE,
)
# What stands before and after a type that is asked for in words.
_SOME = (
    r"(?:\A\W*|\b(?:an?|the|some|any|another|more|one|two|three|\d+|few|several|me|my|good|short|brief|eine?n?|die|das|den|der"
    r"|einige|noch|weitere|zwei|drei|mir|kurze|une?|des|quelques|un[ao]?|algún|een) )"
)
_ABOUT = (
    r"(?: (?:about|on|of|for|from|regarding|concerning|covering|with|in|to|über|zu[mr]?|von|vom|für|mit|aus)\b"
    r"|[ ?.!]*\Z)"
)
# In other languages; "die Aufgabe von" is no exercise.
_ELSEWHERE = r"(?: (?:über|zu[mr]?|mit|sur|sobre|acerca|su|sul(?:la)?|over|met)\b|[ ?.!]*\Z)"
_PUNCTUATION = ".,;:!?)]}'’”…"
_MOST_NOTICES = 5  # about unknown names: each is compared with all known ones


class SearchNotice(str):
    """A notice for readers, in English; pages translate it by `code`, and insert `values` into the translation.

    >>> SearchNotice("no_document", "no document is named '{name}'", name="week-1")
    "no document is named 'week-1'"
    """

    code: str
    values: Mapping[str, str]

    def __new__(cls, code: str, text: str, **values: str) -> SearchNotice:
        """Create the text by inserting the values."""
        notice = super().__new__(cls, text.format(**values))
        notice.code, notice.values = code, values
        return notice


def read_question(question: str, types: Collection[str], documents: Iterable[StoredName]) -> SearchResult:
    """Parse a question; the result has no hits yet. Marks that name a type or a document of the store are removed from
    its text; others are kept. A type also counts if the question asks for it in words.

    >>> read = read_question("An *exercise* on loops in @week-3.", ["exercise"], [StoredName("w3", "week-3.md")])
    >>> read.text, read.asked, read.types, read.documents
    ('An on loops in.', 'An on loops in @week-3.', ('exercise',), ('w3',))
    >>> read_question("Give me two proofs of Fermat's theorem.", ["proof", "theorem"], []).types
    ('proof',)
    >>> [read_question(text, ["exercise"], []).types for text in ("Eine Aufgabe zum Median", "Die Aufgabe von Algen")]
    [('exercise',), ()]
    >>> read_question("an *exercize*", ["exercise"], []).notices
    ("there is no material of the type 'exercize'; did you mean '*exercise*'?",)
    >>> read_question("What does *very* mean?", ["exercise"], []).text
    'What does *very* mean?'
    """
    known = {name.casefold(): name for name in types}
    stored = list(documents)
    asked_types: list[str] = []
    asked_documents: list[str] = []
    notices: list[SearchNotice] = []

    def take_type(match: re.Match[str]) -> int:
        name = known.get(match[1].casefold())
        if name is None:
            few = len(notices) < _MOST_NOTICES
            if few and (close := _close(match[1], types, likeness=0.8)):  # else it is emphasis
                template = "there is no material of the type '{name}'; did you mean '{close}'?"
                notices.append(SearchNotice("no_type", template, name=match[1], close=f"*{close}*"))
            return 0
        asked_types.append(name)
        return len(match[0])

    def take_document(match: re.Match[str]) -> int:
        for name, length in _readings(match):
            found = [document.id for document in stored if document.answers_to(name)]
            if found:
                asked_documents.extend(found)
                return length
        if len(notices) >= _MOST_NOTICES:
            return 0
        name = (match[1] or match[2]).rstrip(_PUNCTUATION)
        close = _close(name, [part for each in stored for part in each.names])
        if close:
            template = "no document is named '{name}'; did you mean '{close}'?"
            notices.append(SearchNotice("no_document_but", template, name=name, close=f"@{_quoted(close)}"))
        else:
            template = "no document is named '{name}'; it was searched as a word"
            notices.append(SearchNotice("no_document", template, name=name))
        return 0

    asked = _without(question, _TYPE, take_type)
    text = _without(asked, _DOCUMENT, take_document)
    for match in _TITLE.finditer(text):
        if match["there"] or " " in match["title"].strip():
            asked_documents += [each.id for each in stored if each.answers_to(match["title"])]
    asked_types += () if asked_types else _types_in_words(text, types)
    return SearchResult(
        question, text, types=tuple(dict.fromkeys(asked_types)), documents=tuple(dict.fromkeys(asked_documents)),
        asked=asked, notices=tuple(notices),
    )  # fmt: skip


def _types_in_words(question: str, types: Iterable[str]) -> Iterator[str]:
    """Iterate over the types that a question asks for, as "an exercise about", "some proofs of", "eine Aufgabe zu"."""
    for name in types:
        stem, ending = (name[:-1], "(?:y|ies)") if name.endswith("y") else (name, "(?:e?[ns]|e|er)?")
        form = rf"{_SOME}(?:{re.escape(stem)}{ending}{_ABOUT}|(?:{'|'.join(names_of(name))}){_ELSEWHERE})"
        if name != "text" and re.search(form, question, re.IGNORECASE):
            yield name


def _readings(match: re.Match[str]) -> list[tuple[str, int]]:
    """Return the names that ``@…`` may mean, and their lengths: punctuation at the end may not be part of the name."""
    if match[1]:
        return [(match[1], len(match[0]))]
    name, found = match[2], []
    while name:
        found.append((name, len(name) + 1))
        if name[-1] not in _PUNCTUATION:
            break
        name = name[:-1]
    return found


def _without(text: str, pattern: re.Pattern[str], take: Callable[[re.Match[str]], int]) -> str:
    """Return `text` without the matches for which `take` returns a length; one space is removed with each."""
    retained, at = "", 0
    for match in pattern.finditer(text):
        length = take(match)
        if length:
            retained += text[at : match.start()]
            at = match.start() + length
            rest = text[at : at + 1]
            if retained.endswith(" ") and (not rest or rest.isspace() or rest in _PUNCTUATION):
                retained = retained[:-1]
            elif not retained and rest == " ":
                at += 1
    return retained + text[at:]


# -- conditions ------------------------------------------------------------------------------------


def named_documents(names: Iterable[str], documents: Iterable[StoredName]) -> tuple[str, ...]:
    """Return the ids of documents by their names.

    Raises:
        SearchError: no document has such a name; the hint lists similar ones.
    """
    stored = list(documents)
    found: list[str] = []
    for name in names:
        ids = [document.id for document in stored if document.answers_to(name)]
        if not ids:
            raise SearchError(f"no document is named '{name}'", hint=_closest(name, [d.file or d.id for d in stored]))
        found += ids
    return tuple(dict.fromkeys(found))


def named_types(names: Iterable[str], types: Collection[str]) -> tuple[str, ...]:
    """Return types as the store spells them, ignoring case.

    Raises:
        SearchError: no passage has this type; the hint lists the types.
    """
    known = {name.casefold(): name for name in types}
    for name in names:
        if name.casefold() not in known:
            raise SearchError(f"there is no material of the type '{name}'", hint=_closest(name, sorted(types)))
    return tuple(dict.fromkeys(known[name.casefold()] for name in names))


def _closest(name: str, known: Sequence[str]) -> str:
    close = _close(name, known)
    some = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"did you mean '{close}'?" if close else f"there are: {some}" if known else "the store is empty"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _close(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return the known name that is most similar, ignoring case; empty if there is none."""
    names = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=likeness)
    return names[close[0]] if close else ""


def conditions(types: Sequence[str], documents: Sequence[str], where: Mapping[str, Sequence[Value]]) -> list[Match]:
    """Return the conditions that a passage must meet; several values of one kind are alternatives.

    >>> [(match.key, match.values) for match in conditions(["exercise"], [], {"week": ["3"]})]
    [('type', ('exercise',)), ('metadata.week', ('3', 3))]
    """
    found = [Match("type", tuple(types))] if types else []
    found += [Match("document", tuple(documents))] if documents else []
    return found + [Match(field_path(key), _spellings(values)) for key, values in where.items()]


def field_path(name: str) -> str:
    """Return the path of a field in a payload: in the metadata, unless it is a built-in field.

    >>> field_path("topic"), field_path("type"), field_path("metadata.topic"), field_path("lang")
    ('metadata.topic', 'type', 'metadata.topic', 'language')
    """
    first = name.split(".")[0]
    if name in _RENAMED:
        return _RENAMED[name]
    return name if first in FIELDS else f"metadata.{name}"


def _spellings(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return the values, and the numbers or booleans that they may have been in YAML."""
    found: list[Value] = []
    for value in values:
        found.append(value)
        if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d{0,17})", value):
            found.append(int(value))
        elif isinstance(value, str) and value.lower() in ("true", "false"):
            found.append(value.lower() == "true")
    return tuple(found)


def read_where(conditions: Iterable[str]) -> dict[str, list[str]]:
    """Parse ``key=value`` texts; a key that occurs several times may have either value.

    Raises:
        SearchError: a text contains no ``=``, or no key.

    >>> read_where(["topic=loops", "topic=lists"])
    {'topic': ['loops', 'lists']}
    """
    found: dict[str, list[str]] = {}
    for text in conditions:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SearchError(f"'{text}' is not a condition", hint="write key=value, such as topic=review")
        found.setdefault(key.strip(), []).append(value.strip())
    return found


# -- results ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search; before it, the parsed question.

    `text` is what was looked up: the question without marks; `asked` is the question without the marks
    of types, for a model to answer. `types` and `documents` are those named in the question or the options. `hits` are
    passages, or with `companion` whole sections, best first; `sections` are the sections that the passages voted for,
    best first. `this`: the question refers to the section that its reader has open, and passages of it were found.
    `questions` are the sub-questions that were looked up, too, such as the parts of a comparison. `languages` are those
    in which words were compared. `relevance` says how well the best passage matches, on a scale that is the same for
    all questions (see `lmm_education.search.ranking`), None if nothing was looked up. `notices` say what could not be
    done; `usage` is that of the models that were asked. How it was searched: `options` have no gaps, sections that
    `named` names come first, and `where` always holds.
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
    this: bool = False
    reranker: str = "none"
    relevance: float | None = None
    notices: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage, compare=False)
    options: SearchOptions = field(default_factory=SearchOptions, compare=False)
    named: str = field(default="", compare=False)
    where: Where = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.hits)

    def __bool__(self) -> bool:
        return True  # even without hits, it says what was looked up

    def __repr__(self) -> str:
        return f"SearchResult({self.question!r}, hits: {', '.join(str(hit.place) for hit in self.hits) or 'none'})"

    def _repr_markdown_(self) -> str:
        """Return the hits one after the other, as a notebook shows them."""
        return "\n\n".join(hit._repr_markdown_() for hit in self.hits) or "nothing found"

    def is_here(self, hit: Passage) -> bool:
        """Return whether the reader has the section of a passage open."""
        return self.options.section is not None and hit.is_below(self.options.section)

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs: what ``lmm search --json`` prints."""
        return {
            "question": self.question,
            "searched": self.text,
            "types": list(self.types),
            "documents": list(self.documents),
            "questions": list(self.questions),
            "companion": bool(self.options.companion),
            "reranker": self.reranker,
            "relevance": self.relevance,
            "hits": [as_json(hit, FOUND) for hit in self.hits],
            "sections": [as_json(section, FOUND_SECTION) for section in self.sections],
            "notices": list(self.notices),
        }
