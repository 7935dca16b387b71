"""Questions on a terminal: whether a file's tools are agreed to, and whether a call may be made (``--ask``)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys

from chatmd.errors import StoppedByUser
from chatmd.tools.consent import Approve, Confirm
from chatmd.tools.declared import plain
from lmm.cli import console
from lmm.models.port import ToolCall

_CHOICES = "Make this call? yes, no (a reason may follow), always for this tool, quit [y/n/a/q] "


def confirm_on_terminal() -> Confirm | None:
    """A function that asks for consent on the terminal, or None if there is none."""
    return _confirm if _is_terminal() else None


def approve_on_terminal() -> Approve | None:
    """A function that asks about each call, or None if there is no terminal; it remembers what is always allowed."""
    return _Approving() if _is_terminal() else None


def call_in_words(call: ToolCall) -> str:
    """A call as people read it: its name, and each argument on lines of its own.

    >>> print(call_in_words(ToolCall("1", "search", '{"arguments": ["-i", "leaf"], "stdin": "a\\\\nb"}')))
    search
      arguments: ["-i", "leaf"]
      stdin:
        a
        b
    """
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return f"{plain(call.name)}\n{_indented(call.arguments, 2)}"
    return "\n".join([plain(call.name), *(_argument(str(name), value) for name, value in arguments.items())])


def _argument(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"  {plain(name)}:\n{_indented(text, 4)}" if "\n" in text else f"  {plain(name)}: {plain(text)}"


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + plain(line) for line in text.split("\n"))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _forget_what_was_typed() -> None:
    """What was typed before a question was shown is no answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _confirm(question: str) -> bool:
    _forget_what_was_typed()
    sys.stderr.write(f"{question}Agree? It is asked again only if this changes. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class _Approving:
    """Asks about calls, one at a time."""

    def __init__(self) -> None:
        self.always: set[str] = set()

    async def __call__(self, call: ToolCall) -> bool | str:
        if call.name in self.always:
            return True
        name, _, arguments = call_in_words(call).partition("\n")
        shown = console.style(name, "bold", sys.stderr) + (f"\n{arguments}" if arguments else "")
        sys.stderr.write(f"\n{shown}\n")
        _forget_what_was_typed()
        while True:
            sys.stderr.write(_CHOICES)
            sys.stderr.flush()
            line = await _line()
            answer, _, reason = (line or "").strip().partition(" ")
            if line is None or answer.lower() in ("q", "quit"):
                raise StoppedByUser("stopped, as you asked")
            if answer.lower() in ("n", "no"):
                return f"The user refused this call: {reason.strip()}" if reason.strip() else False
            if answer.lower() in ("a", "always"):
                self.always.add(call.name)
            if answer.lower() in ("y", "yes", "a", "always"):
                return True


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
