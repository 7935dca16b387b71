"""The chapters of a course, in the order of reading and with the numbers of their book; questions worth asking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from lmm_education.material import Section, named
from lmm_education.payloads import StoredDocument

_BOOK = ("summary", "index", "_index", "titlepage", "title-page", "readme")
_GENERIC = re.compile(
    r"summary|zusammenfassung|introduction|einleitung|exercises?|übung(?:en)?|solutions?|lösung(?:en)?|references|"
    r"literatur\w*|contents|inhalt|overview|überblick|foreword|preface|vorwort|conclusions?|notes?|examples?|beispiele?",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[^.!?]{8,80}\?")
_SHORTEST, _LONGEST = 4, 60  # characters of a title that a question is made of
STARTERS, FOLLOW_UPS = 4, 3


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


def chapters_of(
    sections: Iterable[tuple[Section, str]], records: Mapping[str, StoredDocument] = MappingProxyType({})
) -> tuple[Chapter, ...]:
    """The documents of a course with their headings, each title once, in the order of the sections, which come with
    their documents' titles; `records` are those of the documents.

    >>> from lmm_education.material import Lines, Location
    >>> section = Section("1", Location("d", "a.md", Lines(1, 2), ("Slices",), ("4", "4.1")), 1, 0, "")
    >>> [chapter.name for chapter in chapters_of([(section, "Types")])]
    ['4 Types']
    """
    documents: dict[str, list[Section]] = {}
    titles: dict[str, str] = {}
    for section, title in sections:
        documents.setdefault(section.place.document, []).append(section)
        titles[section.place.document] = title or section.place.file
    chapters = [_chapter(titles[id], held, records.get(id)) for id, held in documents.items()]
    return tuple({chapter.name: chapter for chapter in reversed(chapters)}.values())[::-1]


def _chapter(title: str, sections: Sequence[Section], record: StoredDocument | None) -> Chapter:
    first, entries = sections[0].place, outline(title, sections)
    number = first.numbers[0] if first.numbers and named(first.numbers[0], title) != title else ""
    alone = bool(record and record.sort_key and entries) and not any(entry.depth == 0 for entry in entries[1:])
    section, entries = _without_title(title, entries, alone=alone)
    return Chapter(number, title, first.document, section, tuple(entries), record.part if record else "")


def _without_title(title: str, entries: list[ContentsLine], *, alone: bool) -> tuple[str, list[ContentsLine]]:
    """The section of the heading that is the title again, and the entries without it. A heading that stands `alone`
    above all others is the title whatever it says."""
    if not entries or (entries[0].title.casefold() != title.casefold() and not alone):
        return "", entries
    less = 1 if not any(entry.depth == 0 for entry in entries[1:]) else 0
    return entries[0].section, [replace(entry, depth=entry.depth - less) for entry in entries[1:]]


def outline(title: str, sections: Sequence[Section]) -> list[ContentsLine]:
    """The headings of a document with this title in order, with the section under each; one that has no text of its
    own has none.

    >>> from lmm_education.material import Lines, Location
    >>> def section(id, *headings): return Section(id, Location("d", "a.md", Lines(1, 2), headings), 1, 0, "")
    >>> entries = outline("A", [section("1", "Leaves", "Colour"), section("2", "Roots")])
    >>> [(entry.title, entry.depth, entry.section) for entry in entries]
    [('Leaves', 0, ''), ('Colour', 1, '1'), ('Roots', 0, '2')]
    """
    entries: list[ContentsLine] = []
    above: tuple[str, ...] = ()
    for section in sections:
        path = section.place.headings or (title,)
        numbers = section.place.numbers[1:] if section.place.headings else ()
        differ = (i for i, (one, other) in enumerate(zip(above, path, strict=False)) if one != other)
        shared = next(differ, min(len(above), len(path)))
        for depth in range(shared, len(path)):
            number = numbers[depth] if depth < len(numbers) else ""
            entries.append(ContentsLine(path[depth], depth, section.id if depth == len(path) - 1 else "", number))
        above = path
    return entries


def course_title(documents: Sequence[StoredDocument]) -> str:
    """What the course calls itself: the title of its book, of its only document, or of the page before all others; else
    nothing."""
    if called := {document.book for document in documents if document.book}:
        return called.pop() if len(called) == 1 else ""
    if len(documents) == 1:
        return documents[0].title
    first = [document for document in documents if PurePosixPath(document.file).stem.lower() in _BOOK]
    return min(first, key=lambda document: (document.file.count("/"), document.file)).title if first else ""


# -- questions -------------------------------------------------------------------------------------


def starters(asked: Sequence[str], chapters: Sequence[Chapter], texts: Mapping[str, str]) -> list[str]:
    """Up to four questions worth asking, spread over the course: of those that it asks itself, then of headings that
    are questions, else about chapters, in the forms that `texts` has, by turns.

    >>> chapters = [Chapter("", title, title, "", ()) for title in ("What is mitosis?", "Summary", "Walls", "Nuclei")]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}."}
    >>> starters([], chapters, texts)
    ['What is mitosis?', 'Why Walls?', 'Show Nuclei.']
    """
    titles = [chapter.title for chapter in chapters if chapter.number or not _is_numbered(chapters)]
    inner = [entry.title for chapter in chapters for entry in chapter.entries if entry.depth == 0]
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
    """Up to three questions that lead on from an answer: those that the course asks in the `sections` it came from,
    headings after them that are questions, then about the first two of the sections and what comes next, in the
    forms that `texts` has.

    >>> lines = [ContentsLine(title, 0, str(i)) for i, title in enumerate(["Leaves", "Why do they fall?", "Roots"])]
    >>> cards = [{"question": "Which colour is a leaf?", "section": "0"}]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}.",
    ...          "ask_compare": "{title} or {other}?"}
    >>> chapters = [Chapter("", "Botany", "", "", tuple(lines))]
    >>> follow_ups("What is a leaf?", ["0"], cards, chapters, texts)
    ['Which colour is a leaf?', 'Why do they fall?', 'Show Leaves.']
    >>> follow_ups("Show Leaves.", ["0", "2"], [], chapters[:1] + [Chapter("", "Stems", "", "3", ())], texts)
    ['Leaves or Roots?', 'Why Stems?', 'Sum up Leaves.']
    """
    own = [card["question"] for card in cards if card["section"] in sections]
    found = [text for text in own if _ASKS.fullmatch(text)][:FOLLOW_UPS]
    lines = [line for each in chapters for line in (ContentsLine(each.title, 0, each.section), *each.entries)]
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


def _is_numbered(chapters: Iterable[Chapter]) -> bool:
    return any(chapter.number for chapter in chapters)


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and not _GENERIC.fullmatch(title)


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """So many of some texts, evenly far from each other."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]
