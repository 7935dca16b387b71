"""HTML text to a tree of elements, as browsers read it (selectolax, which is Lexbor)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lmm.errors import FileReadError
from lmm.importing.elements import HARM, MarkupElement, Node, tags

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)", re.I)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
# Tags that a later one closes, so that a row of open ones is no nesting.
_CLOSED_BY_OTHERS = tags(
    "p li dt dd tr td th tbody thead tfoot option optgroup rt rp colgroup a area base br col embed hr img input "
    "link meta param source track wbr html head body"
)
_MAX_OPEN = 2_000
_MAX_DEPTH = 150  # deeper trees are attacks, or text in which nothing was ever closed
_SELF_CLOSED = re.compile(r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)"
                          r"([A-Za-z][\w:.-]*)((?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/>")  # fmt: skip


def decode_html(data: bytes) -> str:
    """The text of a page in the encoding that it names, else in UTF-8, else in that of old Windows pages.

    >>> decode_html("<meta charset=latin1>é".encode("latin1"))
    '<meta charset=latin1>é'
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    named = _CHARSET.search(data[:4096])
    if named is not None:
        try:
            return data.decode(codec_of((named[1] or named[2]).decode("ascii", "replace").lower()))
        except (LookupError, UnicodeDecodeError):
            pass  # it says something else than it is
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def codec_of(charset: str) -> str:
    """Python's name of an encoding that a page or its server names, as browsers understand it."""
    return "cp1252" if charset in ("iso-8859-1", "latin1", "ascii", "us-ascii") else charset


def parse_html(text: str, *, xhtml: bool = False) -> MarkupElement:
    """The ``html`` element of a page; in XHTML any element may close itself (``<a id="x"/>``).

    Raises:
        FileReadError: it is nested too deeply.

    >>> [child.tag for child in parse_html("<p>a<p>b").children[1].children]
    ['p', 'p']
    """
    from selectolax.lexbor import LexborHTMLParser

    if xhtml:
        text = _SELF_CLOSED.sub(r"<\1\2></\1>", text)
    _check_open(text)
    root = LexborHTMLParser(text).root
    return _convert(root, 0) if root is not None else MarkupElement("html")


def _check_open(text: str) -> None:
    """Refuse a page with thousands of elements that are never closed: parsers take quadratic time for it."""
    depth = 0
    for match in _TAG.finditer(text):
        if match[2].lower() not in _CLOSED_BY_OTHERS:
            depth = max(0, depth - 1) if match[1] else depth + 1
            if depth > _MAX_OPEN:
                raise FileReadError(f"more than {_MAX_OPEN:,} elements are open at once", hint=HARM)


def _convert(node: LexborNode, depth: int) -> MarkupElement:
    if depth > _MAX_DEPTH:
        raise FileReadError(f"its elements are nested more than {_MAX_DEPTH} deep", hint=HARM)
    attributes = {name: value or "" for name, value in node.attributes.items()}
    return MarkupElement((node.tag or "").lower(), attributes, tuple(_children(node, depth)))


def _children(node: LexborNode, depth: int) -> Iterable[Node]:
    for child in node.iter(include_text=True):
        if child.is_text_node:
            yield child.text_content or ""
        elif child.is_element_node:
            yield _convert(child, depth + 1)
