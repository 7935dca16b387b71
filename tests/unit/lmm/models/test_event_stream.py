"""A stream that is handed on in fewer pieces: the same bytes, the same errors, and nothing left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lmm.errors import ModelUnavailable
from lmm.models.event_stream import EventStream


class Source:
    """Pieces, one at a time; `held` is waited for after the first."""

    def __init__(self, *pieces: bytes | Exception, held: asyncio.Event | None = None) -> None:
        self.pieces, self.held, self.closed, self.cancelled = pieces, held, False, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for number, piece in enumerate(self.pieces):
                if number and self.held:
                    await self.held.wait()
                await asyncio.sleep(0)
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def aclose(self) -> None:
        self.closed = True


def stream_of(source: Source) -> EventStream:
    """What a client reads of it."""
    return EventStream(source, "Test/model", lambda: None)


async def read(stream: EventStream) -> list[bytes]:
    """All pieces; the stream is closed afterwards, as clients do."""
    try:
        return [piece async for piece in stream]
    finally:
        await stream.aclose()


def test_all_bytes_come_through() -> None:
    """In their order, the first piece by itself, the others together."""
    source = Source(b"a", *[b"b"] * 50, b"[DO", b"NE]")
    pieces = asyncio.run(read(stream_of(source)))
    assert b"".join(pieces) == b"a" + b"b" * 50 + b"[DONE]"
    assert len(pieces) <= 3
    assert source.closed


def test_an_end_without_a_mark_of_it_is_an_error() -> None:
    """After all that came."""
    with pytest.raises(ModelUnavailable, match="Test/model broke off"):
        asyncio.run(read(stream_of(Source(b"a", b"b"))))


def test_an_error_comes_after_what_came_before_it() -> None:
    """As it was raised."""

    pieces: list[bytes] = []

    async def run() -> None:
        stream = stream_of(Source(b"a", b"b", ConnectionError("broken")))
        try:
            async for piece in stream:
                pieces.append(piece)
        finally:
            await stream.aclose()

    with pytest.raises(ConnectionError, match="broken"):
        asyncio.run(run())
    assert b"".join(pieces) == b"ab"


def test_the_first_piece_does_not_wait_for_the_second() -> None:
    """And whoever stops reading stops the reading."""

    async def run() -> Source:
        source = Source(b"a", b"b", held=asyncio.Event())
        stream = stream_of(source)
        async for piece in stream:
            assert piece == b"a"
            break
        await stream.aclose()
        assert len(asyncio.all_tasks()) == 1
        return source

    source = asyncio.run(run())
    assert source.closed
    assert source.cancelled


def test_who_stops_in_the_middle_may_go_on() -> None:
    """As openai's client does after the last event, to read what follows it before the connection is used again."""

    async def run() -> list[bytes]:
        stream = stream_of(Source(b"a", b"b", b'"finish_reason": "stop"'))
        first = await anext(aiter(stream))
        return [first, *[piece async for piece in stream]]

    assert b"".join(asyncio.run(asyncio.wait_for(run(), 1))) == b'ab"finish_reason": "stop"'
