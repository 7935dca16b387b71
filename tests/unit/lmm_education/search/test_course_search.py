"""Sub-questions and reranking around a search; the Python interface."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.lmm_education.search.conftest import EMBEDDER, course, encoder_for, fill, id_of

from lmm.errors import ModelUnavailable
from lmm.messages import ChatEvent, ChatRequest, TextDelta
from lmm.testing import ScriptedModel
from lmm_education import Course, querydb
from lmm_education.errors import SearchError, StoreMissing
from lmm_education.options import SearchOptions
from lmm_education.search.search import REST, CourseSearch
from lmm_education.store.edge import EdgeStore
from lmm_education.web.words import notice_for, words_in


@pytest.fixture
def botany(tmp_path: Path) -> Iterator[Course]:
    """The small course, open."""
    store = EdgeStore(tmp_path / "store")
    fill(store, encoder_for("hybrid"), course())
    (tmp_path / "config.toml").write_text("")
    with Course.open(config=tmp_path / "config.toml", store=store, embedder=EMBEDDER, env={}) as opened:
        yield opened
    store.close()


def test_sub_questions_find_what_the_question_does_not_say(botany: Course) -> None:
    """They are looked up beside it, and told."""
    question = "What makes leaves green?"
    model = ScriptedModel(['{"texts": ["How are couples taxed?", "Where does water rise?"]}'])
    plain = [hit.id for hit in CourseSearch(botany).search(question).hits]
    result = CourseSearch(botany, chat=model).search(question, SearchOptions(expand=2))
    assert result.questions == ("How are couples taxed?", "Where does water rise?")
    found = [hit.id for hit in result.hits]
    assert found[0] == id_of("green")
    for name in ("joint", "xylem"):
        assert found.index(id_of(name)) < plain.index(id_of(name))


def test_sub_questions_keep_types_and_documents(botany: Course) -> None:
    """What the question's marks ask for holds for all of them."""
    model = ScriptedModel(['{"texts": ["How are couples taxed?"]}'])
    result = CourseSearch(botany, chat=model).search("chlorophyll @botany *exercise*", SearchOptions(expand=1))
    assert {hit.place.document for hit in result.hits} == {"botany"}
    assert result.hits[0].type == "exercise"
    assert model.seen[0].messages[0].text.partition("<question>\n")[2].startswith("chlorophyll\n")


def test_the_reranker_has_the_last_word(botany: Course) -> None:
    """On passages, and on the sections that they vote for."""
    options = SearchOptions(reranker="model", limit=2)
    before = [hit.id for hit in CourseSearch(botany).search("water", options.replace(reranker="none", limit=8)).hits]
    worst = before.index(id_of("joint")) + 1
    result = CourseSearch(botany, chat=ScriptedModel([json.dumps({"best_first": [worst]})])).search("water", options)
    assert [hit.id for hit in result.hits] == [id_of("joint"), before[0]]
    assert result.sections[0].place.headings == ("Tax",)
    assert result.reranker == "model"


def test_the_configured_reranker_is_used(botany: Course) -> None:
    """And left out for one question."""
    botany.settings = botany.settings.replace(search={"reranker": "model", "rerank_limit": 3})
    model = ScriptedModel(['{"best_first": [2]}'])
    CourseSearch(botany, chat=model).search("water")
    assert len(model.seen[0].messages[0].attachments) >= 3
    CourseSearch(botany, chat=model).search("water", SearchOptions(reranker="none"))
    assert len(model.seen) == 1


def test_a_model_that_does_not_answer_is_told(botany: Course) -> None:
    """Rather than the plain result given in its place."""
    model = ScriptedModel([ModelUnavailable("no"), ModelUnavailable("no")])
    for options in (SearchOptions(expand=2), SearchOptions(reranker="model")):
        with pytest.raises(ModelUnavailable):
            CourseSearch(botany, chat=model).search("water", options)
    with pytest.raises(SearchError, match=r"\[aux\]"):
        CourseSearch(botany).search("water", SearchOptions(expand=2))


ANSWER = SearchOptions(reworded=True)


@pytest.mark.parametrize("helper", [{"expand": 2}, {"reranker": "model"}])
def test_an_answer_goes_on_without_what_fails(botany: Course, helper: dict[str, Any]) -> None:
    """It says so, and nothing is lost of what the question itself finds."""
    model = ScriptedModel([ModelUnavailable("the server is down")] * 2)
    found = CourseSearch(botany, chat=model).search("water", ANSWER.replace(**{"expand": 0} | helper))
    assert found.hits[:3] == CourseSearch(botany).search("water").hits[:3]
    assert [notice.partition(": ")[2] for notice in found.notices] == ["the server is down"]
    assert found.reranker == "none"


def test_what_helps_to_find_is_counted(botany: Course) -> None:
    """As usage of the search, once."""
    model = ScriptedModel(['{"texts": ["tax of a couple"]}'])
    searching = CourseSearch(botany, chat=model)
    used = [searching.search("What do spouses owe the state?", ANSWER).usage.requests for _ in range(2)]
    assert used == [1, 0]


class Silent(ScriptedModel):
    """Says nothing, for longer than anybody waits."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Never ends."""
        self.seen.append(request)
        await asyncio.Event().wait()
        yield TextDelta("")


def test_a_question_in_other_words_is_asked_again_in_those_of_the_course(botany: Course) -> None:
    """For an answer, once for each question; the model sees the headings."""
    model = ScriptedModel(['{"texts": ["tax of a couple computed jointly"]}'])
    searching, question = CourseSearch(botany, chat=model), "What do spouses owe the state?"
    found = [searching.search(question, ANSWER) for _ in range(2)]
    assert found[0].hits[0].id == id_of("joint")
    assert found[0] == found[1]
    assert found[0].questions == ("tax of a couple computed jointly",)
    assert "Botany\n  Leaves\n" in model.seen[0].messages[0].text
    searching.search("How is the tax of a couple computed?", ANSWER)  # in the course's words
    searching.search(question)
    searching.search(question, ANSWER.replace(expand=0))
    assert len(model.seen) == 1


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (ScriptedModel([ModelUnavailable("it is down")] * 2), ": it is down"),
        (Silent([]), f": {Silent([]).name} took more than 0.3 s"),
        (ScriptedModel(['{"texts": [[1]]}'] * 2), ""),
    ],
)
def test_without_other_words_the_question_is_looked_up(
    botany: Course, model: ScriptedModel, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that fails or is slow makes no answer fail; the first one says why, and the next does not wait for it."""
    monkeypatch.setattr("lmm_education.search.search.PATIENCE", 0.3)
    question = "What do spouses owe the state?"
    first, second = (CourseSearch(botany, chat=model).search(question, ANSWER) for _ in range(2))
    assert second == CourseSearch(botany).search(question) == replace(first, notices=first.notices[:-1])
    assert first.notices[-1] == f"searched with your words only (the model could not rephrase the question{why})"
    shown = notice_for(first.notices[-1], words_in("de")["page"])
    assert shown == "Die Suche war einfacher als sonst, weil ein Schritt nicht möglich war."  # students see no reason
    assert len(model.seen) == 1
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + REST)
    monkeypatch.setattr("lmm_education.search.search.time", later)
    assert CourseSearch(botany, chat=model).search(question, ANSWER) == second
    assert len(model.seen) == 2


def test_who_interrupts_while_other_words_are_written_gets_no_answer(botany: Course) -> None:
    """Ctrl-C is not taken for a model that is too slow."""

    async def interrupted() -> None:
        model = Silent([])
        task = asyncio.create_task(CourseSearch(botany, chat=model).asearch("What do spouses owe the state?", ANSWER))
        while not model.seen:
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())


def test_a_reranker_is_asked_although_other_words_came_too_late(
    botany: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked of one client."""
    monkeypatch.setattr("lmm_education.search.search.PATIENCE", 0.3)

    class LateThenRanks(ScriptedModel):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
            if not self.seen:
                self.seen.append(request)
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    model = LateThenRanks(['{"best_first": [2, 1]}'])
    found = CourseSearch(botany, chat=model).search("What do spouses owe the state?", ANSWER.replace(reranker="model"))
    assert found.reranker == "model"


def test_nothing_is_asked_about_a_list(botany: Course) -> None:
    """Marks alone are no question."""
    result = CourseSearch(botany, chat=ScriptedModel([])).search(
        "*exercise*", SearchOptions(expand=2, reranker="model")
    )
    assert [hit.id for hit in result.hits] == [id_of("alcohol"), id_of("dig")]


def test_all_ways_to_ask_find_the_same(botany: Course) -> None:
    """Sync and async, in scripts and on a loop of one's own."""
    question, options = "What makes leaves green?", SearchOptions(limit=3)
    expected = CourseSearch(botany).search(question, options)
    assert botany.search(question, limit=3) == expected

    async def several() -> list[object]:
        return list(await asyncio.gather(*(botany.asearch(question, limit=3) for _ in range(5))))

    assert asyncio.run(several()) == [expected] * 5


def test_options_of_a_search(botany: Course) -> None:
    """Single values need no list."""
    result = botany.search("leaves", where={"topic": "colour", "week": [3, 4]}, fields=["topic"])
    assert [hit.payload for hit in result.hits] == [{"topic": "colour"}]
    assert botany.search("count hairs", types=["exercise"], documents=["botany"]).hits[0].id == id_of("dig")
    assert botany.search("water", companion=True, limit=1).hits[0].what == "section"


def test_results_are_json(botany: Course) -> None:
    """What programs read; nothing but plain values."""
    import json

    found = botany.search("What makes leaves green? *exercise*", fields=["topic"]).as_json()
    assert json.loads(json.dumps(found)) == found
    assert found["types"] == ["exercise"]
    assert set(found["hits"][0]) >= {"id", "score", "file", "lines", "headings", "text", "fields", "type"}


def test_querydb_finds_its_course_by_the_configuration(tmp_path: Path) -> None:
    """And says how to make one."""
    config = tmp_path / "config.toml"
    config.write_text('[storage]\nfolder = "here"\n')
    with pytest.raises(StoreMissing, match="lmm ingest"):
        querydb("anything", config=config)
