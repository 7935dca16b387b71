"""The chapters of a course: in the order of reading, numbered, each title once; and questions worth asking about them.

Numbers are those in the files' names (``ch04-03-slices.md`` is 4.3), else the order counts. What comes before the first
chapter, appendices and titles that bring a number of their own get none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
STARTERS = 4


@dataclass(frozen=True, slots=True)
class SectionTitles:
    """A section, without its text, as the table of contents needs it."""

    id: str
    document: str
    file: str
    title: str
    order: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContentsLine:
    """A line of the contents; one that has no text of its own has no section."""

    title: str
    depth: int
    section: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A document: `number` is 4 or 4.3 or nothing; `section` is that of its title, `entries` are the headings below."""

    number: str
    title: str
    document: str
    section: str
    entries: tuple[ContentsLine, ...]

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
    documents.sort(key=lambda each: _place(each[0].file))
    by_name = any(_in_name(each[0].file) for each in documents)
    counted, chapters = 0, []
    for each in documents:
        number = _in_name(each[0].file)
        if not by_name and len(documents) > 1 and _place(each[0].file)[0] == 1:
            counted += 1
            number = (counted, 0)
        chapters.append(_chapter(number, each))
    return tuple({chapter.name: chapter for chapter in reversed(chapters)}.values())[::-1]  # each title once


def _chapter(number: tuple[int, int] | None, sections: Sequence[SectionTitles]) -> Chapter:
    entries, first = outline(sections), sections[0]
    section = ""
    if entries and entries[0].title == first.title:  # the title stands for both
        section = entries[0].section
        top = [entry for entry in entries if entry.depth == 0]
        less = 1 if len(top) == 1 else 0
        entries = [ContentsLine(entry.title, entry.depth - less, entry.section) for entry in entries[1:]]
    shown = "" if number is None or not number[0] or _NUMBERED.match(first.title) else f"{number[0]}"
    shown += f".{number[1]}" if shown and number and number[1] else ""
    return Chapter(shown, first.title, first.document, section, tuple(entries))


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
        differ = (i for i, (one, other) in enumerate(zip(above, path, strict=False)) if one != other)
        shared = next(differ, min(len(above), len(path)))
        for depth in range(shared, len(path)):
            entries.append(ContentsLine(path[depth], depth, section.id if depth == len(path) - 1 else ""))
        above = path
    return entries


def course_title(sections: Iterable[SectionTitles]) -> str:
    """What the course calls itself: the title of its only document, or of the page before all others; else nothing."""
    titles = {section.document: section for section in sections}
    if len(titles) == 1:
        return next(iter(titles.values())).title
    book = [section for section in titles.values() if _BOOK.fullmatch(_stem(section.file))]
    return min(book, key=lambda section: (section.file.count("/"), section.file)).title if book else ""


def source_title(document: str, title: str, headings: Sequence[str], chapters: Mapping[str, Chapter]) -> str:
    """What a source is called: ``4.3 The Slice Type › String Slices``."""
    chapter = chapters.get(document)
    name = chapter.name if chapter else title
    below = [heading for heading in headings if heading != title]
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


def _is_numbered(chapters: Iterable[Chapter]) -> bool:
    return any(chapter.number for chapter in chapters)


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and not _GENERIC.fullmatch(title)


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """So many of some texts, evenly far from each other."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]
