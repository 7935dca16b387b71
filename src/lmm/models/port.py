"""The port to language models: what we send, what comes back, and what every model must offer.

Adapters turn these values into a vendor's; nothing else in the project knows a vendor. Retries,
time-outs and limits wrap any model (see `lmm.models.resilience`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "developer", "user", "assistant", "tool"]
Task = Literal["answer", "summary", "questions", "keywords", "edit", "extract"]
Side = Literal["query", "document"]
Progress = Callable[[int, int], None]  # how many are done, of how many


@dataclass(frozen=True, slots=True)
class Document:
    """Text that a message is about, kept apart from what is asked of it.

    `label` says what it is to the model (``text``, ``context``, ``source``); `source` where it comes from;
    `number` is what a reply cites it by, if not 0.
    """

    text: str
    label: str = "text"
    source: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its bytes, or the address that the provider fetches it from."""

    data: bytes = b""
    url: str = ""
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A function that a model may ask us to call. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model asks for a call. `arguments` is JSON as the model wrote it, not validated.

    `id` links the call to its result; `item` is the provider's own id of this item, where it has one.
    """

    id: str
    name: str
    arguments: str
    item: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of the call with id `call` of the function `name`; `failed` if `text` tells of an error."""

    call: str
    name: str
    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returned, before it is linked to a call; `failed` if `text` tells of an error."""

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False


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


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thought, as far as its provider tells.

    `id` and `signature` let `provider` (as pydantic-ai names it) recognise it when it is sent back.
    """

    text: str
    id: str = ""
    signature: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: what was said, after the documents it refers to, before further `content` in order.

    An assistant's message may hold `calls` and the `reasoning` before them; a message with the role
    ``tool`` holds nothing but `results`. `item` is the provider's own id of an assistant's text.
    """

    role: Role
    text: str
    documents: tuple[Document, ...] = ()
    content: tuple[str | Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    item: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked. `task` tells models without a language what is wanted; others ignore it.

    `tools` are offered to it; with `parallel`, it may ask for several calls at once.
    """

    messages: tuple[Message, ...]
    task: Task = "answer"
    tools: tuple[ToolDefinition, ...] = ()
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and, where the price is known, US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    requests: int = 0

    def __add__(self, other: Usage) -> Usage:
        costs = [c for c in (self.cost, other.cost) if c is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.requests + other.requests,
        )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer, in order; `item` is the provider's id of the text that begins with it."""

    text: str
    item: str = ""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thinks, in order; a `Reasoning` tells the whole, when it is complete."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The attempt failed and is made again after `wait` seconds; pieces received so far are void."""

    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer; the last event of a stream. With `calls`, the model waits for their results."""

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    cut: bool = False  # the model stopped at its output limit, in the middle
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    item: str = ""

    def as_message(self) -> Message:
        """The reply as a message of the conversation that goes on."""
        return Message("assistant", self.text, calls=self.calls, reasoning=self.reasoning, item=self.item)


ChatEvent = TextDelta | ReasoningDelta | Reasoning | ToolCall | Retrying | Reply
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


def render(message: Message) -> str:
    """A message as one text, its documents fenced by tags that do not occur in them.

    >>> print(render(Message("user", "Is this clear?", (Document("A leaf is green."),))))
    <text>
    A leaf is green.
    </text>
    <BLANKLINE>
    Is this clear?
    """
    parts = [_fenced(document) for document in message.documents]
    return "\n\n".join([*parts, message.text])


def _fenced(document: Document) -> str:
    tag, tried = document.label, 1
    while f"<{tag}" in document.text or f"</{tag}" in document.text:
        tried += 1
        tag = f"{document.label}-{tried}"
    number = f' number="{document.number}"' if document.number else ""
    # Where a text comes from is text too: it must not end the attribute or the tag.
    origin = " ".join(document.source.replace('"', "'").replace("<", "‹").split())
    source = f' from="{origin}"' if origin else ""
    return f"<{tag}{number}{source}>\n{document.text}\n</{tag}>"
