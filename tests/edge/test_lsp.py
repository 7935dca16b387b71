"""`lmm lsp` as editors use it: a real server, an editor in a few lines, a scripted model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.support import exchanges, wait_until
from fakes.editor import FakeEditor
from fakes.openai_server import Action, ScriptedServer

from lmm import Document

NOTES = "# Leaves\n\n---\n?: which colour?\n---\n\nA leaf is green.\n\nIt falls.\n"


@pytest.fixture
def editor(folder: Path, server: ScriptedServer) -> Iterator[FakeEditor]:
    """An editor with its server, in a folder that names the scripted model."""
    with FakeEditor(folder) as running:
        yield running


def test_problems_are_shown_as_they_are_written(editor: FakeEditor) -> None:
    """As `lmm scan` says them, at the place as the editor counts it; they go when they are mended, and on closing."""
    editor.open("a.md", "😀 x\u2028y\n\n---\nsee: a: b\n---\n\nText.\n")
    found = editor.wait_for_problem("a.md", "quote values")
    assert (found.range.start.line, found.source) == (3, "lmm")
    editor.type_after("a.md", "see: ", "'")
    editor.type_after("a.md", "a: b", "'")
    wait_until(lambda: not editor.problems("a.md"))
    editor.open("b.md", "---\ntype: x\n")
    editor.wait_for_problem("b.md", "")
    editor.close("b.md")
    wait_until(lambda: not editor.problems("b.md"))


def test_a_reply_streams_into_the_buffer(editor: FakeEditor, server: ScriptedServer) -> None:
    """It grows there, what is typed meanwhile is kept, and one command takes it back."""
    go_on = threading.Event()
    server.queue(Action(pieces=("Green ", "as ", "grass."), hold=go_on, hold_after=2))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green as" in editor.text("a.md"))
    assert "Cancel" in [title for _, title in editor.titles("a.md")]
    editor.type_after("a.md", "It falls", " in autumn")
    editor.type_after("a.md", "# Leaves", " and trees")
    go_on.set()
    wait_until(lambda: "grass." in editor.text("a.md"))
    typed = NOTES.replace("falls", "falls in autumn").replace("Leaves", "Leaves and trees")
    whole = Document.from_text(typed)
    assert exchanges(editor.text("a.md")) == [("which colour?", "Green as grass.")]
    wait_until(lambda: [title for _, title in editor.titles("a.md")].count("Cancel") == 0)
    editor.execute("lmm.undo", editor.uri("a.md"))
    wait_until(lambda: editor.text("a.md") == whole.text)
    assert set(editor.changes) == {"lmm: reply", "lmm: undo"}


def test_a_model_that_hangs_blocks_nothing(editor: FakeEditor, server: ScriptedServer) -> None:
    """Problems are shown and lenses answered meanwhile; cancelled, the buffer is as its author left it."""
    server.queue(Action(pieces=("Green ", "as "), hold=threading.Event(), hold_after=1))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green" in editor.text("a.md"))
    editor.type("a.md", 0, 0, "---\nsee: a: b\n---\n\n")
    editor.wait_for_problem("a.md", "quote values")
    editor.press("a.md", "Cancel")
    wait_until(lambda: "Ask" in [title for _, title in editor.titles("a.md")])
    assert editor.text("a.md") == "---\nsee: a: b\n---\n\n" + NOTES


def test_who_changes_the_reply_stops_it(editor: FakeEditor, server: ScriptedServer) -> None:
    """What is in the buffer then stays, and no more is put there."""
    go_on = threading.Event()
    server.queue(Action(pieces=("Green ", "as ", "grass."), hold=go_on, hold_after=2))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green as" in editor.text("a.md"))
    editor.type_after("a.md", "Green", ", mostly,")
    mine = editor.text("a.md")
    wait_until(lambda: "Cancel" not in [title for _, title in editor.titles("a.md")])
    go_on.set()
    assert "you changed the reply" in str(editor.client.progress_reports)
    assert editor.text("a.md") == mine


def test_an_editor_that_types_at_every_change_loses_nothing(editor: FakeEditor, server: ScriptedServer) -> None:
    """Each change is for a version that is over when it arrives, half of the time."""
    count = 0

    def type_something() -> None:
        nonlocal count
        count += 1
        if count % 2:
            editor.type_after("a.md", "It falls", "!")

    server.queue(Action("A leaf is green as long as it works, and the work is over in autumn. " * 9))
    editor.open("a.md", NOTES)
    editor.before_change = type_something
    editor.press("a.md", "Ask")
    wait_until(lambda: "Take back" in [title for _, title in editor.titles("a.md")])
    typed = NOTES.replace("falls", "falls" + "!" * ((count + 1) // 2))
    assert [reply for _, reply in exchanges(editor.text("a.md"))] == [
        "A leaf is green as long as it works, and the work is over in autumn. " * 9
    ]
    editor.press("a.md", "Take back")
    wait_until(lambda: editor.text("a.md").replace("!", "") == typed.replace("!", ""))


def test_a_folder_that_asks_for_more_is_asked_about(editor: FakeEditor, folder: Path) -> None:
    """A configuration of a stranger's counts when its author agreed, and not before."""
    config = folder / "config.toml"
    config.write_text('[major]\nmodel = "OpenAICompatible/x"\nbase_url = "http://192.0.2.1:9/v1"\n' + "timeout = 1\n")
    editor.open("a.md", NOTES)
    editor.choices = ["Do not trust"]
    editor.press("a.md", "Ask")
    wait_until(lambda: any("you have not approved this file" in message for message in editor.messages))
    assert "192.0.2.1" in editor.questions[0]
    assert editor.text("a.md") == NOTES
    config.write_text('[major]\nmodel = "Builtin/extractive"\n[minor]\nbase_url = "http://192.0.2.1:9/v1"\n')
    editor.choices = ["Trust"]
    editor.press("a.md", "Ask")
    wait_until(lambda: exchanges(editor.text("a.md")))
    assert len(editor.questions) == 2
