"""Pieces of a reply that come close together are one piece; the first one is shown at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from lmm.messages import ChatEvent, Reply, TextDelta
from lmm.models import adapter


async def _said(*pieces: str) -> AsyncGenerator[ChatEvent]:
    for piece in pieces:
        yield TextDelta(piece)
        await asyncio.sleep(0.001)
    yield Reply("".join(pieces), "a model")


def test_pieces_are_joined_and_none_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first comes at once; those of the next moment together; what follows a rest at once again."""
    monkeypatch.setattr(adapter, "PAUSE", 0.1)

    async def all_of_it() -> list[ChatEvent]:
        async def slow() -> AsyncGenerator[ChatEvent]:
            async for event in _said("Leaf ", "is ", "green. "):
                if not isinstance(event, Reply):
                    yield event
            await asyncio.sleep(0.3)
            async for event in _said("It falls.", " Soon."):
                yield event

        return [event async for event in adapter.gathered(slow())]

    *texts, reply = asyncio.run(all_of_it())
    assert isinstance(reply, Reply)
    joined = [event.text for event in texts if isinstance(event, TextDelta)]
    assert joined[0] == "Leaf "
    assert "".join(joined) == "Leaf is green. It falls. Soon."
    assert len(joined) < 5
