"""Documents without their HTML tags.

Of a web page, what a reader sees as text remains: blocks begin on lines of their own, white space is one blank, and
scripts and styles are gone. Of any other text, such as markdown, the tags of HTML are taken out and nothing else is
touched: `vector<int>` and `<https://…>` are no tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from lmm.importing.elements import tags

_BLOCKS = tags(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p pre "
    "search section summary table tbody td tfoot th thead title tr ul"
)
_INLINE = tags(
    "a abbr acronym area audio b base basefont bdi bdo big button canvas cite code col colgroup data datalist del dfn "
    "em embed font frame frameset i iframe img input ins kbd label link map mark meta meter noframes nobr noscript "
    "object output param picture portal progress q rb rp rt rtc ruby s samp select slot small source span strike "
    "strong sub sup svg template textarea time track tt u var video wbr"
)
# What is between their tags is no text of the page.
_SILENT = frozenset(
    {"script", "style", "template", "noframes", "iframe", "svg", "annotation", "annotation-xml", "object"}
)
_MATH = tags(
    "math mi mn mo ms mtext mrow mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mspace "
    "mstyle mpadded mphantom menclose semantics annotation annotation-xml"
)
_NAMES = _BLOCKS | _INLINE | _SILENT | _MATH | tags("script style")
_OPENING = re.compile(r"<(?:(!--)|([!?])|(/?)([A-Za-z][A-Za-z0-9-]*)(?=[\s/>]))")
_IN_TAG = re.compile(r"[<>]|=\s*([\"'])")
_BLANKS = re.compile(r"[ \t\r\n\f]+")


class _Piece(NamedTuple):
    """Text up to a tag, and the tag's name in lower case: with a slash if it closes, empty at the end."""

    text: str
    tag: str


def strip_page(page: str) -> str:
    """The text of a web page.

    >>> strip_page("<title>T</title><style>p{}</style><p>a  &lt; <b>b</b></p><pre>x\\n  y</pre>")
    'T\\na < b\\nx\\n  y\\n'
    """
    lines: list[str] = []
    line: list[str] = []
    literal = 0  # how many <pre> are open

    def end_line() -> None:
        text = "".join(line)
        text = text.strip("\n") if literal else _BLANKS.sub(" ", text).strip()
        if text.strip():
            lines.append(html.unescape(text))
        line.clear()

    for text, tag in _pieces(page, _NAMES):
        line.append(text)
        name = tag.removeprefix("/")
        if not name or name in _BLOCKS:
            end_line()
        if name == "pre":
            literal = max(0, literal + (-1 if tag.startswith("/") else 1))
    return "".join(f"{text}\n" for text in lines)


def strip_tags(text: str) -> str:
    """A text without the tags of HTML that are in it; all else stays as it is.

    >>> strip_tags("a <b>c</b> < d, vector<int>, <https://e.org>, &lt;<!-- f -->")
    'a c < d, vector<int>, <https://e.org>, &lt;'
    >>> strip_tags("if a <b then <i>c</i>")
    'if a <b then c'
    """
    return "".join(piece.text for piece in _pieces(text, _NAMES - _MATH))


def _pieces(text: str, names: frozenset[str]) -> Iterator[_Piece]:
    """The text between tags. What opens like a tag and does not end is text up to where that shows: time is linear."""
    at = start = 0
    while (match := _OPENING.search(text, at)) is not None:
        name = (match[4] or "").lower()
        if not match[1] and not match[2] and name not in names:
            at = match.end()
            continue
        end, is_tag = _end(text, match)
        if is_tag:
            yield _Piece(text[start : match.start()], f"{match[3] or ''}{name}")
            if name in _SILENT and not match[3] and text[end - 2 : end] != "/>":
                end = _closing(text, name, end)
            start = end
        at = end
    yield _Piece(text[start:], "")


def _end(text: str, opening: re.Match[str]) -> tuple[int, bool]:
    """Behind the comment, declaration or tag that is opened, and whether it is one."""
    if opening[1]:
        return _behind(text, "-->", opening.start() + 2), True
    if opening[2]:
        return _behind(text, ">", opening.end()), True
    at = opening.end()
    while (found := _IN_TAG.search(text, at)) is not None:
        if found[0] == ">":
            return found.end(), True
        if found[0] == "<":
            return found.start(), False
        at = text.find(found[1], found.end()) + 1
        if at == 0:
            break
    return len(text), False


def _closing(text: str, name: str, at: int) -> int:
    closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, at)
    return _behind(text, ">", closing.end()) if closing else len(text)


def _behind(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return len(text) if found < 0 else found + len(mark)
