"""Markdown as lines for a terminal.

A part that comes later never changes the lines of a part before it (whether a list is loose is said by each of its
gaps, not by the list): so what has been shown while a text arrives can stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from chatmd.terminal.code_lines import code_lines
from chatmd.terminal.styled import Line, Span, indented, plain, trimmed, wrapped
from chatmd.terminal.table_lines import table_lines

_BULLETS = ("•", "◦", "▪")
_MOST_COLUMNS = 100  # of prose: longer lines are hard to read
_DEEPEST = 20


@lru_cache(1)
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])


def top_nodes(text: str) -> list[SyntaxTreeNode]:
    """The blocks of a text, each with the lines that it takes (`map`)."""
    return SyntaxTreeNode(_markdown().parse(text)).children


def first_number(node: SyntaxTreeNode) -> int:
    """The number of a list's first item."""
    return int(node.attrs.get("start", 1))


def markdown_lines(text: str, width: int, number: int | None = None) -> list[Line]:
    """A text, rendered; only lines of code may be wider than `width`.

    If the text is the rest of a list, `number` is that of its first item.

    >>> for line in markdown_lines("# Leaves\\n- *green*\\n- flat", 20):
    ...     print(plain(line))
    # Leaves
    <BLANKLINE>
    • green
    • flat
    """
    nodes = top_nodes(text)
    if number is not None and nodes and nodes[0].type == "ordered_list" and nodes[0].nester_tokens:
        nodes[0].nester_tokens.opening.attrs["start"] = number
    lines = _Page(text.split("\n")).blocks(nodes, min(width, _MOST_COLUMNS), apart=True)
    return [trimmed(line) for line in lines]


class _Page:
    """The source of a text, and how each kind of block in it looks."""

    def __init__(self, source: Sequence[str]) -> None:
        self.source = source
        self.depth = 0  # of lists
        self.looks: dict[str, Callable[[SyntaxTreeNode, int], list[Line]]] = {
            "paragraph": self._paragraph,
            "heading": self._heading,
            "fence": self._code,
            "code_block": self._code,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "blockquote": self._quote,
            "table": self._table,
            "hr": lambda node, width: [(Span("─" * min(width, 24), "dim"),)],
            "html_block": lambda node, width: wrapped((Span(node.content.rstrip("\n"), "dim"),), width),
        }

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, apart: bool) -> list[Line]:
        """Blocks below each other; `apart` puts a blank line between them even where the source has none."""
        lines: list[Line] = []
        for number, node in enumerate(nodes):
            if number and (apart or self.gap_before(node)):
                lines.append(())
            look = self.looks.get(node.type)
            lines += look(node, max(1, width)) if look else wrapped((Span(node.content),), width)
        return lines

    def gap_before(self, node: SyntaxTreeNode) -> bool:
        """Whether a blank line stands before a block."""
        start = node.map[0] if node.map else 0
        return start > 0 and not self.source[start - 1].strip(" >\t")

    def _paragraph(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        return wrapped(inline(node.children), width)

    def _heading(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        style = "bold underline" if node.tag == "h1" else "bold"
        marks = "#" * int(node.tag[1:]) + " "
        return indented(wrapped(inline(node.children, style), width - len(marks)), (Span(marks, "bold"),),
                        (Span(" " * len(marks)),))  # fmt: skip

    def _code(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        language = node.info.split()[0] if node.info.strip() else ""
        indent = (Span("  "),)
        return [indent + line if line else () for line in code_lines(node.content.removesuffix("\n"), language)]

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        lines: list[Line] = []
        begin = first_number(node)
        for number, item in enumerate(node.children):
            if number and self.gap_before(item):
                lines.append(())
            bullet = _BULLETS[min(self.depth, len(_BULLETS) - 1)]
            mark = f"{begin + number}. " if node.type == "ordered_list" else f"{bullet} "
            self.depth += 1
            inside = self.blocks(item.children, width - len(mark), apart=False) or [()]
            self.depth -= 1
            lines += indented(inside, (Span(mark, "cyan"),), (Span(" " * len(mark)),))
        return lines

    def _quote(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        bar = (Span("│ ", "dim"),)
        return indented(self.blocks(node.children, width - 2, apart=False), bar, bar)

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        rows = [row for part in node.children for row in part.children]
        cells = [[inline(cell.children) for cell in row.children] for row in rows]
        aligned = [str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in rows[0].children]
        return table_lines(cells[0], cells[1:], aligned, width)


def inline(nodes: Sequence[SyntaxTreeNode], style: str = "") -> Line:
    """The text inside of a block."""
    return tuple(span for node in nodes for span in _INLINE.get(node.type, _text)(node, style))


def _text(node: SyntaxTreeNode, style: str) -> Line:
    return (Span(node.content, style),)


def _styled(more: str, node: SyntaxTreeNode, style: str) -> Line:
    return inline(node.children, f"{style} {more}".strip())


def _link(node: SyntaxTreeNode, style: str) -> Line:
    target = str(node.attrs.get("href", node.attrs.get("src", "")))
    text = inline(node.children, f"{style} underline".strip())
    same = plain(text) in (target, target.removeprefix("mailto:"))
    # Where a link leads must be seen: its text may say something else.
    return text if same or not target else (*text, Span(f" ({target})", "dim"))


_INLINE: dict[str, Callable[[SyntaxTreeNode, str], Line]] = {
    "inline": lambda node, style: inline(node.children, style),
    "text": _text,
    "strong": partial(_styled, "bold"),
    "em": partial(_styled, "italic"),
    "s": partial(_styled, "strike"),
    "code_inline": lambda node, style: (Span(node.content, f"{style} cyan".strip()),),
    "link": _link,
    "image": _link,
    "softbreak": lambda node, style: (Span(" ", style),),
    "hardbreak": lambda node, style: (Span("\n", style),),
    "html_inline": lambda node, style: (Span(node.content, f"{style} dim".strip()),),
}
