"""The noun: what is opened when, and a round trip of every verb, with models that need no network."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import lmm_education
from lmm.errors import ConfigError, FileReadError, LmmError
from lmm.messages import TextDelta
from lmm.testing import HashEmbedder, ScriptedModel
from lmm_education import Answer, Course, IngestReport
from lmm_education.errors import SearchError, StoreError, StoreMissing
from lmm_education.study import save_cards

LEAVES = """---
title: Leaves
---

# Colour

---
questions: [Why are leaves green?]
---
Chlorophyll makes leaves green. @figure

---
type: exercise
---
Why do leaves turn red?
"""
ROOTS = "# Roots\n\nRoot hairs take up water.\n"
CONFIG = "[RAG]\npool = false\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A course of two documents."""
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "leaves.md").write_text(LEAVES, encoding="utf-8")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "roots.md").write_text(ROOTS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def course(folder: Path) -> Iterator[Course]:
    """It, ingested."""
    with Course.open(folder, embedder=HashEmbedder(16), model=ScriptedModel(["Chlorophyll [1]."] * 4)) as opened:
        assert opened.ingest().failed == []
        yield opened


def test_results_in_a_notebook(course: Course) -> None:
    """A result is the list of its hits; documents, exercises and places are one short line each."""
    found = course.search("leaves")
    assert (len(found), list(found)) == (len(found.hits), list(found.hits))
    assert repr(course.exercises()[0]) == "Exercise('1', 'leaves.md:15', 'Why do leaves turn red?')"
    assert repr(course.documents()[0]).startswith("StoredDocument('leaves.md', 'Leaves', ")
    assert repr(found.hits[0].place).startswith("Location('leaves.md:")


# -- opening ---------------------------------------------------------------------------------------


def test_a_course_is_shown_without_the_environment(folder: Path) -> None:
    """A notebook stores what a cell shows."""
    course = Course.open(folder, env={"OPENAI_API_KEY": "sk-secret"})
    assert repr(course) == f"Course({str(folder)!r})"


def test_opening_reads_the_configuration_and_makes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    with Course.open(folder) as course:
        assert course.root == folder
        assert sorted(folder.rglob("*")) == before


def test_a_folder_in_a_course_is_of_the_course(folder: Path) -> None:
    assert Course.open(folder / "notes").root == folder


def test_a_folder_without_configuration_is_a_course_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever one stands: its store lies in it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "roots.md").write_text(ROOTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Course.open("../plain", embedder=HashEmbedder(8)) as course:
        assert course.ingest().count("new") == 1
        assert [each.file for each in course.documents()] == ["roots.md"]
    assert (tmp_path / "plain" / ".lmm").is_dir()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileReadError, match="no such folder"):
        Course.open(tmp_path / "none")
    (tmp_path / "config.toml").write_text("[search]\nlimits = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="limits"):
        Course.open(tmp_path)


def test_a_course_that_was_closed_opens_again(course: Course) -> None:
    first = course.search("green leaves").hits
    course.close()
    assert course.search("green leaves").hits == first


def test_threads_that_come_at_once_share_what_is_opened(folder: Path) -> None:
    with Course.open(folder, embedder=HashEmbedder(8)) as course:
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append(course.store)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


# -- verbs -----------------------------------------------------------------------------------------


def test_ingest_sees_what_changed(course: Course, folder: Path) -> None:
    assert course.ingest().count("unchanged") == 2
    (folder / "notes" / "roots.md").unlink()
    report = course.ingest(prune=True)
    assert [lost.file for lost in report.lost] == ["notes/roots.md"]
    assert [each.file for each in course.documents()] == ["leaves.md"]


def test_prepare_and_points(course: Course, folder: Path) -> None:
    (document,) = course.prepare(folder / "leaves.md")
    points = list(course.points([document]))
    assert {point["id"] for point in points} == {chunk.id for chunk in document.chunks}
    json.dumps(points)


def test_watch_ingests_what_is_saved(course: Course, folder: Path) -> None:
    stop, seen = threading.Event(), list[object]()

    def told(result: IngestReport | LmmError) -> None:
        seen.append(result)
        if len(seen) == 1:
            (folder / "stems.md").write_text("# Stems\n\nStems carry water.\n", encoding="utf-8")
        else:
            stop.set()

    timer = threading.Timer(30, stop.set)
    timer.start()
    course.watch(folder, quiet=0.1, stop=stop, on_result=told)
    timer.cancel()
    assert "stems.md" in [each.file for each in course.documents()]


def test_search_and_fetch(course: Course) -> None:
    result = course.search("why leaves are green", limit=1)
    (hit,) = result.hits
    assert (hit.place.file, hit.place.headings) == ("leaves.md", ("Colour",))
    assert [each.text for each in course.fetch(hit.id).hits] == [hit.text]
    assert [each.type for each in course.search(types=["exercise"]).hits] == ["exercise"]
    assert course.search(documents=["roots"]).hits[0].place.file == "notes/roots.md"


def test_ask_with_history_and_model_of_ones_own(course: Course) -> None:
    seen: list[object] = []
    answer = course.ask("Why are leaves green?", listener=seen.append)
    assert (answer.text, answer.cited[0].place.file) == ("Chlorophyll [1].", "leaves.md")
    assert seen[-1] == answer
    again = course.ask("And why?", history=[answer, ("a", "b")], mode="none", model=ScriptedModel(["Because [1]."]))
    assert again.text == "Because [1]."
    with pytest.raises(TypeError, match="did you mean 'budget'"):
        course.ask("Why?", budgte="1")


def test_ask_where_the_reader_is(course: Course) -> None:
    """As the page and the API do; what is no place of the course is an error."""
    answer = course.ask("What is on this page?", here="roots.md#roots")
    assert answer.offered[0].place.file == "notes/roots.md"
    with pytest.raises(SearchError, match=r"'flowers\.md' is not a page"):
        course.ask("What is on this page?", here="flowers.md")


def test_sources_are_listed_by_their_numbers(folder: Path) -> None:
    """Whatever the order in which the text cites them."""
    with Course.open(folder, embedder=HashEmbedder(16), model=ScriptedModel(["Roots [2], leaves [1]."] * 2)) as course:
        course.ingest()
        assert [source.number for source in course.ask("roots of green leaves").cited] == [1, 2]


def test_results_are_short_in_a_notebook(course: Course, tmp_path: Path) -> None:
    """A cell shows a line of an answer and of a measurement; what is in them, their fields and methods tell."""
    assert repr(course.ask("Why are leaves green?")) == "Answer('Chlorophyll [1].', cites leaves.md:5-15)"
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "green?", "document": "leaves.md"}\n')
    assert repr(course.status()).startswith("StoreStatus(2 documents, 2 sections, 3 chunks; ")
    assert repr(course.toc()[0]).startswith("Entry(")
    assert repr(course.evaluate(questions)) == "Evaluation(1 question, recall@5 100% by document)"
    measured = "answered 100%, grounded 100%, precision 100%, recall 100%"
    assert repr(course.evaluate_answers(questions)[0]) == f"AnswerEvaluation(1 question, {measured})"


def test_a_stream_ends_in_the_answer(course: Course) -> None:
    async def told() -> list[object]:
        return [event async for event in course.stream("Why are leaves green?")]

    *events, answer = asyncio.run(told())
    assert isinstance(answer, Answer)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer.text


def test_an_error_in_a_stream_reaches_its_caller(folder: Path) -> None:
    async def told() -> list[object]:
        return [event async for event in Course.open(folder, embedder=HashEmbedder(8)).stream("Why?")]

    with pytest.raises(StoreMissing):
        asyncio.run(told())


def test_twins_work_on_a_loop_of_ones_own(course: Course) -> None:
    async def all_of_them() -> tuple[object, ...]:
        hits = (await course.asearch("green leaves")).hits
        fetched = (await course.afetch(hits[0].id)).hits
        answers = await asyncio.gather(*(course.aask("Why green?") for _ in range(3)))
        return len((await course.aingest()).documents), fetched[0].text == hits[0].text, {a.text for a in answers}

    assert asyncio.run(all_of_them()) == (2, True, {"Chlorophyll [1]."})


@pytest.mark.parametrize("stored", [False, True])
def test_study_material(course: Course, folder: Path, tmp_path: Path, stored: bool) -> None:
    """From files, and from the store."""
    paths = () if stored else (folder / "leaves.md", folder / "notes")
    assert [entry.title for entry in course.toc(*paths, depth=1)] == ["Leaves", "Colour", "Roots", "Roots"]
    assert [step.title for step in course.plan(*paths).steps][:1] == ["Colour"]
    cards = course.cards(*paths).cards
    assert [card.question for card in cards] == ["Why are leaves green?"]
    save_cards(tmp_path / "cards.csv", cards)
    assert [each.text for each in course.exercises(*paths)] == ["Why do leaves turn red?"]
    assert len(course.exercises(*paths, types=["text"])) == 2


def test_cards_by_a_model(course: Course, folder: Path) -> None:
    (folder / "long.md").write_text("# Long\n\n" + "Leaves are green because of chlorophyll. " * 12, encoding="utf-8")
    model = ScriptedModel(['{"cards": [{"question": "What is green?", "answer": "Leaves."}]}'])
    report = course.cards(folder / "long.md", model=model, write=True)
    assert [card.question for card in report.cards] == ["What is green?"]
    assert report.changed == [folder / "long.md"]


def test_notes_and_export(course: Course, folder: Path, tmp_path: Path) -> None:
    assert "exercise" not in course.notes(folder / "leaves.md").text
    assert "turn red" in course.notes(folder / "leaves.md", keep=["exercise"]).text
    report = course.export(folder / "notes", tmp_path / "out")
    assert [each.target.name for each in report.documents] == ["roots.md"]


def test_measures(course: Course, folder: Path) -> None:
    rows = [{"question": "Why are leaves green?", "document": "leaves.md"}]
    rows += [{"question": "What takes up water?", "document": "notes/roots.md"}]
    questions = folder / "questions.jsonl"
    questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = course.evaluate(questions)
    assert found.estimate("document", "recall@10").mean == 1.0
    assert asyncio.run(course.aevaluate([o.question for o in found.outcomes])).chunks == found.chunks
    assert course.evaluate(questions, documents=[folder / "leaves.md", folder / "notes"]).chunks == found.chunks
    assert [each.label for each in course.compare(questions, "prefetch=10,20")] == ["prefetch=10", "prefetch=20"]
    with pytest.raises(LmmError, match="question"):
        course.calibrate(questions)
    questions.write_text('{"document": "leaves.md"}\n', encoding="utf-8")
    with pytest.raises(LmmError, match="cannot be used"):
        course.evaluate(questions)


def test_tools(course: Course) -> None:
    tools = {tool.definition.name: tool for tool in course.tools()}
    assert sorted(tools) == ["contents", "mentions", "open_section", "search"]
    assert "leaves.md" in asyncio.run(tools["search"].call({"query": "green leaves"})).text


def test_the_store(course: Course, tmp_path: Path) -> None:
    assert course.status().documents == 2
    assert course.check()
    copied = course.push(tmp_path / "copy")
    assert copied.written == copied.same + copied.written > 0
    assert course.pull(tmp_path / "copy").written == 0
    with pytest.raises(ConfigError, match="the store itself"):
        course.push(course.settings.storage.folder)
    assert [each.file for each in course.remove("roots.md")] == ["notes/roots.md"]
    with pytest.raises(StoreError, match="there is no document 'x'"):
        course.remove("x")
    assert course.status().documents == 1
    assert course.repair().count("new") + course.status().documents >= 1


def test_before_anything_is_stored(folder: Path) -> None:
    with Course.open(folder, embedder=HashEmbedder(8)) as course:
        assert course.documents() == []
        assert course.status().manifest is None
        for verb in (course.check, lambda: course.remove("x"), lambda: course.search("x")):
            with pytest.raises(StoreMissing):
                verb()


def test_the_verbs_of_the_course_that_one_stands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each does what the course's verb does."""
    monkeypatch.chdir(folder)
    assert lmm_education.ingest(".").count("new") == 2
    with Course.open() as course:
        assert lmm_education.querydb("green leaves", limit=1) == course.search("green leaves", limit=1)
    answer = lmm_education.query("Why green?", context_tokens=100, model=ScriptedModel(["So [1]."]))
    assert answer.text == "So [1]."
