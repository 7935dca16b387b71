"""A transcript on disk: appended to, reverted, locked by one process, and merged with changes by others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chatmd import Chat
from chatmd.runtime.transcript_file import Transcript, open_transcript
from lmm.errors import DocumentBusy, FileReadError, FileWriteError

BEGIN = "<user>Why?</user>\n"


def make(folder: Path, text: str = BEGIN) -> Path:
    path = folder / "a.chatmd"
    path.write_bytes(text.encode())
    return path


def test_it_grows_and_can_be_taken_back(tmp_path: Path) -> None:
    """Every byte as given, on disk at once; the same in memory."""
    path = make(tmp_path)
    memory = Transcript(BEGIN)
    with open_transcript(path) as transcript:
        for one in (transcript, memory):
            one.append("a\r\n")
            one.mark()
            one.append("é|")
            one.append("\U0001f600")
            assert one.since_mark == "é|\U0001f600"
            assert one.end.endswith("|\U0001f600")
            one.take_back()
            one.append("b")
            assert one.text == f"{BEGIN}a\r\nb"
        assert path.read_bytes() == f"{BEGIN}a\r\nb".encode()
        assert not transcript.settle()


def test_the_users_empty_place_is_filled(tmp_path: Path) -> None:
    """The blank message is removed if it is the last element; its neighbours stay."""
    path = make(tmp_path, f"é{BEGIN}\n<user>\n\n</user>\n")
    with open_transcript(path) as transcript:
        transcript.drop_blank_turn()
        transcript.append("\nx")
        transcript.drop_blank_turn()
    assert path.read_bytes() == f"é{BEGIN.rstrip()}\nx".encode()


def test_a_second_process_is_told(tmp_path: Path) -> None:
    """The lock is released when the process ends."""
    path = make(tmp_path)
    with open_transcript(path), pytest.raises(DocumentBusy, match="another lmm"), open_transcript(path):
        pass
    with open_transcript(path):
        pass


@pytest.mark.parametrize("tail", [b"\xf0\x9f\x98", b"\xc3", b"<assistant>\nRAW|Beca\xe2\x82"])
def test_torn_characters(tmp_path: Path, tail: bytes) -> None:
    """After a crash in the middle of a character, it is removed with the half reply; the original is kept."""
    path = make(tmp_path)
    path.write_bytes(torn := BEGIN.encode() + tail)
    assert Chat.open(path).text.startswith(BEGIN.rstrip("\n"))
    with open_transcript(path) as transcript:
        assert transcript.text.startswith(BEGIN.rstrip("\n"))
    (kept,) = (path.parent / ".chatmd").iterdir()
    assert (kept.read_bytes(), str(kept) in transcript.notes[-1]) == (torn, True)
    path.read_bytes().decode("utf-8")


def test_what_is_not_utf8_elsewhere_is_an_error(tmp_path: Path) -> None:
    """A crash does not leave such text."""
    path = tmp_path / "a.chatmd"
    path.write_bytes(b"caf\xe9 <user>x</user>")
    with pytest.raises(FileReadError, match="not UTF-8"), open_transcript(path):
        pass


# -- changes by other programs -------------------------------------------------------------------


def save_in_place(path: Path, text: str) -> None:
    """Save like some editors, in place."""
    path.write_bytes(text.encode())


def save_by_replacing(path: Path, text: str) -> None:
    """Save like other editors, by replacing the file."""
    other = path.with_suffix(".tmp")
    other.write_bytes(text.encode())
    other.replace(path)


@pytest.mark.parametrize("save", [save_in_place, save_by_replacing])
def test_an_old_version_is_saved(tmp_path: Path, save: object) -> None:
    """An editor opened the file before the run: our text is appended to its version."""
    begin = "<user>How?</user>\n" + "<assistant>So.</assistant>\n" * 5 + BEGIN
    path = make(tmp_path, begin)
    with open_transcript(path) as transcript:
        transcript.mark()
        transcript.append("\n<x>one</x>\n")
        assert callable(save)
        save(path, begin.replace("How", "But how"))
        transcript.append("two\n")
        assert transcript.settle()
        transcript.append("three\n")
        assert not transcript.settle()
    assert path.read_text() == begin.replace("How", "But how") + "\n<x>one</x>\ntwo\nthree\n"


def test_an_editor_has_none_of_several_pieces(tmp_path: Path) -> None:
    """It opened the file before a long turn; its additions come after all our pieces."""
    path = make(tmp_path)
    with open_transcript(path) as transcript:
        for piece in ("\n<x>one</x>\n", "<x>two</x>\n"):
            transcript.mark()
            transcript.append(piece)
            transcript.settle()
        transcript.mark()
        save_in_place(path, f"{BEGIN}\n<user>And?</user>\n")
        transcript.append("<x>three</x>\n")
    assert path.read_text() == f"{BEGIN}\n<x>one</x>\n<x>two</x>\n<x>three</x>\n\n<user>And?</user>\n"


def test_something_is_written_behind_us(tmp_path: Path) -> None:
    """It stays after our text; what we write after reading it comes after it."""
    path = make(tmp_path)
    with open_transcript(path) as transcript:
        transcript.mark()
        with path.open("a") as file:
            file.write("<user>And?</user>\n")
        assert transcript.changed
        assert transcript.text.endswith("<user>And?</user>\n")
        transcript.append("\none\n")
        transcript.mark()
        transcript.append("two\n")
        transcript.take_back()
        assert transcript.settle()
        assert path.read_bytes() == f"{BEGIN}\none\n\n<user>And?</user>\n".encode()
        transcript.append("three\n")
        assert not transcript.settle()
        assert path.read_bytes() == f"{BEGIN}\none\n\n<user>And?</user>\nthree\n".encode()


@pytest.mark.parametrize("word", ["one", "Why"])
def test_an_editor_changes_the_place_of_what_is_written(tmp_path: Path, word: str) -> None:
    """The editor's version stays, and ours is saved beside it: nothing is merged, and nothing is duplicated."""
    path = make(tmp_path)

    def write() -> None:
        with open_transcript(path) as transcript:
            transcript.mark()
            transcript.append("\n<x>one</x>\n")
            save_in_place(path, path.read_text().replace(word, "changed"))
            transcript.append("<x>two</x>\n")

    with pytest.raises(FileReadError, match=r"changed where the run was writing.*a\.aside\.chatmd"):
        write()
    assert path.read_text() == f"{BEGIN}\n<x>one</x>\n".replace(word, "changed")
    assert (tmp_path / ".chatmd" / "a.aside.chatmd").read_text() == f"{BEGIN}\n<x>one</x>\n<x>two</x>\n"


def test_nothing_is_written_into_a_file_that_somebody_writes(tmp_path: Path) -> None:
    """If an editor empties the file first, our text is appended after the editor has finished."""
    path = make(tmp_path)
    with open_transcript(path) as transcript:
        transcript.mark()
        with path.open("w") as file:
            transcript.append("\none\n")
            assert not transcript.is_still()
            file.write(BEGIN)
            file.flush()
            assert path.read_text() == BEGIN
            file.write("<user>And?</user>\n")
        transcript.append("two\n")
        assert not transcript.is_still()
        assert path.read_text() == f"{BEGIN}<user>And?</user>\n"
        assert transcript.settle()
    assert path.read_text() == f"{BEGIN}\none\ntwo\n\n<user>And?</user>\n"


@pytest.mark.parametrize("data", [b"", b"caf\xe9 <user>x</user>"])
def test_what_cannot_be_gone_on_with(tmp_path: Path, data: bytes) -> None:
    """The file is not changed; our text is kept beside it, and the next run reports that."""
    path = make(tmp_path)

    def write() -> None:
        with open_transcript(path) as transcript:
            transcript.mark()
            path.write_bytes(data)
            transcript.append("\none\n")

    with pytest.raises(FileReadError, match=r"emptied|not UTF-8") as raised:
        write()
    aside = tmp_path / ".chatmd" / "a.aside.chatmd"
    assert str(aside) in str(raised.value)
    assert (path.read_bytes(), aside.read_text()) == (data, f"{BEGIN}\none\n")
    save_in_place(path, BEGIN)
    with open_transcript(path) as transcript:
        assert "a.aside.chatmd contains what" in transcript.notes[0]


def test_a_file_that_is_deleted_is_written_again(tmp_path: Path) -> None:
    """Nothing that was there or that we wrote is lost."""
    path = make(tmp_path)
    with open_transcript(path) as transcript:
        transcript.append("\none\n")
        path.unlink()
        transcript.append("two\n")
    assert path.read_bytes() == f"{BEGIN}\none\ntwo\n".encode()


def test_what_others_write_stays_where_it_is_if_nothing_of_ours_does(tmp_path: Path) -> None:
    """A reply that was held back and then reverted is no reason to rewrite the file."""
    path = tmp_path / "a.chatmd"
    path.write_text("<user>A</user>\n")
    with open_transcript(path) as transcript:
        transcript.mark()
        with path.open("a") as file:
            file.write("\n\n<user>B</user>\n")
        transcript.append("<assistant>")
        transcript.take_back()
        transcript.settle()
        assert transcript.text == path.read_text() == "<user>A</user>\n\n\n<user>B</user>\n"


def test_a_touch_changes_nothing(tmp_path: Path) -> None:
    """The same text with another modification time is the same text."""
    path = make(tmp_path)
    with open_transcript(path) as transcript:
        transcript.append("one")
        os.utime(path, (1, 1))
        transcript.append("two")
        assert not transcript.settle()
    assert path.read_text() == f"{BEGIN}onetwo"


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Its target is written; the link stays."""
    path, link = make(tmp_path), tmp_path / "link.chatmd"
    link.symlink_to(path)
    with open_transcript(link) as transcript:
        transcript.mark()
        transcript.append("one")
        path.write_text(f"{BEGIN}<user>Other</user>\n")
        transcript.append("two")
    assert link.is_symlink()
    assert path.read_text() == f"{BEGIN}onetwo\n\n<user>Other</user>\n"


# -- errors ----------------------------------------------------------------------------------------

_FULL = """
import resource, signal, sys
from pathlib import Path
from chatmd.runtime.transcript_file import open_transcript
from lmm.errors import FileWriteError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with open_transcript(path) as transcript:
    transcript.append("fits\\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    transcript.mark()
    transcript.append("fits too\\n")
    try:
        transcript.append("x" * 200)
    except FileWriteError as error:
        print(error)
    transcript.take_back()
    transcript.append("end\\n")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are Unix")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The error is clear; the incomplete piece is removed, and the file can be reverted."""
    path = make(tmp_path)
    done = subprocess.run([sys.executable, "-c", _FULL, path], capture_output=True, text=True, check=True)
    assert "cannot be written: File too large" in done.stdout
    assert path.read_text() == f"{BEGIN}fits\nend\n"


def test_a_file_that_is_read_only(tmp_path: Path) -> None:
    """It is refused before anything is paid for."""
    path = make(tmp_path)
    path.chmod(0o444)
    with pytest.raises(FileWriteError, match="read-only"), open_transcript(path):
        pass


def test_what_is_only_in_memory_is_never_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it takes long: runs of agents and of lmm refine have no file."""
    monkeypatch.setattr("chatmd.runtime.transcript_file._SYNC_EVERY", -1.0)
    memory = Transcript(BEGIN)
    memory.append("<assistant>So.</assistant>\n")
    assert not memory.settle()
    assert memory.text.endswith("So.</assistant>\n")
