"""Complete a transcript whose run was interrupted: answer its calls, and drop a cancelled reply.

Runs add whole elements only. Earlier versions wrote replies piece by piece: `cut_torn` removes what such a run left.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from chatmd.language.agent import AgentSpec, CallItem, Item, MessageItem, OutputItem, ReasoningItem, interpret
from chatmd.language.nodes import BLANK, Element, Text
from chatmd.language.syntax import errors_of, parse
from chatmd.language.transcript import INCOMPLETE, element_text, parse_cached, result_element
from lmm.messages import ToolResult

INTERRUPTED = (
    "The run was interrupted before this call returned. Nobody knows whether it had an effect: look, before you "
    "repeat it."
)

_AGAIN = "a reply that was cut off is asked for again"
_CUT_OFF = ("assistant", INCOMPLETE)


class RepairedText(NamedTuple):
    """A repaired text, and notes on what was changed, for people."""

    text: str
    notes: tuple[str, ...]


@lru_cache(maxsize=2)  # called before and after the file is locked
def repair(text: str, file: str = "", *, goes_on: bool = False) -> RepairedText:
    """Add a result to each interrupted call, and remove a reply at the end that was cancelled, to ask for it again.

    The cancelled reply stays if the user `goes_on` after it. A text with other errors stays as it is. `file` is the
    file of the text, so that a complete one is parsed only once, with later readers (`parse_cached`).

    >>> repair('<user>2+2?</user>\\n<tool_call tool_call_id="c1" function_name="add">{}</tool_call>\\n').notes
    ('1 call was interrupted',)
    """
    if errors_of(parse_cached(text, file).problems):
        return RepairedText(text, ())
    complete = text if goes_on else _without_incomplete(text)
    notes = (_AGAIN,) if complete != text else ()
    answered, count = _answered(complete, file)
    if count:
        notes = (*notes, f"{count} call{'s were' if count > 1 else ' was'} interrupted")
    return RepairedText(answered, notes)


_BLANK_TURN = re.compile(r"<user>\s*(?:</?[user]*)?\Z")
_WRITTEN = ("<assistant", "<reasoning", "<tool_call", "<tool_response", "<user>")


def cut_torn(text: str) -> str:
    r"""Return a text without the reply, call, result or blank message that is not complete at its end.

    If a message of the user follows it, the text stays as it is.

    >>> cut_torn("<user>Why?</user>\n<reasoning>Hm</reasoning>\n<assistant>\nRAW|Beca")
    '<user>Why?</user>\n'
    """
    nodes = reversed(parse(text).children)
    last = next((node for node in nodes if not (isinstance(node, Text) and node.is_blank)), None)
    if last is None or (isinstance(last, Element) and last.is_closed):
        return text
    start = last.span.start
    torn = text[start:].strip(BLANK)
    start = text.rindex(torn) if torn else start
    begins = torn.startswith(_WRITTEN[:-1]) or any(tag.startswith(torn) for tag in _WRITTEN) or _BLANK_TURN.match(torn)
    if not begins or "</user>" in torn:
        return text
    for item in reversed(_items(text[:start])):  # thoughts belong to the reply after them
        if not isinstance(item, ReasoningItem):
            break
        start = item.span.start
    return text[:start]


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


def _items(text: str, file: str = "") -> tuple[Item, ...]:
    return interpret(parse_cached(text, file))[0].items


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
