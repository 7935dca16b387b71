"""The port to language models and embedding models: the interfaces that each of them implements.

Adapters turn our messages (`lmm.messages`) into a vendor's; nothing else in the project knows a vendor. Retries,
time-outs and limits wrap any model (see `lmm.models.chat`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from lmm.disk import journal
from lmm.errors import Place
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, ToolDefinition, ToolOutput, render

T = TypeVar("T")
NOWHERE = Place()

Side = Literal["query", "document"]
Progress = Callable[[int, int], None]  # called with the number done and the total


class RunnableTool(Protocol):
    """A tool that can be called: its definition for the model, and its implementation."""

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and schema, as the model receives them."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call the tool with `arguments`, which fit the schema, and return its output.

        Raises: children of `lmm.errors.LmmError`, which the model reads as the call's failure.
        """
        ...


class ChatModel(Protocol):
    """A model that answers a request with a stream that ends in one `Reply`.

    Raises (from the stream): children of `lmm.errors.ModelError`, never a vendor's exception.
    """

    @property
    def name(self) -> str:
        """The model's name, ``Provider/model``."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Send a request and iterate over the events as the model produces them."""
        ...


def connected(model: ChatModel) -> AbstractAsyncContextManager[object]:
    """Keep a model's connections open inside a ``with`` block, so that successive requests reuse them.

    A model that has connections offers a method `connected`; for others this does nothing.
    """
    connect: Callable[[], AbstractAsyncContextManager[object]] | None = getattr(model, "connected", None)
    return nullcontext() if connect is None else connect()


def is_journaled(model: ChatModel | None) -> bool:
    """Return whether replies of a model may come from the journal; false if its attribute `journaled` is false, since
    its name then does not identify its replies."""
    return getattr(model, "journaled", True)


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """The model's name, ``Provider/model``."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    @property
    def space(self) -> str:
        """What a document's vector depends on besides its text, on one line: only vectors of equal spaces compare."""
        ...

    def embed(self, texts: Sequence[str], *, kind: Side, on_progress: Progress | None = None) -> list[list[float]]:
        """Return one vector of `dimensions` floats per text, in order.

        `kind` is the side that the texts are on: many models embed a question differently from a document
        that may answer it. Raises children of `lmm.errors.ModelError`, never a vendor's exception.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a model, with its origin.

    `text` is the prompt in the user's words and `about` its subject, both for listeners. `key`, with the model's name,
    identifies the reply in the journal; by default, the request does.
    """

    request: ChatRequest
    place: Place = NOWHERE
    text: str = ""
    about: str = ""
    key: tuple[Any, ...] = ()
    again: bool = False  # whether to ask anew even if the journal has a reply

    @classmethod
    def of(cls, prompt: str, place: Place = NOWHERE) -> Ask:
        """Make an ask from nothing but a prompt."""
        return cls(ChatRequest((Message("user", prompt),)), place, prompt)

    def journal_key(self, model: str, server: str = "") -> str:
        """Return the key under which the journal keeps the reply of this model at the server with this address."""
        kind, *rest = self.key or (self.request.task, [[m.role, render(m)] for m in self.request.messages])
        return journal.key_of(kind, model, *rest, *([server] if server else []))


Flow = Generator[Ask, Reply, T]
"""A generator that yields asks and receives replies, without I/O. A `ModelError` is raised in it at ``yield``."""


async def ask(model: ChatModel, request: ChatRequest) -> Reply:
    """Send a request to a model and return the reply, ignoring the events before it."""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return event
    raise RuntimeError(f"{model.name} ended its stream without a reply")
