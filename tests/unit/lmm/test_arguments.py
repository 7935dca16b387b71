"""A misspelt argument, or a value of the wrong type, is named by the method that it was given to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatmd
import lmm
import lmm_education
from lmm.testing import ScriptedModel

Document: Any = lmm.Document
Course: Any = lmm_education.Course
Chat: Any = chatmd.Chat
AGENT = "<user>Hi.</user>"


def document() -> Any:
    return Document.from_text("---\n?: which colour?\n---\nA leaf is green.\n")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda course: document().answer(modle="x"),
            "has no argument 'modle'.*did you mean 'model'",
        ),
        (lambda course: document().requests(modle="x"), "Document.requests"),
        (lambda course: document().answer(at="3"), r"Document.answer\(\): at must be int \| None, not '3'"),
        (lambda course: document().answer(model=ScriptedModel), r"not <class .*: write ScriptedModel\(…\)"),
        (lambda course: document().answer(model=3), "a model is a name, a function, or"),
        (lambda course: Document.from_text(b"A leaf."), "text must be str"),
        (lambda course: Document.open(3), r"Document.open\(\): path must be str \| Path, not 3"),
        (lambda course: course.search("leaf", limit="3"), "Course.search.*limit must be a whole number"),
        (lambda course: course.search("leaf", limt=3), "did you mean 'limit'"),
        (lambda course: course.search("leaf", where="type=exercise"), "where must be a table"),
        (lambda course: course.search("leaf", documents=3), "documents must be text or a list"),
        (lambda course: course.ask("leaf", modle="x"), "Course.ask.*did you mean"),
        (lambda course: course.ask("leaf", agent=True, context_tokens="9"), "context_tokens must be a whole number"),
        (lambda course: course.ingest(prun=True), "did you mean 'prune'"),
        (lambda course: Course.open(course.root, modle="x"), "Course.open"),
        (lambda course: Course.open(5), r"Course.open\(\): folder must be str \| Path \| None, not 5"),
        (lambda course: Chat.open(5), r"Chat.open\(\): path must be"),
        (lambda course: Chat(5), r"Chat\(\): text must be str, not 5"),
        (lambda course: Chat(AGENT, modle="x"), "did you mean 'model'"),
        (lambda course: Chat(AGENT, tools=str), r"tools must be a list, not str: write tools=\[str\]"),
        (lambda course: Chat(AGENT).say(42), r"Chat.say\(\): message must be str \| Element, not 42"),
        (lambda course: Chat(AGENT).say("a", docs="b.md"), r"docs must be a list.*write docs=\['b.md'\]"),
        (lambda course: Chat(AGENT).run(model=lambda: "x"), "Function/<lambda> cannot be called with one argument"),
        (lambda course: course.ingest(5), r"Course.ingest\(\): paths must be str \| Path, not 5"),
        (lambda course: lmm_education.ingest(5), r"ingest\(\): paths must be str \| Path"),  # type: ignore[arg-type]
        (lambda course: lmm.ask("a"), r"ask\(\): missing a required argument: 'prompt'"),  # type: ignore[call-arg]
        (lambda course: lmm.ask("a", "b", earlier="x"), "earlier must be a list"),  # type: ignore[arg-type]
        (lambda course: lmm.ask("a", "b", earlier=["x"]), "a list of pairs"),  # type: ignore[list-item]
        (lambda course: lmm.edit("a", "b", history="y"), r"edit\(\) has no argument 'history'"),  # type: ignore
        (lambda course: lmm.edit(float("nan"), "b"), "text must be str, not nan"),  # type: ignore[arg-type]
        (lambda course: Chat(AGENT).run(max_turns="3"), "Chat.run.*max_turns must be int"),
        (lambda course: Chat(AGENT).reply("a", modle="x"), r"Chat.reply\(\) has no argument 'modle'"),
        (lambda course: Chat(AGENT).ask("a", max_turns="3"), r"Chat.ask\(\): max_turns must be int"),
    ],
)
def test_what_is_wrong_is_named(call: Callable[[Any], object], said: str, tmp_path: Path) -> None:
    with Course.open(tmp_path) as course, pytest.raises(TypeError, match=said):
        call(course)
