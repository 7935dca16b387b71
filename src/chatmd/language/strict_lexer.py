"""Text to tokens as the reference reads them, for `strict`.

Differences from `chatmd.language.lexer`: any ``<name`` swallows everything up to the next ``>``, whether the name is
known or not, and its quotes must close; ``RAW|`` counts in the middle of a word too; a closing tag holds
nothing but its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from chatmd.language.attributes import has_open_quote, read_attributes
from chatmd.language.lexer import CloseToken, CommentToken, Flaw, OpenToken, TextToken, Token, raw_token
from chatmd.language.tags import TAGS

_STOP = re.compile(r"<(?:!--|/?[A-Za-z_])|RAW\|")
_NAME = re.compile(r"[^ \t\r\n]*")


def strict_tokens(text: str, flaws: list[Flaw]) -> Iterator[Token]:
    """The tokens of a text; they cover it without gaps. What goes wrong is added to `flaws`."""
    begin = at = 0
    last_comment, last_tag = text.rfind("-->"), text.rfind(">")
    while (stop := _STOP.search(text, at)) is not None:
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
            token = _tag(text, start, at, flaws)
        if token is None:
            continue
        if token.start > begin:
            yield TextToken(begin, token.start)
        yield token
        begin = at = token.end
    if begin < len(text):
        yield TextToken(begin, len(text))


def _tag(text: str, start: int, end: int, flaws: list[Flaw]) -> OpenToken | CloseToken | None:
    """The tag between `start` and `end`; None for one of another vocabulary."""
    if text[start + 1] == "/":
        tag = text[start + 2 : end - 1]
        return CloseToken(start, end, tag) if tag in TAGS else None
    empty = text[end - 2] == "/"
    inside = text[start + 1 : end - 2 if empty else end - 1]
    name = _NAME.match(inside)
    tag = name[0] if name else ""
    inside = inside[len(tag) :]
    if has_open_quote(inside):
        flaws.append(Flaw(start, f"a quote in <{tag}> is not closed before '>'", "write &gt; in values", True))
    if tag not in TAGS:
        return None
    return OpenToken(start, end, tag, read_attributes(inside, strict=True), empty)
