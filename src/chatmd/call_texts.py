"""Calls of tools as text for people, and the questions about calls and consent on a terminal."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Literal, NamedTuple

from chatmd.errors import StoppedByUser
from lmm import terminal
from lmm.errors import ConfigError
from lmm.messages import ToolCall

AGREE = "Agree? You are asked again only if this changes."
CHOICES = "Make this call? yes, no (a reason may follow), always for this tool, quit"

_PATCH = "*** Begin Patch"
_EDITORS = ("find_and_replace", "write_file", "append_to_file")

Choice = Literal["yes", "no", "always", "quit"]
_CHOICES: tuple[Choice, ...] = ("yes", "no", "always", "quit")


class CallDecision(NamedTuple):
    """A user's decision about a call; a refusal may have a reason."""

    choice: Choice
    reason: str = ""


def read_answer(line: str) -> CallDecision | None:
    """Return the decision in a line, or None if there is none; only a refusal may have more than one word.

    >>> read_answer("n too slow"), read_answer(" Yes "), read_answer("yes, and then stop")
    (CallDecision(choice='no', reason='too slow'), CallDecision(choice='yes', reason=''), None)
    """
    word, _, reason = line.strip().partition(" ")
    choice = next((choice for choice in _CHOICES if word.rstrip(",:.").lower() in (choice, choice[0])), None)
    if choice is None or (reason.strip() and choice != "no"):
        return None
    return CallDecision(choice, reason.strip())


class Approvals:
    """Asks about calls, one at a time, also for agents that run in parallel (`chatmd.context.Approve`).

    `ask` returns the user's decision about a call. It is not called again for a tool that is always allowed.
    """

    def __init__(self, ask: Callable[[ToolCall], Awaitable[CallDecision]]) -> None:
        self.ask = ask
        self.always: set[str] = set()
        self._asking = asyncio.Lock()

    async def __call__(self, call: ToolCall) -> bool | str:
        """Return whether a call may be made, or the reason of a refusal.

        Raises:
            StoppedByUser: the user stops the run.
        """
        async with self._asking:
            if call.name in self.always:
                return True
            answer = await self.ask(call)
        if answer.choice == "quit":
            raise StoppedByUser("stopped, as requested")
        if answer.choice == "no":
            return f"The user refused this call: {answer.reason}" if answer.reason else False
        if answer.choice == "always":
            self.always.add(call.name)
        return True


def call_line(call: ToolCall) -> str:
    """Return a call on one line.

    >>> call_line(ToolCall("c1", "search", '{"query": "leaf", "k": 3}'))
    'search(query="leaf", k=3)'
    """
    arguments = _arguments(call)
    if arguments is None:
        inside = " ".join(call.arguments.split())
    else:
        inside = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return _one_line(f"{call.name}({inside})")


def call_in_words(call: ToolCall) -> str:
    """Return a call with each argument on lines of its own.

    >>> print(call_in_words(ToolCall("1", "search", '{"arguments": ["-i", "leaf"], "stdin": "a\\\\nb"}')))
    search
      arguments: ["-i", "leaf"]
      stdin:
        a
        b
    """
    arguments = _arguments(call)
    if arguments is None:
        return f"{_one_line(call.name)}\n{_indented(call.arguments, 2)}"
    return "\n".join([_one_line(call.name), *(_argument(str(name), value) for name, value in arguments.items())])


def changed_lines(call: ToolCall) -> list[str]:
    """Return what a call of a file tool changes, as the lines of a patch; empty for other tools.

    >>> changed_lines(ToolCall("1", "apply_patch", json.dumps({"patch": "*** Begin Patch\\n-a\\n+b\\n*** End Patch"})))
    ['-a', '+b']
    >>> changed_lines(ToolCall("1", "find_and_replace", '{"path": "x.md", "find": "a\\\\nb", "replace": "a\\\\nc"}'))
    ['*** x.md', ' a', '-b', '+c']
    """
    texts = {name: exact(value) for name, value in (_arguments(call) or {}).items() if isinstance(value, str)}
    patch = next((text for text in texts.values() if text.lstrip().startswith(_PATCH)), "")
    if patch or call.name not in _EDITORS:
        return [line for line in patch.strip().split("\n") if line and line not in (_PATCH, "*** End Patch")]
    old, new = texts.get("find", ""), texts.get("replace", texts.get("content", ""))
    differing = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    return [f"*** {texts.get('path', '')}", *list(differing)[3:]]


def _arguments(call: ToolCall) -> dict[str, object] | None:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _argument(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    name = _one_line(name)
    return f"  {name}:\n{_indented(text, 4)}" if "\n" in text else f"  {name}: {exact(text)}"


def _one_line(text: str) -> str:
    return exact(text).replace("\n", " ")


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in exact(text).split("\n"))


def exact(text: str) -> str:
    """Return `text` with all invisible characters spelled out, except line ends.

    >>> exact("a\\u200bb\\tc\\nd")
    'a\\\\u{200b}b\\\\x09c\\nd'
    """
    return "\n".join(terminal.visible(line, line=True) for line in text.split("\n"))


# -- On a terminal ---------------------------------------------------------------------------------------------


_LONGEST = 4096  # bytes of a line from a terminal


def confirm_on_terminal() -> Callable[[str], bool] | None:
    """Return a function that asks for consent on the terminal, or None without a terminal."""
    return (lambda question: terminal.confirm(f"{question}{AGREE}")) if terminal.can_ask() else None


def approve_on_terminal() -> Approvals:
    """Return a function that asks about each call; it remembers which tools are always allowed.

    Raises:
        ConfigError: there is no terminal.
    """
    if not terminal.can_ask():
        hint = "run it in a terminal, or leave out --ask"
        raise ConfigError("--ask needs a terminal, where you are asked", hint=hint)
    return Approvals(_ask)


async def _ask(call: ToolCall) -> CallDecision:
    """Ask about a call on the terminal; the end of the input stops the run."""
    name, _, arguments = call_in_words(call).partition("\n")
    heading = terminal.styled(name, "bold", err=True) + (f"\n{arguments}" if arguments else "")
    terminal.say(f"\n{heading}", err=True)
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
