"""`lmm undo` of a conversation reverts what its tools changed, and keeps later changes by others."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from chatmd import Chat
from chatmd.runtime.transcript_file import open_transcript, rewind_transcript
from chatmd.tools.patch import apply_patch
from chatmd.tools.roots import Root, ToolRoots
from lmm.cli.main import main
from lmm.disk.undo import as_one_change, take_back
from lmm.errors import LmmError
from lmm.messages import Reply, ToolCall
from lmm.testing import ScriptedModel

TOOLS = '<tool name="apply_patch"/>\n<tool name="write_file"/>\n'
PATCH = ("Update File: a.md", "-one", "+ONE", "*** Add File: new/n.md", "+n", "*** Delete File: run.sh",
         "*** Update File: b.md", "*** Move to: moved.md", "-two", "+TWO")  # fmt: skip


def patch(*lines: str) -> ToolCall:
    text = "\n".join(["*** Begin Patch", f"*** {lines[0]}", *lines[1:], "*** End Patch"])
    return ToolCall("1", "apply_patch", json.dumps({"patch": text}))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the contents and modes of the files below a folder, without the conversation's own."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".chatmd" not in str(path.relative_to(folder)))
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode) for path in files}


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A conversation beside some files."""
    (tmp_path / "a.md").write_text("one\n\nx\n\nlast\n")
    (tmp_path / "b.md").write_bytes(b"two\r\n")
    (tmp_path / "run.sh").write_bytes(b"\xff\n")
    (tmp_path / "run.sh").chmod(0o700)
    path = tmp_path / "chat.chatmd"
    path.write_text(f"{TOOLS}<user>Change them.</user>\n")
    return path


def run(path: Path, *turns: Sequence[ToolCall]) -> list[dict[str, tuple[bytes, int]]]:
    """Run one turn for each list of calls; return the files before each turn, and after the last."""
    states = [contents(path.parent)]
    for calls in turns:
        if len(states) > 1:
            Chat.open(path).say("Go on.")
        asked = [Reply("", "m", calls=(call,)) for call in calls]
        Chat.open(path).run(model=ScriptedModel([*asked, "Done."]), yes=True)
        states.append(contents(path.parent))
    return states


def test_each_undo_takes_back_a_turn(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte, with modes: changed, new, moved and removed files; several changes of one file are one."""
    write = {"path": "moved.md", "content": "again\n", "overwrite": True}
    more = [patch("Update File: a.md", "-x", f"+{word}") for word in ("y",)]
    more += [ToolCall("2", "write_file", json.dumps(write)), patch("Update File: a.md", "-y", "+z")]
    first, second, third = run(chat, [patch(*PATCH)], more)
    assert first != second != third
    for state, left in ((second, "; 1 earlier"), (first, "")):
        assert main(["undo", str(chat)]) == 0
        assert contents(chat.parent) == state
        told = capsys.readouterr().out
        assert (str(chat.parent / "a.md") in told, left in told) == (True, True)
    with pytest.raises(LmmError, match="no change by lmm is left here"):
        take_back(chat)


def test_what_was_changed_since_stays_and_is_named(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes elsewhere in a file are kept; a file changed in the same place, removed or replaced is named and kept."""
    outside = chat.parent.parent / "outside.md"
    outside.write_text("n\n")
    run(chat, [patch(*PATCH)])
    folder = chat.parent
    (folder / "a.md").write_text("ONE\n\nx\n\nlast, and mine\n")
    (folder / "new/n.md").unlink()
    (folder / "new/n.md").symlink_to(outside)
    (folder / "moved.md").write_text("mine\n")
    assert main(["undo", str(chat)]) == 1
    told = capsys.readouterr()
    assert (folder / "a.md").read_text() == "one\n\nx\n\nlast, and mine\n"
    assert ((folder / "b.md").read_bytes(), (folder / "moved.md").read_text()) == (b"two\r\n", "mine\n")
    assert (outside.read_text(), (folder / "new/n.md").is_symlink()) == ("n\n", True)
    assert all(name in told.out for name in ("a.md", "b.md", "run.sh"))
    assert "moved.md: this place was changed again after" in told.err
    assert f"moved from {folder / 'b.md'}, which is restored: the move is half undone" in told.err
    assert "n.md: a link leads elsewhere from here" in told.err
    (folder / "new/n.md").unlink()
    (folder / "moved.md").write_bytes(b"TWO\r\n")
    assert main(["undo", str(chat)]) == 0  # kept changes can be undone later; the deleted file has none
    assert not (folder / "moved.md").exists()


def test_a_moved_file_stays_while_its_source_cannot_be_restored(chat: Path) -> None:
    run(chat, [patch("Update File: b.md", "*** Move to: moved.md", "-two", "+TWO")])
    (chat.parent / "b.md").write_text("mine\n")
    assert "so it stays" in str(take_back(chat).failures[1])
    assert (chat.parent / "moved.md").read_bytes() == b"TWO\r\n"


@pytest.mark.parametrize(("by_hand", "undone"), [(False, "chat.chatmd"), (True, "chat.chatmd"), (False, "a.md")])
def test_the_model_is_told_once_what_was_undone(chat: Path, *, by_hand: bool, undone: str) -> None:
    """Before the next message, or after one that the user wrote into the file; also of one file that was undone."""
    run(chat, [patch("Update File: a.md", "-one", "+ONE")])
    take_back(chat.with_name(undone))
    if by_hand:
        chat.write_text(chat.read_text().rpartition("<user>")[0] + "<user>Go on.</user>\n")
    else:
        Chat.open(chat).say("Go on.")
    Chat.open(chat).run(model=(model := ScriptedModel(["Done."])), yes=True)
    told = [message.text for message in model.seen[0].messages if "undone" in message.text]
    assert told == ["I have undone your last changes in these files (lmm undo), so they are as they were before: a.md"]
    Chat.open(chat).say("Again.")
    assert chat.read_text().count("I have undone") == 1


def test_the_changes_of_a_message_that_is_taken_back_are_named(chat: Path) -> None:
    """But not those of an earlier turn, whose message may be the same."""
    run(chat, [patch("Update File: a.md", "-one", "+ONE")], [patch("Update File: a.md", "-x", "+y")], [])
    for changed in ((), (chat.parent / "a.md",)):
        with open_transcript(chat) as transcript:
            rewound = rewind_transcript(transcript)
        assert rewound is not None
        assert rewound.changed == changed


def test_a_folder_that_became_a_link_is_not_written_through(chat: Path) -> None:
    """Nothing is created, changed or removed in the target of the link."""
    run(chat, [patch("Add File: new/n.md", "+n")])
    elsewhere = chat.parent.parent / "elsewhere"
    (chat.parent / "new").rename(elsewhere)
    (chat.parent / "new").symlink_to(elsewhere)
    assert [error.where for error in take_back(chat).failures] == [str(chat.parent / "new/n.md")]
    assert (elsewhere / "n.md").read_text() == "n\n"


def test_two_undos_at_once_take_back_one_turn_each_at_most(chat: Path) -> None:
    """In any order: no file is left between two states."""
    states = run(chat, *([patch("Update File: a.md", f"-{old}", f"+{new}")] for old, new in ("xy", "yz", "zw")))

    def undo(_: int) -> int:
        try:
            return bool(take_back(chat).files)
        except LmmError:
            return 0

    with ThreadPoolExecutor(2) as pool:
        done = sum(pool.map(undo, range(2)))
    assert done
    assert contents(chat.parent) == states[3 - done]


LINES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)
CHANGES = st.lists(st.lists(st.tuples(st.sampled_from("pqr"), st.none() | LINES), min_size=1, max_size=4), max_size=4)


@settings(max_examples=20)
@given(CHANGES)
def test_turns_are_undone_in_any_history(turns: list[list[tuple[str, list[str] | None]]]) -> None:
    """Files are created, replaced and removed in turns; each undo restores the files before one of them."""
    with TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        roots, states = ToolRoots(folder, (Root(".", folder),)), [contents(folder)]
        for turn in turns:
            with as_one_change(folder / "chat.chatmd"):
                for file, lines in turn:
                    removed = [f"*** Delete File: {file}"] if (folder / file).exists() else []
                    added = [f"*** Add File: {file}", *(f"+{line}" for line in lines)] if lines else []
                    if removed or added:
                        apply_patch("\n".join(["*** Begin Patch", *removed, *added, "*** End Patch"]), roots)
            states.append(contents(folder))
        distinct = [state for number, state in enumerate(states) if number == 0 or state != states[number - 1]]
        for state in reversed(distinct[:-1]):
            take_back(folder / "chat.chatmd")
            assert contents(folder) == state
