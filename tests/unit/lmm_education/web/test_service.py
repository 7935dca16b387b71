"""Answers across event loops: whoever stops reading stops the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from unit.lmm_education.search.conftest import EMBEDDER, course, encoder_for, fill

from lmm.errors import ConfigError, ModelUnavailable
from lmm.messages import ChatEvent, ChatRequest, TextDelta
from lmm.models.port import ChatModel
from lmm.models.testing import ScriptedModel
from lmm_education import Course
from lmm_education.answer.answers import Answer
from lmm_education.answer.run import open_answering
from lmm_education.settings import ServeSettings
from lmm_education.store.edge import EdgeStore
from lmm_education.web.contents import Contents
from lmm_education.web.service import Service
from lmm_education.web.texts import TEXTS, texts_for

QUESTION = "What makes leaves green?"


class Endless:
    """A model that says one word and then nothing, until it is stopped."""

    name = "test/endless"

    def __init__(self) -> None:
        self.stopped = threading.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        try:
            yield TextDelta("Chlorophyll ")
            await asyncio.sleep(600)
        finally:
            self.stopped.set()


@pytest.fixture
def botany(tmp_path: Path) -> Iterator[Course]:
    """The small course, open."""
    store = EdgeStore(tmp_path / "store")
    fill(store, encoder_for("hybrid"), course())
    (tmp_path / "config.toml").write_text("")
    with Course.open(config=tmp_path / "config.toml", store=store, embedder=EMBEDDER, env={}) as opened:
        yield opened
    store.close()


def service(course: Course, model: ChatModel) -> Service:
    """The course as it is served, with this model."""
    answering = open_answering(course, major=model)
    contents = Contents(answering.searching.searcher)
    return Service("botany", answering, contents, ServeSettings(), texts_for(ServeSettings()))


def test_whoever_stops_reading_stops_the_model(botany: Course) -> None:
    """Nobody pays for text that nobody reads."""
    model = Endless()

    async def read_a_word() -> None:
        events = service(botany, model).answer(QUESTION, ())
        async for event in events:
            if isinstance(event, TextDelta):
                break
        assert not model.stopped.is_set()
        await events.aclose()

    asyncio.run(read_a_word())
    assert model.stopped.wait(10)


def test_events_and_errors_come_through(botany: Course) -> None:
    """In order, and as they were raised."""

    async def last(model: ChatModel) -> object:
        return [event async for event in service(botany, model).answer(QUESTION, ())][-1]

    answer = asyncio.run(last(ScriptedModel(["Chlorophyll [1]."])))
    assert isinstance(answer, Answer)
    assert [source.number for source in answer.cited] == [1]
    with pytest.raises(ModelUnavailable):
        asyncio.run(last(ScriptedModel([ModelUnavailable("no")])))


def test_every_language_has_every_text() -> None:
    """And a course's own are checked."""
    assert {frozenset(texts) for texts in TEXTS.values()} == {frozenset(TEXTS["en"])}
    with pytest.raises(ConfigError, match="did you mean 'welcome'"):
        texts_for(ServeSettings(texts={"welcom": "Hi"}))
    assert texts_for(ServeSettings(failure="Later.", texts={"ask": "Go"}))["failure"] == "Later."
