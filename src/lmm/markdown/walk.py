"""Walking a section tree: up, down, and picking from it.

Nothing here recurses, so that a document cannot overflow the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from lmm.markdown.blocks import Block, ErrorBlock, MetadataBlock, serialize
from lmm.markdown.tree import HeadingNode, Node, TextNode, tree_to_blocks

T = TypeVar("T")


def children(node: Node) -> list[Node]:
    """The children of a node; a text node has none."""
    return node.children if isinstance(node, HeadingNode) else []


def preorder(tree: Node | None) -> Iterator[Node]:
    """Every node, parents before their children: the order of the document.

    >>> from lmm.markdown import load_text
    >>> [node.kind for node in preorder(load_text("# A\\n\\none\\n\\n## B\\n"))]
    ['header', 'heading', 'text', 'heading']
    """
    stack = [tree] if tree is not None else []
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def postorder(tree: Node | None) -> Iterator[Node]:
    """Every node, children before their parents."""
    stack: list[tuple[Node, bool]] = [(tree, False)] if tree is not None else []
    while stack:
        node, seen = stack.pop()
        if seen:
            yield node
            continue
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children(node)))


def map_nodes(tree: Node | None, function: Callable[[Node], T]) -> list[T]:
    """`function` of every node, in document order."""
    return [function(node) for node in preorder(tree)]


def fold(tree: Node, function: Callable[[Node, list[T]], T]) -> T:
    """Combine bottom-up: `function(node, results of its children)`, for every node; the root's result.

    >>> from lmm.markdown import load_text
    >>> fold(load_text("# A\\n\\none\\n\\n## B\\n\\ntwo\\n"), lambda node, below: 1 + sum(below))
    5
    """
    results: dict[int, T] = {}
    for node in postorder(tree):
        results[id(node)] = function(node, [results.pop(id(child)) for child in children(node)])
    return results[id(tree)]


def propagate(tree: Node, function: Callable[[Node, T], T], start: T) -> None:
    """Carry a value down: each node gets what `function` returned for its parent; the root gets `start`."""
    stack: list[tuple[Node, T]] = [(tree, start)]
    while stack:
        node, value = stack.pop()
        below = function(node, value)
        stack.extend((child, below) for child in reversed(children(node)))


def extract(tree: Node, key: str, function: Callable[[Node, list[Any]], Any]) -> None:
    """Write metadata bottom-up: each node's `key` becomes `function(node, its children's values)`.

    A node for which `function` returns None is left as it is.
    """

    def visit(node: Node, below: list[Any]) -> Any:
        value = function(node, [v for v in below if v is not None])
        if value is not None:
            node.set_metadata(key, value)
        return value

    fold(tree, visit)


def find(tree: Node | None, test: Callable[[Node], bool]) -> Node | None:
    """The first node, in document order, that passes `test`."""
    return next((node for node in preorder(tree) if test(node)), None)


_ANY = object()


def select(tree: Node | None, *, kind: str | None = None, key: str | None = None, value: object = _ANY) -> list[Node]:
    """Nodes of a kind (``header``, ``heading``, ``text``), with an own metadata key, or with its value.

    >>> from lmm.markdown import load_text
    >>> [n.text for n in select(load_text("a\\n\\n---\\ntype: exercise\\n---\\nb\\n"), key="type", value="exercise")]
    ['b']
    """

    def matches(node: Node) -> bool:
        if kind is not None and node.kind != kind:
            return False
        if key is None:
            return True
        found = node.own(key, _ANY)
        return found is not _ANY and (value is _ANY or found == value)

    return [node for node in preorder(tree) if matches(node)]


def prune(tree: Node | None, test: Callable[[Node], bool]) -> list[Node]:
    """Take out every node that passes `test`, with all that is under it; the nodes taken out."""
    removed = []
    for node in list(preorder(tree)):
        if node.parent is not None and test(node) and node.root is tree:
            node.detach()
            removed.append(node)
    return removed


def without_metadata(blocks: Sequence[Block]) -> str:
    """The text of blocks as a reader sees it: no metadata, no blocks that failed as metadata."""
    return serialize(b for b in blocks if not isinstance(b, (MetadataBlock, ErrorBlock))).strip("\ufeff\r\n")


def annotated_text(node: Node) -> str:
    """The text that a metadata block on `node` is about, as written, metadata inside it left out.

    A paragraph; a heading with everything under it; for the root, the whole document.
    """
    return without_metadata(tree_to_blocks(node))


def own_text(node: Node) -> str:
    """The text of a text node, or the text directly under a heading, subheadings left out."""
    nodes: Sequence[Node] = node.texts if isinstance(node, HeadingNode) else [node]
    return without_metadata([block for n in nodes for block in n.own_blocks()])


def table_of_contents(tree: Node | None) -> list[tuple[int, str, int]]:
    """Level, title and line of every heading.

    >>> from lmm.markdown import load_text
    >>> table_of_contents(load_text("# A\\n\\n## B\\n"))
    [(1, 'A', 1), (2, 'B', 3)]
    """
    return [(n.level, n.title, n.heading.line) for n in preorder(tree) if isinstance(n, HeadingNode) and n.heading]


def text_nodes(tree: Node | None) -> list[TextNode]:
    """All text nodes, in document order."""
    return [node for node in preorder(tree) if isinstance(node, TextNode)]
