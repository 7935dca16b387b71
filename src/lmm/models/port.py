"""The port to language models and embedding models: the interfaces that each of them implements.

Adapters turn our messages (`lmm.messages`) into a vendor's; nothing else in the project knows a vendor. Retries,
time-outs and limits wrap any model (see `lmm.models.chat`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from lmm.disk import journal
from lmm.errors import Place
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, TextDelta, ToolDefinition, ToolOutput, Usage, render

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


# -- a model as a caller gives it: its name, an object, or a plain function --------------------------

ReplyFunction: TypeAlias = Callable[[str], str] | Callable[[str], Awaitable[str]]
ModelLike: TypeAlias = str | ChatModel | ReplyFunction
"""A name such as ``Ollama/llama3.2``, a model, or a function from a prompt to a reply."""


class FunctionModel:
    """A model whose replies a function makes, in a thread or asynchronously.

    It is given the texts of all messages, and has no tools.

    >>> from lmm.messages import Message
    >>> request = ChatRequest((Message("system", "Be brief."), Message("user", "How many phases?")))
    >>> asyncio.run(ask(FunctionModel(str.upper), request)).text
    'BE BRIEF.\\n\\nHOW MANY PHASES?'
    """

    journaled = False  # its name does not say what it does

    def __init__(self, function: ReplyFunction) -> None:
        self._function = function
        self.name = f"Function/{getattr(function, '__name__', type(function).__name__)}"
        with suppress(ValueError):  # of functions in C, some do not say what they take
            try:
                inspect.signature(function).bind("")
            except TypeError as error:
                hint = "a model's function takes the prompt: def model(prompt: str) -> str"
                raise TypeError(f"{self.name} cannot be called with one argument ({hint})") from error

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Call the function, and yield its reply in one piece."""
        text = await asyncio.to_thread(self._function, "\n\n".join(map(render, request.messages)))
        if inspect.isawaitable(text):
            text = await text
        if not isinstance(text, str):
            raise TypeError(f"a model's reply is a str; {self.name} returned {type(text).__name__}")
        yield TextDelta(text)
        yield Reply(text, self.name, Usage(requests=1))


def given_model(model: ModelLike | None) -> tuple[str, ChatModel | None]:
    """Return the name of a model, or the model itself, whichever was given; neither for None.

    Raises:
        TypeError: it is no model.

    >>> given_model("Ollama/llama3.2"), given_model(str.upper)[1].name
    (('Ollama/llama3.2', None), 'Function/upper')
    """
    if model is None or isinstance(model, str):
        return model or "", None
    if isinstance(model, type) or not (hasattr(model, "stream") or callable(model)):
        hint = f": write {model.__name__}(…)" if isinstance(model, type) else ""
        raise TypeError(f"a model is a name, a function, or an object with a method 'stream', not {model!r}{hint}")
    return "", cast("ChatModel", model) if hasattr(model, "stream") else FunctionModel(model)
