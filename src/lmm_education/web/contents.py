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
    questions, then questions about chapters, made from the templates in `texts` by turns.

    >>> chapters = [Chapter(title, 0, title, 1) for title in ("What is mitosis?", "Summary", "Walls", "Nuclei")]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}."}
    >>> starters([], chapters, texts)
    ['What is mitosis?', 'Why Walls?', 'Show Nuclei.']
    """
    is_numbered = any(chapter.number for chapter in chapters)
    titles = [chapter.title for chapter in chapters if chapter.number or not is_numbered]
    inner = [entry.title for chapter in chapters for entry in chapter.below if entry.level == 1]
    own = [text for text in (*titles, *inner) if _ASKS.fullmatch(text)]
    chosen = _spread([text for text in dict.fromkeys(asked) if _ASKS.fullmatch(text)], STARTERS)
    chosen += _spread([text for text in own if text not in chosen], STARTERS - len(chosen))
    whole = [chapter.title for chapter in chapters if chapter.title in titles and not chapter.depth]
    plain = [title for title in (whole if len(whole) > 1 else inner) if _is_a_subject(title)]
    forms = [texts[name] for name in ("ask_about", "ask_example", "ask_summary")]
    titles = _spread(plain, STARTERS - len(chosen))
    return chosen + [_filled(form, title) for form, title in zip(cycle(forms), titles, strict=False)]


def follow_ups(
    asked: str,
    sections: Sequence[str],
    cards: Sequence[Mapping[str, Any]],
    chapters: Sequence[Chapter],
    texts: Mapping[str, str],
) -> list[str]:
    """Return up to three questions that follow up an answer: those of the cards from the `sections` that it cites, the
    next headings that are questions, then questions about the first two sections and about what comes next, made from
    the templates in `texts`.

    >>> titles = ["Leaves", "Why do they fall?", "Roots"]
    >>> lines = [Entry(title, 1, "a.md", 1, section=str(i)) for i, title in enumerate(titles)]
    >>> cards = [{"question": "Which colour is a leaf?", "section": "0"}]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}.",
    ...          "ask_compare": "{title} or {other}?"}
    >>> chapters = [Chapter("Botany", 0, "a.md", 1, below=tuple(lines))]
    >>> follow_ups("What is a leaf?", ["0"], cards, chapters, texts)
    ['Which colour is a leaf?', 'Why do they fall?', 'Show Leaves.']
    >>> follow_ups("Show Leaves.", ["0", "2"], [], chapters + [Chapter("Stems", 0, "b.md", 1, section="3")], texts)
    ['Leaves or Roots?', 'Why Stems?', 'Sum up Leaves.']
    """
    own = [card["question"] for card in cards if card["section"] in sections]
    found = [text for text in own if _ASKS.fullmatch(text)][:FOLLOW_UPS]
    lines = [line for each in chapters for line in (each, *each.below)]
    last = max((i for i, line in enumerate(lines) if line.section in sections), default=len(lines))
    ahead = [line.title for line in lines[last + 1 : last + 6]]
    found += [text for text in ahead if _ASKS.fullmatch(text)]
    titles = {line.section: line.title for line in lines if _is_a_subject(line.title)}
    used = list(dict.fromkeys(titles[section] for section in sections if section in titles))
    found += [_filled(texts["ask_example"], title) for title in used[:1]]
    found += [_filled(texts["ask_compare"], *used[:2])] if len(used) > 1 else []
    found += [_filled(texts["ask_about"], title) for title in ahead if _is_a_subject(title)][:1]
    found += [_filled(texts["ask_summary"], title) for title in used[:1]]
    return [text for text in dict.fromkeys(found) if text.casefold() != asked.casefold()][:FOLLOW_UPS]


def _filled(form: str, title: str, other: str = "") -> str:
    return form.replace("{title}", title).replace("{other}", other)


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and title.lower() not in _GENERIC.split()


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """Return `count` of some texts, evenly spaced."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]
