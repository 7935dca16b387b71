"""The syntax tree of a ChatMD document: nodes with their places in the source.

Comparison of trees ignores the place and the spelling of their nodes.
`chatmd.language.syntax.serialize` restores the exact spelling, `chatmd.language.syntax.write` makes a canonical one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, NamedTuple

BLANK = " \t\r\n"  # the characters that the language treats as white space


class SourceText:
    """A text and the name of its file; lines are counted on demand.

    >>> SourceText("one\\ntwo").place(5)
    (2, 2)
    """

    __slots__ = ("_starts", "file", "text")

    def __init__(self, text: str, file: str = "") -> None:
        self.text, self.file = text, file
        self._starts: list[int] | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset, both from 1; lines end with LF."""
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
        """The text of the range."""
        return self.source.text[self.start : self.end]

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.source.file

    @property
    def line(self) -> int:
        """The line of its start, from 1."""
        return self.source.place(self.start)[0]

    @property
    def column(self) -> int:
        """The column of its start, from 1."""
        return self.source.place(self.start)[1]

    @property
    def where(self) -> str:
        """``file:line:column``, for messages."""
        line, column = self.source.place(self.start)
        return f"{self.file}:{line}:{column}" if self.file else f"{line}:{column}"

    def __repr__(self) -> str:
        return f"SourceRange({self.where})"


NOWHERE = SourceRange(SourceText(""), 0, 0)
"""The span of a node that was not read from a text."""


class Attribute(NamedTuple):
    """One attribute as written; a flag has the value None."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Text as the model sees it, including RAW blocks; `raw` if any of it was in a RAW block.

    Adjacent texts are one node; only comments and elements separate texts. `plain` are the ranges of the value that
    are outside of RAW and contain double braces.
    """

    value: str
    raw: bool = field(default=False, compare=False)
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)
    plain: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    @property
    def is_blank(self) -> bool:
        """Whether it is only white space."""
        return not self.value.strip(BLANK)


@dataclass(frozen=True, slots=True)
class Comment:
    """``<!-- … -->``: `value` is the text between the marks. The model does not see it."""

    value: str
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Element:
    """An element of the vocabulary. `opening` and `closing` are the ranges of its tags, if it was read from a text.

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
        """The range from its opening to its closing tag; the opening tag alone, if there is no closing tag."""
        return self.opening if self.closing is None else self.opening._replace(end=self.closing.end)

    @property
    def is_closed(self) -> bool:
        """Whether it has a closing tag, or needs none."""
        return self.closing is not None or self.opening.text.endswith("/>")

    @property
    def values(self) -> dict[str, str]:
        """The values of its attributes by name; the last one if a name occurs twice, empty if there is no value."""
        return {attribute.name: attribute.value or "" for attribute in self.attributes}

    def has(self, name: str) -> bool:
        """Return whether it has this attribute, with or without a value."""
        return any(attribute.name == name for attribute in self.attributes)

    def get(self, name: str) -> str | None:
        """Return the value of an attribute, the last one if there are two; None if it is missing or has no value."""
        return next((a.value for a in reversed(self.attributes) if a.name == name), None)


Node = Text | Comment | Element


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a document. An ``error`` keeps it from being run; `unseen` marks content that no model gets."""

    span: SourceRange
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A parsed text. `problems` are those of its syntax and imports; `chatmd.check` finds the others too.

    `is_body` if the text was read as the inside of a message. `imported` are the files that replaced imports. `meaning`
    is what `chatmd.language.agent.interpret` returned for it, once it was called.
    """

    children: tuple[Node, ...]
    source: SourceText = field(default_factory=lambda: SourceText(""), compare=False, repr=False)
    problems: tuple[Problem, ...] = field(default=(), compare=False, repr=False)
    is_body: bool = field(default=False, compare=False)
    imported: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    meaning: Any = field(default=None, init=False, compare=False, repr=False)

    @property
    def file(self) -> str:
        """The name of its file."""
        return self.source.file

    @property
    def elements(self) -> Iterator[Element]:
        """The elements at the top level, in order."""
        return (node for node in self.children if isinstance(node, Element))


def walk(nodes: Iterable[Node], parent: str = "") -> Iterator[tuple[Node, str]]:
    """Iterate over all nodes at any depth, in order, with the tag of their parent; at the top it is `parent`.

    >>> [(node.tag, inside) for node, inside in walk([Element("user", (), (Element("doc"),))])]
    [('user', ''), ('doc', 'user')]
    """
    for node in nodes:
        yield node, parent
        if isinstance(node, Element):
            yield from walk(node.children, node.tag)


def joined(nodes: Iterable[Node]) -> tuple[Text | Element, ...]:
    """Drop comments and empty texts, and join the texts that are adjacent then.

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
    """Return the texts and elements inside an element, in order and without comments.

    >>> body((Text("x"), Comment(" c "), Text(" y"), Element("doc")))
    ('x y', Element(tag='doc', attributes=(), children=()))
    """
    return tuple(node.value if isinstance(node, Text) else node for node in joined(children))
