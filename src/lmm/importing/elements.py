"""A tree of HTML elements: the form in which the document of a PDF is passed to Pandoc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from lmm.importing.markdown_text import plain
from lmm.markdown.page_marks import Pages

HARM = "the file is damaged or malicious"
"""Hint for files that exceed the limits of any ordinary document."""


def tags(names: str) -> frozenset[str]:
    """Return a set of tag names from a text that lists them, separated by spaces."""
    return frozenset(names.split())


HEADINGS = {f"h{level}": level for level in range(1, 7)}


@dataclass(frozen=True, slots=True)
class MarkupElement:
    """An element: its tag in lower case, attributes, and children (elements and texts)."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple[Node, ...] = ()

    def get(self, name: str) -> str:
        """Return an attribute, or the empty string."""
        return self.attributes.get(name, "")

    @property
    def elements(self) -> Iterator[MarkupElement]:
        """The children that are elements."""
        return (child for child in self.children if isinstance(child, MarkupElement))


Node = MarkupElement | str


def element(tag: str, *children: Node, **attributes: str) -> MarkupElement:
    """Create an element, in a short notation.

    >>> text_of(element("p", "a ", element("em", "b")))
    'a b'
    """
    return MarkupElement(tag, attributes, children)


def page_mark(unit: str, first: int, last: int = 0) -> MarkupElement:
    """Return the element from which pandoc.lua makes the mark of a page or slide; it stays below a heading."""
    return MarkupElement("div", {"class": "lmm-pages", "data-pages": str(Pages(unit, first, last or first))})


def text_of(node: Node) -> str:
    """Return all text of a node as it is; ``br`` is a newline.

    >>> text_of(element("pre", "a", element("br"), "b"))
    'a\\nb'
    """
    if isinstance(node, str):
        return node
    return "\n" if node.tag == "br" else "".join(map(text_of, node.children))


def words_of(node: Node) -> str:
    """Return the text of a node, with white space collapsed to single spaces."""
    return " ".join(text_of(node).split())


def to_html(node: Node) -> str:
    """Serialize a node as HTML.

    >>> to_html(element("p", "a < b", element("img", src="x")))
    '<p>a &lt; b<img src="x"></p>'
    """
    if isinstance(node, str):
        return escape(plain(node), quote=False)
    attributes = "".join(f' {name}="{escape(text)}"' for name, text in node.attributes.items())
    inside = "".join(map(to_html, node.children))
    return f"<{node.tag}{attributes}>{inside}" + ("" if node.tag in ("img", "br", "hr") else f"</{node.tag}>")


def table_html(rows: Iterable[Iterable[str]]) -> str:
    """Return cells in HTML as a table, the first row as its header; empty without rows.

    >>> table_html([["a"], ["1"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    """
    lines = [list(row) for row in rows]
    head = "".join(f"<th>{cell}</th>" for row in lines[:1] for cell in row)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in lines[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if lines else ""
