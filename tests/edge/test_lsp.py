"""`lmm lsp` as editors use it: a real server, an editor in a few lines, a scripted model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import talking
from edge.support import copy_course, exchanges, wait_until
from fakes.editor import FakeEditor
from fakes.openai_server import Action, ScriptedServer, annotation_reply
from lsprotocol import types as lsp

from chatmd import Chat
from lmm import Document
from lmm.testing import ScriptedModel
from lmm_education import Course

NOTES = "# Leaves\n\n---\n?: which colour?\n---\n\nA leaf is green.\n\nIt falls.\n"


@pytest.fixture
def editor(folder: Path, server: ScriptedServer) -> Iterator[FakeEditor]:
    """An editor with its server, in a folder that names the scripted model."""
    with FakeEditor(folder) as running:
        yield running


def test_problems_are_shown_as_they_are_written(editor: FakeEditor) -> None:
    """As `lmm scan` says them, at the place as the editor counts it; they go when they are mended, and on closing."""
    editor.open("a.md", "😀 x\u2028y\n\n---\ntype: a: b\n---\n\nText.\n")
    found = editor.wait_for_problem("a.md", "quote it")
    assert (found.range.start.line, found.source) == (3, "lmm")
    editor.type_after("a.md", "type: ", "'")
    editor.type_after("a.md", "a: b", "'")
    wait_until(lambda: not editor.problems("a.md"))
    editor.open("b.md", "---\ntype: x\n")
    editor.wait_for_problem("b.md", "")
    editor.close("b.md")
    wait_until(lambda: not editor.problems("b.md"))


def test_a_reply_arrives_as_one_change(editor: FakeEditor, server: ScriptedServer) -> None:
    """Until then its end is shown as progress; what is typed meanwhile stays, and one command takes it back."""
    go_on = threading.Event()
    server.queue(Action(pieces=("Green ", "as ", "grass."), hold=go_on, hold_after=2))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green as" in str(editor.client.progress_reports))
    assert "Asking OpenAICompatible/test" in str(editor.client.progress_reports)
    assert editor.text("a.md") == NOTES
    assert "Cancel" in [title for _, title in editor.titles("a.md")]
    editor.type_after("a.md", "It falls", " in autumn")
    editor.type_after("a.md", "# Leaves", " and trees")
    go_on.set()
    wait_until(lambda: "grass." in editor.text("a.md"))
    typed = NOTES.replace("falls", "falls in autumn").replace("Leaves", "Leaves and trees")
    assert exchanges(editor.text("a.md")) == [("which colour?", "Green as grass.")]
    assert editor.changes == ["lmm: reply"]
    wait_until(lambda: [title for _, title in editor.titles("a.md")].count("Cancel") == 0)
    editor.press("a.md", "Clear")
    wait_until(lambda: editor.text("a.md") == typed.replace("---\n?: which colour?\n---\n\n", ""))


def test_a_model_that_hangs_blocks_nothing(editor: FakeEditor, server: ScriptedServer) -> None:
    """Problems are shown and lenses answered meanwhile; cancelled, the buffer is as its author left it."""
    server.queue(Action(pieces=("Green ", "as "), hold=threading.Event(), hold_after=1))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green" in str(editor.client.progress_reports))
    editor.type("a.md", 0, 0, "---\nsee: a: b\n---\n\n")
    editor.wait_for_problem("a.md", "quote it")
    editor.press("a.md", "Cancel")
    wait_until(lambda: "Ask" in [title for _, title in editor.titles("a.md")])
    assert editor.text("a.md") == "---\nsee: a: b\n---\n\n" + NOTES


def test_a_reply_whose_question_is_gone_is_said(editor: FakeEditor, server: ScriptedServer) -> None:
    """The author removed it meanwhile: their text stays, and the reply is remembered."""
    go_on = threading.Event()
    server.queue(Action(pieces=("Green ", "as ", "grass."), hold=go_on, hold_after=2))
    editor.open("a.md", NOTES)
    editor.press("a.md", "Ask")
    wait_until(lambda: "Green as" in str(editor.client.progress_reports))
    mine = NOTES.replace("?: which colour?", "?: which form?")
    editor.type("a.md", 0, len(NOTES), mine)
    go_on.set()
    wait_until(lambda: any("no longer contains this question" in message for message in editor.messages))
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
    wait_until(lambda: "~reply" in editor.text("a.md"))
    assert [reply for _, reply in exchanges(editor.text("a.md"))] == [
        "A leaf is green as long as it works, and the work is over in autumn. " * 9
    ]
    assert "It falls" + "!" * ((count + 1) // 2) in editor.text("a.md")


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


def answered(text: str, *replies: str) -> str:
    """A document whose prompts were answered."""
    return talking.answered(text, model=ScriptedModel([*replies])).text


LINES = "# Leaves\n\n---\n=: other\n---\n\nOne. Two. Three.\n\nIt falls.\n"


def test_edits_are_settled_one_by_one(editor: FakeEditor) -> None:
    """Whole, or a change at a time; what is typed elsewhere stays."""
    editor.open("a.md", answered(LINES, "Four. Two. Six.\n"))
    shown = editor.execute("lmm.difference", editor.uri("a.md"), 3)
    assert shown == "change 1: [-One.-]{+Four.+}\nchange 2: [-Three.-]{+Six.+}"
    editor.press("a.md", "Accept this change")
    wait_until(lambda: [title for _, title in editor.titles("a.md")].count("Accept this change") == 0)
    editor.type_after("a.md", "It falls", " down")
    editor.press("a.md", "Reject")
    wait_until(lambda: editor.text("a.md") == "# Leaves\n\nFour. Two. Three.\n\nIt falls down.\n")


def test_what_would_be_lost_is_asked_about(editor: FakeEditor) -> None:
    """Accepting a text that drops a citation."""
    editor.open("a.md", answered("---\n=: other\n---\nAs [@darwin] says.\n", "As they say."))
    editor.choices = ["Cancel", "Accept"]
    editor.press("a.md", "Accept")
    wait_until(lambda: len(editor.questions) == 1)
    assert "@darwin" in editor.questions[0]
    assert "old text" in editor.text("a.md")
    editor.press("a.md", "Accept")
    wait_until(lambda: editor.text("a.md") == "As they say.\n")


CITED = "# A\n\n---\n=: other\n---\nAs [@darwin] says.\nTwo.\nThree.\n\nIt falls.\n"


def test_accepting_a_loss_of_one_change_leaves_the_others_pending(editor: FakeEditor) -> None:
    """The author is asked about the change, and agrees to that alone."""
    editor.open("a.md", answered(CITED, "As they say.\nTwo.\nFive.\n"))
    editor.choices = ["Accept"]
    editor.press("a.md", "Accept this change")
    wait_until(lambda: [title for _, title in editor.titles("a.md")].count("Accept this change") == 0)
    editor.press("a.md", "Reject")
    wait_until(lambda: editor.text("a.md") == "# A\n\nAs they say.\nTwo.\nThree.\n\nIt falls.\n")


def test_chats_go_on_and_are_cleared(editor: FakeEditor) -> None:
    """A prompt that continues is put below the log."""
    editor.open("a.md", answered(NOTES, "Green."))
    editor.press("a.md", "Continue")
    wait_until(lambda: "\n+: \n---\n" in editor.text("a.md"))
    editor.type_after("a.md", "+: ", "and in autumn?")
    editor.press("a.md", "Ask")
    wait_until(lambda: [word for word, _ in exchanges(editor.text("a.md"))] == ["which colour?", "and in autumn?"])
    editor.press("a.md", "Clear")
    wait_until(lambda: editor.text("a.md") == NOTES.replace("---\n?: which colour?\n---\n\n", ""))


def test_annotations_whose_text_changed_are_made_again(
    editor: FakeEditor, server: ScriptedServer, folder: Path
) -> None:
    """The lens says so, and goes."""
    document = Document.from_text("# Leaves\n\n" + "A leaf is green. " * 20 + "\n")
    document.annotate("summary", model=ScriptedModel(['{"summary": "They are green."}']))
    server.answer = annotation_reply
    editor.open("a.md", document.text)
    assert not [title for _, title in editor.titles("a.md") if "summary" in title]
    editor.type_after("a.md", "A leaf is green.", " Or red.")
    with (folder / "config.toml").open("a") as file:
        file.write(f'[minor]\nmodel = "OpenAICompatible/test"\nbase_url = "{server.url}"\n')
    editor.press("a.md", "The text changed: make summary again")
    wait_until(lambda: "Summary of" in editor.text("a.md"))
    wait_until(lambda: not [title for _, title in editor.titles("a.md") if "summary" in title])


def test_what_an_editor_asks_about_a_text(editor: FakeEditor, folder: Path) -> None:
    """Completion and hover."""
    (folder / "other.md").write_text("# Other\n")
    (folder / "books.bib").write_text("@book{a,\n}\n@book{darwin,\n title={Origin}\n}\n")
    text = "---\nbibliography: books.bib\n---\n# Leaves\n\n" + answered(NOTES, "Green.").removeprefix("# Leaves\n\n")
    text += "\n## Roots\n\nSee [above](#leaves), [more](other.md) and [@darwin].\n\n[x](#\n\n"
    text += "---\n?: see @other.md, `x`\ntype: \n---\n\nY.\n"
    editor.open("a.md", text)
    assert {"leaves", "roots"} <= set(editor.complete("a.md", "[x](#"))
    assert {"?:", "title:"} <= set(editor.complete("a.md", "\n?"))
    assert "exercise" in editor.complete("a.md", "\ntype: ")
    assert {"other.md", "course:"} <= set(editor.complete("a.md", "see @"))
    assert "about" in editor.hover("a.md", "?: see")
    assert "see @other.md, `x`\n```" in editor.hover("a.md", "?: see")  # a fence, whatever backticks are in it
    assert "# Other\n\n</document" in editor.hover("a.md", "?: see")  # all that is sent
    assert "[THE TEXT]" in editor.hover("a.md", "?: see")
    assert editor.hover("a.md", "Y.") == ""


@pytest.mark.parametrize(
    ("name", "typed", "label", "completed"),
    [
        ("a.chatmd", '<doc src="my-no', "my-notes.md", '<doc src="my-notes.md'),
        ("a.chatmd", '<doc src="su', "sub/", '<doc src="sub/'),
        ("a.chatmd", '<doc src="sub/le', "sub/leaf 1.md", '<doc src="sub/leaf 1.md'),
        ("a.chatmd", '<tool name="ask" agent="', "b.chatmd", '<tool name="ask" agent="b.chatmd'),
        ("a.chatmd", '<img src="sub/', "sub/leaf.png", '<img src="sub/leaf.png'),
        ("a.chatmd", '<config model="Open', "OpenAI/", '<config model="OpenAI/'),
        ("a.chatmd", '<config model="OpenAI/gpt-4.1-m', "OpenAI/gpt-4.1-mini", '<config model="OpenAI/gpt-4.1-mini'),
        ("a.md", "---\n?: see @my-no", "my-notes.md", "---\n?: see @my-notes.md"),
        ("a.md", "---\n?: see @sub/", '"sub/leaf 1.md"', '---\n?: see @"sub/leaf 1.md"'),
        ("a.md", '---\n?: see @"sub/leaf ', '"sub/leaf 1.md"', '---\n?: see @"sub/leaf 1.md"'),
    ],
)
def test_a_completion_replaces_all_that_was_typed(
    editor: FakeEditor, folder: Path, name: str, typed: str, label: str, completed: str
) -> None:
    """Paths, below the folder that is typed, and the models of a provider; and nothing above the folder."""
    (folder / "sub").mkdir()
    for file in ("my-notes.md", "b.chatmd", "sub/leaf 1.md", "sub/leaf.png"):
        (folder / file).write_text("x\n")
    editor.open(name, f"{typed}\n---\n\nText.\n" if name == "a.md" else f"{typed}\n")
    assert editor.completed(name, typed, label) == completed
    if label == "sub/":
        editor.open("c.chatmd", '<doc src="../\n')
        assert editor.complete("c.chatmd", '<doc src="../') == []


def test_a_selection_becomes_a_question(editor: FakeEditor) -> None:
    """A block above the paragraph, or below the heading; it is read as one."""
    editor.open("a.md", "# Leaves\n\nA leaf is green.\n\nIt falls.\n")
    editor.act("a.md", "Ask about this", 5)
    wait_until(lambda: "?: " in editor.text("a.md"))
    editor.act("a.md", "Have this edited", 1)
    wait_until(lambda: "=: " in editor.text("a.md"))
    assert editor.text("a.md") == "# Leaves\n---\n=: \n---\n\nA leaf is green.\n\n---\n?: \n---\nIt falls.\n"


def test_a_chat_runs_in_its_buffer(editor: FakeEditor, server: ScriptedServer, folder: Path) -> None:
    """The answer is written when it is finished; what is typed meanwhile stays; tools are agreed to in the editor."""
    (folder / "a.md").write_text("Notes.\n")
    go_on = threading.Event()
    server.queue(Action(pieces=("Oak ", "and ash."), hold=go_on, hold_after=1))
    editor.open("a.chatmd", "<system>Name plants.</system>\n<user>A tree?</user>\n")
    assert not editor.problems("a.chatmd")
    editor.press("a.chatmd", "Run")
    wait_until(lambda: "Stop" in [title for _, title in editor.titles("a.chatmd")])
    assert "Stop" in [title for _, title in editor.titles("a.chatmd")]
    editor.type_after("a.chatmd", "Name plants", " of Europe")
    go_on.set()
    wait_until(lambda: "Run" in [title for _, title in editor.titles("a.chatmd")])
    assert "of Europe" in editor.text("a.chatmd")
    assert "Oak and ash." in editor.text("a.chatmd")
    assert Chat.from_text(editor.text("a.chatmd")).turn_of == "user"
    editor.press("a.chatmd", "Say")
    wait_until(lambda: "<user>\n\n</user>" in editor.text("a.chatmd"))
    editor.open("b.chatmd", '<tool name="write_file"/>\n<user>Write.</user>\n')
    editor.choices = ["Do not agree"]
    editor.press("b.chatmd", "Run")
    wait_until(lambda: editor.questions and [m for m in editor.messages if "agree" in m])
    assert "write_file" in editor.questions[0]
    editor.open(
        "c.chatmd", '<user><doc src="a.md" local/>\n<doc src="x.md" local/></user>\n<too\n<tool na\n<tool name="re\n'
    )
    editor.wait_for_problem("c.chatmd", "x.md")
    assert "Notes." in editor.hover("c.chatmd", 'src="a.md')
    assert "tool" in editor.complete("c.chatmd", "\n<too")
    assert "name" in editor.complete("c.chatmd", "<tool na")
    assert "read_file" in editor.complete("c.chatmd", '<tool name="re')
    assert len(editor.tokens("b.chatmd")) // 5 == 4


def test_a_chat_runs_in_an_editor_that_ends_the_last_line(editor: FakeEditor, server: ScriptedServer) -> None:
    """As Neovim does with each change: that is not what the author typed. A run is not called interrupted
    while it goes on."""
    go_on = threading.Event()
    server.queue(Action(pieces=("Oak ", "and ", "ash ", "grow."), hold=go_on, hold_after=3))
    editor.ends_lines = True
    asked = "<user>\nA tree?\n</user>\n"
    editor.open("a.chatmd", asked)
    editor.press("a.chatmd", "Run")
    wait_until(lambda: "Stop" in [title for _, title in editor.titles("a.chatmd")])
    editor.type_after("a.chatmd", "A tree", " or two")
    time.sleep(0.5)
    assert editor.problems("a.chatmd") == []
    go_on.set()
    wait_until(lambda: "Run" in [title for _, title in editor.titles("a.chatmd")])
    assert "grow." in editor.text("a.chatmd")
    assert "\n\n\n" not in editor.text("a.chatmd")
    editor.type_after("a.chatmd", "</user>", "<user>")
    editor.wait_for_problem("a.chatmd", "<user>")


def test_a_chat_without_a_file_is_checked(editor: FakeEditor) -> None:
    """A new one, that was not saved yet; its files are sought where the editor was started."""
    new = "untitled:Untitled-1"
    item = lsp.TextDocumentItem(new, "chatmd", 1, '<user>Hi <doc src="x.md" local/></user>\n')
    editor.notify(lambda: editor.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item)))
    wait_until(lambda: any("x.md" in one.message for one in editor.client.diagnostics.get(new, [])))


def test_the_course_is_searched(folder: Path, ingested: Path) -> None:
    """Each passage with a link and a quotation to insert."""
    copy_course(ingested, folder)
    with FakeEditor(folder) as editor:
        editor.open("notes/new.md", "# New\n")
        found = editor.execute("lmm.searchCourse", editor.uri("notes/new.md"), "Why are leaves green?")
        first = found[0]
        assert (first["link"], first["quotation"].startswith("> ")) == (
            f"[{first['title']}](botany.md#{first['link'].partition('#')[2]}",
            True,
        )
        editor.type("notes/new.md", 6, 6, "\n" + first["quotation"])
        assert "botany.md" in editor.text("notes/new.md")
        editor.open("notes/asks.md", "---\n?: see @course: leaves in @\n---\n")
        with Course.open(folder) as course:
            assert editor.complete("notes/asks.md", "in @") == [one.id for one in course.documents()]


def test_a_long_document_is_read_when_its_author_pauses(editor: FakeEditor) -> None:
    """For as long as reading it takes."""
    filler = "A leaf is green.\n\n" * 15_000
    bad = "---\ntype: a: b\n---\n\n"
    editor.open("a.md", "# Leaves\n\n" + filler + bad + "End.\n")
    last = editor.wait_for_problem("a.md", "quote it").range.start.line
    for count in (1, 2):
        editor.type("a.md", 10, 10, bad)
        wait_until(lambda n=count: len(editor.problems("a.md")) == n + 1)  # type: ignore[misc]
    lines = [one.range.start.line for one in editor.problems("a.md")]
    assert lines == [3, 7, last + 8]
    editor.type("a.md", 0, 0, "```\n")
    wait_until(lambda: "never closed" in str(editor.problems("a.md")))
