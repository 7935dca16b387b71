"""The values that pass between preparing, storing, searching and answering.

A document is cut twice: into *sections*, the larger texts that may be retrieved whole, and into *chunks*,
the smaller ones that are embedded and found. A chunk knows its section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

Metadata = Mapping[str, Any]
Audience = Literal["everyone", "teacher"]
Dense = Sequence[float]


class Lines(NamedTuple):
    """A range of lines of a file, counted from 1, both included.

    >>> str(Lines(3, 7)), str(Lines(3, 3))
    ('3-7', '3')
    """

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


KEPT_PASSAGES = 2_000
"""Passages of which this process remembers what was found out by reading them: about 10 MB."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a text stands: the document's id, its file (relative to the course's folder, with ``/``), lines,
    and the headings above it, outermost first, the document's title not among them. `numbers` are those that its book
    gives the document and each of the headings, empty where it gives none; or there are no numbers at all."""

    document: str
    file: str
    lines: Lines
    headings: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def path(self, title: str) -> tuple[str, ...]:
        """The document's title and the headings, with their numbers, each once (see `distinct_titles`).

        >>> Location("d", "a.md", Lines(1, 2), ("Slices", "Strings"), ("4.3", "4.3", "")).path("slices")
        ('4.3 slices', 'Strings')
        """
        names = (title, *self.headings)
        numbered = zip_longest(names, self.numbers[: len(names)], fillvalue="")
        return distinct_titles(named(number, name) for name, number in numbered if name)

    def __str__(self) -> str:
        return f"{self.file}:{self.lines}"


_HAS_NUMBER = re.compile(r"(?:\d+[.:)]?|[A-Z](?:[.:]| [-–—])|Appendix|Anhang|Chapter \d|Kapitel \d)(?=[ .:]|$)")


def distinct_titles(titles: Iterable[str]) -> tuple[str, ...]:
    """Each title once, as it stands first, whatever its capitals.

    >>> distinct_titles(["What is Ownership?", "What Is Ownership?", "Rules"])
    ('What is Ownership?', 'Rules')
    """
    first: dict[str, str] = {}
    for title in titles:
        first.setdefault(title.casefold(), title)
    return tuple(first.values())


def names_of(document: str, file: str, title: str = "") -> tuple[str, ...]:
    """What a document may be called: its id, its file, the file's name with and without its suffix, its title."""
    path = PurePosixPath(file)
    return tuple(name for name in (document, file, path.name, path.stem, title) if name)


def is_called(name: str, document: str, file: str, title: str = "") -> bool:
    """Whether a document is called so, in small letters or large ones (see `names_of`).

    >>> is_called("leaves", "bio-1", "notes/Leaves.md", "On leaves"), is_called("leaf", "bio-1", "notes/Leaves.md")
    (True, False)
    """
    return name.strip().casefold() in map(str.casefold, names_of(document, file, title))


def named(number: str, title: str) -> str:
    """A title with its number, unless it brings one.

    >>> named("4.3", "The Slice Type"), named("22.1", "A - Keywords"), named("", "Preface")
    ('4.3 The Slice Type', 'A - Keywords', 'Preface')
    """
    return f"{number} {title}" if number and not _HAS_NUMBER.match(title) else title


@dataclass(frozen=True, slots=True)
class Section:
    """A text to retrieve whole: the text under a heading, under several, or a part of it of some size.

    `order` counts the sections of a document from 0; `level` is the heading's (0: text above the first
    heading); `metadata` is the heading's own, without chats, edits and bookkeeping. `text` is what readers see, and
    `source` what the author wrote, where that is another text. `audience` and `for_students` are as in `Chunk`.
    """

    id: str
    place: Location
    level: int
    order: int
    text: str
    metadata: Metadata = field(default_factory=dict)
    source: str = ""
    audience: Audience = "everyone"
    for_students: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text to embed and find.

    `text` is stored and shown, as readers see it; `source` is what the author wrote, where that is another text;
    `overlap`, the end of the chunk before it, is embedded with it but not stored. `annotations` is what the annotation
    model collected, one item per line. `section` is the id of the section it was cut from; `order` counts the chunks of
    a document from 0. `kind` is ``text``, or ``summary`` for the summary of a section, or what ``type:`` says in the
    metadata (``exercise``, …). `metadata` is everything the author and the models wrote in metadata blocks for this
    text, its own before inherited, without chats, edits and bookkeeping. `title` is the document's.
    `audience` tells who may read it; `for_students` has what they are given of it in the place of something else.
    """

    id: str
    place: Location
    section: str
    order: int
    text: str
    title: str = ""
    overlap: str = ""
    annotations: tuple[str, ...] = ()
    kind: str = "text"
    metadata: Metadata = field(default_factory=dict)
    source: str = ""
    audience: Audience = "everyone"
    for_students: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Withheld:
    """A stretch of a document that students do not get, and its types."""

    types: tuple[str, ...]
    lines: Lines


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document after the three steps, in order. `language` is its ``lang:``, or the configured one.

    By `sort_key`, documents of a course are sorted (see `reading_order`); `part` is that of a book, which begins here;
    `book` is the title of the book. `outline` has its headings and texts (see `ingestion.outline.item_values`), for
    study material. `withheld` is what students do not get, of which the types `withhold` are;
    `audience` and `for_students` are as in `Chunk`.
    """

    id: str
    file: str
    title: str
    language: str
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    metadata: Metadata = field(default_factory=dict)
    outline: Sequence[Metadata] = ()
    sort_key: str = ""
    part: str = ""
    book: str = ""
    withheld: tuple[Withheld, ...] = ()
    withhold: tuple[str, ...] = ("solution",)
    audience: Audience = "everyone"
    for_students: Metadata = field(default_factory=dict)


def reading_order(sort_key: str, file: str) -> list[list[str | int]]:
    """What documents are sorted by: the key that their book gives them, else their file, in which 10 comes after 9.

    >>> sorted(["week-10.md", "week-9.md", "a/b.md"], key=lambda file: reading_order("", file))
    ['a/b.md', 'week-9.md', 'week-10.md']
    """
    pieces = (re.split(r"(\d+)", part) for part in (sort_key or file).split("/"))
    return [[int(piece) if i % 2 else piece for i, piece in enumerate(each)] for each in pieces]


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Token ids, ascending and distinct, and the weight of each."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of the course that was found, or that the model was shown: a chunk, or a whole section, as `what` says.

    `id` is a point's, `section` that of the section it belongs to, `title` the document's; `kind` is as in `Chunk`,
    `level` the heading's of its section, `before` and `after` are the headings of the neighbouring sections.

    Of what was found, `score` is comparable within one result only, higher is better; `legs` has the score of each leg
    of a hybrid query that found it, by the vector's name, as the engine gave it; `payload` has the fields asked for;
    `hits` are the passages that voted for a section, best first, those beyond the result's limit without text.
    `language` is that in which its words are compared, empty where it is not known. Of what the model was shown,
    `number` is what an answer cites it by.
    """

    id: str
    place: Location
    text: str = ""
    _: KW_ONLY
    what: Literal["chunk", "section"] = "chunk"
    section: str = ""
    kind: str = "text"
    title: str = ""
    level: int = 0
    before: str = ""
    after: str = ""
    score: float = 0.0
    legs: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    language: str = ""
    hits: Sequence[Passage] = ()
    number: int = 0

    @property
    def path(self) -> str:
        """The document's title and the headings above the text.

        >>> Passage("x", Location("d", "a.md", Lines(3, 4), ("Leaves", "Colour")), title="Botany").path
        'Botany > Leaves > Colour'
        """
        return " > ".join(self.place.path(self.title))

    @property
    def heading(self) -> str:
        """The heading that the text stands under, else the document's title."""
        return self.place.headings[-1] if self.place.headings else self.title

    def is_below(self, section: Passage) -> bool:
        """Whether it stands in a section, or below a heading of it."""
        place, there = self.place, section.place
        return place.document == there.document and place.headings[: len(there.headings)] == there.headings

    @property
    def reference(self) -> str:
        """Number, place and path, as they stand below an answer."""
        return f"[{self.number}] {self.place}  {self.path}"


FOUND = ("id", "what", "score", "legs", "document", "file", "lines", "headings", "title", "section", "type", "text",
         "fields")  # fmt: skip
FOUND_SECTION = ("section", "score", "document", "file", "lines", "headings", "title", "level", "before", "after",
                 "passages")  # fmt: skip
SOURCE = ("number", "id", "what", "type", "document", "file", "lines", "title", "headings")
"""What programs are told of a passage that was found, of a section, and of a source of an answer."""


def as_json(passage: Passage, names: Sequence[str]) -> dict[str, Any]:
    """Some values of a passage for programs; `fields` are the payload fields that were asked for."""
    place = passage.place
    values = {name: getattr(passage, name) for name in Passage.__slots__} | {
        "document": place.document,
        "file": place.file,
        "lines": list(place.lines),
        "headings": list(place.headings),
        "score": round(passage.score, 6),
        "legs": {name: round(score, 6) for name, score in passage.legs.items()},
        "type": passage.kind,
        "fields": dict(passage.payload),
        "passages": [hit.id for hit in passage.hits],
    }
    return {name: values[name] for name in names}
