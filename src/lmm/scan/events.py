"""What happens during a scan, as it happens: values for whoever shows progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lmm.errors import LmmError
from lmm.messages import ChatRequest, Reply
from lmm.scan.messages import Ask


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another process holds the document's lock."""

    document: str


@dataclass(frozen=True, slots=True)
class Asking:
    """A prompt goes to the model."""

    ask: Ask
    request: ChatRequest


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a reply arrived."""

    ask: Ask
    text: str


@dataclass(frozen=True, slots=True)
class Again:
    """The call failed and is repeated after `wait` seconds; the pieces so far are void."""

    ask: Ask
    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply is complete, from the model or from the journal."""

    ask: Ask
    reply: Reply
    source: Literal["model", "journal"]


@dataclass(frozen=True, slots=True)
class Failed:
    """A prompt was not answered; it stays where it is."""

    ask: Ask
    error: LmmError


Event = Waiting | Asking | Piece | Again | Answered | Failed
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""
