"""The chapters of a course: in the order of reading, numbered, each title once; and questions worth asking about them.

Order and numbers are the book's where there is one. Else numbers are those in files' names (``ch04-03-slices.md`` is
4.3), or the order counts; what comes before the first chapter, appendices and titles that bring a number get none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmm_education.material import Place, named

_NUMBER = re.compile(
    r"(?:ch|chap|chapter|kap|kapitel|lec|lecture|vl|vorlesung|week|woche|unit|part|teil|session)?[-_. ]?"
    r"(\d{1,3})(?!\d)(?:[-_.](\d{1,3})(?!\d))?",
    re.IGNORECASE,
)
_BACK = re.compile(r"appendi|anhang|glossar|bibliogra|literatur|references", re.IGNORECASE)
_FRONT = re.compile(r"summary|index|title-?page|readme|foreword|preface|vorwort|introduction|einleitung", re.IGNORECASE)
_BOOK = re.compile(r"summary|index|_index|title-?page|readme", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:\d|[A-Z]\.|Appendix|Anhang|Chapter \d|Kapitel \d)")
_GENERIC = re.compile(
    r"summary|zusammenfassung|introduction|einleitung|exercises?|übung(?:en)?|solutions?|lösung(?:en)?|references|"
    r"literatur\w*|contents|inhalt|overview|überblick|foreword|preface|vorwort|conclusions?|notes?|examples?|beispiele?",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[^.!?]{8,80}\?")
_SHORTEST, _LONGEST = 4, 60  # characters of a title that a question is made of
STARTERS, FOLLOW_UPS = 4, 3


@dataclass(frozen=True, slots=True)
class SectionTitles:
    """A section, without its text, as the table of contents needs it; `numbers` as in `Place`. `part` begins with its
    document, `book` is its book's title, and `in_book` tells that sections come in the order of a book."""

    id: str
    document: str
    file: str
    title: str
    order: int
    headings: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    part: str = ""
    book: str = ""
    in_book: bool = False


@dataclass(frozen=True, slots=True)
class ContentsLine:
    """A line of the contents; one that has no text of its own has no section."""

    title: str
    depth: int
    section: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A document: `number` is 4 or 4.3 or nothing; `section` is that of its title, `entries` are the headings below.
    `part` is that of the book which begins with it."""

    number: str
    title: str
    document: str
    section: str
    entries: tuple[ContentsLine, ...]
    part: str = ""

    @property
    def depth(self) -> int:
        """0 for a chapter, 1 for a part of one."""
        return self.number.count(".")

    @property
    def opens(self) -> str:
        """The section where it begins."""
        return self.section or next((entry.section for entry in self.entries if entry.section), "")

    @property
    def name(self) -> str:
        """The title with its number."""
        return f"{self.number} {self.title}".strip()


def chapters_of(sections: Iterable[SectionTitles]) -> tuple[Chapter, ...]:
    """The documents of a course with their headings, in the order of reading.

    >>> def titles(file, *headings): return SectionTitles(headings[-1], file, file, headings[0], 0, headings)
    >>> files = [titles("appendix.md", "Keywords"), titles("ch10-01.md", "Traits"), titles("ch4-03.md", "Slices")]
    >>> [chapter.name for chapter in chapters_of(files)]
    ['4.3 Slices', '10.1 Traits', 'Keywords']
    """
    held: dict[str, list[SectionTitles]] = {}
    for section in sections:
        held.setdefault(section.document, []).append(section)
    documents = [sorted(each, key=lambda section: section.order) for each in held.values()]
    if any(each[0].in_book for each in documents):
        return _once(_in_book(each) for each in documents)
    documents.sort(key=lambda each: _place(each[0].file))
    by_name = any(_in_name(each[0].file) for each in documents)
    counted, chapters = 0, []
    for each in documents:
        number = _in_name(each[0].file)
        if not by_name and len(documents) > 1 and _place(each[0].file)[0] == 1:
            counted += 1
            number = (counted, 0)
        chapters.append(_chapter(number, each))
    return _once(chapters)


def _once(chapters: Iterable[Chapter]) -> tuple[Chapter, ...]:
    """The chapters, each title once."""
    return tuple({chapter.name: chapter for chapter in reversed(list(chapters))}.values())[::-1]


def _in_book(sections: Sequence[SectionTitles]) -> Chapter:
    first, entries = sections[0], outline(sections)
    number = first.numbers[0] if first.numbers and named(first.numbers[0], first.title) != first.title else ""
    alone = bool(entries) and not any(entry.depth == 0 for entry in entries[1:])
    section, entries = _without_title(first.title, entries, alone=alone and first.in_book)
    return Chapter(number, first.title, first.document, section, entries=tuple(entries), part=first.part)


def _chapter(number: tuple[int, int] | None, sections: Sequence[SectionTitles]) -> Chapter:
    first = sections[0]
    section, entries = _without_title(first.title, outline(sections))
    shown = "" if number is None or not number[0] or _NUMBERED.match(first.title) else f"{number[0]}"
    shown += f".{number[1]}" if shown and number and number[1] else ""
    return Chapter(shown, first.title, first.document, section, tuple(entries))


def _without_title(title: str, entries: list[ContentsLine], *, alone: bool = False) -> tuple[str, list[ContentsLine]]:
    """The section of the heading that is the title again, and the entries without it. A heading that stands `alone`
    above all others is the title whatever it says."""
    if not entries or (entries[0].title != title and not alone):
        return "", entries
    less = 1 if not any(entry.depth == 0 for entry in entries[1:]) else 0
    return entries[0].section, [replace(entry, depth=entry.depth - less) for entry in entries[1:]]


def _stem(file: str) -> str:
    return file.rpartition("/")[2].rpartition(".")[0]


def _in_name(file: str) -> tuple[int, int] | None:
    """The numbers of chapter and part in a file's name."""
    found = _NUMBER.match(_stem(file))
    return (int(found[1]), int(found[2] or 0)) if found and not _BACK.match(_stem(file)) else None


def _place(file: str) -> tuple[int, tuple[int, int], list[tuple[int, str]]]:
    """What chapters are sorted by: front, body or back; numbers; names, in which 10 comes after 9."""
    stem = _stem(file)
    number = _in_name(file)
    part = 2 if _BACK.match(stem) else 0 if number is None and _FRONT.match(stem) else 1
    pieces = [(int(piece), "") if piece.isdigit() else (0, piece) for piece in re.split(r"(\d+)", file)]
    return part, number or (0, 0), pieces


def outline(sections: Sequence[SectionTitles]) -> list[ContentsLine]:
    """The headings of a document in order, with the section under each; one that has no text of its own has none.

    >>> def titles(id, order, *headings): return SectionTitles(id, "d", "a.md", "A", order, headings)
    >>> entries = outline([titles("1", 0, "Leaves", "Colour"), titles("2", 1, "Roots")])
    >>> [(entry.title, entry.depth, entry.section) for entry in entries]
    [('Leaves', 0, ''), ('Colour', 1, '1'), ('Roots', 0, '2')]
    """
    entries: list[ContentsLine] = []
    above: tuple[str, ...] = ()
    for section in sections:
        path = section.headings or (section.title,)
        numbers = section.numbers[1:] if section.headings else ()
        differ = (i for i, (one, other) in enumerate(zip(above, path, strict=False)) if one != other)
        shared = next(differ, min(len(above), len(path)))
        for depth in range(shared, len(path)):
            number = numbers[depth] if depth < len(numbers) else ""
            entries.append(ContentsLine(path[depth], depth, section.id if depth == len(path) - 1 else "", number))
        above = path
    return entries


def course_title(sections: Iterable[SectionTitles]) -> str:
    """What the course calls itself: the title of its book, of its only document, or of the page before all others; else
    nothing."""
    titles = {section.document: section for section in sections}
    if called := {section.book for section in titles.values() if section.book}:
        return called.pop() if len(called) == 1 else ""
    if len(titles) == 1:
        return next(iter(titles.values())).title
    book = [section for section in titles.values() if _BOOK.fullmatch(_stem(section.file))]
    return min(book, key=lambda section: (section.file.count("/"), section.file)).title if book else ""


def source_title(place: Place, title: str, chapters: Mapping[str, Chapter]) -> str:
    """What a source is called: ``4.3 The Slice Type › String Slices``."""
    if place.numbers:
        return " › ".join(place.path(title))
    chapter = chapters.get(place.document)
    name = chapter.name if chapter else title
    below = [heading for heading in place.headings if heading != title]
    return " › ".join([name, *below] if name else below)


# -- questions -------------------------------------------------------------------------------------


def starters(asked: Sequence[str], chapters: Sequence[Chapter], about: str) -> list[str]:
    """Up to four questions worth asking, spread over the course: of those that it asks itself, then of headings that
    are questions, else about chapters; ``{title}`` in `about` is a chapter's.

    >>> chapters = [Chapter("", title, title, "", ()) for title in ("What is mitosis?", "Summary", "Cell walls")]
    >>> starters([], chapters, "What is important about {title}?")
    ['What is mitosis?', 'What is important about Cell walls?']
    """
    titles = [chapter.title for chapter in chapters if chapter.number or not _is_numbered(chapters)]
    inner = [entry.title for chapter in chapters for entry in chapter.entries if entry.depth == 0]
    own = [text for text in (*titles, *inner) if _ASKS.fullmatch(text)]
    chosen = _spread([text for text in dict.fromkeys(asked) if _ASKS.fullmatch(text)], STARTERS)
    chosen += _spread([text for text in own if text not in chosen], STARTERS - len(chosen))
    whole = [chapter.title for chapter in chapters if chapter.title in titles and not chapter.depth]
    plain = [title for title in (whole if len(whole) > 1 else inner) if _is_a_subject(title)]
    return chosen + [about.replace("{title}", title) for title in _spread(plain, STARTERS - len(chosen))]


def follow_ups(
    asked: str, sections: Sequence[str], cards: Sequence[Mapping[str, Any]], chapters: Sequence[Chapter], about: str
) -> list[str]:
    """Up to three questions that lead on from an answer: those that the course asks in the `sections` it came from,
    headings after them that are questions, then what comes next.

    >>> lines = [ContentsLine(title, 0, str(i)) for i, title in enumerate(["Leaves", "Why do they fall?", "Roots"])]
    >>> cards = [{"question": "Which colour is a leaf?", "section": "0"}]
    >>> follow_ups("What is a leaf?", ["0"], cards, [Chapter("", "Botany", "", "", tuple(lines))], "And {title}?")
    ['Which colour is a leaf?', 'Why do they fall?', 'And Roots?']
    """
    own = [card["question"] for card in cards if card["section"] in sections]
    found = [text for text in own if _ASKS.fullmatch(text)][:FOLLOW_UPS]
    lines = [line for each in chapters for line in (ContentsLine(each.title, 0, each.section), *each.entries)]
    last = max((i for i, line in enumerate(lines) if line.section in sections), default=len(lines))
    ahead = [line.title for line in lines[last + 1 : last + 6]]
    found += [text for text in ahead if _ASKS.fullmatch(text)]
    found += [about.replace("{title}", title) for title in ahead if _is_a_subject(title)][:2]
    return [text for text in dict.fromkeys(found) if text.casefold() != asked.casefold()][:FOLLOW_UPS]


def _is_numbered(chapters: Iterable[Chapter]) -> bool:
    return any(chapter.number for chapter in chapters)


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and not _GENERIC.fullmatch(title)


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """So many of some texts, evenly far from each other."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]
