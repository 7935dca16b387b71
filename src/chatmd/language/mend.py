"""What a crash left behind: a transcript that ends in the middle of something, made whole again.

Text of a message that was cut off stays. A call, a result, a thought of which a part is missing would be taken
for whole: it is cut away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatmd.language.lexer import (
    CLOSE_RAW,
    OPEN_RAW,
    CloseToken,
    Flaw,
    OpenToken,
    RawToken,
    TextToken,
    Token,
    is_torn_tag,
    tokens,
)
from chatmd.language.nodes import BLANK
from chatmd.language.parser import MAX_DEPTH
from chatmd.language.tags import TAGS, VOID

_KEPT = ("assistant", "user", "system", "developer", "msg")
_RAW_BEGINS = tuple(OPEN_RAW[:n] for n in (3, 2, 1))
_RAW_ENDS = tuple(CLOSE_RAW[:n] for n in (3, 2, 1))


@dataclass(frozen=True, slots=True)
class Mending:
    """What to do: keep the first `keep` characters, and append `suffix`."""

    keep: int
    suffix: str

    def apply(self, text: str) -> str:
        """The text made whole."""
        return text[: self.keep] + self.suffix


def mend(text: str) -> Mending:
    """How to make a torn transcript whole; nothing is changed in one that is not torn.

    >>> torn = "<user>Why?</user>\\n<assistant>\\nRAW|Because |RA"
    >>> mend(torn).apply(torn)
    '<user>Why?</user>\\n<assistant>\\nRAW|Because |RAW</assistant>\\n'
    >>> mend("<user>Why?</user>\\n<tool_call tool_ca")
    Mending(keep=18, suffix='')
    """
    flaws: list[Flaw] = []
    open_, last = _open_at_end(text, flaws)
    if flaws and is_torn_tag(text, flaws[-1].start):  # whatever its values hold was no token
        return mend(text[: flaws[-1].start])
    if open_ and open_[0].tag not in _KEPT:
        return Mending(open_[0].start, "")
    keep, suffix = len(text), ""
    if isinstance(last, RawToken) and not last.closed:
        # Part of an end mark may be text too, but is not missed in a text that was cut off.
        part = next((part for part in _RAW_ENDS if last.value.endswith(part)), "")
        suffix = CLOSE_RAW[len(part) :]
    elif isinstance(last, TextToken):
        keep, suffix = _without_torn_mark(text, last, open_[-1].tag if open_ else "")
    closing = [f"</{token.tag}>" for token in reversed(open_)]
    if suffix and suffix[-1] == ">":  # the innermost closing tag is half there
        closing = closing[1:]
    whole = suffix + "".join(closing)
    return Mending(keep, whole + "\n" if open_ else whole)


def _open_at_end(text: str, flaws: list[Flaw]) -> tuple[list[OpenToken], Token | None]:
    """The elements that are open at the end of a text, outermost first, and its last token."""
    open_: list[OpenToken] = []
    token: Token | None = None
    for token in tokens(text, flaws):
        if isinstance(token, OpenToken) and not token.empty and token.tag not in VOID:
            if len(open_) < MAX_DEPTH:
                open_.append(token)
        elif isinstance(token, CloseToken) and any(before.tag == token.tag for before in open_):
            while open_.pop().tag != token.tag:
                pass
    return open_, token


def _without_torn_mark(text: str, last: TextToken, inside: str) -> tuple[int, str]:
    """Where a text that ends in part of a mark is cut, and what completes it."""
    tail = text[last.start : last.end]
    if inside and tail.strip(BLANK) in ("", *_RAW_BEGINS):
        return last.start, ""
    at = tail.rfind("<") if inside else tail.find("<")
    if at < 0:
        return last.end, ""
    torn = tail[at:]
    closing = f"</{inside}>"
    if inside and closing.startswith(torn):
        return last.end, closing[len(torn) :]
    if torn in ("<", "</", "<!", "<!-") or _is_torn_tag(torn):
        return last.start + at, ""
    return last.end, ""


def _is_torn_tag(torn: str) -> bool:
    """Whether a text could go on to be one of our tags, of which only the name is there.

    >>> _is_torn_tag("<tool_r"), _is_torn_tag("<doc/"), _is_torn_tag("<b"), _is_torn_tag("<docs")
    (True, True, False, False)
    """
    name = re.match(r"</?([a-z_]+)", torn)
    if name is None:
        return False
    if name.end() == len(torn):
        return any(tag.startswith(name[1]) for tag in TAGS)
    return name[1] in TAGS and torn[name.end() :] in ("/", *BLANK)
