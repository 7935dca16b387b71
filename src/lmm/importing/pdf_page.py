"""What a PDF page says: characters, lines, pictures, and the logical structure if it has one. No meaning yet.

Lengths are in points; x grows to the right, y grows downwards from the top of the page as it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Style(NamedTuple):  # this one and the next are made a million times for a book: tuples are quick to make
    """How characters are set."""

    size: float
    bold: bool = False
    italic: bool = False
    mono: bool = False


class Char(NamedTuple):
    """A character: its advance box from `x0` to `x1` and `top` to `bottom`, its base line, its mark in the structure.

    `spaced` says that there is a space before it.
    """

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    base: float
    style: Style
    mark: int = -1
    link: str = ""
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A drawn line, or the edge of a box: horizontal or vertical."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def horizontal(self) -> bool:
        """Whether it goes from left to right."""
        return self.x1 - self.x0 >= self.y1 - self.y0


@dataclass(frozen=True, slots=True)
class Picture:
    """An image on the page; `number` is its place among the document's images."""

    x0: float
    top: float
    x1: float
    bottom: float
    number: int
    mark: int = -1


@dataclass(frozen=True, slots=True)
class PdfTag:
    """A node of the logical structure: its type, and children, which are nodes and marks of content."""

    type: str
    children: tuple[PdfTag | int, ...] = ()
    alt: str = ""


@dataclass(frozen=True, slots=True)
class PdfPage:
    """A page; `number` counts from 1."""

    number: int
    width: float
    height: float
    chars: tuple[Char, ...]
    rules: tuple[Rule, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tags: tuple[PdfTag, ...] = ()


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the document's outline: `level` counts from 1, `page` from 1."""

    title: str
    level: int
    page: int
