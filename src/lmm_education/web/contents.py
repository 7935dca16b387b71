"""The chapters of a course in reading order, numbered as in the book, and suggested questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, groupby
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from lmm_education.catalogue import Entry
from lmm_education.ingestion.near_types import named_type
from lmm_education.payloads import StoredDocument

_BOOK = ("summary", "index", "_index", "titlepage", "title-page", "readme")
_GENERIC = (
    "summary zusammenfassung introduction einleitung exercise exercises übung übungen solution solutions lösung "
    "lösungen references literatur literaturverzeichnis literaturhinweise literaturangaben literaturliste contents "
    "inhalt overview überblick foreword preface vorwort conclusion conclusions note notes example examples beispiel "
    "beispiele"
)
_ASKS = re.compile(r"[^.!?]{8,80}\?")
_SHORTEST, _LONGEST = 4, 60  # characters of a title that a question can be made from
STARTERS, FOLLOW_UPS = 4, 3


@dataclass(frozen=True, slots=True)
class Chapter(Entry):
    """A document with the headings `below` it; `part` is the title of the part of the book that begins with it."""

    part: str = ""
    below: tuple[Entry, ...] = ()

    @property
    def depth(self) -> int:
        """0 for a chapter such as 4, 1 for a subchapter such as 4.3."""
        return self.number.count(".")

    @property
    def opens(self) -> str:
        """The id of its first section."""
        return next((entry.section for entry in (self, *self.below) if entry.section), "")


def chapters_of(
    contents: Iterable[Entry], records: Mapping[str, StoredDocument] = MappingProxyType({})
) -> tuple[Chapter, ...]:
    """Return the documents of a course with their headings, each title once; `records` are stored documents by file.

    >>> chapters = chapters_of([Entry("Types", 0, "a.md", 1, number="4"), Entry("Slices", 1, "a.md", 2, number="4.1")])
    >>> [(chapter.name, chapter.below[0].name) for chapter in chapters]
    [('4 Types', '4.1 Slices')]
    """
    chapters = [_chapter(*entries, record=records.get(file)) for file, entries in groupby(contents, lambda e: e.file)]
    return tuple({chapter.name: chapter for chapter in reversed(chapters)}.values())[::-1]


def _chapter(first: Entry, *below: Entry, record: StoredDocument | None) -> Chapter:
    """Make a chapter. A first heading that repeats the title, or is the only one of its level in a document of a book,
    counts as the title, whatever its text."""
    section, alone = first.section, sum(entry.level == 1 for entry in below) == 1
    is_title = alone and record and record.sort_key
    if below and not section and (is_title or below[0].title.casefold() == first.title.casefold()):
        section, below = below[0].section, tuple(replace(each, level=each.level - alone) for each in below[1:])
    number = first.number if first.name != first.title else ""
    part = record.part if record else ""
    return Chapter(first.title, 0, first.file, first.line, number=number, section=section, part=part, below=below)


def course_title(documents: Sequence[StoredDocument]) -> str:
    """Return the title of a course: of its only book or document, or of the page above all others; else empty."""
    books = {document.book for document in documents}
    if len(books) == 1 and "" not in books:
        return books.pop()
    if len(documents) == 1:
        return documents[0].title
    pages = [document for document in documents if PurePosixPath(document.file).stem.lower() in _BOOK]
    if not pages:
        return ""
    first = min(pages, key=lambda document: (document.file.count("/"), document.file))
    folder = PurePosixPath(first.file).parent
    return first.title if all(PurePosixPath(each.file).is_relative_to(folder) for each in documents) else ""


# -- questions -------------------------------------------------------------------------------------


def starters(asked: Sequence[str], chapters: Sequence[Chapter], texts: Mapping[str, str]) -> list[str]:
    """Return up to four suggested questions, spread over the course: those of its cards, then headings that are
    questions, then questions about chapters, made by turns from the templates in `texts`, if there are any.

    >>> chapters = [Chapter(title, 0, title, 1) for title in ("What is mitosis?", "Summary", "Walls", "Nuclei")]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}."}
    >>> starters([], chapters, texts), starters([], chapters, {})
    (['What is mitosis?', 'Why Walls?', 'Show Nuclei.'], ['What is mitosis?'])
    """
    is_numbered = any(chapter.number for chapter in chapters)
    titles = [chapter.title for chapter in chapters if chapter.number or not is_numbered]
    inner = [entry.title for chapter in chapters for entry in chapter.below if entry.level == 1]
    own = [text for text in (*titles, *inner) if _ASKS.fullmatch(text)]
    chosen = _spread([text for text in dict.fromkeys(asked) if _ASKS.fullmatch(text)], STARTERS)
    chosen += _spread([text for text in own if text not in chosen], STARTERS - len(chosen))
    whole = [each.title for each in chapters if each.title in titles and not each.depth and _has_subject(each)]
    plain = [title for title in (whole if len(whole) > 1 else inner) if _is_a_subject(title)]
    forms = [texts[name] for name in ("ask_about", "ask_example", "ask_summary") if name in texts]
    titles = _spread(plain, STARTERS - len(chosen)) if forms else []
    return chosen + [form.replace("{title}", title) for form, title in zip(cycle(forms), titles, strict=False)]


def follow_ups(
    asked: str, sections: Sequence[str], cards: Sequence[Mapping[str, Any]], chapters: Sequence[Chapter]
) -> list[str]:
    """Return up to three of the course's own questions that follow up an answer, which any model answers: those of the
    cards from the `sections` that it cites, and the next headings that are questions.

    >>> titles = ["Leaves", "Why do they fall?", "Roots"]
    >>> lines = [Entry(title, 1, "a.md", 1, section=str(i)) for i, title in enumerate(titles)]
    >>> cards = [{"question": "Which colour is a leaf?", "section": "0"}]
    >>> chapters = [Chapter("Botany", 0, "a.md", 1, below=tuple(lines))]
    >>> follow_ups("What is a leaf?", ["0"], cards, chapters)
    ['Which colour is a leaf?', 'Why do they fall?']
    """
    own = [card["question"] for card in cards if card["section"] in sections]
    lines = [line for each in chapters for line in (each, *each.below)]
    last = max((i for i, line in enumerate(lines) if line.section in sections), default=len(lines))
    found = [*own, *(line.title for line in lines[last + 1 : last + 6])]
    asks = dict.fromkeys(text for text in found if _ASKS.fullmatch(text) and text.casefold() != asked.casefold())
    return list(asks)[:FOLLOW_UPS]


def _has_subject(chapter: Chapter) -> bool:
    """Return whether a chapter has more than exercises, and a title of its own, not only the name of its file."""
    is_file = chapter.file.rpartition("/")[2].rpartition(".")[0] == chapter.title
    exercises = all(named_type(entry.title, ("exercise",)) for entry in chapter.below)
    return not (is_file or (chapter.below and exercises))


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and title.lower() not in _GENERIC.split()


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """Return `count` of some texts, evenly spaced."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]
