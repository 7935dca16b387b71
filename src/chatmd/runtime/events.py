"""Events that only runs have; all others are in `lmm.messages`.

A listener gets each event with its place: ``place.path`` names the agents from the first that was asked down to the
one where the event happened, and is empty for events of the file itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lmm.messages import Event, ToolDefinition, Usage


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The file is read and its tools are open; `tools` are those that the model is offered."""

    model: str
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """Notes sent with `steer` are in the transcript: with the result of a tool, or as messages of their own."""

    texts: tuple[str, ...]
    with_result: bool


@dataclass(frozen=True, slots=True)
class RunStopped(Event):
    """The turn was cancelled; the transcript is valid and can be continued."""


@dataclass(frozen=True, slots=True)
class YourTurn(Event):
    """It is the user's turn. With `pending`, the model still has something to do, which an empty message starts."""

    pending: bool = False


@dataclass(frozen=True, slots=True)
class RunResult(Event):
    """The result of a run; also the last event of a stream.

    `answer` is what the model said last, empty if it was not asked. `turns` counts the requests of the whole tree,
    `usage` is what they used.
    `cut` says that the answer was cut off at the model's output limit.
    `turn_of` says whose turn it is: ``user``, or ``model`` if the run stopped before the model was done (`once`).
    """

    answer: str
    text: str = field(repr=False)
    path: Path | None = None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    turn_of: str = "user"
    cancelled: bool = False
    cut: bool = False

    def _repr_markdown_(self) -> str:
        """Return the answer, for a notebook."""
        return self.answer
