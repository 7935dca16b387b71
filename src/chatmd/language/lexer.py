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
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chatmd.language.nodes import BLANK, Attribute
from chatmd.language.tags import TAGS

# -- Attributes: the inside of an opening tag to names and values, and back -----------------------------------
#
# A name alone is a flag. A value stands in quotes, or goes up to the next white space. In quoted values the five
# entities of XML are decoded, and (not in strict reading) numeric ones; a backslash before the quote keeps the value
# open, and (not in strict reading) does not belong to it. Other characters are passed over.


_DOUBLE = r'"((?:[^"\\]++|\\"?+)*+)"'
_SINGLE = r"'((?:[^'\\]++|\\'?+)*+)'"
# A value in double quotes, in single quotes, or without; a stray quoted text (no name: nothing is read from it).
_ATTRIBUTE = re.compile(
    rf"([A-Za-z0-9_:-]+)(?:[ \t\r\n]*=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE}|([^ \t\r\n\"'][^ \t\r\n]*))?)?"
    rf"|=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE})"
)
_OPEN_QUOTE = re.compile(r"=[ \t\r\n]*([\"'])")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_NAME = re.compile(r"[A-Za-z0-9_:-]+")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def read_attributes(inside: str, *, strict: bool = False) -> tuple[Attribute, ...]:
    """The attributes of a tag, in order; `inside` is what follows its name, without ``/>`` or ``>``.

    >>> read_attributes(" src='a &amp; b' local n=1")
    (Attribute(name='src', value='a & b'), Attribute(name='local', value=None), Attribute(name='n', value='1'))
    """
    if not inside or inside.isspace():
        return ()
    found = []
    for match in _ATTRIBUTE.finditer(inside):
        name, double, single, bare, _, _ = match.groups()
        if name is None:
            continue
        if double is not None:
            found.append(Attribute(name, _decode(double, '"', strict)))
        elif single is not None:
            found.append(Attribute(name, _decode(single, "'", strict)))
        else:
            found.append(Attribute(name, bare))
    return tuple(found)


def attribute_offsets(inside: str) -> dict[str, int]:
    """Where each attribute starts in the inside of a tag; of one that stands there twice, the last.

    >>> attribute_offsets(" src='a' local")
    {'src': 1, 'local': 9}
    """
    return {match[1]: match.start() for match in _ATTRIBUTE.finditer(inside) if match[1]}


def passed_over(inside: str) -> str:
    """The characters in a tag that no attribute takes up.

    >>> passed_over(" src='a', local; x")
    ',;'
    """
    rest = _ATTRIBUTE.sub(lambda match: "" if match[1] else match[0], inside)
    return "".join(c for c in rest if c not in BLANK)


def has_open_quote(inside: str) -> bool:
    """Whether a value in a tag begins with a quote that nothing closes."""
    at = 0
    while (quote := _OPEN_QUOTE.search(inside, at)) is not None:
        closed = re.compile(_DOUBLE if quote[1] == '"' else _SINGLE).match(inside, quote.start(1))
        if closed is None:
            return True
        at = closed.end()
    return False


def _decode(value: str, quote: str, strict: bool) -> str:
    if "\\" in value and not strict:
        value = value.replace("\\" + quote, quote)
    if "&" not in value:
        return value
    return _ENTITY.sub(_character_strict if strict else _character, value)


def _character_strict(match: re.Match[str]) -> str:
    return _NAMED[match[1]] if match[1] else match[0]


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def write_attributes(attributes: Iterable[Attribute]) -> str:
    """The inside of a tag that reads as these attributes, whatever their values hold.

    Raises:
        ValueError: a name that no tag can hold.

    >>> write_attributes([Attribute("src", 'a"b\\\\'), Attribute("local")])
    ' src="a&quot;b&#92;" local'
    """
    written = []
    for name, value in attributes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for an attribute")
        written.append(f" {name}" if value is None else f' {name}="{_quotable(value)}"')
    return "".join(written)


def _quotable(value: str) -> str:
    value = value.translate(_ESCAPES)
    # A backslash before the closing quote would keep the value open.
    return f"{value[:-1]}&#92;" if value.endswith("\\") else value


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

# -- Text to tokens as the reference reads them, for `strict` -------------------------------------------------
#
# Differences from `chatmd.language.lexer`: any ``<name`` swallows everything up to the next ``>``, whether the name
# is known or not, and its quotes must close; ``RAW|`` counts in the middle of a word too; a closing tag holds nothing
# but its name.


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


_STRICT_STOP = re.compile(r"<(?:!--|/?[A-Za-z_])|RAW\|")
_STRICT_NAME = re.compile(r"[^ \t\r\n]*")


def strict_tokens(text: str, flaws: list[Flaw]) -> Iterator[Token]:
    """The tokens of a text; they cover it without gaps. What goes wrong is added to `flaws`."""
    begin = at = 0
    last_comment, last_tag = text.rfind("-->"), text.rfind(">")
    while (stop := _STRICT_STOP.search(text, at)) is not None:
        start = stop.start()
        at = stop.end()
        token: Token | None = None
        if stop[0] == "RAW|":
            token = raw_token(text, begin, start)
        elif stop[0] == "<!--":
            if start + 4 <= last_comment and (end := text.find("-->", start + 4)) >= 0:
                token = CommentToken(start, end + 3)
            else:
                flaws.append(Flaw(start, "this comment never ends", "end it with -->", True))
        elif start < last_tag:
            at = text.find(">", start) + 1
            token = _strict_tag(text, start, at, flaws)
        if token is None:
            continue
        if token.start > begin:
            yield TextToken(begin, token.start)
        yield token
        begin = at = token.end
    if begin < len(text):
        yield TextToken(begin, len(text))


def _strict_tag(text: str, start: int, end: int, flaws: list[Flaw]) -> OpenToken | CloseToken | None:
    """The tag between `start` and `end`; None for one of another vocabulary."""
    if text[start + 1] == "/":
        tag = text[start + 2 : end - 1]
        return CloseToken(start, end, tag) if tag in TAGS else None
    empty = text[end - 2] == "/"
    inside = text[start + 1 : end - 2 if empty else end - 1]
    name = _STRICT_NAME.match(inside)
    tag = name[0] if name else ""
    inside = inside[len(tag) :]
    if has_open_quote(inside):
        flaws.append(Flaw(start, f"a quote in <{tag}> is not closed before '>'", "write &gt; in values", True))
    if tag not in TAGS:
        return None
    return OpenToken(start, end, tag, read_attributes(inside, strict=True), empty)
