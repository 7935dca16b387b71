"""Streamed responses of Chat Completions: join their chunks, and check that they are complete.

Each piece costs half a millisecond to parse, and one every 80 ms is as good to a reader as one every 10 ms, at an
eighth of the cost. The more streams a process reads, the longer it lets chunks gather: otherwise running answers would
delay new requests; so the cost of an answer falls as the load grows. Only chunks that hold a piece of text and
nothing else are joined; all other bytes pass unchanged.

Servers differ, and two differences are handled here, since no later code sees the bytes: a complete answer has a finish
reason or ends in ``[DONE]``, and some servers send only one of them; and some answer with one JSON object although a
stream was requested.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from lmm.errors import ModelUnavailable
from lmm.loop import ended

_PLAIN = {"content", "role"}
_MARK = b"data: {"
_END = re.compile(rb'\[DONE\]|"finish_reason"\s*:\s*"[^"]')
_LONGEST_END = 40  # bytes; so much of what arrived before is searched again with the next piece


@dataclass(slots=True)
class ChunkJoiner:
    """A joiner of chunks in a stream of server-sent events, given in pieces as the network delivers them.

    >>> def chunk(text): return b'data: {"choices": [{"delta": {"content": "%s"}}]}\\n\\n' % text
    >>> ChunkJoiner().join(chunk(b"A ") + chunk(b"leaf") + b"data: [DONE]\\n\\n")
    b'data: {"choices": [{"delta": {"content": "A leaf"}}]}\\n\\ndata: [DONE]\\n\\n'
    """

    _inside: bool = False  # whether the previous bytes ended within an event

    def join(self, data: bytes) -> bytes:
        """Return the same events in fewer bytes; nothing is held back."""
        *events, rest = data.split(b"\n\n")
        inside, self._inside = self._inside, bool(rest) or (self._inside and not events)
        if len(events) < 2:
            return data
        joined: list[dict[str, Any] | bytes] = []
        for number, event in enumerate(events):
            chunk = None if inside and number == 0 else _plain_chunk(event)
            if chunk and joined and isinstance(last := joined[-1], dict):
                last["choices"][0]["delta"]["content"] += chunk["choices"][0]["delta"]["content"]
            else:
                joined.append(chunk or event)
        told = [b"data: " + json.dumps(one).encode() if isinstance(one, dict) else one for one in joined]
        return b"\n\n".join([*told, rest])


def _plain_chunk(event: bytes) -> dict[str, Any] | None:
    """Parse a chunk with a piece of text and nothing else that joining would lose; return None for other events."""
    if not event.startswith(_MARK):
        return None
    try:
        chunk = json.loads(event.removeprefix(b"data: "))
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        plain = set(delta) <= _PLAIN and isinstance(delta["content"], str)
        last = choice.get("finish_reason") or choice.get("logprobs") or choice.get("index") or chunk.get("usage")
        return chunk if plain and not last and not chunk.get("error") else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


# -- in a vendor's stream --------------------------------------------------------------------------


PAUSE = 0.08
"""The least number of seconds between two pieces; the first is passed on at once."""
_EACH, _LONGEST = 0.0015, 0.5  # seconds for each stream that is read: a quarter of a core for all of them; at most
_being_read: set[asyncio.Task[None]] = set()


def pause() -> float:
    """Return the seconds between two pieces, by how many streams this process reads."""
    return min(max(PAUSE, _EACH * len(_being_read)), _LONGEST)


_BURST = 0.005  # seconds; pieces that arrive within this time had gathered before
_OFF = ("identity", "")


class EventStream(httpx2.AsyncByteStream):
    """The bytes of `stream` with chunks joined; closing it closes `stream`. `heard` is called at each sign of life.

    `name` is the model's, for messages. Raises (where it is read) `ModelUnavailable` at an end without a finish reason
    or ``[DONE]``.
    """

    def __init__(self, stream: Any, name: str, heard: Callable[[], None]) -> None:
        self._stream, self._name, self._heard, self._joiner = stream, name, heard, ChunkJoiner()
        self._arrived: list[bytes] = []
        self._there = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._last, self._complete = b"", False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # openai's client stops at the last event, and iterates again to read what follows it: that goes on here.
        self._reading = reading = self._reading or self._begin()
        loop, last = asyncio.get_running_loop(), 0.0
        while True:
            if not reading.done():
                await self._there.wait()
            if not reading.done() and (wait := last + pause() - loop.time()) > 0:
                await asyncio.wait([reading], timeout=wait)  # a finished stream is passed on at once
            last = loop.time()
            over = reading.done()
            self._there.clear()
            arrived, self._arrived = b"".join(self._arrived), []
            if arrived:
                self._look(arrived)
                yield self._joiner.join(arrived)
            if over:
                break
        await reading  # raises the error that ended it
        if not self._complete:
            raise ModelUnavailable(f"{self._name} broke off in the middle of its reply", hint="try again")

    def _look(self, arrived: bytes) -> None:
        """Record whether the answer is complete."""
        self._complete = self._complete or bool(_END.search(self._last + arrived))
        self._last = arrived[-_LONGEST_END:]

    def _begin(self) -> asyncio.Task[None]:
        reading = asyncio.create_task(self._read())
        _being_read.add(reading)
        reading.add_done_callback(_being_read.discard)
        return reading

    async def _read(self) -> None:
        """Read what has gathered, then let more gather: a read costs as much as parsing its bytes."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async for data in self._stream:
                self._heard()
                self._arrived.append(data)
                self._there.set()
                if loop.time() - begun > _BURST:  # this piece was waited for
                    await asyncio.sleep(pause())
                    begun = loop.time()
        finally:
            # Not `done` yet: the waiting reader looks again when this task is over.
            asyncio.get_running_loop().call_soon(self._there.set)

    async def aclose(self) -> None:
        """Stop reading, and close the stream."""
        try:
            if self._reading is not None:
                self._reading.cancel()
                await ended(self._reading)
        finally:
            await self._stream.aclose()


class OneEvent(httpx2.AsyncByteStream):
    """The bytes of an answer that does not stream, as a stream with one event."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield one_event(b"".join([data async for data in self._stream]))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def one_event(body: bytes) -> bytes:
    """Turn a JSON answer into a stream of one chunk; return anything else unchanged.

    >>> one_event(b'{"choices": [{"message": {"content": "A leaf"}}]}')
    b'data: {"choices": [{"delta": {"content": "A leaf"}}]}\\n\\ndata: [DONE]\\n\\n'
    """
    try:
        answer = json.loads(body)
        for choice in answer.get("choices") or []:
            choice["delta"] = message = choice.pop("message")
            for index, call in enumerate(message.get("tool_calls") or []):
                call["index"] = index
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return body
    return b"data: " + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n"


def watching(model: Any, name: str, heard: Callable[[], None]) -> Any:
    """Make the OpenAI client of a pydantic-ai model, if it has one, read responses through `EventStream`."""
    client = getattr(getattr(model, "client", None), "_client", None)
    hooks = getattr(client, "event_hooks", None)
    if hooks is not None and not any(getattr(hook, "func", None) is _watched for hook in hooks["response"]):
        hooks["response"].append(functools.partial(_watched, name, heard))
    return model


async def _watched(name: str, heard: Callable[[], None], response: Any) -> None:
    """An event hook for an HTTP client."""
    heard()
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    plain = response.headers.get("content-encoding", "") in _OFF
    if response.status_code != 200 or not response.request.url.path.endswith("/chat/completions"):
        return
    if kind == "text/event-stream" and plain:
        response.stream = EventStream(response.stream, name, heard)
    elif kind == "application/json" and plain:
        response.stream = OneEvent(response.stream)
