"""The port to language models and embedding models: what every one of them must offer.

Adapters turn our messages (`lmm.messages`) into a vendor's; nothing else in the project knows a vendor. Retries,
time-outs and limits wrap any model (see `lmm.models.resilience`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, Literal, Protocol

from lmm.messages import ChatEvent, ChatRequest, Reply, ToolDefinition, ToolOutput

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


"""What a stream is made of; a `Reasoning` or a `ToolCall` comes when it is complete."""


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


async def ask(model: ChatModel, request: ChatRequest) -> Reply:
    """The reply to a request, without watching it arrive."""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return event
    raise RuntimeError(f"{model.name} ended its stream without a reply")
