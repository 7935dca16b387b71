"""Verifying an answer while it arrives reports what verifying its blocks reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from hypothesis import example, given, strategies as st

from lmm.messages import TextDelta
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent
from lmm_education.answer.blocks import verified
from lmm_education.answer.verification import verify
from lmm_education.material import Lines, Location, Passage

LEAF = Passage("1", Location("d", "a.md", Lines(1, 1)), "A leaf is green all year, said Ann.", number=1, language="en")
PIECES = st.sampled_from(
    ["“a leaf is ", "green” ", "blue all year”", "’s", "‘a leaf is blue’", '"it is not green"', "\n", "\n\n", "> ",
     "x ", "> it is not green\n", "```", "\n```\n", "`", "[1].", "[!NOTE]", "$"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(min_size=1, max_size=3), max_size=15))
@example(["‘a leaf is blue’", "s", " and more’ x"])
@example(["> it is not green\n", "> ", "x ", "\n", "\n", "x "])
def test_streaming_is_verifying(pieces: list[str]) -> None:
    """The blocks are the text, each follows its pieces, and each has the marks that it has by itself."""
    text = "".join(pieces)

    async def answered() -> AsyncGenerator[AnswerEvent]:
        for piece in pieces:
            yield TextDelta(piece)
        yield Answer("?", text, offered=(LEAF,))

    async def collect() -> list[AnswerEvent]:
        return [event async for event in verified(answered(), [LEAF], "")]

    events, arrived = asyncio.run(collect()), 0
    blocks = [event for event in events if isinstance(event, AnswerBlock)]
    assert "".join(block.text for block in blocks) == text
    for event in events:
        arrived += len(event.text) if isinstance(event, TextDelta) else 0
        arrived -= len(event.text) if isinstance(event, AnswerBlock) else 0
        assert arrived >= 0
    for block in blocks:
        assert list(block.failures) == [each for each in verify(block.text, [LEAF]).quotations if each.found != "exact"]


@given(st.lists(PIECES, max_size=15))
def test_what_fails_is_where_it_says(pieces: list[str]) -> None:
    text = "".join(pieces)
    for failure in verify(text, [LEAF]).failures:
        assert 0 <= failure.start < failure.end <= len(text)
