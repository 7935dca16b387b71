"""A model as a caller gives it: its name, an object, or a plain function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, cast

from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, Usage, render
from lmm.models.port import ChatModel

ReplyFunction: TypeAlias = Callable[[str], str] | Callable[[str], Awaitable[str]]
ModelLike: TypeAlias = str | ChatModel | ReplyFunction
"""A name such as ``Ollama/llama3.2``, a model, or a function from a prompt to a reply."""


class FunctionModel:
    """A model whose replies a function makes, in a thread or asynchronously.

    It is given the texts of all messages, and has no tools.

    >>> from lmm.messages import Message
    >>> from lmm.models.port import ask
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
