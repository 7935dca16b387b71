"""What all adapters to servers have in common: a request is asked again without what the server refuses."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from lmm import errors
from lmm.loop import ended
from lmm.messages import ChatEvent, ChatRequest, Notice
from lmm.models.outgoing import Outgoing, schema_key

T = TypeVar("T")
CHOSEN = ("temperature", "top_p", "reasoning_effort")
"""Settings that models refuse: users have chosen them, and read that they are left out."""
PAUSE = 0.08
"""Seconds between two pieces of a reply: readers see no difference, and a piece costs everybody as much as its text."""


class Adapter(ABC):
    """A model that is adapted to our port. Subclasses provide `fitted`, `refused` and `once`.

    `learned` is what the server refuses: fields of a request, schemas, tools. It is not sent again.

    Raises (from `stream`): children of `lmm.errors.ModelError` only.
    """

    def __init__(self, name: str) -> None:
        self.name, self.learned = name, set[str]()

    @abstractmethod
    def fitted(self, request: ChatRequest) -> Outgoing:
        """Return the request without what the server refuses."""

    @abstractmethod
    def refused(self, error: errors.ModelError, sent: Outgoing) -> str:
        """Return what a refusal is about, if it can be left out or sent in another form; else the empty string."""

    @abstractmethod
    def once(self, request: ChatRequest, sent: Outgoing) -> AsyncGenerator[ChatEvent]:
        """Send a request; raise what the server answers instead of a reply."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Send a request; yield pieces as they arrive, thoughts and calls when they are complete, then one `Reply`."""
        refusal: errors.ModelError | None = None
        while True:
            sent, begun = self.fitted(request), False
            for tool, reason in sent.left_out.items():
                if self.learn(f"tool {tool}"):
                    yield Notice(f"{self.name} is not offered the tool '{tool}': {reason}")
            known = set(self.learned)
            try:
                async with aclosing(self.once(request, sent)) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except (errors.ModelRejected, errors.ModelNotFound) as error:
                if refusal is not None:  # the schema was not the reason
                    self.learned.discard(schema_key(request))
                    raise refusal from None
                if not begun and self.learned - known:  # by another request, while this one was under way
                    continue
                field = "" if begun or isinstance(error, errors.TooLong) else self.refused(error, sent)
                if not field or not self.learn(field):
                    raise
                refusal = error if field == schema_key(request) else None
                if field in CHOSEN or field.startswith("tool "):
                    what = f"does not take {field}, which is left out"
                    offered = f"is not offered the {field}: {error.message}"
                    yield Notice(f"{self.name} {what if field in CHOSEN else offered}")

    def learn(self, field: str) -> bool:
        """Record what is not sent again; return False if it was known."""
        known = field in self.learned
        self.learned.add(field)
        return not known


async def batches(items: AsyncGenerator[T]) -> AsyncGenerator[list[T]]:
    """Iterate over the same items in lists of those that arrive within `PAUSE` seconds, or until the next list is asked
    for. The connection is not read meanwhile, so that one read returns all of them."""
    held, arrived, taken = list[T](), asyncio.Event(), asyncio.Event()

    async def read() -> None:
        begun = last = 0.0
        async with aclosing(items):
            async for item in items:
                held.append(item)
                if len(held) == 1:
                    now = time.monotonic()
                    begun = begun or now
                    wait = last + min(PAUSE, (now - begun) / 5) - now  # shorter at first: the first block is awaited
                    if wait > 0:
                        await asyncio.sleep(wait)
                    last = time.monotonic()
                    taken.clear()
                    arrived.set()  # those that are here already are read before anybody notices
                elif time.monotonic() - last > PAUSE:
                    await taken.wait()

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda task: arrived.set())
    try:
        while held or not reading.done():
            await arrived.wait()
            arrived.clear()
            batch = held.copy()
            held.clear()
            taken.set()
            if batch:
                yield batch
        reading.result()
    finally:
        reading.cancel()
        await ended(reading)
