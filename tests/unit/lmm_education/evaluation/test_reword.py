"""Questions in other words: what is asked, what is kept of the replies, what a second run asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lmm.config import load_settings
from lmm.errors import ConfigError
from lmm.messages import ChatEvent, ChatRequest
from lmm.models.client import Client
from lmm.testing import ScriptedModel
from lmm_education.evaluation.questions import Question, read_usable
from lmm_education.evaluation.reword import Rewording, reword_into

PASSAGE = "Chlorophyll absorbs red light, so that leaves look green."
GREEN = Question("Why do leaves look green?", "q.csv:2", "plants", ("Colour",), (PASSAGE,))
WATER = Question("How does water rise?", "q.csv:3", "plants", answers=("xylem",))


def write(file: Path, questions: list[Question], *replies: str, budget: str = "") -> tuple[Rewording, ScriptedModel]:
    """What comes of it when the aux model says these in turn."""
    model = ScriptedModel([json.dumps({"question": reply}) for reply in replies])
    client = Client(load_settings(env={}), tier="aux", model=model, journal=False, budget=budget)
    return asyncio.run(reword_into(file, questions, client, progress=lambda *_: None)), model


def test_what_answers_a_question_is_kept_and_its_words_are_to_be_avoided(tmp_path: Path) -> None:
    """The passage itself is not sent."""
    found, model = write(tmp_path / "r.jsonl", [GREEN], "What gives plants\n their colour?")
    sent = model.seen[0].messages[0].text
    assert "leaves, look, green" in sent
    assert PASSAGE not in sent
    (row,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert row == {
        "question": "What gives plants their colour?",
        "document": "plants",
        "section": ["Colour"],
        "passage": [PASSAGE],
        "kind": "reworded",
        "original": GREEN.text,
    }
    (read,) = read_usable([tmp_path / "r.jsonl"])
    assert (read.document, read.section, read.passages) == (GREEN.document, GREEN.section, GREEN.passages)
    assert (found.before, found.after) == (1.0, 0.0)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " ?",
        "why do LEAVES look green",
        "Question: Why do leaves look green? (Answer)",
        "x" * 400,
        "How does water rise?",
    ],
)
def test_what_says_nothing_new_is_left_out_and_counted(reply: str, tmp_path: Path) -> None:
    """Empty, the same, without an end, or another question of the file."""
    found, _ = write(tmp_path / "r.jsonl", [GREEN, WATER], reply, "What lifts sap?")
    assert (len(found.pairs), found.useless) == (1, 1)


def test_two_questions_that_became_one_are_not_both_kept(tmp_path: Path) -> None:
    """Each would call the other's answer wrong."""
    found, _ = write(tmp_path / "r.jsonl", [GREEN, WATER], "What do plants do?", "What do plants do?")
    assert [old.text for old, _ in found.pairs] == [GREEN.text]
    assert found.useless == 1


def test_a_second_run_asks_for_what_the_file_lacks_and_keeps_what_was_mended(tmp_path: Path) -> None:
    """Also where the last line has no end; a question without an answer in the course is not asked."""
    file = tmp_path / "r.jsonl"
    mended = '{"question": "By hand", "document": "plants", "original": "Why do leaves look green?"}'
    file.write_text(mended)
    found, model = write(file, [GREEN, WATER, Question("Who?", unanswerable=True)], "What lifts sap?")
    assert (found.waiting, len(model.seen)) == (1, 1)
    assert file.read_text().startswith(mended + "\n")
    assert [question.text for question in read_usable([file])] == ["By hand", "What lifts sap?"]


def test_a_file_of_other_questions_is_not_added_to(tmp_path: Path) -> None:
    """Such as the one that is to be asked in other words; nobody is asked."""
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "Why?", "document": "plants"}\n')
    with pytest.raises(ConfigError, match="contains other questions"):
        write(file, [GREEN])
    with pytest.raises(ConfigError, match=r"\.jsonl"):
        write(tmp_path / "questions.csv", [GREEN])


def test_what_came_before_the_budget_was_used_up_is_written(tmp_path: Path) -> None:
    """The rest are failures, each with its question's place."""
    found, _ = write(tmp_path / "r.jsonl", [GREEN, WATER], "What paints plants?", budget="10")
    assert len(found.pairs) == 1
    assert [error.where for error in found.failures] == [WATER.where]
    assert len(read_usable([tmp_path / "r.jsonl"])) == 1


def test_ctrl_c_keeps_what_had_arrived(tmp_path: Path) -> None:
    """The second reply never comes; the first is in the file."""

    class Hangs(ScriptedModel):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
            if GREEN.text not in request.messages[0].text:
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    async def interrupted() -> Rewording:
        arrived = asyncio.Event()
        client = Client.of(Hangs(['{"question": "What paints plants?"}']))
        asked = reword_into(tmp_path / "r.jsonl", [WATER, GREEN], client, progress=lambda *_: arrived.set())
        task = asyncio.create_task(asked)
        await arrived.wait()
        task.cancel()
        return await task

    found = asyncio.run(interrupted())
    assert (found.interrupted, found.failures) == (True, ())
    assert [question.text for question in read_usable([tmp_path / "r.jsonl"])] == ["What paints plants?"]
