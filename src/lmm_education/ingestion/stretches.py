"""How far the type of a text reaches: the one place that decides it, for ingestion, exports, exercises and students.

A type above a heading holds for the section with all below it; that of the header, for the document; that of a div
(``::: {.exercise}``, Quarto's ``#exr-`` and ``#sol-``) or a chunk of bookdown's, for what is in it. A metadata block
above a text holds for that text. But of a solution, students would read what comes below its first paragraph: a type
that *lasts* reaches to the next heading of the section's level or above, the next metadata block of the author's, the
next typed div, or the end of the div that it stands in; right below a heading, it is that of the section. What is
innermost counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmm.markdown.tree import HeadingNode, Node, TextNode, preorder
from lmm.markdown.units import fences_of_divs, rests_of_units
from lmm_education.books.code_cells import environments
from lmm_education.ingestion.kinds import is_comment
from lmm_education.payloads import is_one_of, types_in

SOLUTION = ("solution",)
_ENVIRONMENTS = ("exercise", "solution")
_OF_PROGRAMS = frozenset({"docid", "textid", "headingid", "UUID", "group_UUID"})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Texts that have their types from one place: a `line` of metadata, a heading's or a fence's."""

    types: tuple[str, ...]
    line: int

    @property
    def value(self) -> str | list[str]:
        """The types as metadata have them."""
        return self.types[0] if len(self.types) == 1 else list(self.types)


def stretches(tree: HeadingNode, lasting: Collection[str] = SOLUTION) -> dict[int, Stretch]:
    """Where each node has its type from, by its id; what has none is not there.

    Args:
        lasting: the types that reach further than the text below a metadata block.

    >>> from lmm.markdown import load_text
    >>> tree = load_text("# A\\n\\nWhy?\\n\\n---\\ntype: solution\\n---\\nSo.\\n\\n- and so\\n\\n# B\\n\\nText.\\n")
    >>> found = stretches(tree)
    >>> [node.text for node in preorder(tree) if id(node) in found]
    ['So.', '- and so']
    """
    found: dict[int, Stretch] = {}
    document = _Document(tree, lasting)
    begin: dict[int, list[tuple[int, Stretch]]] = {}
    for start, end, stretch in document.marks():
        begin.setdefault(start, []).append((end, stretch))
    open_: list[tuple[int, Stretch]] = []
    for at, node in enumerate(document.order if begin else ()):
        open_ += begin.get(at, ())
        while open_ and open_[-1][0] <= at:
            open_.pop()
        if open_:
            found[id(node)] = open_[-1][1]
    return found


@dataclass(slots=True)
class _Document:
    """The nodes of a document in their order, and where its divs end."""

    tree: HeadingNode
    lasting: Collection[str]
    order: list[Node] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    rests: Mapping[int, list[Node]] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)
    typed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = list(preorder(self.tree))
        self.place = {id(node): at for at, node in enumerate(self.order)}
        self.rests = rests_of_units(self.tree)
        self.fences = {self.place[id(first)]: self.place[id(last)] for first, last in fences_of_divs(self.tree)}
        self.opened = {last: first for first, last in self.fences.items()}
        for at, node in enumerate(self.order):
            if isinstance(node, TextNode) and node.block and (kind := environment(node.block.source, self.lasting)):
                self.typed[at] = kind

    def marks(self) -> Iterator[tuple[int, int, Stretch]]:
        """What gives a type: the first and the end of what it reaches; of those that begin together, the innermost is
        the last."""
        for at, node in enumerate(self.order):
            if kind := self.typed.get(at):
                yield at, self.fences.get(at, at) + 1, Stretch((kind,), node.line)
            types = types_in({"type": node.own("type")}) if node.metadata_block is not None else ()
            lasts = any(is_one_of(kind, self.lasting) for kind in types)
            stretch = Stretch(types, node.line)
            if types and isinstance(node, HeadingNode):
                yield at, self._end_of_section(at), stretch
                # Of a section of exercises, each subsection is one.
                for below in node.headings if not lasts else ():
                    yield self.place[id(below)], self._end_of_section(self.place[id(below)]), Stretch(types, below.line)
            elif types:
                end = at + 1 + len(self.rests.get(id(node), ()))
                yield at, self._last_end(at, end) if lasts else end, stretch
                if lasts and (heading := _heading_right_above(node)) is not None:
                    start = self.place[id(heading)]
                    yield start, self._end_of_section(start), stretch

    def _end_of_section(self, at: int) -> int:
        level = _level(self.order[at])
        later = range(at + 1, len(self.order))
        return next((i for i in later if 0 < _level(self.order[i]) <= level), len(self.order))

    def _last_end(self, start: int, end: int) -> int:
        """The end of what lasts, of which the text at `start` goes to `end`."""
        parent = self.order[start].parent
        level = (parent.level if parent is not None else 0) or 6
        while end < len(self.order):
            node = self.order[end]
            leaves_div = self.opened.get(end, start) < start
            if 0 < _level(node) <= level or leaves_div or end in self.typed or _says_something(node):
                break
            end += 1
        return end


def environment(text: str, lasting: Collection[str] = SOLUTION) -> str:
    """The type of a div that a text opens, or of a chunk, by its class or label; nothing if it gives none.

    >>> environment("::: {#sol-leaf}"), environment("::: {.exam}", ["exam"]), environment("::: {.callout-note}")
    ('solution', 'exam', '')
    """
    return next((name for name in environments(text) if is_one_of(name, (*_ENVIRONMENTS, *lasting))), "")


def _level(node: Node) -> int:
    return node.level if isinstance(node, HeadingNode) else 0


def _heading_right_above(node: Node) -> HeadingNode | None:
    """The heading that a text stands right below, if it says no type of its own; comments between count for nothing."""
    heading = node.parent
    if heading is None or not heading.level or heading.own("type"):
        return None
    for before in heading.children:
        if before is node:
            return heading
        if before.metadata_block is not None or not (isinstance(before, TextNode) and is_comment(before.text)):
            return None
    return None


def _says_something(node: Node) -> bool:
    """Whether a node has metadata of the author's: what programs wrote, and questions to a model, end nothing."""
    block = node.metadata_block
    if block is None:
        return False
    values: Mapping[str, Any] = block.values()
    own = [key for key in values if not key.startswith("~") and key not in _OF_PROGRAMS]
    return bool(own) or not (values or block.prompts)
