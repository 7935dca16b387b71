"""The journal: a reply that arrived is never paid twice, unless the author asks anew."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import exchanges, exchanges_of, files_in
from fakes.chain_game import conversation
from fakes.openai_server import Action, ScriptedServer, fail

from lmm.cli.main import main
from lmm.disk import swap
from lmm.messages import Reply
from lmm.scan import scan_messages
from lmm.testing import ScriptedModel

DOCUMENT = "# A\n\n---\n?: one\n+: two\n---\nText.\n"


@pytest.fixture
def answered(server: ScriptedServer, folder: Path) -> Path:
    """A document whose questions were answered."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    scan_messages(path)
    assert len(server.requests) == 2
    return path


def test_an_old_buffer_saved_over_a_reply_gets_it_back_for_nothing(
    server: ScriptedServer, answered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file comes out again, without a request, and the screen says where the reply is from."""
    text = answered.read_text()
    answered.write_text(DOCUMENT)
    assert main(["messages", "d.md"]) == 0
    assert (answered.read_text(), len(server.requests)) == (text, 2)
    assert "remembered from an earlier run; --again asks again" in capsys.readouterr().out


def test_a_model_of_the_same_name_at_another_server_is_asked(server: ScriptedServer, answered: Path) -> None:
    """What one server answered is not told as the answer of another."""
    with ScriptedServer() as other:
        other.answer = lambda request: f"Elsewhere: {request.prompt}"
        answered.write_text(DOCUMENT)
        write_config(answered.parent, other)
        assert main(["messages", "d.md"]) == 0
    assert exchanges_of(answered) == [("one", "Elsewhere: one"), ("two", "Elsewhere: two")]
    assert len(server.requests) == 2


def test_again_asks_anew_and_the_new_reply_is_the_one_remembered(server: ScriptedServer, answered: Path) -> None:
    """`--again` pays; afterwards the journal has the newer reply."""
    server.answer = lambda request: f"Anew: {request.prompt}"
    for options in (["--again"], []):
        answered.write_text(DOCUMENT)
        assert main(["messages", "d.md", *options]) == 0
        assert exchanges_of(answered) == [("one", "Anew: one"), ("two", "Anew: two")]
    assert len(server.requests) == 4


def test_an_answered_block_is_asked_anew(
    server: ScriptedServer, answered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--again --at LINE`: one request, without the old answer in it, which stays above the new one."""
    before = answered.read_text()
    server.queue("Anew.")
    assert main(["messages", "d.md", "--again", "--at", "3"]) == 0
    *earlier, last = exchanges_of(answered)
    assert (earlier, last) == (exchanges(before), ("two", "Anew."))
    assert [conversation(request.body) for request in server.requests[1:]] == [
        conversation(server.requests[1].body)
    ] * 2
    capsys.readouterr()
    assert main(["messages", "d.md", "--again", "--at", "1"]) == 1
    told = "no prompt is pending or answered at line 1 (none is pending; answered prompts are at 3)"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Text.", "Other text."),
        ("?: one", "?: one?"),
        ("# A\n", "---\nmodel:\n  system: Be kind.\n---\n\n# A\n"),
        ("# A\n", "---\nmodel:\n  major: openaicompatible/other\n---\n\n# A\n"),
    ],
    ids=["the text", "the prompt", "the system message", "the model"],
)
def test_another_question_is_asked(server: ScriptedServer, answered: Path, old: str, new: str) -> None:
    """The journal answers only what was asked: this prompt, about this text, of this model."""
    answered.write_text(DOCUMENT.replace(old, new))
    scan_messages(answered)
    assert len(server.requests) == 4


def test_only_the_last_reply_before_a_failure_is_remembered(server: ScriptedServer, folder: Path) -> None:
    """The journal has what arrived, whole replies only."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    server.queue("First.", Action("half a second reply", cut_after=1))
    scan_messages(path)
    path.write_text(DOCUMENT)
    server.queue("Second.")
    scan_messages(path)
    assert exchanges_of(path) == [("one", "First."), ("two", "Second.")]
    assert server.prompts == ["one", "two", "two"]


def test_a_copy_of_the_document_costs_nothing(server: ScriptedServer, answered: Path, folder: Path) -> None:
    """Entries are found by what was asked, not by the file's name."""
    (folder / "copy.md").write_text(DOCUMENT)
    scan_messages(folder / "copy.md")
    assert (exchanges_of(folder / "copy.md"), len(server.requests)) == (exchanges_of(answered), 2)


def test_a_damaged_journal_is_asked_around(server: ScriptedServer, answered: Path, state_folder: Path) -> None:
    """Entries that cannot be read count as none, whatever is in them."""
    entries = list(state_folder.glob("journal/*/*.json"))
    assert len(entries) == 2
    for entry, damage in zip(entries, (b"\xff\x00", b'{"text": 3'), strict=True):
        entry.write_bytes(damage)
    answered.write_text(DOCUMENT)
    scan_messages(answered)
    assert len(exchanges_of(answered)) == 2
    for entry, damage in zip(entries, (b"{}", b"[]"), strict=True):
        entry.write_bytes(damage)
    answered.write_text(DOCUMENT)
    scan_messages(answered)
    assert (len(exchanges_of(answered)), len(server.requests)) == (2, 6)


def test_the_journal_is_private(server: ScriptedServer, answered: Path, state_folder: Path) -> None:
    """Only the user may read what was asked and answered."""
    entries = list(state_folder.glob("journal/*/*.json"))
    assert {entry.stat().st_mode & 0o777 for entry in entries} == {0o600}
    assert {entry.parent.stat().st_mode & 0o777 for entry in entries} == {0o700}


def test_a_journal_that_cannot_be_written_costs_no_reply(
    server: ScriptedServer, folder: Path, state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reply goes into the document all the same; once, it is told that it is not remembered."""
    (state_folder / "journal").write_text("in the way")
    for words in ([], ["--json"]):
        (folder / "d.md").write_text(DOCUMENT)
        assert main(["messages", "d.md", *words]) == 0
        assert exchanges_of(folder / "d.md") == [("one", "Reply to: one"), ("two", "Reply to: two")]
        told = "".join(capsys.readouterr())
        assert told.count(f"cannot write to {state_folder / 'journal'}: ") == 1
        assert "LMM_STATE_DIR" in told


@pytest.mark.parametrize("words", [["messages"], ["messages", "--json"], ["scan"], ["clear"]])
def test_a_change_that_cannot_be_recorded_is_told(
    server: ScriptedServer, answered: Path, state_folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The change stays, and its author knows that it cannot be taken back."""
    if words[0] == "messages":
        answered.write_text(DOCUMENT)
    before = answered.read_text()
    shutil.rmtree(state_folder / "undo")
    (state_folder / "undo").write_text("in the way")
    capsys.readouterr()
    assert main([*words, "d.md"]) == 0
    assert answered.read_text() != before
    told = "".join(capsys.readouterr())
    assert told.count("d.md: saved, but lmm undo cannot take this back: ") == 1
    assert f"cannot write to {state_folder / 'undo'}: " in told


def test_a_state_folder_that_cannot_be_used_is_told_before_a_model_is_asked(
    server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without locks and journal we do not start; the message names the folder and the variable."""
    (folder / "d.md").write_text(DOCUMENT)
    monkeypatch.setenv("LMM_STATE_DIR", str(folder / "d.md" / "state"))
    assert main(["messages", "d.md"]) == 1
    assert ((folder / "d.md").read_text(), server.requests) == (DOCUMENT, [])
    errors = capsys.readouterr().err
    assert "LMM_STATE_DIR" in errors
    assert str(folder / "d.md" / "state") in errors


def test_nothing_but_replies_is_remembered(server: ScriptedServer, folder: Path, state_folder: Path) -> None:
    """A failed call leaves no entry, and no key of the author's is in any file of ours."""
    server.answer = lambda request: fail(500)
    (folder / "d.md").write_text(DOCUMENT)
    scan_messages("d.md")
    assert list(state_folder.glob("journal/*/*")) == []


def test_what_a_killed_process_left_behind_is_removed(
    server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary files that nobody writes any more go with the next save; a younger one may be in use."""
    (folder / "d.md").write_text(DOCUMENT)
    monkeypatch.setattr(swap, "LEFT_AFTER", -60.0)  # what is not from a minute ahead is old
    for name, age in ((".lmm-old.tmp", 0), (".lmm-new.tmp", -3600), (".other.tmp", 0), (".lmm-patch.old", 0)):
        (folder / name).write_text("half")
        os.utime(folder / name, (time.time() - age, time.time() - age))
    scan_messages("d.md")
    assert files_in(folder) == {"config.toml", "d.md", ".lmm-new.tmp", ".other.tmp", ".lmm-patch.old"}


def test_the_answer_depends_on_earlier_exchanges(server: ScriptedServer, folder: Path) -> None:
    """The same continuation of another chat is another question."""
    for first in ("one", "other"):
        (folder / "d.md").write_text(DOCUMENT.replace("?: one", f"?: {first}"))
        scan_messages(
            "d.md",
        )
    assert server.prompts == ["one", "two", "other", "two"]


def test_half_a_surrogate_pair_in_a_recorded_reply_is_stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No UTF-8 file can hold it: it is a visible U+FFFD from the moment in which the reply arrives."""
    path = folder / "d.md"
    path.write_text("# A\n\n---\n?: one\n---\nText.\n")
    (folder / "replies.json").write_text('[{"prompt": "one", "reply": "a \\ud800 b \\ud83d\\ude00"}]')
    for _ in range(2):  # the second time from the journal
        assert main(["messages", "--model", "Recorded/replies.json", "d.md"]) == 0
        assert exchanges_of(path) == [("one", "a \ufffd b \U0001f600")]
        path.write_text("# A\n\n---\n?: one\n---\nText.\n")
    assert "remembered from an earlier run" in capsys.readouterr().out


@pytest.mark.parametrize("reply", ["a \ud800 b", Reply("a \ud800 b", "Mine/model")])
def test_half_a_surrogate_pair_of_a_scripted_model_is_stored(folder: Path, reply: str | Reply) -> None:
    """Whoever makes the reply: a model of the user's too."""
    path = folder / "d.md"
    path.write_text("# A\n\n---\n?: one\n---\nText.\n")
    scan_messages(path, model=ScriptedModel([reply]))
    assert exchanges_of(path) == [("one", "a \ufffd b")]
