"""The models that ship for tests."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from strategies import texts

import lmm
from chatmd import Chat
from lmm.errors import ModelBusy
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, TextDelta
from lmm.models.budget import BudgetedModel, SharedBudget
from lmm.models.port import ask
from lmm.testing import HashEmbedder, ScriptedModel


def _request(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text, (Attachment("A leaf."),)),))


@given(texts())
def test_pieces_make_up_the_reply(text: str) -> None:
    """What streams is what the reply says, character for character."""

    async def collect() -> list[ChatEvent]:
        return [event async for event in ScriptedModel([text]).stream(_request("?"))]

    *pieces, reply = asyncio.run(collect())
    assert isinstance(reply, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text == text


def test_a_script_is_played_in_turn() -> None:
    """Replies and errors in order; what was asked is remembered; usage counts words; then the script is over."""
    model = ScriptedModel(["One.", ModelBusy("busy"), "Three words here."], name="Test/x")
    first = asyncio.run(ask(model, _request("a")))
    assert (first.text, first.model, first.usage.requests) == ("One.", "Test/x", 1)
    with pytest.raises(ModelBusy, match="busy"):
        asyncio.run(ask(model, _request("b")))
    assert asyncio.run(ask(model, _request("c"))).usage.output_tokens == 3
    with pytest.raises(AssertionError, match="the script has no reply number 4"):
        asyncio.run(ask(model, _request("d")))
    assert [request.messages[0].text for request in model.seen] == ["a", "b", "c", "d"]


@given(texts())
def test_hash_vectors_are_units(text: str) -> None:
    """Every vector has the length 1, or 0 for a text without words; the same text has the same vector."""
    embedder = HashEmbedder(16)
    one, two = embedder.embed([text, text], kind="document")
    assert one == two == embedder.embed([text], kind="query")[0]
    assert len(one) == embedder.dimensions == 16
    assert math.isclose(sum(x * x for x in one), 1.0) or not any(one)


def test_equal_words_are_near() -> None:
    """Order and case do not matter; other words are another place; the name says the dimensions."""
    embedder = HashEmbedder(256)
    fox, same, law = embedder.embed(["the red fox", "Fox, the RED", "tax law applies"], kind="document")
    assert fox == same
    assert sum(a * b for a, b in zip(fox, law, strict=True)) < 0.5
    assert embedder.name == "Testing/hash-256"
    assert embedder.embed([], kind="query") == []


def test_no_script_is_answered_from_that_of_another_test() -> None:
    """The journal knows models by their names, and all scripts have one; what it answered would be another test's."""
    for say in (lmm.ask, lmm.edit):
        assert [say("A leaf.", "Why?", model=ScriptedModel([word])) for word in ("One.", "Two.")] == ["One.", "Two."]
    turns = f"<user>Why?</user>\n<assistant>{'leaf ' * 200}</assistant>\n" * 3 + "<user>Go on.</user>\n"
    budget = SharedBudget.of("9000")
    for word in ("One.", "Two."):
        chat = Chat.from_text(turns)
        chat.compact(keep=1, model=BudgetedModel(ScriptedModel([f"## Goal\n{word}"]), budget))
        assert word in chat.text
