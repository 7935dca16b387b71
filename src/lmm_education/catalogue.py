"""What a course contains, for one state of its store: documents, sections, types, languages, word frequencies.

Each property is read on first use, and cached until the store changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from lmm.disk.files import MOST, decode_document
from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.type_names import named_type
from lmm_education.frequencies import Frequencies
from lmm_education.material import Passage, Section, is_called, named, names_of, reading_order
from lmm_education.payloads import (
    PLACE,
    RECORD,
    StoredDocument,
    document_of,
    hash_of_text,
    hit_of,
    section_of,
    texts_of,
)
from lmm_education.store.port import RECORDS, SECTIONS, HasWords, Manifest, Match, StoreView

T = TypeVar("T")
_TYPED_NUMBER = re.compile(r"(?:[^\W\d]+ (?=[\d.]+(?:[:–—-]|\Z)))?(\d+(?:\.\d+)*)(?!\w)")
_ALL = 10_000  # more than the different types or languages of any course
_WITHOUT_TEXT = ("what", *PLACE, "depth", "parent", "goes_on", "order", "title")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a table of contents: a document (level 0) or a heading.

    `headings` are the titles above it, including its own; `type` is that of its texts; `anchor` is the id in links
    of pages by Pandoc; `number` is its number in the book; `section` is the id of the stored text directly below it, if
    any, which ends on the line `last`.
    """

    title: str
    level: int
    file: str
    line: int
    headings: tuple[str, ...] = ()
    type: str = "text"
    anchor: str = ""
    number: str = ""
    section: str = ""
    last: int = 0

    def __repr__(self) -> str:
        return f"Entry({'  ' * self.level}{self.name}, {self.file}:{self.line})"

    @property
    def name(self) -> str:
        """The title with its number."""
        return named(self.number, self.title)


@dataclass(frozen=True, slots=True)
class StoredName:
    """The names of a document: its docid, its file, its title and its aliases."""

    id: str
    file: str = ""
    others: tuple[str, ...] = ()

    def answers_to(self, name: str) -> bool:
        """Return whether `name` is one of its names, ignoring case; the file's name with or without suffix.

        >>> StoredName("bio-1", "notes/Leaves.md").answers_to("leaves")
        True
        """
        return any(is_called(name, self.id, self.file, other) for other in (*self.others, ""))

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the document."""
        return (*names_of(self.id, self.file), *self.others)


class Kept(Generic[T]):
    """A property that is computed on first use and cached by its object's `once`."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read, self.__doc__ = read, read.__doc__

    def __get__(self, of: Any, owner: type[Any]) -> T:
        found: T = of.once(self._read.__name__, lambda: self._read(of))
        return found


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a course contains. It is valid, like its `reader`, while the view that created it is open; `kept` caches
    what was read in this state of the store."""

    reader: StoreView
    manifest: Manifest
    kept: dict[str, Any] = field(repr=False)

    def once(self, name: str, read: Callable[[], T]) -> T:
        """Return the result of `read`, cached under `name` for this state of the store. Two threads may both call
        `read` at the same time."""
        if name not in self.kept:
            self.kept[name] = read()
        found: T = self.kept[name]
        return found

    @Kept
    def types(self) -> tuple[str, ...]:
        """The types of the passages, most frequent first."""
        return tuple(self.reader.facet("type", limit=_ALL))

    @Kept
    def languages(self) -> tuple[str, ...]:
        """The languages of the passages, most frequent first; for an empty course, the configured one."""
        counts = Counter[str]()
        for document in self.documents:
            counts[document.language] += document.chunks
        return tuple(language for language, count in counts.most_common() if count) or (self.manifest.language,)

    def language_of(self, document: str) -> str:
        """Return the language of a document, by its id."""
        rank = self._ranks.get(document)
        return self.manifest.language if rank is None else self.documents[rank].language

    @Kept
    def documents(self) -> tuple[StoredDocument, ...]:
        """The documents in reading order."""
        points = self.reader.scroll("documents", where=[RECORDS], fields=RECORD)
        found = (document_of(point.payload) for point in points)
        return tuple(sorted(found, key=lambda document: reading_order(document.sort_key, document.file)))

    def outdated(self, root: Path, only: Collection[str] | None = None) -> dict[str, Literal["gone", "newer"]]:
        """Return the documents, by file, whose source in the course's folder is gone, or newer than what is stored.

        This is the only place that compares them. Where no source is there, as on a server to which only the store was
        copied, nothing is gone.

        Args:
            only: look at these files only.
        """
        chosen = [each for each in self.documents if only is None or each.file in only]
        states = {each.file: state for each in chosen if (state := source_state(each.file, each.text_hash, root))}
        is_here = any(state != "gone" for state in states.values()) or len(states) < len(chosen)
        if is_here or any(source_state(each.file, each.text_hash, root) != "gone" for each in self.documents):
            return states
        return {}

    @Kept
    def _ranks(self) -> Mapping[str, int]:
        """The position of each document in reading order."""
        return {document.id: rank for rank, document in enumerate(self.documents)}

    @Kept
    def names(self) -> tuple[StoredName, ...]:
        """The names by which questions can refer to documents."""
        return tuple(
            StoredName(each.id, each.file, (each.title, *texts_of((each.metadata or {}).get("aliases"))))
            for each in self.documents
        )

    @Kept
    def frequencies(self) -> Frequencies:
        """The number of chunks with each word, which determines its weight (`Frequencies.weigh`, `.share`)."""
        return self.reader.frequencies()

    @Kept
    def sections(self) -> tuple[tuple[Section, str], ...]:
        """All sections in reading order, each without text and with its document's title; empty if not stored."""
        points = self.reader.scroll("documents", where=[SECTIONS], fields=_WITHOUT_TEXT)
        found = [(section_of(point.id, point.payload), str(point.payload.get("title", ""))) for point in points]
        ranks = self._ranks
        return tuple(sorted(found, key=lambda pair: (ranks.get(pair[0].place.document, len(ranks)), pair[0].order)))

    @Kept
    def contents(self) -> tuple[Entry, ...]:
        """The table of contents: the documents and the headings of their sections, in reading order."""
        return tuple(contents_of(self.sections))

    def sections_of(self, file: str) -> list[Section]:
        """Return the sections of one document, in order, with their texts."""
        points = self.reader.scroll("documents", where=[SECTIONS, Match("file", (file,))])
        return sorted((section_of(point.id, point.payload) for point in points), key=lambda section: section.order)

    def numbered(self, number: str) -> str:
        """Return the heading of the first section with this number, else the title that has it, as in "Chapter 3:
        Tests", else, if no title has a number, that of the document at this place in the order of the course; empty
        if there is none."""
        places = [section.place for section, _ in self.sections]
        named = ((place.numbers[-1:], place.headings) for place in places)
        inner = (((each.number,), each.headings) for place in places for each in place.inner)
        numbers = ((headings[-1], own == (number,)) for own, headings in chain(named, inner) if headings)
        typed = (
            (entry.title, own[1] == number and not named_type(entry.title, ("exercise", "solution")))
            for entry in self.contents
            if entry.level <= 1 and (own := _TYPED_NUMBER.match(entry.title))
        )
        titles = [entry.title for entry in self.contents if not entry.level]
        counted = ((title, str(at) == number) for at, title in enumerate(titles, 1) if not has_numbers(self.contents))
        return next((title for title, is_asked in chain(numbers, typed, counted) if is_asked), "")

    def mentions(self, term: str) -> list[Passage]:
        """Return the passages that contain a term, its words adjacent, in the order of the course."""
        points, wanted = self.reader.scroll("chunks", where=[HasWords("text", term)]), spaced(term)
        found = (hit_of(point.id, point.payload) for point in points if wanted in spaced(point.payload["text"]))
        ranks = self._ranks
        return sorted(found, key=lambda hit: (ranks.get(hit.place.document, len(ranks)), hit.place.lines))

    @Kept
    def _headings(self) -> Mapping[str, Mapping[int, str]]:
        """The headings of each document's sections by their order, with their numbers; the document's title for a
        section without heading."""
        found: dict[str, dict[int, str]] = {}
        for section, title in self.sections:
            found.setdefault(section.place.document, {})[section.order] = ("", *section.place.path(title))[-1]
        return found

    def beside(self, document: str, order: int, step: Literal[-1, 1]) -> str:
        """Return the heading of the section before or after one; in a book, it may be in the adjacent chapter."""
        own = self._headings.get(document, {})
        rank = self._ranks.get(document, -2) + step
        if order + step in own or not 0 <= rank < len(self.documents):
            return own.get(order + step, "")
        here, there = self.documents[rank - step], self.documents[rank]
        if not here.sort_key or here.sort_key.rpartition("/")[0] != there.sort_key.rpartition("/")[0]:  # another book
            return ""
        other = self._headings.get(there.id)
        return other[max(other) if step < 0 else min(other)] if other else ""


def source_state(file: str, text_hash: str, root: Path) -> Literal["", "gone", "newer"]:
    """Return whether a file below a folder is gone, or has another text than one with this `hash_of_text`, if any."""
    try:
        if (there := Folder(root, secrets=True).stat(file)) is None:
            return "gone"
        is_same = text_hash in ("", _hash_at(root, file, (there.st_mtime_ns, there.st_size, there.st_ino)))
    except LmmError:  # a link that leads out of the folder; a file that may not be read
        return ""
    return "" if is_same else "newer"


@lru_cache(maxsize=1000)
def _hash_at(root: Path, file: str, state: tuple[int, int, int]) -> str:
    """Return the hash of a file's text, cached while the file is in this state: every question asks for it."""
    return hash_of_text(decode_document(Folder(root, secrets=True).read(file, most=MOST), file))


def has_numbers(contents: Iterable[Entry]) -> bool:
    """Return whether some documents of a table of contents have a number, so that "chapter 2" is not the second."""
    return any(entry.number or any(map(str.isdigit, entry.title)) for entry in contents if not entry.level)


def contents_of(sections: Iterable[tuple[Section, str]]) -> Iterator[Entry]:
    """Iterate over the table of contents of sections in order, which come with their documents' titles.

    >>> from lmm_education.material import Lines, Location
    >>> def section(id, *headings): return Section(id, Location("d", "a.md", Lines(1, 2), headings), 1, 0, "")
    >>> entries = contents_of([(section("1", "Leaves", "Colour"), "Botany"), (section("2", "Roots"), "Botany")])
    >>> [(entry.title, entry.level, entry.section) for entry in entries]
    [('Botany', 0, ''), ('Leaves', 1, ''), ('Colour', 2, '1'), ('Roots', 1, '2')]
    """
    above: tuple[str, ...] = ()
    for section, title in sections:
        place = section.place
        path = (place.document, *place.headings)
        known = next((i for i, pair in enumerate(zip(above, path, strict=False)) if pair[0] != pair[1]), len(above))
        if known >= len(path) and not section.goes_on:  # called as one above it
            known = len(path) - 1
        for level in range(min(known, len(path)), len(path)):
            name = place.headings[level - 1] if level else title or place.file
            number = place.numbers[level] if level < len(place.numbers) else ""
            entry = Entry(name, level, place.file, place.lines.first, place.headings[:level], number=number)
            is_own = level == len(place.headings)
            yield replace(entry, section=section.id, last=place.lines.last) if is_own else entry
        for at, (line, number, headings) in enumerate(place.inner, 1):
            after = (later.line - 1 for later in place.inner[at:] if len(later.headings) <= len(headings))
            yield Entry(headings[-1], len(headings), place.file, line, headings, number=number, section=section.id,
                        last=next(after, place.lines.last))  # fmt: skip
        above = path


def spaced(text: str) -> str:
    """Return the words of a text, each between spaces.

    >>> spaced("Die Größe-Klasse.")
    ' die größe klasse '
    """
    words = re.findall(r"[^\W_]+", text.lower())
    return f" {' '.join(words)} "
