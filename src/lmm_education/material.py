"""The data types passed between preparing, storing, searching and answering.

A document is cut twice: into *sections*, the larger texts that can be retrieved whole, and into *chunks*, the smaller
ones that are embedded and searched. Each chunk belongs to a section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import zip_longest
from pathlib import PurePosixPath
from textwrap import indent, shorten
from typing import Any, Literal, NamedTuple, TypeVar

Metadata = Mapping[str, Any]
Audience = Literal["everyone", "teacher"]
Dense = Sequence[float]
T = TypeVar("T")


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
"""Number of passages for which a process caches the results of reading them: about 10 MB."""


class Inner(NamedTuple):
    """A heading inside a text: its line, its number in a book, and the headings above it, including its own."""

    line: int
    number: str
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a text: the document's id, its file (relative to the course's folder, with ``/``), lines, and the
    headings above it, outermost first, without the document's title. `numbers` are the numbers of the document and of
    each heading in a book, empty for those without; without any numbers, the tuple is empty. `inner` are the headings
    inside the text. `page` names the page, slide or minute of the `original`, for a text that was imported from one:
    ``p. 7``; the original is a URL or a path in the course's folder, empty if it is not there."""

    document: str
    file: str
    lines: Lines
    headings: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    inner: tuple[Inner, ...] = ()
    page: str = ""
    original: str = ""

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"

    @property
    def link(self) -> str:
        """The original, where it is known, opened on the page.

        >>> Location("d", "a.md", Lines(1, 2), page="p. 6–7", original="a b.pdf").link
        'a b.pdf#page=6'
        """
        from lmm.markdown.page_marks import Pages  # help and options do without YAML

        is_page = self.page.startswith("p. ") and self.original.lower().endswith(".pdf")
        return f"{self.original}#page={Pages.read(self.page).first}" if is_page else self.original

    @property
    def names(self) -> tuple[str, ...]:
        """The heading of the text, and those inside it."""
        return (*self.headings[-1:], *(each.headings[-1] for each in self.inner))

    def path(self, title: str) -> tuple[str, ...]:
        """Return the document's title and the headings, with numbers, without repetitions (see `distinct_titles`).

        >>> Location("d", "a.md", Lines(1, 2), ("Slices", "Strings"), ("4.3", "4.3", "")).path("slices")
        ('4.3 slices', 'Strings')
        """
        names = (title, *self.headings)
        numbered = zip_longest(names, self.numbers[: len(names)], fillvalue="")
        return distinct_titles(named(number, name) for name, number in numbered if name)

    def __str__(self) -> str:
        return f"{self.file}:{self.lines}{self.page and f', {self.page}'}"


_HAS_NUMBER = re.compile(r"(?:\d+[.:)]?|[A-Z](?:[.:]| [-–—])|Appendix|Anhang|Chapter \d|Kapitel \d)(?=[ .:]|$)")


def distinct_titles(titles: Iterable[str]) -> tuple[str, ...]:
    """Return titles without repetitions, ignoring case; the first spelling is kept.

    >>> distinct_titles(["What is Ownership?", "What Is Ownership?", "Rules"])
    ('What is Ownership?', 'Rules')
    """
    first: dict[str, str] = {}
    for title in titles:
        first.setdefault(title.casefold(), title)
    return tuple(first.values())


def names_of(document: str, file: str, title: str = "") -> tuple[str, ...]:
    """Return the names of a document: its id, its file, the file's name with and without suffix, its title."""
    path = PurePosixPath(file)
    return tuple(name for name in (document, file, path.name, path.stem, title) if name)


def is_called(name: str, document: str, file: str, title: str = "") -> bool:
    """Return whether this is a name of a document, ignoring case (see `names_of`).

    >>> is_called("leaves", "bio-1", "notes/Leaves.md", "On leaves"), is_called("leaf", "bio-1", "notes/Leaves.md")
    (True, False)
    """
    return name.strip().casefold() in map(str.casefold, names_of(document, file, title))


def named(number: str, title: str) -> str:
    """Return a title with its number in front, unless it already has one.

    >>> named("4.3", "The Slice Type"), named("22.1", "A - Keywords"), named("", "Preface")
    ('4.3 The Slice Type', 'A - Keywords', 'Preface')
    """
    return f"{number} {title}" if number and not _HAS_NUMBER.match(title) else title


@dataclass(frozen=True, slots=True)
class Section:
    """A text to retrieve whole: the text under one or several headings, or a part of it limited in size.

    `order` counts the sections of a document from 0; `depth` is the heading's level (0: text above the first heading),
    `parent` the id of the section of the heading above, empty for the topmost ones; `goes_on` tells that it was cut by
    size from the section before it, without a heading of its own; `metadata` is the heading's own,
    without chats, edits and internal fields. `text` is what readers see. `above`, `audience` and `for_students` are as
    in `Chunk`.
    """

    id: str
    place: Location
    depth: int
    order: int
    text: str
    parent: str = ""
    metadata: Metadata = field(default_factory=dict)
    above: tuple[str, ...] = ()
    audience: Audience = "everyone"
    for_students: Metadata = field(default_factory=dict)
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text to embed and search.

    `text` is stored and shown, as readers see it; `overlap`, the end
    of the previous chunk, is embedded with it but not stored. `above` are short texts directly below the headings above
    it, which are embedded and shown to models with it; `names` are the document's, besides its `title`. `annotations`
    is what the annotation model selects, one item per line. `section` is the id of the section it is part of; `order`
    counts the chunks of a document from 0. `type` is ``text``, ``summary`` for the summary of a section, or the
    ``type:`` in its metadata (``exercise``, …). `metadata` is everything that the author and the models wrote in
    metadata blocks for this text, own properties before inherited ones, without chats, edits and internal fields.
    `title` is the document's. `audience` says who may read it; `for_students` has replacements of its fields for
    students.
    """

    id: str
    place: Location
    section: str
    order: int
    text: str
    title: str = ""
    overlap: str = ""
    above: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    type: str = "text"
    metadata: Metadata = field(default_factory=dict)
    audience: Audience = "everyone"
    for_students: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Withheld:
    """A range of lines that is withheld from students, and its types."""

    types: tuple[str, ...]
    lines: Lines


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document cut into sections and chunks, in order. `language` is its ``lang:``, or the configured one.

    `sort_key` determines its place in the course (see `reading_order`); `part` is the part of a book that begins here,
    `book` the book's title. `outline` has its headings and texts (see `ingestion.outline.item_values`), for study
    material. `withheld` are the ranges withheld from students, and `withhold` the types that are withheld; `audience`
    and `for_students` are as in `Chunk`.
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
    """Return the sort key of a document: the key from its book, else its file, with numbers compared as numbers.

    >>> sorted(["week-10.md", "week-9.md", "a/b.md"], key=lambda file: reading_order("", file))
    ['a/b.md', 'week-9.md', 'week-10.md']
    """
    pieces = (re.split(r"(\d+)", part) for part in (sort_key or file).split("/"))
    return [[int(piece) if i % 2 else piece for i, piece in enumerate(each)] for each in pieces]


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Token ids, ascending and distinct, and their weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


_SHOWN = 60  # characters of a passage


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of the course that was found, or that the model read: a chunk or a whole section, as `what` says.

    `id` is the point's, `section` the id of the section it belongs to, `title` the document's; `type` and `above` are
    as in `Chunk`, `depth` the level of its section's heading, `parent` the id of the section above; `before` and
    `after` are the headings of the neighbouring sections.

    For a search result, `score` is comparable within that result only, higher is better; `legs` has the engine's score
    of each leg of a hybrid query that found it, by vector name; `payload` has the requested fields; `hits` are the
    passages that voted for a section, best first, those beyond the result's limit without text. `language` is the one
    in which its words are compared, empty if unknown. For a source of an answer, `number` is the number that cites it.
    """

    id: str
    place: Location
    text: str = ""
    _: KW_ONLY
    what: Literal["chunk", "section"] = "chunk"
    section: str = ""
    type: str = "text"
    title: str = ""
    depth: int = 0
    parent: str = ""
    above: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    score: float = 0.0
    legs: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    language: str = ""
    hits: Sequence[Passage] = ()
    number: int = 0

    def __repr__(self) -> str:
        return f"Passage({str(self.place)!r}, {shorten(self.text, _SHOWN, placeholder=' …')!r})"

    def _repr_markdown_(self) -> str:
        """Return place, headings and text, as a notebook shows them."""
        return f"**{self.place}** {self.path}\n\n{indent(self.text, '> ', lambda line: True)}"

    @property
    def path(self) -> str:
        """The document's title and the headings above the text.

        >>> Passage("x", Location("d", "a.md", Lines(3, 4), ("Leaves", "Colour")), title="Botany").path
        'Botany > Leaves > Colour'
        """
        return " > ".join(self.place.path(self.title))

    def scored(self, score: float, **fields: Any) -> Passage:
        """Return a copy with this score, and other values of some fields. A question scores hundreds, and
        `dataclasses.replace` takes twice as long.

        >>> Passage("x", Location("d", "a.md", Lines(3, 4)), "Green.").scored(0.5, number=2).number
        2
        """
        copy = object.__new__(Passage)
        for name in Passage.__slots__:
            object.__setattr__(copy, name, getattr(self, name))
        for name, value in {"score": score, **fields}.items():
            object.__setattr__(copy, name, value)
        return copy

    @property
    def with_above(self) -> str:
        """The text, after the short texts of the headings above it."""
        return "\n\n".join((*self.above, self.text))

    @property
    def heading(self) -> str:
        """The heading above the text, or the document's title."""
        return self.place.headings[-1] if self.place.headings else self.title

    def is_below(self, section: Passage) -> bool:
        """Return whether it is in a section, below its heading, or holds that heading itself."""
        place, there = self.place, section.place
        paths = (place.headings, *(each.headings for each in place.inner))
        return place.document == there.document and any(path[: len(there.headings)] == there.headings for path in paths)

    @property
    def reference(self) -> str:
        """Number, place and path, as listed below an answer."""
        return f"[{self.number}] {self.place}  {self.path}  {self.place.link}".rstrip()


FOUND = ("id", "what", "score", "legs", "document", "file", "lines", "page", "link", "headings", "title", "section",
         "type", "text", "fields")  # fmt: skip
FOUND_SECTION = ("section", "score", "document", "file", "lines", "page", "link", "headings", "title", "depth",
                 "parent", "before", "after", "passages")  # fmt: skip
SOURCE = ("number", "id", "what", "type", "document", "file", "lines", "page", "link", "title", "headings")
"""The values in JSON output: of a passage that was found, of a section, and of a source of an answer. The page and the
link are those of the original, if there is one."""


def as_json(passage: Passage, names: Sequence[str]) -> dict[str, Any]:
    """Return some values of a passage for JSON; `fields` are the requested payload fields."""
    place = passage.place
    values = {name: getattr(passage, name) for name in Passage.__slots__} | {
        "document": place.document,
        "file": place.file,
        "lines": list(place.lines),
        "headings": list(place.headings),
        "score": round(passage.score, 6),
        "legs": {name: round(score, 6) for name, score in passage.legs.items()},
        "fields": dict(passage.payload),
        "passages": [hit.id for hit in passage.hits],
    }
    values |= {name: value for name, value in (("page", place.page), ("link", place.link)) if value}
    return {name: values[name] for name in names if name in values}


def batches(
    items: Iterable[T], count: int, size: float = float("inf"), size_of: Callable[[T], int] = lambda item: 0
) -> Iterator[list[T]]:
    """Cut into lists of at most `count` items and about `size`; an item that is larger stands alone.

    >>> list(batches(["aa", "b", "cccc", "d"], 3, 4, len))
    [['aa', 'b'], ['cccc'], ['d']]
    """
    batch: list[T] = []
    total = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) >= count or total + own > size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch
