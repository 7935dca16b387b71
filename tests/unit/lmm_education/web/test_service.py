"""Answers across event loops: whoever stops reading stops the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from unit.lmm_education.search.conftest import EMBEDDER, course, encoder_for, fill

from lmm.errors import ModelUnavailable
from lmm.messages import ChatEvent, ChatRequest, TextDelta
from lmm.models.port import ChatModel
from lmm.testing import ScriptedModel
from lmm_education import Course
from lmm_education.answer.answer import Answer
from lmm_education.search.search import CourseSearch
from lmm_education.store.edge import EdgeStore, EdgeView
from lmm_education.web.questions import CACHED, Queue, ServedQuestion
from lmm_education.web.service import A_CLASS, Service

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
    course.major = model
    return Service(course)


def asked(served: Service) -> ServedQuestion:
    """The question of a student."""
    return ServedQuestion(QUESTION, "somebody", "page")


def test_whoever_stops_reading_stops_the_model(botany: Course) -> None:
    """Nobody pays for text that nobody reads."""
    model = Endless()

    async def read_a_word() -> None:
        served = service(botany, model)
        events = served.answer(asked(served), ())
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
        served = service(botany, model)
        return [event async for event in served.answer(asked(served), ())][-1]

    answer = asyncio.run(last(ScriptedModel(["Chlorophyll [1]."])))
    assert isinstance(answer, Answer)
    assert [source.number for source in answer.cited] == [1]
    with pytest.raises(ModelUnavailable):
        asyncio.run(last(ScriptedModel([ModelUnavailable("no")])))


class Gated(ScriptedModel):
    """Says a word, and the rest when it may."""

    def __init__(self, reply: str | Exception) -> None:
        super().__init__([reply])
        self.may = threading.Event()  # models have a loop of their own, in another thread

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        yield TextDelta("Chlorophyll")
        await asyncio.to_thread(self.may.wait)
        async for event in super().stream(request):
            yield event


def test_a_class_that_asks_the_same_at_once_asks_the_model_once(botany: Course) -> None:
    """All read it from its beginning; it goes on when the first goes away, and says to the others what it is."""

    async def ask() -> list[object]:
        model = Gated(" [1].")
        served = service(botany, model)
        streams = [served.answer(asked(served), ()) for _ in range(3)]
        for stream in streams:
            while not isinstance(await anext(stream), TextDelta):
                pass
        await streams[0].aclose()
        model.may.set()
        rest = await asyncio.gather(*(_all(stream) for stream in streams[1:]))
        assert len(model.seen) == 1
        return [events[-1] for events in rest]

    answers = asyncio.run(ask())
    assert [(each.text, each.notices, each.usage.requests) for each in answers if isinstance(each, Answer)] == [
        ("Chlorophyll [1].", (CACHED,), 0)
    ] * 2


def test_a_class_hears_that_its_answer_failed(botany: Course) -> None:
    """Everybody does."""

    async def ask() -> tuple[list[object], int]:
        model = Gated(ModelUnavailable("no"))
        served = service(botany, model)
        streams = [served.answer(asked(served), ()) for _ in range(3)]
        for stream in streams:
            while not isinstance(await anext(stream), TextDelta):
                pass
        model.may.set()
        told = await asyncio.gather(*map(_all, streams), return_exceptions=True)
        return list(told), len(model.seen)

    told, requests = asyncio.run(ask())
    assert [type(each) for each in told] == [ModelUnavailable] * 3
    assert requests == 1


async def _all(events: AsyncGenerator[object]) -> list[object]:
    return [event async for event in events]


def test_who_waits_hears_his_place() -> None:
    """In the order in which they asked; whoever goes away makes room."""
    queue = Queue(1)

    async def told() -> list[int]:
        with ExitStack() as one, ExitStack() as two, ExitStack() as three:
            first, second, third = (each.enter_context(queue.turn()) for each in (one, two, three))
            heard = [await queue.ahead(turn) for turn in (first, second, third)]
            two.close()
            heard.append(await queue.ahead(third, heard[-1]))
            one.close()
            return [*heard, await queue.ahead(third, heard[-1])]

    assert asyncio.run(told()) == [0, 1, 2, 1, 0]


def test_as_many_are_answered_at_once_as_the_model_bears(tmp_path: Path) -> None:
    """A class, unless the configuration says otherwise."""
    for text, expected in (("", A_CLASS), ("[major]\nconcurrency = 8\n", 8)):
        (tmp_path / "config.toml").write_text(text)
        with Course.open(config=tmp_path / "config.toml", embedder=EMBEDDER, env={}) as course:
            assert Service(course).gate.queue.size == expected


def test_the_first_of_a_class_is_answered_before_the_last_is_looked_up(
    botany: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side, the first words of all would come at the end."""
    happened, look_up = list[str](), CourseSearch.asearch_with

    async def looked_up(*arguments: Any) -> Any:
        happened.append("looked up")
        return await look_up(*arguments)

    class Noting(ScriptedModel):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
            happened.append("asked")
            served._beginning.release()
            async for event in super().stream(request):
                yield event

    async def ask() -> None:
        questions = [ServedQuestion(f"{QUESTION} {number}", "somebody", "page") for number in range(2)]
        await asyncio.gather(*(_all(served.answer(each, ())) for each in questions))

    monkeypatch.setattr(CourseSearch, "asearch_with", looked_up)
    monkeypatch.setattr("lmm_education.web.service._BEGINNERS", 1)
    monkeypatch.setattr("lmm_education.web.service._BEGINNING", 60.0)  # here the model says when
    served = service(botany, Noting(["Chlorophyll [1]."] * 2))
    asyncio.run(ask())
    assert happened == ["looked up", "asked"] * 2


def test_a_store_without_its_word_counts_is_not_well(botany: Course, tmp_path: Path) -> None:
    """Every question needs them, though the manifest can be read."""
    assert asyncio.run(service(botany, ScriptedModel([])).health()) == "ok"
    for file in (tmp_path / "store").rglob("frequencies.bin"):
        file.write_bytes(b"")
    assert asyncio.run(service(botany, ScriptedModel([])).health()) == "nothing to search"


def test_checks_of_health_read_the_word_counts_once(botany: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of a store has them in the records of all documents, and is asked every few seconds."""
    read = list[EdgeView]()
    frequencies = EdgeView.frequencies

    def counted(view: EdgeView) -> Any:
        read.append(view)
        return frequencies(view)

    monkeypatch.setattr(EdgeView, "frequencies", counted)
    served = service(botany, ScriptedModel([]))
    assert [asyncio.run(served.health()) for _ in range(3)] == ["ok"] * 3
    assert len(read) == 1
