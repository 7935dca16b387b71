"""The port to language models and embedding models: what every one of them must offer.

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
Progress = Callable[[int, int], None]  # how many are done, of how many


class RunnableTool(Protocol):
    """A tool that can be called: what the model is told of it, and what it does."""

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and schema, as the model gets them."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """What it returns for `arguments`, which fit the schema.

        Raises: children of `lmm.errors.LmmError`, which the model reads as the call's failure.
        """
        ...


class ChatModel(Protocol):
    """A model that answers a request with a stream that ends in one `Reply`.

    Raises (from the stream): children of `lmm.errors.ModelError`, never a vendor's exception.
    """

    @property
    def name(self) -> str:
        """The name it answers under, ``Provider/model``."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask; the events arrive as the model produces them."""
        ...


def connected(model: ChatModel) -> AbstractAsyncContextManager[object]:
    """Keep a model's connections open as long as this is: requests one after the other then need no new ones.

    A model that has any offers a method `connected`; others need nothing.
    """
    connect: Callable[[], AbstractAsyncContextManager[object]] | None = getattr(model, "connected", None)
    return nullcontext() if connect is None else connect()


def is_journaled(model: ChatModel | None) -> bool:
    """Whether the journal answers for a model; not where its attribute `journaled` is false: its name is not what tells
    its replies from another's."""
    return getattr(model, "journaled", True)


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """``Provider/model``."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    @property
    def space(self) -> str:
        """All that a document's vector depends on besides its text, on one line: only equal spaces compare."""
        ...

    def embed(self, texts: Sequence[str], *, kind: Side, on_progress: Progress | None = None) -> list[list[float]]:
        """One vector of `dimensions` floats per text, in order.

        `kind` is the side that the texts are on: many models want a question told apart from what may
        answer it. Raises children of `lmm.errors.ModelError`, never a vendor's exception.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a model, and whose it is.

    `text` is the prompt in the user's words, `about` what it is about, for whoever watches. `key` is what the journal
    goes by, with the model's name: what was asked of what; by default, the request.
    """

    request: ChatRequest
    place: Place = NOWHERE
    text: str = ""
    about: str = ""
    key: tuple[Any, ...] = ()
    again: bool = False  # whether the journal's reply does not do

    @classmethod
    def of(cls, prompt: str, place: Place = NOWHERE) -> Ask:
        """Ask with nothing but a prompt."""
        return cls(ChatRequest((Message("user", prompt),)), place, prompt)

    def journal_key(self, model: str, server: str = "") -> str:
        """The name under which the journal keeps the reply of this model at the server with this address."""
        kind, *rest = self.key or (self.request.task, [[m.role, render(m)] for m in self.request.messages])
        return journal.key_of(kind, model, *rest, *([server] if server else []))


Flow = Generator[Ask, Reply, T]
"""Asks without I/O; what it asks next may depend on the reply before. A `ModelError` is raised in it at ``yield``."""


async def ask(model: ChatModel, request: ChatRequest) -> Reply:
    """The reply to a request, without watching it arrive."""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return event
    raise RuntimeError(f"{model.name} ended its stream without a reply")
