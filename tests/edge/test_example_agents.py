"""The ready-made agents do their work: copied by `lmm agents`, run against a model that reacts to what it sees."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from edge.support import lmm, run_here
from fakes.openai_server import Action, Recorded, ScriptedServer

AGENTS = ("code-reviewer", "planner", "proof-reader", "question-setter")
COURSE = """\
---
title: Leaves
---
# Colour

A leaf is green because chlorophyll absorbs red and blue light. The the light that is left is green.

# Autumn

When days are short, chlorophyll breaks down, and the yellow carotenoids that were there all along can be seen.
"""
EXERCISE = "\n---\ntype: exercise\n---\nWhy is autumn yellow?\n\n---\ntype: solution\n---\nBecause chlorophyll goes.\n"

PATCH = """\
*** Begin Patch
*** Update File: mean.py
@@
 def mean(values):
-    return sum(values) / len(values)
+    return sum(values) / len(values) if values else 0.0
*** End Patch
"""


def call(name: str, **arguments: Any) -> tuple[str, str, str]:
    """A call of a tool; its id tells it from others."""
    return (f"{name}-1", name, json.dumps(arguments))


def results(request: Recorded) -> Mapping[str, str]:
    """What tools returned so far, by the call's id."""
    return {m["tool_call_id"]: m["content"] for m in request.body["messages"] if m["role"] == "tool"}


def offered(request: Recorded) -> set[str]:
    """The names of the tools that are offered."""
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


def proof_reader(request: Recorded) -> Action:
    """Reads, corrects, looks a term up, reports; each step needs what the last one returned."""
    seen = results(request)
    if "read_file-1" not in seen:
        return Action("Reading.", calls=(call("read_file", path="leaves.md"),))
    assert "The the light" in seen["read_file-1"]
    if "find_and_replace-1" not in seen:
        change = call("find_and_replace", path="leaves.md", find="The the light", replace="The light")
        return Action(calls=(change, call("course_mentions", term="carotenoids")))
    assert "leaves.md:" in seen["course_mentions-1"], seen
    return Action("*Corrected*: line 6, The the. *For the author*: nothing.")


def question_setter(request: Recorded) -> Action:
    """Searches, opens the section found, writes to a file."""
    seen = results(request)
    if "course_search-1" not in seen:
        return Action(calls=(call("course_search", query="why leaves turn yellow in autumn", limit=1),))
    if "course_section-1" not in seen:
        place = re.search(r"leaves\.md:[\d-]+", seen["course_search-1"])
        assert place is not None
        return Action(calls=(call("course_section", place=place[0]),))
    assert "carotenoids" in seen["course_section-1"]
    if "append_to_file-1" not in seen:
        return Action(calls=(call("append_to_file", path="exercises.md", content=EXERCISE),))
    return Action("1. Why is autumn yellow?")


def planner(request: Recorded) -> Action:
    """Looks, gives both parts away at once, reports what came back."""
    seen = results(request)
    if "read_directory-1" not in seen:
        return Action("First I look.", calls=(call("read_directory"),))
    assert "leaves.md" in seen["read_directory-1"]
    if "proof_read-1" not in seen:
        parts = (call("proof_read", input="leaves.md: slips"), call("set_questions", input="autumn, one question"))
        return Action("Plan: 1. proof-read. 2. questions.", calls=parts)
    return Action(f"Done. {seen['proof_read-1']} / {seen['set_questions-1']}")


def as_each(request: Recorded) -> Action:
    """The agent whose tools are offered."""
    if "proof_read" in offered(request):
        return planner(request)
    return question_setter(request) if "append_to_file" in offered(request) else proof_reader(request)


@pytest.fixture
def course(folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with a course that was ingested, and the agents."""
    (folder / "leaves.md").write_text(COURSE)
    assert run_here(capsys, "ingest", "leaves.md").code == 0
    assert run_here(capsys, "agents", *AGENTS).code == 0
    server.answer = as_each
    return folder


def request_in(file: Path, text: str) -> None:
    """What the user asks for, in the empty place at the end."""
    before, blank, after = file.read_text().rpartition("<user>\n\n</user>")
    assert blank
    file.write_text(f"{before}<user>\n{text}\n</user>{after}")


def run(file: Path) -> str:
    """Run an agent to its end; its file after that."""
    done = lmm("run", "--yes", file)
    assert done.code == 0, done.err
    text = file.read_text()
    assert text.endswith("<user>\n\n</user>\n")
    assert lmm("check", file).code == 0
    return text


def test_proof_reader(course: Path) -> None:
    """It reads a document, corrects a slip in it, and reports."""
    file = course / "proof-reader.chatmd"
    request_in(file, "leaves.md")
    assert "*Corrected*: line 6" in run(file)
    assert (course / "leaves.md").read_text() == COURSE.replace("The the", "The")


def test_question_setter(course: Path) -> None:
    """What it appends is an exercise as `lmm exercises` knows them."""
    file = course / "question-setter.chatmd"
    request_in(file, "One exercise on autumn.")
    run(file)
    shown = lmm("exercises", "exercises.md")
    assert "Why is autumn yellow?" in shown.out, shown.err


def test_planner_gives_work_to_agents_that_search_the_course(course: Path) -> None:
    """An agent that calls agents that search a course: their answers come back, their work is on disk."""
    file = course / "planner.chatmd"
    request_in(file, "Get the course ready for Monday.")
    text = run(file)
    assert "Done. *Corrected*: line 6" in text
    assert "1. Why is autumn yellow?" in text
    assert "The the" not in (course / "leaves.md").read_text()
    assert "type: exercise" in (course / "exercises.md").read_text()
    for other in ("proof-reader", "question-setter"):  # those who were asked stay as they were
        assert (course / f"{other}.chatmd").read_text().endswith("<user>\n\n</user>\n")


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_code_reviewer(course: Path, server: ScriptedServer) -> None:
    """It searches with ripgrep, reads, patches, and searches again."""
    (course / "mean.py").write_text("def mean(values):\n    return sum(values) / len(values)\n")

    def reviewer(request: Recorded) -> Action:
        seen = results(request)
        if "rg-1" not in seen:
            return Action("Searching.", calls=(call("rg", arguments=["def mean", "mean.py"]),))
        assert "1:def mean(values):" in seen["rg-1"]
        if "apply_patch-1" not in seen:
            return Action(calls=(call("apply_patch", patch=PATCH),))
        return Action("mean.py:2: an empty list divided by zero; mended.")

    server.answer = reviewer
    file = course / "code-reviewer.chatmd"
    request_in(file, "Mend mean() for empty lists.")
    assert "mended" in run(file)
    assert "if values else 0.0" in (course / "mean.py").read_text()


def test_agents_are_listed_and_never_replace_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name a list; a file of that name is refused, a misspelt name corrected."""
    shown = run_here(capsys, "agents")
    assert all(name in shown.out for name in AGENTS)
    (folder / "planner.chatmd").write_text("mine")
    assert "planner.chatmd: this file exists already" in run_here(capsys, "agents", "planner").err
    assert (folder / "planner.chatmd").read_text() == "mine"
    assert "did you mean 'planner'?" in run_here(capsys, "agents", "planer").err


def test_an_agent_comes_with_those_that_it_asks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are there stay as they are; that is said."""
    (folder / "proof-reader.chatmd").write_text("mine")
    said = run_here(capsys, "agents", "planner").out.splitlines()
    assert said == [
        "planner.chatmd",
        "proof-reader.chatmd: there already, and kept; planner asks it",
        "question-setter.chatmd: planner asks it",
    ]
    assert (folder / "proof-reader.chatmd").read_text() == "mine"
    both = run_here(capsys, "agents", "planner", "proof-reader", "--to", "new")
    assert both.out.splitlines()[:2] == ["new/planner.chatmd", "new/proof-reader.chatmd"]
    assert run_here(capsys, "agents", "code-reviewer", "planner").code == 1
    assert not (folder / "code-reviewer.chatmd").exists()  # all that are named, or none


def test_instructions_for_other_programs(
    folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside an AGENTS.md, `lmm agents` names the line that makes it an agent's instructions, and that line works."""
    (folder / "AGENTS.md").write_text("Always write tests.\n")
    assert '<system><import src="AGENTS.md"/></system>' in run_here(capsys, "agents", "proof-reader").err
    (folder / "a.chatmd").write_text('<system><import src="AGENTS.md"/></system>\n<user>Hi</user>\n')
    assert run_here(capsys, "run", "a.chatmd").code == 0
    assert "Always write tests." in str(server.requests[-1].body["messages"][0])
