"""Nothing is shown before question and beginning are judged; what cannot be judged is as the author chose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from lmm.errors import ModelError, ModelUnavailable
from lmm.messages import Retrying, TextDelta, Usage
from lmm.prompts.templates import load_prompts
from lmm.testing import ScriptedModel
from lmm_education.answer.answer import Answer, AnswerEvent, Found
from lmm_education.answer.history import Exchange
from lmm_education.prompts.templates import SLOTS
from lmm_education.web.guard import BEGINNING, ModerationStream, TopicCheck

PROMPTS = load_prompts(package="lmm_education.prompts", slots=SLOTS)
LONG = ["x" * 100] * 10


async def answer(pieces: Sequence[str], pulled: list[str] | None = None) -> AsyncGenerator[AnswerEvent]:
    """An answer in pieces; `pulled` notes how far it was read."""
    yield Found("q", ())
    for piece in pieces:
        await asyncio.sleep(0)
        if pulled is not None:
            pulled.append(piece)
        yield TextDelta(piece)
    yield Answer("q", "".join(pieces), usage=Usage(10, 10, requests=1))


def check(*replies: str | Exception, strict: bool = True) -> tuple[TopicCheck, ScriptedModel]:
    """A check whose model says this."""
    said = {"yes": '{"allowed": true}', "no": '{"allowed": false}'}
    model = ScriptedModel([said.get(reply, reply) if isinstance(reply, str) else reply for reply in replies])
    return TopicCheck("botany", "Only botany.", strict, model, PROMPTS), model


def run(topic: TopicCheck, events: AsyncGenerator[AnswerEvent], history: Sequence[Exchange] = ()) -> list[AnswerEvent]:
    """All that is let through."""

    async def collect() -> list[AnswerEvent]:
        moderation, through = ModerationStream(topic, "q", history), list[AnswerEvent]()
        async with aclosing(events):
            async for event in events:
                through += await moderation.checked(event)
                if moderation.refused:
                    break
        await moderation.close()
        return through

    return asyncio.run(collect())


def test_a_good_answer_comes_as_it_is() -> None:
    """Held back to its beginning, then in pieces; what the checks used is counted."""
    topic, model = check("yes", "yes")
    found, first, *rest, last = run(topic, answer(LONG), [Exchange("Before?", "So.")])
    assert isinstance(found, Found)
    assert isinstance(first, TextDelta)
    assert len(first.text) == BEGINNING
    assert [event.text for event in rest if isinstance(event, TextDelta)] == LONG[4:]
    assert isinstance(last, Answer)
    assert last.usage.requests == 3
    asked, begun = (request.messages[-1] for request in model.seen)
    assert "botany" in asked.text
    assert [(document.label, document.text) for document in begun.attachments] == [
        ("question", "q"),
        ("answer", first.text),
    ]
    assert "Before?" in asked.attachments[0].text


@pytest.mark.parametrize("pieces", [["Short."], LONG])
@pytest.mark.parametrize("verdicts", [("no",), ("yes", "no")])
def test_what_is_off_topic_is_never_shown(pieces: list[str], verdicts: tuple[str, ...]) -> None:
    """Neither for the question nor for the answer; and the model is stopped early."""
    pulled: list[str] = []
    events = run(check(*verdicts)[0], answer(pieces, pulled))
    assert not [event for event in events if isinstance(event, TextDelta)]
    last = events[-1]
    assert isinstance(last, Answer)
    assert (last.text, last.refused, last.found) == ("Only botany.", True, False)
    assert last.usage.requests == len(verdicts)
    assert len(pulled) <= 4


@pytest.mark.parametrize("failure", [ModelUnavailable("down"), "Maybe."])
def test_what_cannot_be_judged(failure: str | Exception) -> None:
    """Is refused with the error, or answered, as the author chose."""
    with pytest.raises(ModelError):
        run(check(failure, failure)[0], answer(LONG))
    with pytest.raises(ModelError):
        run(check("yes", failure, failure)[0], answer(LONG))
    shown = run(check(*[failure] * 4, strict=False)[0], answer(LONG))
    assert "".join(event.text for event in shown if isinstance(event, TextDelta)) == "".join(LONG)


def test_a_text_that_begins_again_is_judged_again() -> None:
    """A model that was interrupted may say something else."""

    async def interrupted() -> AsyncGenerator[AnswerEvent]:
        yield TextDelta("x" * 500)
        yield Retrying("broken", 0)
        yield TextDelta("y" * 500)
        yield Answer("q", "y" * 500)

    events = run(check("yes", "yes", "no")[0], interrupted())
    assert isinstance(events[0], TextDelta)
    assert isinstance(events[1], Retrying)
    assert isinstance(events[-1], Answer)
    assert events[-1].refused
    assert not [event for event in events if isinstance(event, TextDelta) and "y" in event.text]


def test_our_own_words_need_no_check() -> None:
    """That nothing was found; nor is anything left running."""

    async def nothing() -> AsyncGenerator[AnswerEvent]:
        yield Answer("q", "Nothing.", found=False)

    (event,) = run(check("no")[0], nothing())
    assert isinstance(event, Answer)
    assert not event.refused
