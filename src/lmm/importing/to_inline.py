"""What stands within a line: elements to markdown text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lmm.importing import escape
from lmm.importing.elements import MarkupElement, Node, text_of, words_of

_BLANKS = re.compile(r"[ \t\n\r\f]+")
_END = 1000  # characters at the end of a text that may change with what follows
_SKIPPED = ("input", "wbr", "col", "colgroup", "rp", "source", "track", "param", "area", "map")


@dataclass(frozen=True, slots=True)
class InlinePlace:
    """What the place in the document allows: how a line is broken there, and which ids can be linked to."""

    line_break: str = "\\\n"
    cell: bool = False
    targets: frozenset[str] = frozenset()


PARAGRAPH = InlinePlace()


def inline(nodes: Iterable[Node], place: InlinePlace = PARAGRAPH) -> str:
    """Nodes as markdown within a line, with single spaces and none at the ends.

    >>> from lmm.importing.elements import element
    >>> inline(["H", element("sub", "2"), "O is", element("b", " wet "), "and ", element("code", "a*b")])
    'H~2~O is **wet** and `a*b`'
    """
    text, ends = _inline(nodes, place), place.line_break
    start, end = 0, len(text)
    while start < end and (text.startswith(ends, start) or text[start].isspace()):
        start += len(ends) if text.startswith(ends, start) else 1
    while start < end and (text.endswith(ends, start, end) or text[end - 1].isspace()):
        end -= len(ends) if text.endswith(ends, start, end) else 1
    return text[start:end]


def _inline(nodes: Iterable[Node], place: InlinePlace) -> str:
    parts, end = list[str](), ""
    for node in nodes:
        end = _join(end, _text(node, place) if isinstance(node, str) else _element(node, place))
        if len(end) > 4 * _END:
            parts.append(end[:-_END])
            end = end[-_END:]
    return "".join([*parts, end])


def _text(text: str, place: InlinePlace) -> str:
    text = escape.inline(_BLANKS.sub(" ", escape.plain(text)))
    return text.replace("|", "\\|") if place.cell else text


def _join(before: str, after: str) -> str:
    """Two pieces side by side, so that neither changes what the other means."""
    if not before or not after:
        return before or after
    if before[-1] in " \n":
        after = after.lstrip(" ")
    elif after[0] == "[" and before[-1] in "!^":  # a link, not an image or a note
        before = f"{before[:-1]}\\{before[-1]}" if not before.endswith("\\" + before[-1]) else before
    elif before[-1] == "]" and after[0] in "([{:" and not re.search(r"(?:\\|\[\^\w+)\]\Z", before):
        before = before[:-1] + "\\]"
    elif before[-1] == "$" and after[0].isdigit() and not before.endswith("\\$"):
        after = " " + after  # else the dollar ends no formula
    elif before[-1] == "`" and after[0] == "`":
        after = " " + after
    for mark in ("**", "*", "~~"):
        if before.endswith(mark) and after.startswith(mark) and len(before) > len(mark):
            return _merge(before, after, mark)
    return before + after


def _merge(before: str, after: str, mark: str) -> str:
    """Two neighbours of one format as one: word processors split bold text into many runs."""
    if before.endswith("\\" + mark):
        return before + after
    if mark == "*" and (before.endswith("**") != after.startswith("**")):
        return f"{before} {after}"
    return before[: -len(mark)] + after[len(mark) :]


def _element(node: MarkupElement, place: InlinePlace) -> str:
    write = _WRITERS.get(node.tag)
    return write(node, place) if write else _inline(node.children, place)


def _around(mark: str) -> Callable[[MarkupElement, InlinePlace], str]:
    """Text between two marks; spaces at its ends stand outside them."""

    def write(node: MarkupElement, place: InlinePlace) -> str:
        text = _inline(node.children, place)
        body = text.strip(" \n")
        if not body or body.startswith(mark) or body.endswith((mark, place.line_break.strip() or " ")):
            return text  # nothing, already marked, or what no mark can stand beside
        lead, trail = " " * text[0].isspace(), " " * text[-1].isspace()
        return f"{lead}{mark}{body}{mark}{trail}"

    return write


def _raised(mark: str) -> Callable[[MarkupElement, InlinePlace], str]:
    """Sub- or superscript: Pandoc wants its spaces escaped."""

    def write(node: MarkupElement, place: InlinePlace) -> str:
        text = inline(node.children, place)
        if not text or text.startswith("[") or mark in text:
            return text
        return f"{mark}{text.replace(' ', f'{chr(92)} ')}{mark}"

    return write


def _code(node: MarkupElement, place: InlinePlace) -> str:
    if any(child.tag in ("math", "img") for child in node.elements):
        return _inline(node.children, place)
    return escape.code_span(escape.plain(text_of(node)))


def _link(node: MarkupElement, place: InlinePlace) -> str:
    address = node.get("href").strip()
    text = inline(node.children, replace(place, line_break=" "))
    if not text or not address or not _is_link(address, place):
        return f"{text} " if text_of(node)[-1:].isspace() else text
    target = escape.url(address)
    if words_of(node) == address and re.match(r"(?:https?|ftp|mailto):", address):
        return f"<{target.strip('<>')}>"
    return f"[{text}]({target})"


def _is_link(address: str, place: InlinePlace) -> bool:
    if address.startswith("#"):
        return address[1:] in place.targets
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", address)
    return scheme is None or scheme[1].lower() in ("http", "https", "ftp", "mailto", "doi", "tel", "file", "lmm-link")


def image(node: MarkupElement, place: InlinePlace, *, caption: str = "") -> str:
    """An image, or nothing if it has no address or is smaller than a letter (it counts who reads the page)."""
    address = node.get("src").strip()
    tiny = all(node.get(side).rstrip("px") in ("0", "1", "2") for side in ("width", "height"))
    if not address or tiny:
        return ""
    text = caption or _text(node.get("alt"), place).strip()
    return f"![{text}]({escape.url(address)})"


def _math(node: MarkupElement, place: InlinePlace) -> str:
    tex = text_of(node)
    if place.cell:  # a bar would end the cell
        tex = re.sub(r"(?<!\\)\|", r"\\vert ", tex.replace("\\|", "\\Vert "))
    return escape.formula(tex, display=node.get("display") == "block" and not place.cell)


_WRITERS: dict[str, Callable[[MarkupElement, InlinePlace], str]] = {
    **dict.fromkeys(_SKIPPED, lambda node, place: ""),
    **dict.fromkeys(("strong", "b"), _around("**")),
    **dict.fromkeys(("em", "i", "cite", "dfn"), _around("*")),
    **dict.fromkeys(("del", "s", "strike"), _around("~~")),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), _code),
    "sub": _raised("~"),
    "sup": _raised("^"),
    "a": _link,
    "img": image,
    "math": _math,
    "br": lambda node, place: place.line_break,
    "q": lambda node, place: f"“{inline(node.children, place)}”",
    "rt": lambda node, place: f" ({inline(node.children, place)})",  # the reading of a character
    "footnote-mark": lambda node, place: f"[^{node.get('label')}]",
}
