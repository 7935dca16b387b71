"""Text to tokens: tags of the vocabulary, RAW blocks, comments, and everything else, which is text.

A search jumps from one ``<`` or ``RAW|`` that can matter to the next. What looks like a tag and is none
(another name, quotes that do not close, a ``<`` outside of quotes) is text, character for character, so that
it can neither end nor swallow anything.

Linear: a comment's end is looked for only where one is left. An opening tag may be scanned up to the end of
the text and fail, but of the scans under way at any place no two are in the same state (outside, in
double, in single quotes), because each character either ends a scan or maps the three states one to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from chatmd.language.attributes import has_open_quote, read_attributes
from chatmd.language.nodes import BLANK, Attribute
from chatmd.language.tags import TAGS


class TextToken(NamedTuple):
    """Literal text."""

    start: int
    end: int


class RawToken(NamedTuple):
    """A RAW block with the white space that it eats; `closed` unless the text ends inside."""

    start: int
    end: int
    value: str
    closed: bool


class CommentToken(NamedTuple):
    """``<!-- … -->``."""

    start: int
    end: int


class OpenToken(NamedTuple):
    """An opening tag; `empty` if it ends in ``/>``."""

    start: int
    end: int
    tag: str
    attributes: tuple[Attribute, ...]
    empty: bool


class CloseToken(NamedTuple):
    """A closing tag."""

    start: int
    end: int
    tag: str


class Flaw(NamedTuple):
    """Something that is no token, though it was probably meant as one."""

    start: int
    message: str
    hint: str
    is_error: bool


Token = TextToken | RawToken | CommentToken | OpenToken | CloseToken

MAX_FLAWS = 1000  # of each kind; a text made to have more gets no more attention
OPEN_RAW, CLOSE_RAW = "RAW|", "|RAW"
_NAMES = "|".join(TAGS)
_QUOTED = r'"(?:[^"\\]++|\\"?+)*+"' + "|" + r"'(?:[^'\\]++|\\'?+)*+'"
# RAW| counts at the start of a word, and directly behind the end of another RAW block.
_STOP = re.compile(rf"<(?:!--|/?(?:{_NAMES})(?=[ \t\r\n]|/?>))|R(?:(?<![A-Za-z0-9_]R)|(?<=\|RAWR))AW\|")
_OPEN = re.compile(rf"<({_NAMES})(?=[ \t\r\n]|/?>)((?:[^<>\"'=]++|=[ \t\r\n]*+(?:{_QUOTED})?+)*+)>")
_TORN = re.compile(
    rf"<(?:{_NAMES})[ \t\r\n](?:[^<>\"'=]++|=[ \t\r\n]*+(?:{_QUOTED})?+)*+(?:\"(?:[^\"\\]|\\\"?)*|'(?:[^'\\]|\\'?)*)?\Z"
)
_CLOSE = re.compile(rf"</({_NAMES})[ \t\r\n]*+>")
_MARKUP_END = re.compile(r"</?[A-Za-z_][^>]*>\Z")


def tokens(text: str, flaws: list[Flaw]) -> Iterator[Token]:
    """The tokens of a text; they cover it without gaps. What goes wrong is added to `flaws`."""
    begin = at = 0
    last_comment = text.rfind("-->")
    while (stop := _STOP.search(text, at)) is not None:
        start = stop.start()
        token: Token | None
        if text[start] == "R":
            token = raw_token(text, begin, start)
        elif text.startswith("<!--", start):
            end = text.find("-->", start + 4) if start + 4 <= last_comment else -1
            token = CommentToken(start, end + 3) if end >= 0 else None
        else:
            token = _tag(text, start)
        if token is None:
            if len(flaws) < MAX_FLAWS or stop[0] == "<!--":
                flaws.append(_flaw(text, start, stop[0]))
            at = stop.end()
            continue
        if token.start > begin:
            yield TextToken(begin, token.start)
        yield token
        begin = at = token.end
    if begin < len(text):
        yield TextToken(begin, len(text))


def raw_token(text: str, begin: int, start: int) -> RawToken:
    """The RAW block whose ``RAW|`` is at `start`, behind text that goes on since `begin`.

    White space before it is eaten if a token could begin with it: not behind a word.
    """
    before = text[begin:start]
    kept = before.rstrip(BLANK)
    eats = not kept or kept[-1] in "|<" or (kept[-1] == ">" and _ends_markup(kept))
    content = start + len(OPEN_RAW)
    end = text.find(CLOSE_RAW, content)
    closed = end >= 0
    end = end if closed else len(text)
    return RawToken(
        begin + len(kept) if eats else start,
        end + len(CLOSE_RAW) if closed else end,
        text[content:end],
        closed,
    )


def _ends_markup(text: str) -> bool:
    """Whether a text ends with a tag of another vocabulary, such as ``<b>``."""
    opening = text.rfind("<")
    return opening >= 0 and _MARKUP_END.match(text, opening) is not None


def _tag(text: str, start: int) -> OpenToken | CloseToken | None:
    if text[start + 1] == "/":
        closing = _CLOSE.match(text, start)
        return CloseToken(start, closing.end(), closing[1]) if closing else None
    opening = _OPEN.match(text, start)
    if opening is None:
        return None
    tag, inside = opening.groups()
    empty = inside.endswith("/")
    return OpenToken(start, opening.end(), tag, read_attributes(inside[:-1] if empty else inside), empty)


def is_torn_tag(text: str, start: int) -> bool:
    """Whether the text ends in the middle of an opening tag that begins at `start`.

    >>> is_torn_tag('<user>x</user><doc src="a', 14)
    True
    """
    return _TORN.match(text, start) is not None


def _flaw(text: str, start: int, mark: str) -> Flaw:
    if mark == "<!--":
        return Flaw(start, "this comment never ends", "end it with -->; until then it is text", True)
    # Enough of it to see what is wrong; a quote that is open for longer is as good as never closed.
    inside = text[start + len(mark) : start + 1000].split("<")[0]
    hint = "close its quotes" if has_open_quote(inside) else "end it with >"
    if has_open_quote(inside) and re.search(r"\\[\"']", inside):
        hint = "a backslash before a quote keeps the value open: write / or &#92;"
    return Flaw(
        start, f"'{mark}' begins no complete tag, and is read as text", f"{hint}, or put it in RAW|…|RAW", False
    )
