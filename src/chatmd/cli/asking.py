"""Questions on a terminal, for consent to a file's tools and for each call (``--ask``), and shared options."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import click

from chatmd.call_texts import AGREE, CHOICES, Approvals, CallDecision, call_in_words, read_answer
from lmm import terminal
from lmm.errors import ConfigError
from lmm.messages import ToolCall

if TYPE_CHECKING:
    from chatmd.context import Approve, Confirm

_LONGEST = 4096  # bytes of a line from a terminal
_Command = TypeVar("_Command", bound=Callable[..., object])


def input_values(command: _Command) -> _Command:
    """Declare the option ``--set NAME=VALUE``, as `inputs`."""
    return click.option(
        "--set", "inputs", metavar="NAME=VALUE", multiple=True, callback=_read_values,
        help="Set an input that the file declares; the value is written into the file.",
    )(command)  # fmt: skip


def _read_values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in given]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise click.BadParameter(f"write it as --set {name or 'NAME'}=VALUE", context, option)
    return {name.strip(): value for name, _, value in pairs}


def confirm_on_terminal() -> Confirm | None:
    """Return a function that asks for consent on the terminal, or None without a terminal."""
    return (lambda question: terminal.confirm(f"{question}{AGREE}")) if terminal.can_ask() else None


def approve_on_terminal() -> Approve:
    """Return a function that asks about each call; it remembers which tools are always allowed.

    Raises:
        ConfigError: there is no terminal.
    """
    if not terminal.can_ask():
        raise ConfigError(
            "--ask needs a terminal, where you are asked", hint="run it in a terminal, or leave out --ask"
        )
    return Approvals(_ask)


async def _ask(call: ToolCall) -> CallDecision:
    """Ask about a call on the terminal; the end of the input stops the run."""
    name, _, arguments = call_in_words(call).partition("\n")
    shown = terminal.styled(name, "bold", err=True) + (f"\n{arguments}" if arguments else "")
    terminal.say(f"\n{shown}", err=True)
    terminal.forget_what_was_typed()
    answer = None
    while answer is None:
        terminal.say(f"{CHOICES} [y/n/a/q] ", err=True, end="")
        answer = read_answer(await _typed_line() or "quit")
    return answer


async def _typed_line() -> str | None:
    """Return a typed line, or None at the end of the input; the waiting thread does not keep the process alive."""
    line = Future[bytes]()
    threading.Thread(target=lambda: line.set_result(os.read(sys.stdin.fileno(), _LONGEST)), daemon=True).start()
    data = await asyncio.shield(asyncio.wrap_future(line))
    return data.decode(errors="replace") if data else None
