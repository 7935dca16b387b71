"""The tree of a ChatMD document: values that know where they stand.

Two trees are equal if they say the same: the place of a node, and how it is spelled, do not count.
`chatmd.language.syntax.serialize` gives back the exact spelling, `chatmd.language.syntax.write` a canonical one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

BLANK = " \t\r\n"  # what the language takes for white space


class SourceText:
    """A text and the name of the file it came from; finds lines when asked.

    >>> SourceText("one\\ntwo").place(5)
    (2, 2)
    """

    __slots__ = ("_starts", "file", "text")

    def __init__(self, text: str, file: str = "") -> None:
        self.text, self.file = text, file
        self._starts: list[int] | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; lines end with LF."""
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


class SourceRange(NamedTuple):
    """A piece of a source: from `start` up to, not including, `end`."""

    source: SourceText
    start: int
    end: int

    @property
    def text(self) -> str:
        """The piece itself."""
        return self.source.text[self.start : self.end]

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.source.file

    @property
    def line(self) -> int:
        """The line on which it starts, from 1."""
        return self.source.place(self.start)[0]

    @property
    def column(self) -> int:
        """The column at which it starts, from 1."""
        return self.source.place(self.start)[1]

    @property
    def where(self) -> str:
        """``file:line:column``, for messages."""
        line, column = self.source.place(self.start)
        return f"{self.file}:{line}:{column}" if self.file else f"{line}:{column}"

    def __repr__(self) -> str:
        return f"SourceRange({self.where})"


NOWHERE = SourceRange(SourceText(""), 0, 0)
"""The span of what was not read from a text."""


class Attribute(NamedTuple):
    """One attribute as written; a flag has the value None."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Text as the model sees it, RAW blocks and all; `raw` if any of it is in a RAW block.

    Neighbouring texts are one node; only comments and elements part them. `plain` are the ranges of the value, outside
    of RAW, that hold double braces.
    """

    value: str
    raw: bool = field(default=False, compare=False)
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)
    plain: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    @property
    def is_blank(self) -> bool:
        """Whether it is white space only."""
        return not self.value.strip(BLANK)


@dataclass(frozen=True, slots=True)
class Comment:
    """``<!-- … -->``: `value` is the text between the marks. The model does not see it."""

    value: str
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Element:
    """An element of the vocabulary. `opening` and `closing` are its tags, where it was read from a text.

    >>> doc = Element("doc", (Attribute("src", "a.md"), Attribute("local")))
    >>> doc.get("src"), doc.get("local"), doc.has("local"), doc.has("strip")
    ('a.md', None, True, False)
    """

    tag: str
    attributes: tuple[Attribute, ...] = ()
    children: tuple[Node, ...] = ()
    opening: SourceRange = field(default=NOWHERE, compare=False, repr=False)
    closing: SourceRange | None = field(default=None, compare=False, repr=False)

    @property
    def span(self) -> SourceRange:
        """From its opening to its closing tag; the opening tag alone, if nothing closes it."""
        return self.opening if self.closing is None else self.opening._replace(end=self.closing.end)

    @property
    def values(self) -> dict[str, str]:
        """Its attributes by their names, the last one if there are two; without a value, the empty text."""
        return {attribute.name: attribute.value or "" for attribute in self.attributes}

    def has(self, name: str) -> bool:
        """Whether it has this attribute, with or without a value."""
        return any(attribute.name == name for attribute in self.attributes)

    def get(self, name: str) -> str | None:
        """The value of an attribute, the last one if there are two; None if it has none."""
        return next((a.value for a in reversed(self.attributes) if a.name == name), None)


Node = Text | Comment | Element


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. An ``error`` keeps the document from being run; what is `unseen`, no model is shown."""

    span: SourceRange
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A parsed text. `problems` are those of its form; `chatmd.check` finds the others too.

    `is_body` if the text was read as the inside of a message. `imported` are the files that were put in place.
    """

    children: tuple[Node, ...]
    source: SourceText = field(default_factory=lambda: SourceText(""), compare=False, repr=False)
    problems: tuple[Problem, ...] = field(default=(), compare=False, repr=False)
    is_body: bool = field(default=False, compare=False)
    imported: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def file(self) -> str:
        """The name of the file it came from."""
        return self.source.file

    @property
    def elements(self) -> Iterator[Element]:
        """The elements at the top, in order."""
        return (node for node in self.children if isinstance(node, Element))


def walk(nodes: Iterable[Node], parent: str = "") -> Iterator[tuple[Node, str]]:
    """All nodes at any depth, in order, each with the tag that it stands in; at the top, that is `parent`.

    >>> [(node.tag, inside) for node, inside in walk([Element("user", (), (Element("doc"),))])]
    [('user', ''), ('doc', 'user')]
    """
    for node in nodes:
        yield node, parent
        if isinstance(node, Element):
            yield from walk(node.children, node.tag)


def joined(nodes: Iterable[Node]) -> tuple[Text | Element, ...]:
    """Nodes without comments, the texts that are side by side then as one, and none of them empty.

    >>> joined((Text("x"), Comment(" c "), Text(" y", raw=True), Element("doc")))
    (Text(value='x y', raw=True), Element(tag='doc', attributes=(), children=()))
    """
    made: list[Text | Element] = []
    counting = (node for node in nodes if not isinstance(node, Comment))
    for kind, group in groupby(counting, type):
        if kind is Element:
            made += group
            continue
        texts = [node for node in group if isinstance(node, Text)]
        if value := "".join(text.value for text in texts):
            made.append(Text(value, any(text.raw for text in texts)))
    return tuple(made)


def body(children: Iterable[Node]) -> tuple[str | Element, ...]:
    """What counts of an element's inside: texts and elements in order, without comments.

    >>> body((Text("x"), Comment(" c "), Text(" y"), Element("doc")))
    ('x y', Element(tag='doc', attributes=(), children=()))
    """
    return tuple(node.value if isinstance(node, Text) else node for node in joined(children))
