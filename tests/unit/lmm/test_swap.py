"""What others save in the very moment in which we replace a file is never lost."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmm import Document
from lmm.disk import files, swap
from lmm.disk.swap import remove_leftovers
from lmm.errors import Changed
from lmm.markdown.blocks import TextBlock

OLD, OURS, THEIRS = b"old\n", b"ours\n", b"theirs\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document on disk."""
    file = tmp_path / "notes.md"
    file.write_bytes(OLD)
    return file


def by_renaming(path: Path, data: bytes = THEIRS) -> None:
    """Save as most editors do."""
    new = path.with_name(".editor")
    new.write_bytes(data)
    new.replace(path)


def in_place(path: Path, data: bytes = THEIRS) -> None:
    """Save as some editors do."""
    path.write_bytes(data)


SAVES = [by_renaming, in_place]


def aimed(monkeypatch: pytest.MonkeyPatch, *moments: Callable[[], object]) -> None:
    """Let something happen directly before each exchange of two files."""
    real, waiting = swap.exchange, list(moments)

    def exchanged(one: Path, two: Path) -> None:
        if waiting:
            waiting.pop(0)()
        real(one, two)

    monkeypatch.setattr(swap, "exchange", exchanged)


def without_exchange(monkeypatch: pytest.MonkeyPatch, moment: Callable[[], object]) -> None:
    """A file system that cannot exchange files; `moment` happens when that is tried."""

    def refused(one: Path, two: Path) -> None:
        moment()
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(swap, "exchange", refused)


def names(path: Path) -> list[str]:
    """What lies in the file's folder."""
    return sorted(found.name for found in path.parent.iterdir())


def test_what_was_expected_is_replaced(path: Path) -> None:
    """The mode is kept, nothing is left beside the file."""
    path.chmod(0o640)
    files.replace(path, OURS, expected=OLD)
    assert (path.read_bytes(), path.stat().st_mode & 0o777, names(path)) == (OURS, 0o640, ["notes.md"])


def test_what_was_not_expected_is_left(path: Path) -> None:
    """The error has what stands there."""
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=b"older\n")
    assert (found.value.theirs, path.read_bytes(), names(path)) == (OLD, OLD, ["notes.md"])


@pytest.mark.parametrize("save", SAVES)
def test_a_save_between_the_last_look_and_the_exchange(
    path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path], None]
) -> None:
    """It stands there afterwards, and the caller gets it."""
    aimed(monkeypatch, lambda: save(path))
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=OLD)
    assert (found.value.theirs, path.read_bytes(), names(path)) == (THEIRS, THEIRS, ["notes.md"])


@pytest.mark.parametrize("save", SAVES)
def test_a_second_save_while_the_first_is_put_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, bytes], None]
) -> None:
    """The later one stays, whatever came in between."""
    aimed(monkeypatch, lambda: save(path, THEIRS), lambda: save(path, b"later\n"))
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=OLD)
    assert (found.value.theirs, path.read_bytes(), names(path)) == (b"later\n", b"later\n", ["notes.md"])


def test_an_editor_that_removes_the_file_before_it_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is put where it will write."""
    aimed(monkeypatch, path.unlink)
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=OLD)
    assert (found.value.theirs, names(path)) == (None, [])


def test_a_file_that_is_removed_while_a_save_is_put_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they saved before is there, and not lost with ours."""
    aimed(monkeypatch, lambda: by_renaming(path), path.unlink)
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=OLD)
    assert (found.value.theirs, path.read_bytes(), names(path)) == (THEIRS, THEIRS, ["notes.md"])


def test_a_program_that_opened_the_file_before_and_writes_after_the_exchange(path: Path) -> None:
    """It writes into the old file, which is looked at until nobody can write to it; then that stands there again."""
    opened = path.open("r+b", buffering=0)

    def write_later() -> None:
        time.sleep(0.02)
        opened.write(b"THEY\n")
        opened.close()

    writing = threading.Thread(target=write_later)
    writing.start()
    with pytest.raises(Changed):
        files.replace(path, OURS, expected=OLD)
    writing.join()
    assert (path.read_bytes(), names(path)) == (b"THEY\n", ["notes.md"])


def test_a_program_that_only_reads_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer may keep the file open."""
    monkeypatch.setattr("lmm.disk.swap.time.sleep", lambda seconds: pytest.fail("waited"))
    with path.open("rb"):
        files.replace(path, OURS, expected=OLD)
    assert path.read_bytes() == OURS


@pytest.mark.parametrize("save", SAVES)
def test_where_files_cannot_be_exchanged(
    path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path], None]
) -> None:
    """The old file is looked at once more before the renaming, and after it."""
    without_exchange(monkeypatch, lambda: None)
    files.replace(path, OURS, expected=OLD)
    assert (path.read_bytes(), names(path)) == (OURS, ["notes.md"])
    without_exchange(monkeypatch, lambda: save(path))
    with pytest.raises(Changed) as found:
        files.replace(path, b"ours again\n", expected=OURS)
    assert (found.value.theirs, path.read_bytes(), names(path)) == (THEIRS, THEIRS, ["notes.md"])


def test_where_files_cannot_be_exchanged_a_save_in_place_is_found_in_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link to the old file tells what was written into it between the last look and the renaming."""
    real = Path.replace

    def late(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", real)
        in_place(path)
        return real(self, target)

    without_exchange(monkeypatch, lambda: monkeypatch.setattr(Path, "replace", late))
    with pytest.raises(Changed) as found:
        files.replace(path, OURS, expected=OLD)
    assert (found.value.theirs, path.read_bytes(), names(path)) == (THEIRS, THEIRS, ["notes.md"])


def test_where_files_can_neither_be_exchanged_nor_linked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look is all there is."""
    without_exchange(monkeypatch, lambda: None)

    def refused(*arguments: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    files.replace(path, OURS, expected=OLD)
    with pytest.raises(Changed):
        files.replace(path, OURS, expected=OLD)
    assert (path.read_bytes(), names(path)) == (OURS, ["notes.md"])


# -- killed in between --------------------------------------------------------------------------------

KILLED = """
import os, pathlib, signal, sys
from lmm.disk import files, swap
path, theirs = pathlib.Path(sys.argv[1]), sys.argv[2]
real = swap.exchange
def exchange_and_die(new, target):
    if theirs:
        target.write_text(theirs)
    real(new, target)
    os.kill(os.getpid(), signal.SIGKILL)
swap.exchange = exchange_and_die
files.replace(path, "ours", expected=b"base")
"""


def _killed_after_the_exchange(path: Path, theirs: str) -> Path:
    """What a run leaves that is killed right after its exchange, `theirs` having been saved right before."""
    path.write_text("base")
    done = subprocess.run([sys.executable, "-c", KILLED, path, theirs], timeout=60)
    assert (done.returncode, path.read_text()) == (-signal.SIGKILL, "ours")
    [left] = path.parent.glob(".lmm-*")
    assert left.read_text() == (theirs or "base")
    return left


@pytest.mark.skipif(os.name == "nt", reason="nothing is killed that way there")
def test_a_save_that_a_killed_run_had_taken_out_is_kept_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep deletes what we know; what its author saved in that moment gets a name that a person finds."""
    path = tmp_path / "d.md"
    left = _killed_after_the_exchange(path, "what its author saved")
    assert remove_leftovers(tmp_path) == []  # it may be in use
    assert left.exists()
    monkeypatch.setattr(swap, "LEFT_AFTER", -1)
    told: list[str] = []
    document = Document.open(path, listener=lambda event, place: told.append(f"{place}: {getattr(event, 'text', '')}"))
    document._replace([TextBlock("ours, and more", 1)])
    document.save()
    [kept] = tmp_path.glob("recovered-*.md")
    assert (kept.read_text(), path.read_text()) == ("what its author saved", "ours, and more")
    assert [kept.name in line and line.startswith(f"{path}: ") for line in told] == [True]
    assert {file.name for file in tmp_path.iterdir()} == {"d.md", kept.name}


@pytest.mark.skipif(os.name == "nt", reason="nothing is killed that way there")
@pytest.mark.parametrize("now", ["base", "ours"])
def test_what_a_killed_run_left_and_is_known_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str) -> None:
    """The text that was read, or the one that was written: neither is anybody's only copy."""
    left = _killed_after_the_exchange(tmp_path / "d.md", "")
    left.write_text(now)
    monkeypatch.setattr(swap, "LEFT_AFTER", -1)
    assert remove_leftovers(tmp_path) == []
    assert {file.name for file in tmp_path.iterdir()} == {"d.md"}


@pytest.mark.skipif(os.name == "nt", reason="nothing is killed that way there")
def test_a_file_that_is_being_exchanged_is_not_swept(tmp_path: Path) -> None:
    """What was taken out carries the time of its last save, however long ago: its age counts from the exchange."""
    path = tmp_path / "d.md"
    path.write_text("base")
    os.utime(path, (0, 0))
    done = subprocess.run([sys.executable, "-c", KILLED, path, ""], timeout=60)
    assert done.returncode == -signal.SIGKILL
    [left] = tmp_path.glob(".lmm-*")
    os.utime(left, (0, 0))
    remove_leftovers(tmp_path)
    assert left.exists()
