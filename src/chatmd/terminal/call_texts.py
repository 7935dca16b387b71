"""Calls of tools as people read them, and what they answer when asked about one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from chatmd.errors import StoppedByUser
from lmm.messages import ToolCall
from lmm.terminal import visible

AGREE = "Agree? You are asked again only if this changes."
CHOICES = "Make this call? yes, no (a reason may follow), always for this tool, quit"

Choice = Literal["yes", "no", "always", "quit"]
_CHOICES: tuple[Choice, ...] = ("yes", "no", "always", "quit")


class CallDecision(NamedTuple):
    """What somebody says to a call; a refusal may have a reason."""

    choice: Choice
    reason: str = ""


def read_answer(line: str) -> CallDecision | None:
    """An answer, or None if it is none; only a refusal may say more than its word.

    >>> read_answer("n too slow"), read_answer(" Yes "), read_answer("yes, and then stop")
    (CallDecision(choice='no', reason='too slow'), CallDecision(choice='yes', reason=''), None)
    """
    word, _, reason = line.strip().partition(" ")
    choice = next((choice for choice in _CHOICES if word.rstrip(",:.").lower() in (choice, choice[0])), None)
    if choice is None or (reason.strip() and choice != "no"):
        return None
    return CallDecision(choice, reason.strip())


class Approvals:
    """Asks about calls, one at a time, those of agents that work side by side too (`chatmd.context.Approve`).

    `ask` returns what somebody says to a call. What is always allowed is asked about once.
    """

    def __init__(self, ask: Callable[[ToolCall], Awaitable[CallDecision]]) -> None:
        self.ask = ask
        self.always: set[str] = set()
        self._asking = asyncio.Lock()

    async def __call__(self, call: ToolCall) -> bool | str:
        """Whether a call may be made.

        Raises:
            StoppedByUser: the run is to end.
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
    """A call on one line.

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
    """A call with each argument on lines of its own.

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
    """`text` with everything spelled out that cannot be seen, but the end of a line.

    >>> exact("a\\u200bb\\tc\\nd")
    'a\\\\u{200b}b\\\\x09c\\nd'
    """
    return "\n".join(visible(line, line=True) for line in text.split("\n"))
