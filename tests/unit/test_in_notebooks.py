"""What a notebook shows of a document, an answer and what was found; and functions as models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import chatmd
import lmm
from lmm import Document
from lmm.testing import ScriptedModel
from lmm_education import AskOptions, Course

LEAVES = "---\ntitle: Leaves\n---\n\n# Colour\n\n---\n~summary_: Green.\n---\nLeaves are green: chlorophyll.\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A folder with one document."""
    (tmp_path / "leaves.md").write_text(LEAVES)
    return Course.open(tmp_path, model=ScriptedModel(["They hold chlorophyll [1]."]))


def test_what_a_notebook_shows(course: Course, tmp_path: Path) -> None:
    """Text as its readers see it, sources below an answer, counts of an ingestion; printed, each is one line."""
    document = Document.open(tmp_path / "leaves.md")
    assert document._repr_markdown_().split("\n\n") == ["# Colour", "Leaves are green: chlorophyll."]
    report = course.ingest()
    assert repr(report) == "IngestReport(1 document: 1 new; 1 of 1 chunk embedded)"
    assert report._repr_markdown_() == "1 document: 1 new; 1 of 1 chunk embedded"
    found, answer = course.search("green leaves"), course.ask("Why are leaves green?")
    (hit,), (source,) = found.hits, answer.sources
    assert repr(found) == f"SearchResult('green leaves', hits: {hit.place})"
    assert repr(hit).startswith(f"Passage('{hit.place}', ")
    assert found._repr_markdown_() == hit._repr_markdown_()
    assert "> Leaves are green: chlorophyll." in hit._repr_markdown_().splitlines()
    text, below = answer._repr_markdown_().split("\n\n")
    assert (text, below) == ("They hold chlorophyll [1].", f"\\[1\\] {source.place} {source.path}")
    wrong = course.ask("Why are leaves green?", model=lambda prompt: "They hold 42 kinds of chlorophyll [1].")
    assert wrong._repr_markdown_().startswith("They hold 42 kinds of chlorophyll [1] *[not in its source: 42]*.")
    plan, cards, exported = course.plan(), course.cards(), course.export(tmp_path, tmp_path / "out")
    assert plan._repr_markdown_().startswith("# Study plan")
    assert (repr(plan), repr(cards)) == ("StudyPlan(1 step, 1 min)", "CardReport(0 cards, 0 failed)")
    asked = Document.from_text("---\n?: why?\n---\nA leaf is green.\n")
    assert repr(asked.pending) == "(PendingPrompt(line 2: query, 'why?', about document),)"
    replies = asked.answer(model=ScriptedModel(["So."]))
    short = (document, report, found, hit, answer, plan, cards, exported, replies)
    assert all(len(repr(each)) < 200 for each in short)


def test_help_of_options_is_readable() -> None:
    """Of each, its type, what it is and its default, and none of what declares it."""
    shown = str(inspect.signature(AskOptions))
    assert "'Show at most this many results.'" in shown
    assert "Option(" not in shown


def test_a_function_is_a_model(course: Course) -> None:
    """For a text, a document, a course, an agent, and its summary; what is no model is refused."""
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return "Chlorophyll [1]."

    assert lmm.ask("A leaf is green.", "Why?", model=answer) == "Chlorophyll [1]."
    assert "A leaf is green." in prompts[0]
    document = Document.from_text("---\n?: why?\n---\nA leaf is green.\n")
    document.answer(model=answer)
    assert document.chats[0].model == "Function/answer"
    course.ingest()
    assert course.ask("Why are leaves green?", model=answer).sources
    assert chatmd.Chat.from_text("<user>Why?</user>").run(model=answer).answer == "Chlorophyll [1]."
    with pytest.raises(TypeError, match="a model is a name, a function"):
        lmm.ask("A leaf", "Why?", model=3)  # type: ignore[arg-type]


def test_what_is_first_typed_works_or_says_what_to_write(course: Course) -> None:
    """A budget that is a number, one type as a text, an asynchronous function; nothing is sent without a question."""

    async def answer(prompt: str) -> str:
        return "Green."

    assert lmm.ask("A leaf is green.", "Which colour?", model=answer) == "Green."
    for text, prompt, error in (("A", " ", lmm.LmmError), (None, "What?", TypeError), (float("nan"), "?", TypeError)):
        with pytest.raises(error):
            lmm.ask(text, prompt, model=answer)  # type: ignore[arg-type]
    assert "1 not read" in repr(course.ingest("nope.md"))
    course.ingest()
    assert course.search("green", types="text").hits
    assert course.ask("Why are leaves green?", budget=20_000).sources
    document = Document.from_text("---\n=: shorter\n---\nA leaf is green.\n")
    document.answer(model=lambda prompt: "<new>Green.</new>", budget=20_000)
    assert repr(document.edits[0]) == "Edit(line 1, 'shorter')"


def test_errors_say_what_to_write_in_python(course: Course, tmp_path: Path) -> None:
    """Beside the command; a terminal shows the command alone."""
    edited = Document.from_text("---\n=: shorter\n---\nA leaf is green, see [@fox].\n")
    edited.answer(model=lambda prompt: "<new>Green.</new>")
    course.ingest()
    calls: dict[str, Callable[[], object]] = {
        "course.ingest(PATH)": lambda: Course.open(tmp_path, course="other").search("green"),
        "force=True": edited.accept,
        "model=…": lambda: course.cards(model="Builtin/extractive"),
    }
    for wanted, call in calls.items():
        with pytest.raises(lmm.LmmError) as refused:
            call()
        assert f"; in Python {wanted}" in str(refused.value)
        assert "in Python" not in refused.value.at_prompt
