"""A file with a summary in place of elements; everything else stays as it is written, byte for byte."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from chatmd.language.items import Item
from chatmd.language.nodes import Element, Node, SyntaxTree, Text
from chatmd.language.writer import serialize


def foreign_items(document: SyntaxTree, items: Sequence[Item]) -> frozenset[int]:
    """Indices of the items that were imported: they stand in other files, and cannot be taken out of this one."""
    return frozenset(n for n, item in enumerate(items) if item.span.source is not document.source)


def rewritten(document: SyntaxTree, gone: Collection[int], summary: str) -> str:
    """The text of `document` without the elements that begin at the offsets `gone`, the last replaced by `summary`.

    White space after an element goes with it; comments stay.

    >>> from chatmd.language.parser import parse
    >>> document = parse("<system>S</system> <user>1</user> <assistant>2</assistant> <user/>")
    >>> rewritten(document, [19, 34], "<user>3</user>")
    '<system>S</system> <user>3</user> <user/>'
    """
    return "".join(_pieces(document.children, gone, summary, max(gone, default=-1)))


def _pieces(nodes: Sequence[Node], gone: Collection[int], summary: str, last: int) -> Iterator[str]:
    before_is_gone = False
    for node in nodes:
        start = node.span.start if node.span is not None else -1
        if isinstance(node, Element) and start in gone:
            if start == last:
                yield summary
            before_is_gone = start != last
            continue
        if not (before_is_gone and isinstance(node, Text) and node.is_blank):
            yield serialize([node])
        before_is_gone = False
