"""The document in a PDF on its way to Pandoc: a tree of elements with HTML's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from lmm.importing.markdown_text import plain

HARM = "the file is damaged or malicious"
"""What to say of a file that is more than any document is."""


def tags(names: str) -> frozenset[str]:
    """Names of tags, from a text with spaces between them."""
    return frozenset(names.split())


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


def to_html(node: Node) -> str:
    """A node as HTML.

    >>> to_html(element("p", "a < b", element("img", src="x")))
    '<p>a &lt; b<img src="x"></p>'
    """
    if isinstance(node, str):
        return escape(plain(node), quote=False)
    attributes = "".join(f' {name}="{escape(text)}"' for name, text in node.attributes.items())
    inside = "".join(map(to_html, node.children))
    return f"<{node.tag}{attributes}>{inside}" + ("" if node.tag in ("img", "br", "hr") else f"</{node.tag}>")
