"""What happens during a run, as values: for a terminal, a log, a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lmm.errors import LmmError
from lmm.messages import Reply, ToolCall, ToolDefinition, ToolResult, Usage


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know: a repair, a change that an editor made, tools that are left out."""

    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The file is read and its tools are open; these are what the model is offered."""

    model: str
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class Asking:
    """A request goes out; `turn` counts those of the whole tree, from 1."""

    model: str
    turn: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Again:
    """The request is made again after `wait` seconds; the pieces since `Asking` are void."""

    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Replied:
    """The reply is complete, and in the transcript. `usage` is this request's, with its price if that is known."""

    reply: Reply
    usage: Usage


@dataclass(frozen=True, slots=True)
class Calling:
    """A call begins. Those of one reply run side by side."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Called:
    """A call ended after so many seconds."""

    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was said with `steer` is in the transcript: with the result of a tool, or as a message of its own."""

    texts: tuple[str, ...]
    with_result: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn was cancelled; the transcript is valid and can be gone on with."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn ended with an error, and the user may go on (`Hooks.goes_on`)."""

    error: LmmError


@dataclass(frozen=True, slots=True)
class YourTurn:
    """It is for the user to go on. With `pending`, the model has something to do: an empty message starts that."""

    pending: bool = False


@dataclass(frozen=True, slots=True)
class Below:
    """Something happened in an agent that was asked; `chain` are the files from the first to that one."""

    chain: tuple[str, ...]
    event: RunEvent


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; also the last event of a stream.

    `answer` is what the model said last. `turns` counts the requests of the whole tree, `usage` is what they used.
    `turn_of` says who is to go on: ``user``, or ``model`` if the run stopped before the model was done (`once`).
    """

    answer: str
    text: str = field(repr=False)
    path: Path | None = None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    turn_of: str = "user"
    cancelled: bool = False


RunEvent = (
    Notice | Ready | Asking | Piece | Thought | Again | Replied | Calling | Called | Delivered | Stopped | Failed
    | YourTurn | Below | RunResult
)  # fmt: skip
