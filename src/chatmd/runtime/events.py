"""What happens during a run and in no other work of ours; all else is told in the words of `lmm.messages`.

A listener is told each event with its place: ``place.path`` names the agents from the first that was asked down to
the one where it happened, and is empty for what happens in the file itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lmm.messages import Event, ToolDefinition, Usage


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The file is read and its tools are open; these are what the model is offered."""

    model: str
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """What was said with `steer` is in the transcript: with the result of a tool, or as a message of its own."""

    texts: tuple[str, ...]
    with_result: bool


@dataclass(frozen=True, slots=True)
class RunStopped(Event):
    """The turn was cancelled; the transcript is valid and can be gone on with."""


@dataclass(frozen=True, slots=True)
class YourTurn(Event):
    """It is for the user to go on. With `pending`, the model has something to do: an empty message starts that."""

    pending: bool = False


@dataclass(frozen=True, slots=True)
class RunResult(Event):
    """How a run ended; also the last event of a stream.

    `answer` is what the model said last, empty if it was not asked. `turns` counts the requests of the whole tree,
    `usage` is what they used.
    `turn_of` says whose turn it is: ``user``, or ``model`` if the run stopped before the model was done (`once`).
    """

    answer: str
    text: str = field(repr=False)
    path: Path | None = None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    turn_of: str = "user"
    cancelled: bool = False
