"""Pieces of a reply that come close together are one piece; the first one is shown at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from lmm.models import adapter


def test_pieces_are_joined_and_none_waits_for_another() -> None:
    """A hundred within a fifth of a second, then nothing: all of them are shown before the next one comes."""

    async def shown() -> list[str]:
        connection, found = asyncio.Queue[str](), list[str]()

        async def send() -> None:
            for number in range(100):
                connection.put_nowait(f"{number} ")
                await asyncio.sleep(0.002)
            await asyncio.sleep(3 * adapter.PAUSE)
            found.append("|")
            connection.put_nowait("end")

        async def read() -> AsyncGenerator[str]:
            while (text := await connection.get()) != "end":
                yield text

        sending = asyncio.create_task(send())
        async for batch in adapter.batches(read()):
            found.append("".join(batch))
        await sending
        return found

    pieces = asyncio.run(shown())
    assert pieces[0] == "0 "
    assert "".join(pieces[: pieces.index("|")]) == "".join(f"{number} " for number in range(100))
    assert len(pieces) < 50


def test_nothing_is_read_while_nobody_asks() -> None:
    """What a model sends meanwhile stays in the connection, where it costs nothing, and comes in one list."""

    async def lengths() -> list[int]:
        async def read() -> AsyncGenerator[int]:
            for number in range(200):
                was_read.append(number)
                yield number
                await asyncio.sleep(0.001)

        was_read, found = list[int](), list[int]()
        async for _ in adapter.batches(read()):
            found += [len(was_read)] * (len(found) < 2)
            await asyncio.sleep(2 * adapter.PAUSE)
            found += [len(was_read)] * (len(found) < 2)
        assert len(was_read) == 200
        return found

    begun, later = asyncio.run(lengths())
    assert begun == 1
    assert later < 150
