"""Open the chat model that the settings name, with retries, a limit of calls at once, and one reading of replies."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path

from lmm.config import ModelSettings
from lmm.errors import ModelError, ModelKeyMissing, ModelNotFound
from lmm.messages import ChatEvent, ChatRequest, Retrying
from lmm.models.agent_programs import installed_agent
from lmm.models.builtin import ExtractiveModel, RecordedModel
from lmm.models.port import ChatModel, connected
from lmm.models.replies import read_reply
from lmm.providers import PROVIDERS

FIRST_WAIT, MAX_WAIT = 0.5, 60.0  # seconds between attempts


def open_chat(settings: ModelSettings) -> ChatModel:
    """Open the chat model of one tier.

    Raises:
        ModelKeyMissing: the provider needs a key and none is set.
        ModelNotFound: `Builtin` has no model of that name, or the provider only embeds.
        ModelNotInstalled: the extra for the provider is not installed.
    """
    name, provider = settings.model, PROVIDERS[settings.model.provider.lower()]
    check_chat(settings)
    model: ChatModel
    if provider.name == "Builtin":
        model = ExtractiveModel()
    elif provider.name == "Recorded":
        model = RecordedModel(Path(name.model))
    elif settings.missing_key:
        raise ModelKeyMissing(
            f"{name} needs an API key",
            where=settings.origin,
            hint=f"export {settings.missing_key}=…, or choose another model: lmm status",
        )
    elif provider.name == "ACP":
        program, path = installed_agent(name.model)
        from lmm.models.agent_client import AgentModel  # which imports the extra

        model = AgentModel(settings, program, path, refused_settings(settings))
    elif provider.extra or settings.api == "responses":  # a protocol of its own
        from lmm.models.pydantic_ai_adapter import PydanticAIModel

        model = PydanticAIModel(settings)
    else:
        from lmm.models.completions import ChatCompletions

        model = ChatCompletions(settings)
    return Resilient(model, settings.max_retries, asyncio.Semaphore(settings.concurrency))


def shared_chat(settings: ModelSettings) -> ChatModel:
    """Open a chat model as `open_chat` does, or return the open one for equal settings, so that calls share one limit.

    Recorded replies are read anew, since their file or the current folder may have changed.
    """
    return open_chat(settings) if settings.model.provider == "Recorded" else _shared(settings)


_shared = functools.lru_cache(maxsize=16)(open_chat)


def check_chat(settings: ModelSettings) -> None:
    """Check that a tier does not name a model that certainly cannot answer; nothing is opened.

    Raises:
        ModelNotFound: there is no such built-in model, or the provider only embeds.
    """
    name, provider = settings.model, PROVIDERS[settings.model.provider.lower()]
    if provider.name == "Builtin" and name.model != provider.major:
        raise ModelNotFound(f"there is no built-in chat model '{name.model}'", hint=f"use Builtin/{provider.major}")
    if not provider.chats:
        raise ModelNotFound(
            f"{provider.name} is an embedding model and cannot answer",
            where=settings.origin,
            hint="set it under [embedding], and a chat model such as Ollama/llama3.2 here",
        )


def refused_settings(settings: ModelSettings) -> list[str]:
    """Return the settings that a model does not take, as far as that is published; a run leaves them out."""
    if settings.model.provider == "ACP":
        unset = ModelSettings()
        known = ("temperature", "max_tokens", "reasoning_effort", "parameters")
        return [name for name in known if getattr(settings, name) != getattr(unset, name)]
    if settings.model.provider != "OpenAI" or (settings.temperature is None and not settings.reasoning_effort):
        return []
    from lmm.models.pydantic_ai_adapter import refused_by

    return refused_by(settings)


# -- retries ---------------------------------------------------------------------------------------


def backoff(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Return the seconds to wait before attempt `attempt` + 1 (the first attempt is 1).

    The wait is what the server asked for, up to a minute; else 0.5, 1, 2, … seconds, spread by `jitter` (0 to 1).

    >>> [backoff(n, None, 0.0) for n in (1, 2, 3)], backoff(1, 7, 0.0)
    ([0.5, 1.0, 2.0], 7.0)
    """
    if retry_after is not None:
        return min(float(retry_after), MAX_WAIT)
    return min(FIRST_WAIT * 2.0 ** (attempt - 1) * (1 + jitter / 2), MAX_WAIT)


@dataclass(frozen=True, slots=True)
class Resilient:
    """A model with retries of transient errors (`retries` is the number of further attempts) and a limit of concurrent
    calls; its replies are read by `lmm.models.replies`."""

    model: ChatModel
    retries: int
    limit: asyncio.Semaphore
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def name(self) -> str:
        return self.model.name

    def connected(self) -> AbstractAsyncContextManager[object]:
        """See `lmm.models.port.connected`."""
        return connected(self.model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        async with self.limit:
            attempt = 0
            while True:
                attempt += 1
                try:
                    async with aclosing(read_reply(self.model.stream(request), request, self.name)) as events:
                        async for event in events:
                            yield event
                    return
                except ModelError as error:
                    if not error.retryable or attempt > self.retries:
                        raise
                    wait = backoff(attempt, error.retry_after, random.random())
                    yield Retrying(error.message, wait)
                    await self.sleep(wait)
