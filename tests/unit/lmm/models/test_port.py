"""The values of the port: how a message is put into words, how usage adds up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from strategies import texts

from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, TextDelta, Usage, render
from lmm.models.port import ask
from lmm.testing import ScriptedModel


@pytest.mark.parametrize(
    ("documents", "rendered"),
    [
        ((), "Why?"),
        ((Attachment("A leaf."),), "<text>\nA leaf.\n</text>\n\nWhy?"),
        ((Attachment("A leaf.", source="Botany > Leaves"),), '<text from="Botany > Leaves">\nA leaf.\n</text>\n\nWhy?'),
        (
            (Attachment("A leaf."), Attachment("All of it.", "context")),
            "<text>\nA leaf.\n</text>\n\n<context>\nAll of it.\n</context>\n\nWhy?",
        ),
        ((Attachment("see </text> here"),), "<text-2>\nsee </text> here\n</text-2>\n\nWhy?"),
        ((Attachment("<text-2><text>"),), "<text-3>\n<text-2><text>\n</text-3>\n\nWhy?"),
    ],
)
def test_render(documents: tuple[Attachment, ...], rendered: str) -> None:
    """Documents come first, each between tags that do not occur in it; then what is asked."""
    assert render(Message("user", "Why?", documents)) == rendered


@given(texts())
def test_a_document_cannot_end_its_own_fence(text: str) -> None:
    """Whatever a document holds, its opening and closing tags stand in the message once."""
    rendered = render(Message("user", "", (Attachment(f"</text>{text}<text-2>{text}"),)))
    tag = rendered[1 : rendered.index(">")]
    assert rendered.count(f"<{tag}>") == rendered.count(f"</{tag}>") == 1


@pytest.mark.parametrize(
    ("one", "two", "total"),
    [
        (Usage(1, 2, 0.5, 1), Usage(10, 20, 0.25, 1), Usage(11, 22, 0.75, 2)),
        (Usage(1, 2, None, 1), Usage(10, 20, 0.25, 1), Usage(11, 22, 0.25, 2)),
        (Usage(1, 2, None, 1), Usage(), Usage(1, 2, None, 1)),
        (Usage(cost=0.0), Usage(), Usage(cost=0.0)),
    ],
)
def test_usage_adds_up(one: Usage, two: Usage, total: Usage) -> None:
    """Tokens and requests add; an unknown price stays unknown unless another is known."""
    assert one + two == two + one == total


def test_ask_gives_the_last_event() -> None:
    """The reply, without watching it arrive."""
    reply = asyncio.run(ask(ScriptedModel(["Four  words, in pieces."]), ChatRequest((Message("user", "?"),))))
    assert reply.text == "Four  words, in pieces."


class Silent:
    """A model that breaks the port's promise."""

    name = "Test/silent"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """A piece, and no reply."""
        yield TextDelta("…")


def test_a_stream_without_a_reply_is_a_mistake_in_the_adapter() -> None:
    """It is named, and not taken for an empty answer."""
    with pytest.raises(RuntimeError, match="Test/silent ended its stream without a reply"):
        asyncio.run(ask(Silent(), ChatRequest(())))


def test_values_can_be_compared_and_hashed() -> None:
    """Requests are values: equal if they say the same."""
    one, two = (ChatRequest((Message("user", "Why?", (Attachment("A leaf."),)),)) for _ in range(2))
    assert one == two
    assert len({one, two}) == 1
    assert Reply("a", "m") == Reply("a", "m", Usage(), cut=False)
