"""The document between reading and writing: a tree of elements with HTML's names, whatever the file was.

Every reader makes such a tree (or markdown), and one writer turns it into markdown. Besides HTML's elements there is
``math``, whose text is TeX and whose attribute ``display`` is ``block`` or ``inline``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_

HARM = "the file is damaged, or was made to do harm"
"""What to say of a file that is more than any document is."""


def tags(names: str) -> frozenset[str]:
    """Names of tags, from a text with spaces between them."""
    return frozenset(names.split())


BLOCK_TAGS = tags(
    "address article aside blockquote body center dd details dir div dl dt fieldset figcaption figure footer "
    "footnote form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre section summary table "
    "tbody td tfoot th thead tr ul"
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}


@dataclass(frozen=True, slots=True)
class MarkupElement:
    """An element: its tag in lower case, attributes, and children, which are elements and texts."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple[Node, ...] = ()

    def get(self, name: str) -> str:
        """An attribute, or the empty string."""
        return self.attributes.get(name, "")

    @property
    def classes(self) -> frozenset[str]:
        """The words of the attribute ``class``."""
        return frozenset(self.get("class").split())

    @property
    def elements(self) -> Iterator[MarkupElement]:
        """The children that are elements."""
        return (child for child in self.children if isinstance(child, MarkupElement))


Node = MarkupElement | str


def element(tag: str, *children: Node, **attributes: str) -> MarkupElement:
    """An element, written shortly.

    >>> text_of(element("p", "a ", element("em", "b")))
    'a b'
    """
    return MarkupElement(tag, attributes, children)


def walk(node: MarkupElement) -> Iterator[MarkupElement]:
    """An element and all below it, in the order of the document."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in reversed(node.children) if isinstance(child, MarkupElement)]


def find(node: MarkupElement, *tags: str) -> Iterator[MarkupElement]:
    """The elements below (or at) `node` with one of these tags."""
    return (found for found in walk(node) if found.tag in tags)


def text_of(node: Node) -> str:
    """All text of a node as it stands; ``br`` is a newline.

    >>> text_of(element("pre", "a", element("br"), "b"))
    'a\\nb'
    """
    if isinstance(node, str):
        return node
    return "\n" if node.tag == "br" else "".join(map(text_of, node.children))


def words_of(node: Node) -> str:
    """The text of a node with single spaces."""
    return " ".join(text_of(node).split())


def has_blocks(node: Node) -> bool:
    """Whether a node is, or contains, something that stands on lines of its own."""
    if isinstance(node, str):
        return False
    return node.tag in BLOCK_TAGS or any(map(has_blocks, node.children))


def rewrite(root: MarkupElement, change: Callable[[MarkupElement], Iterable[Node]]) -> MarkupElement:
    """The tree with each element replaced by what `change` gives for it, from the leaves up; an empty one if nothing is
    left of it.

    >>> rewrite(element("p", "a", element("i", "b")), lambda node: [] if node.tag == "i" else [node]).children
    ('a',)
    """
    return next((node for node in _rewritten(root, change) if isinstance(node, MarkupElement)), element("body"))


def _rewritten(node: MarkupElement, change: Callable[[MarkupElement], Iterable[Node]]) -> Iterable[Node]:
    children: list[Node] = []
    for child in node.children:
        if isinstance(child, str):
            children.append(child)
        else:
            children += _rewritten(child, change)
    kept = len(children) == len(node.children) and all(map(is_, children, node.children))
    return change(node if kept else MarkupElement(node.tag, node.attributes, tuple(children)))
