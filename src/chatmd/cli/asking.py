"""Questions on a terminal: whether a file's tools are agreed to, and whether a call may be made (``--ask``)."""

from __future__ import annotations

import asyncio
import os
import sys

from chatmd.context import Approve, Confirm
from chatmd.terminal.call_texts import AGREE, CHOICES, approval, call_in_words, read_answer
from lmm import terminal
from lmm.messages import ToolCall


def confirm_on_terminal() -> Confirm | None:
    """A function that asks for consent on the terminal, or None if there is none."""
    return _confirm if terminal.can_ask() else None


def approve_on_terminal() -> Approve | None:
    """A function that asks about each call, or None if there is no terminal; it remembers what is always allowed."""
    return _Approving() if terminal.can_ask() else None


def _confirm(question: str) -> bool:
    return terminal.confirm(f"{question}{AGREE}")


class _Approving:
    """Asks about calls, one at a time."""

    def __init__(self) -> None:
        self.always: set[str] = set()

    async def __call__(self, call: ToolCall) -> bool | str:
        if call.name in self.always:
            return True
        name, _, arguments = call_in_words(call).partition("\n")
        shown = terminal.styled(name, "bold", err=True) + (f"\n{arguments}" if arguments else "")
        terminal.say(f"\n{shown}", err=True)
        terminal.forget_what_was_typed()
        while True:
            terminal.say(f"{CHOICES} [y/n/a/q] ", err=True, end="")
            line = await _line()
            answer = read_answer("quit" if line is None else line)
            if answer is not None:
                return approval(answer, call, self.always)


async def _line() -> str | None:
    """A line that the user types, None at the end; waiting for it can be cancelled, and leaves no thread behind."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(descriptor)
        if not typed.done():
            typed.set_result(os.read(descriptor, 65536))

    loop.add_reader(descriptor, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace") if data else None
