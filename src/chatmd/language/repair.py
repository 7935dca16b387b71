"""Repair a transcript after a crash, so that it can be continued: close elements, drop half replies, answer calls.

A reply that was cut off, with no message after it, is removed and requested again: `ReplyWriter` ensures that a part
of a reply cannot be mistaken for all of it. A call whose outcome is unknown gets a response that says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from chatmd.language.agent import AgentSpec, CallItem, Item, MessageItem, OutputItem, ReasoningItem, interpret
from chatmd.language.nodes import BLANK
from chatmd.language.syntax import (
    CLOSE_RAW,
    MAX_DEPTH,
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
from chatmd.language.tags import TAGS, VOID
from chatmd.language.transcript import INCOMPLETE, USER_TURN, element_text, parse_cached, result_element
from lmm.messages import ToolResult

# -- Transcripts that end in the middle of an element -----------------------------------------------------------
#
# The text of an incomplete message stays. An incomplete call, result or thought could be mistaken for a complete one,
# so it is cut away.


_KEPT = ("assistant", "user", "system", "developer", "msg")
_RAW_BEGINS = tuple(OPEN_RAW[:n] for n in (3, 2, 1))
_RAW_ENDS = tuple(CLOSE_RAW[:n] for n in (3, 2, 1))


@dataclass(frozen=True, slots=True)
class Mending:
    """A repair of a text: keep the first `keep` characters, and append `suffix`."""

    keep: int
    suffix: str

    def apply(self, text: str) -> str:
        """Return the repaired text."""
        return text[: self.keep] + self.suffix


def mend(text: str) -> Mending:
    """Return the repair that completes a torn transcript; it changes nothing if the text is complete.

    >>> torn = "<user>Why?</user>\\n<assistant>\\nRAW|Because |RA"
    >>> mend(torn).apply(torn)
    '<user>Why?</user>\\n<assistant>\\nRAW|Because |RAW</assistant>\\n'
    >>> mend("<user>Why?</user>\\n<tool_call tool_ca")
    Mending(keep=18, suffix='')
    """
    flaws: list[Flaw] = []
    open_, last = _open_at_end(text, flaws)
    if flaws and is_torn_tag(text, flaws[-1].start):  # tokens inside its values were none
        return mend(text[: flaws[-1].start])
    if open_ and open_[0].tag not in _KEPT:
        return Mending(open_[0].start, "")
    keep, suffix = len(text), ""
    if isinstance(last, RawToken) and not last.closed:
        # Part of an end mark may also be text, but its loss does not matter in a text that was cut off.
        part = next((part for part in _RAW_ENDS if last.value.endswith(part)), "")
        suffix = CLOSE_RAW[len(part) :]
    elif isinstance(last, TextToken):
        keep, suffix = _without_torn_mark(text, last, open_[-1].tag if open_ else "")
    closing = [f"</{token.tag}>" for token in reversed(open_)]
    if suffix and suffix[-1] == ">":  # half of the innermost closing tag is in the text
        closing = closing[1:]
    whole = suffix + "".join(closing)
    return Mending(keep, whole + "\n" if open_ else whole)


def _open_at_end(text: str, flaws: list[Flaw]) -> tuple[list[OpenToken], Token | None]:
    """Return the elements that are open at the end of a text, outermost first, and its last token."""
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
    """Return where to cut a text that ends in part of a mark, and what completes it."""
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
    """Return whether a text is the beginning of one of our tags, up to its name at most.

    >>> _is_torn_tag("<tool_r"), _is_torn_tag("<doc/"), _is_torn_tag("<b"), _is_torn_tag("<docs")
    (True, True, False, False)
    """
    name = re.match(r"</?([a-z_]+)", torn)
    if name is None:
        return False
    if name.end() == len(torn):
        return any(tag.startswith(name[1]) for tag in TAGS)
    return name[1] in TAGS and torn[name.end() :] in ("/", *BLANK)


# -- Half replies, and calls without a response ------------------------------------------------------------------


INTERRUPTED = (
    "The run was interrupted before this call returned. Nobody knows whether it had an effect: look, before you "
    "repeat it."
)

_AGAIN = "a reply that was cut off is asked for again"
_CUT_OFF = ("assistant", INCOMPLETE)
_REPLY_END = f"{CLOSE_RAW}</assistant>\n"
_TORN_TURN = re.compile(r"<user>\s*(?:<(?:/(?:u(?:s(?:e(?:r)?)?)?)?)?)?\Z")


class RepairedText(NamedTuple):
    """A repaired text, and notes on what was changed, for people."""

    text: str
    notes: tuple[str, ...]


@lru_cache(maxsize=2)  # called before and after the file is locked
def repair(text: str, file: str = "", *, goes_on: bool = False) -> RepairedText:
    """Complete a transcript. Text that is not a transcript of ours, or has other errors, stays as it is.

    A reply that a run marked as incomplete stays if the user `goes_on` after it; otherwise it is requested again.
    `file` is the file of the text, so that a complete one is parsed only once, with later readers (`parse_cached`).

    >>> torn = '<user>Why?</user>\\n<assistant>\\nRAW|Beca'
    >>> repair(torn)
    RepairedText(text='<user>Why?</user>\\n', notes=('a reply that was cut off is asked for again',))
    >>> repair('<user>2+2?</user>\\n<tool_call tool_call_id="c1" function_name="add">{}</tool_call>\\n').notes
    ('1 call was interrupted',)
    """
    is_whole = text.rstrip(BLANK).endswith(">") and not parse_cached(text, file).problems
    mending = Mending(len(text), "") if is_whole else mend(text)
    whole = mending.apply(text) if _is_ours(text, mending) else text
    notes: tuple[str, ...] = ()
    if _is_half(text, whole, mending):
        whole, notes = whole[: _reply_start(whole)], (_AGAIN,)
    elif whole != text:
        notes = ("what was being written when a run was interrupted is made whole",)
    complete = whole if goes_on else _without_incomplete(whole)
    if complete != whole:
        whole, notes = complete, (_AGAIN,)
    answered, count = _answered(whole, file)
    if count:
        notes = (*notes, f"{count} call{'s were' if count > 1 else ' was'} interrupted")
    return RepairedText(answered, notes)


def _without_incomplete(text: str) -> str:
    """Remove a reply at the end that a run has marked as incomplete, and the blank user message after it."""
    if f'<assistant status="{INCOMPLETE}">' not in text:
        return text
    items = list(_items(text))
    while items and isinstance(items[-1], MessageItem) and items[-1].role == "user" and items[-1].is_blank:
        items.pop()
    start = len(text)
    while items and isinstance(last := items[-1], MessageItem) and (last.role, last.status) == _CUT_OFF:
        start = items.pop().span.start
        while items and isinstance(items[-1], ReasoningItem):
            start = items.pop().span.start
    return text[:start].rstrip(BLANK) + "\n" if start < len(text) and items else text


def _is_ours(text: str, mending: Mending) -> bool:
    """Return whether an interrupted run can have left the text. What a person left open is reported when it is read.

    So is a message that a person wrote after a torn reply, of which it would become a part.
    """
    if text.rstrip(BLANK).endswith("</user>"):
        return False
    return not mending.suffix or _REPLY_END.endswith(mending.suffix.replace("\r", "")) or _is_turn(text, mending)


def _is_turn(text: str, mending: Mending) -> bool:
    """Return whether the text ends in the middle of the blank message for the user."""
    return USER_TURN.endswith(mending.suffix) and bool(_TORN_TURN.search(text[-100:]))


def _is_half(text: str, whole: str, mending: Mending) -> bool:
    """Return whether a text ends within a reply: its calls and its last closing tag are written together."""
    ends_in_thought = whole.rstrip(BLANK).endswith("</reasoning>")
    if whole == text:
        items = _items(whole) if ends_in_thought else ()
        return bool(items) and isinstance(items[-1], ReasoningItem)
    if mending.suffix:
        return not _is_turn(text, mending)
    return ends_in_thought or text[mending.keep :].startswith(("<assistant", "<reasoning", "<tool_c"))


def _items(text: str, file: str = "") -> tuple[Item, ...]:
    return interpret(parse_cached(text, file))[0].items


def _reply_start(text: str) -> int:
    """Return the start of the reply at the end of the text."""
    start = len(text)
    for item in reversed(_items(text)):
        if isinstance(item, OutputItem) or (isinstance(item, MessageItem) and item.role != "assistant"):
            break
        start = item.span.start
    return start


def _answered(text: str, file: str) -> tuple[str, int]:
    """Add a response for each call without one, after the last call or response of its reply; count these calls."""
    if "tool_call" not in text:
        return text, 0
    spec = AgentSpec(items=_items(text, file))
    waiting = spec.unanswered()
    ends = _ends_of_replies(spec.items)
    for call in reversed(waiting):
        end = ends[id(call)]
        result = ToolResult(call.call, call.name, INTERRUPTED, failed=True)
        text = f"{text[:end]}\n{element_text(result_element(result))}{text[end:] or chr(10)}"
    return text, len(waiting)


def _ends_of_replies(items: tuple[Item, ...]) -> dict[int, int]:
    """Map the id() of each call to the end of the last call or response of its reply."""
    ends: dict[int, int] = {}
    for _, group in groupby(items, lambda item: isinstance(item, CallItem | OutputItem)):
        neighbours = list(group)
        ends |= {id(item): neighbours[-1].span.end for item in neighbours}
    return ends
