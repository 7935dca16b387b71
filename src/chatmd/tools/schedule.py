"""The calls of one reply: which one is being made, and in what order they are."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

PRESENT: ContextVar[str] = ContextVar("PRESENT", default="")
"""The id of the call that is being made, for code that acts on its behalf."""
IN_ORDER = "It begins after all calls before it in the same reply have ended."
"""What the descriptions of tools that write files or run programs say about it."""


def waits_for(writes: Sequence[bool]) -> list[tuple[int, ...]]:
    """Return, for each call of a reply, the numbers of the calls that must end before it begins.

    A call that may write waits for all calls before it, a call that only reads for those before it that may write.

    >>> waits_for([False, True, False, False, True])
    [(), (0,), (1,), (1,), (0, 1, 2, 3)]
    """
    return [tuple(n for n in range(call) if may_write or writes[n]) for call, may_write in enumerate(writes)]
