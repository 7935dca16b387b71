"""The body of a streamed response, read as it arrives and handed on in fewer, larger pieces.

A piece every 40 ms is as good to a reader as one every 10 ms, and costs a quarter. Where the process is busy, more has
arrived until it looks again, so that the cost of an answer falls as the load grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

from lmm.models.chunk_joining import ChunkJoiner

PAUSE = 0.04
"""Seconds between two pieces that are handed on; the first waits for nothing."""
_OFF = ("identity", "")


class JoinedStream:
    """The bytes of `stream`, with chunks joined; closing it closes that."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._joiner = stream, ChunkJoiner()
        self._arrived: list[bytes] = []
        self._there = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # openai's client stops at the last event, and iterates again to read what follows it: that goes on here.
        self._reading = reading = self._reading or asyncio.create_task(self._read())
        loop, last = asyncio.get_running_loop(), 0.0
        while True:
            if not reading.done():
                await self._there.wait()
            if not reading.done() and (wait := last + PAUSE - loop.time()) > 0:
                await asyncio.wait([reading], timeout=wait)  # what is over is handed on at once
            last = loop.time()
            over = reading.done()
            self._there.clear()
            arrived, self._arrived = self._arrived, []
            if arrived:
                yield self._joiner.join(b"".join(arrived))
            if over:
                break
        await reading  # raises what ended it

    async def _read(self) -> None:
        try:
            async for data in self._stream:
                self._arrived.append(data)
                self._there.set()
        finally:
            # Not `done` yet: whoever waits looks again when this task is over.
            asyncio.get_running_loop().call_soon(self._there.set)

    async def aclose(self) -> None:
        """Stop reading, and close what is read."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._reading
        await self._stream.aclose()


async def join_pieces(response: Any) -> None:
    """An event hook for an HTTP client: streams of events are handed on in fewer pieces."""
    kind, coding = (response.headers.get(name, "") for name in ("content-type", "content-encoding"))
    if kind.partition(";")[0].strip() == "text/event-stream" and coding in _OFF:
        response.stream = _stream_class()(response.stream)


@functools.cache
def _stream_class() -> type[JoinedStream]:
    """`JoinedStream` as the HTTP client wants it, which whoever has a response has imported already."""
    import httpx2

    return type("JoinedByteStream", (JoinedStream, httpx2.AsyncByteStream), {})


def joining(model: Any) -> Any:
    """A model of pydantic-ai whose OpenAI client, if it has one, hands streams on in fewer pieces."""
    client = getattr(getattr(model, "client", None), "_client", None)
    hooks = getattr(client, "event_hooks", None)
    if hooks is not None and join_pieces not in hooks["response"]:
        hooks["response"].append(join_pieces)
    return model
