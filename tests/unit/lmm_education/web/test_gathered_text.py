"""Pieces of an answer are gathered, but for what readers wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from lmm.messages import ChatEvent, ChatRequest, Message, TextDelta
from lmm.testing import ScriptedModel
from lmm_education.web.service import GatheredText


class Slow(ScriptedModel):
    """Says one piece after the other, and then nothing for as long as nobody stops it."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        for piece in ("Leaf ", "is green.", "\n\n", "It falls.", "\n\n"):
            yield TextDelta(piece)
            await asyncio.sleep(0.01)
        await asyncio.Event().wait()


def test_the_first_piece_and_the_first_block_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmm_education.web.service.PAUSE", 1000.0)

    async def first() -> list[str]:
        found = list[str]()
        events = GatheredText(Slow([])).stream(ChatRequest((Message("user", "Why?"),)))
        try:
            async with asyncio.timeout(0.5):
                async for event in events:
                    assert isinstance(event, TextDelta)
                    found.append(event.text)
        except TimeoutError:
            return found
        return found

    assert asyncio.run(first()) == ["Leaf ", "is green.\n\n"]
