"""Tree to text: `serialize` keeps every spelling that was read, `write` spells everything anew.

RAW blocks have no escape for the end mark. A text that holds one is split between its ``|`` and its ``RAW``
into two blocks, which any reader joins again: ``a|RAWb`` is written ``RAW|a||RAWRAW|RAWb|RAW``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from chatmd.language.attributes import write_attributes
from chatmd.language.lexer import CLOSE_RAW, OPEN_RAW
from chatmd.language.nodes import Comment, Element, Node, SyntaxTree, Text
from chatmd.language.parser import MAX_DEPTH
from chatmd.language.tags import TAGS, imports_into

_SPLIT = "|RAWRAW|"
_END_MARK_PARTS = tuple((CLOSE_RAW[:n], CLOSE_RAW[n:]) for n in (3, 2, 1))
# Anything that some reader takes for a tag, a comment or a mark.
_NEEDS_RAW = re.compile(r"<[A-Za-z_/!?]|<\Z|RAW\||\|RAW")


def serialize(tree: SyntaxTree | Iterable[Node]) -> str:
    """The text that a tree was read from, byte for byte; nodes that were made are spelled as by `write`.

    >>> from chatmd.language.parser import parse
    >>> serialize(parse("<user >RAW|x|RAW<!-- y --></user >"))
    '<user >RAW|x|RAW<!-- y --></user >'
    """
    nodes = tree.children if isinstance(tree, SyntaxTree) else tree
    return "".join(_serialized(node) for node in nodes)


def _serialized(node: Node) -> str:
    if not isinstance(node, Element):
        return node.span.text if node.span else _written(node)
    if node.opening is None:
        return _element(node, serialize(node.children))
    closing = node.closing.text if node.closing else ""
    return f"{node.opening.text}{serialize(node.children)}{closing}"


def write(tree: SyntaxTree | Iterable[Node]) -> str:
    """A text that parses to equal nodes.

    Raises:
        ValueError: no text does: an unknown tag, a name that is none, two texts side by side, a comment that
            holds ``-->``, an import where none is read, or more than `MAX_DEPTH` levels.

    >>> write([Element("user", (), (Text("Close with </user>"), Element("doc")))])
    '<user>RAW|Close with </user>|RAW<doc/></user>'
    """
    if isinstance(tree, SyntaxTree):
        return _inside(tree.children, tree.is_body or not tree.strict, 0)
    return _inside(tuple(tree), True, 0)


def _inside(nodes: tuple[Node, ...], imports: bool, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"elements stand more than {MAX_DEPTH} deep in each other")
    for before, node in pairwise(nodes):
        if isinstance(before, Text) and isinstance(node, Text):
            raise ValueError("two texts side by side are one text")
    written = []
    for node in nodes:
        if isinstance(node, Element):
            if node.tag not in TAGS or (node.tag == "import" and not imports):
                raise ValueError(f"<{node.tag}> is not read as an element here")
            inside = _inside(node.children, imports_into(node.tag, node.get("role")), depth + 1)
            written.append(_element(node, inside))
        else:
            written.append(_written(node))
    return "".join(written)


def _element(element: Element, inside: str) -> str:
    opening = f"<{element.tag}{write_attributes(element.attributes)}"
    return f"{opening}>{inside}</{element.tag}>" if element.children else f"{opening}/>"


def _written(node: Text | Comment) -> str:
    if isinstance(node, Text):
        return raw(node.value) if node.raw or not node.value or _NEEDS_RAW.search(node.value) else node.value
    if "-->" in node.value:
        raise ValueError("a comment cannot hold '-->'")
    return f"<!--{node.value}-->"


# -- RAW -----------------------------------------------------------------------------------------


def raw(text: str) -> str:
    """A text as RAW blocks that read as exactly that text.

    >>> raw("a|RAWb")
    'RAW|a||RAWRAW|RAWb|RAW'
    """
    return f"{OPEN_RAW}{raw_piece('', text)}{CLOSE_RAW}"


def raw_piece(before: str, piece: str) -> str:
    """A piece of text that goes on inside an open RAW block, as a stream brings it.

    `before` is what was written of the text so far, unencoded (its last three characters are enough).

    >>> "RAW|" + raw_piece("", "a|R") + raw_piece("a|R", "AWb") + "|RAW"
    'RAW|a|R|RAWRAW|AWb|RAW'
    """
    encoded = piece.replace(CLOSE_RAW, f"|{_SPLIT}RAW")
    for done, rest in _END_MARK_PARTS:
        if before.endswith(done) and piece.startswith(rest):
            return _SPLIT + encoded
    return encoded
