"""Open the chat model that the settings name, wrapped with retries with backoff, an idle time-out and a limit."""

from __future__ import annotations

import asyncio
import functools
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path

from lmm.config import ModelSettings
from lmm.errors import EmptyReply, ModelError, ModelKeyMissing, ModelNotFound, ModelTimeout
from lmm.loop import ended
from lmm.messages import ChatEvent, ChatRequest, Reply, Retrying, Waiting
from lmm.models.builtin import ExtractiveModel, RecordedModel
from lmm.models.port import ChatModel, connected
from lmm.providers import PROVIDERS

MAX_WAIT = 60.0


def open_chat(settings: ModelSettings) -> ChatModel:
    """Open the chat model of one tier.

    Raises:
        ModelKeyMissing: the provider needs a key and none is set.
        ModelNotFound: `Builtin` has no model of that name, or the provider only embeds.
        ModelNotInstalled: the extra for the provider is not installed.
    """
    model = _open(settings)
    return Resilient(model, settings.timeout, settings.max_retries, asyncio.Semaphore(settings.concurrency))


def shared_chat(settings: ModelSettings) -> ChatModel:
    """Open a chat model as `open_chat` does, or return the open one for equal settings, so that calls share one limit.

    Recorded replies are read anew, since their file or the current folder may have changed.
    """
    return open_chat(settings) if settings.model.provider == "Recorded" else _shared(settings)


_shared = functools.lru_cache(maxsize=16)(open_chat)


def _open(settings: ModelSettings) -> ChatModel:
    name = settings.model
    provider = PROVIDERS[name.provider.lower()]
    if provider.name == "Builtin":
        if name.model != provider.major:
            raise ModelNotFound(f"there is no built-in chat model '{name.model}'", hint=f"use Builtin/{provider.major}")
        return ExtractiveModel()
    if provider.name == "Recorded":
        return RecordedModel(Path(name.model))
    if not provider.chats:
        raise ModelNotFound(
            f"{provider.name} is an embedding model and cannot answer",
            where=settings.origin,
            hint="set it under [embedding], and a chat model such as Ollama/llama3.2 here",
        )
    if settings.missing_key:
        raise ModelKeyMissing(
            f"{name} needs an API key",
            where=settings.origin,
            hint=f"export {settings.missing_key}=…, or choose another model: lmm status",
        )
    from lmm.models.pydantic_ai_adapter import PydanticAIModel

    return PydanticAIModel(settings)


# -- retries ---------------------------------------------------------------------------------------


def backoff(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Return the seconds to wait before attempt `attempt` + 1 (the first attempt is 1).

    The wait is what the server asked for, up to a minute; else 0.5, 1, 2, … seconds, spread by `jitter` (0 to 1).

    >>> [backoff(n, None, 0.0) for n in (1, 2, 3)], backoff(1, 7, 0.0)
    ([0.5, 1.0, 2.0], 7.0)
    """
    if retry_after is not None:
        return min(float(retry_after), MAX_WAIT)
    return min(0.5 * 2.0 ** (attempt - 1) * (1 + jitter / 2), MAX_WAIT)


@dataclass(frozen=True, slots=True)
class Resilient:
    """A model with an idle time-out per event, retries of transient errors, and a limit of concurrent calls.

    `timeout` is in seconds without any sign of the server; `retries` is the number of further attempts; after `slow`
    seconds without a first piece an event reports the wait: a local model may have to be loaded.
    """

    model: ChatModel
    timeout: float
    retries: int
    limit: asyncio.Semaphore
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    slow: float = 10.0

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
                    async with aclosing(self._once(request)) as events:
                        async for event in events:
                            yield event
                    return
                except ModelError as error:
                    if not error.retryable or attempt > self.retries:
                        raise
                    wait = backoff(attempt, error.retry_after, random.random())
                    yield Retrying(error.message, wait)
                    await self.sleep(wait)

    async def _once(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        arrived: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
        reading = asyncio.create_task(self._read(request, arrived))
        event: ChatEvent | None = None
        last = time.monotonic()
        tell_at = last + self.slow
        try:
            while True:
                now, last = time.monotonic(), max(last, self._last_sign)
                if now >= last + self.timeout:
                    raise ModelTimeout(
                        f"{self.name} sent nothing for {self.timeout:g} s",
                        hint="set a longer 'timeout' for this model in config.toml, or try again",
                    )
                if now >= tell_at:
                    tell_at = math.inf
                    yield Waiting(f"{self.name} has not begun to answer in {self.slow:g} s; it may be loading")
                try:
                    async with asyncio.timeout(min(last + self.timeout, tell_at) - now):
                        event = await arrived.get()
                except TimeoutError:
                    continue
                if event is None:
                    break
                last, tell_at = time.monotonic(), math.inf
                if isinstance(event, Reply) and not event.text.strip() and not event.calls:
                    raise EmptyReply(f"{self.name} sent an empty reply", hint="try again, or rephrase the prompt")
                yield event
            await reading  # raises the error that ended it
        finally:
            if not isinstance(event, Reply):  # after a reply, connections are being closed: do not interrupt
                reading.cancel()
            await ended(reading)

    async def _read(self, request: ChatRequest, arrived: asyncio.Queue[ChatEvent | None]) -> None:
        """Read events in a separate task, so that a time-out while waiting for one does not end the reading."""
        try:
            async with aclosing(self.model.stream(request)) as events:
                async for event in events:
                    arrived.put_nowait(event)
        finally:
            arrived.put_nowait(None)

    @property
    def _last_sign(self) -> float:
        """The time when the server last sent anything, such as a comment that keeps the connection alive."""
        return float(getattr(self.model, "last_sign", 0.0))
