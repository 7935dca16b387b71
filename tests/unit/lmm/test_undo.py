"""Our changes to a file are taken back, the author's stay."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import talking

from lmm import Document
from lmm.cli.main import main
from lmm.disk import files, undo
from lmm.errors import FileReadError, LmmError
from lmm.scan import scan, scan_messages, scan_rag
from lmm.testing import ScriptedModel

DOCUMENT = (
    "---\r\ntitle: T\r\n---\r\n\r\n# A\r\n\r\n---\r\n=: shorter\r\n?: why?\r\n---\r\nA long text.\r\n\r\nThe end."
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document with an edit and a question that wait."""
    file = tmp_path / "notes.md"
    file.write_bytes(DOCUMENT.encode())
    return file


def answer(path: Path) -> None:
    """Answer what waits."""
    scan_messages(path, model=ScriptedModel(["A text.", "So."]))


def test_several_undos_go_further_back(path: Path) -> None:
    """Through every command that changes documents, byte for byte."""
    states = [path.read_bytes()]
    changes: list[Callable[[Path], object]] = [
        answer,
        lambda p: talking.resolved(p, Document.accept),
        lambda p: talking.resolved(p, Document.clear),
        scan,
        lambda p: scan_rag(p, model=ScriptedModel([])),
    ]
    for change in changes:
        change(path)
        states.append(path.read_bytes())
    assert len(set(states)) == 6
    for number, state in reversed(list(enumerate(states[:-1]))):
        assert undo.take_back(path).left == number
        assert path.read_bytes() == state
    with pytest.raises(LmmError, match="no change by lmm is left here to take back"):
        undo.take_back(path)


def test_what_was_written_elsewhere_since_stays(path: Path) -> None:
    """Before and after the place, and next to it."""
    answer(path)
    text = path.read_bytes().replace(b"# A", b"# B").replace(b"The end.", b"The end.\r\n\r\nMore.")
    path.write_bytes(text.replace(b"title: T", b"title: T\r\nlang: de"))
    undo.take_back(path)
    expected = DOCUMENT.replace("# A", "# B").replace("The end.", "The end.\r\n\r\nMore.")
    assert path.read_bytes().decode() == expected.replace("title: T", "title: T\r\nlang: de")


def test_a_place_that_was_changed_since_is_not_taken_back(path: Path) -> None:
    """The error names the line; nothing is written, and the change can be taken back later."""
    answer(path)
    ours = path.read_bytes()
    path.write_bytes(theirs := ours.replace(b"A text.", b"A text of mine."))
    line = theirs[: theirs.index(b"of mine")].count(b"\n") + 1
    with pytest.raises(LmmError, match="was changed again after") as error:
        undo.take_back(path)
    assert error.value.where == f"{path}:{line}"
    assert path.read_bytes() == theirs
    path.write_bytes(ours)
    undo.take_back(path)
    assert path.read_bytes() == DOCUMENT.encode()


@pytest.mark.parametrize("now", ["# A\n\none\n\n## C\n\nthree\n", "# A\n\none\n\n## New\n\nmine\n\n## C\n\nthree\n"])
def test_what_was_taken_out_of_a_section_that_is_gone_is_not_put_into_another(path: Path, now: str) -> None:
    """The chat about a section that its author deletes, or puts another one in the place of, is about no other one."""
    path.write_text("# A\n\none\n\n---\n?: why?\n---\n## B\n\ntwo\n\n## C\n\nthree\n")
    scan_messages(path, model=ScriptedModel(["So."]))
    talking.resolved(path, Document.clear)
    assert "~chat_" not in path.read_text()
    path.write_text(now)
    with pytest.raises(LmmError, match="was changed again after"):
        undo.take_back(path)
    assert path.read_text() == now


def test_what_the_author_undid_is_passed_over(path: Path) -> None:
    """The change before it is the last one that is still there."""
    answer(path)
    answered = path.read_bytes()
    talking.resolved(path, Document.reject)
    path.write_bytes(answered)
    undo.take_back(path)
    assert path.read_bytes() == DOCUMENT.encode()


def test_a_save_in_the_moment_of_an_undo_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is taken back in what was saved."""
    answer(path)

    def late(target: Path, data: str, *, expected: bytes) -> None:
        monkeypatch.setattr(undo, "replace", files.replace)
        path.write_bytes(path.read_bytes() + b"\r\n\r\nLate.\r\n")
        files.replace(target, data, expected=expected)

    monkeypatch.setattr(undo, "replace", late)
    undo.take_back(path)
    assert path.read_bytes().decode() == f"{DOCUMENT}\r\n\r\nLate.\r\n"


def test_an_undo_between_an_editors_removing_and_writing_waits(path: Path) -> None:
    """As saving does: the file is missing for a moment, or empty."""
    answer(path)
    text = path.read_bytes()
    for start in (path.unlink, lambda: path.write_bytes(b"")):
        path.write_bytes(text)
        undo.remember(path, DOCUMENT, text.decode())
        start()
        writing = threading.Timer(0.2, path.write_bytes, [text])
        writing.start()
        assert main(["undo", str(path)]) == 0
        writing.join()
        assert path.read_bytes() == DOCUMENT.encode()


def test_nothing_but_changes_of_this_file(path: Path) -> None:
    """A file that is gone is not made again; a file that we never changed has nothing."""
    answer(path)
    other = path.with_name("other.md")
    other.write_text("x")
    with pytest.raises(LmmError, match="no change by lmm is left here"):
        undo.take_back(other)
    other.unlink()
    with pytest.raises(FileReadError, match="there is no such file"):
        undo.take_back(other)
    path.unlink()
    with pytest.raises(FileReadError):
        undo.take_back(path)
    assert not path.exists()


def test_the_memory_is_private_and_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In number, age and size; nobody else may read it; a damaged record is passed over."""
    monkeypatch.setattr(undo, "KEEP_CHANGES", 3)
    for number in range(5):
        undo.remember(path, f"{number}\n", f"{number + 1}\n")
    folder = undo._folder(path)
    records = sorted(folder.iterdir())
    assert len(records) == 3
    assert {record.stat().st_mode & 0o777 for record in records} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    records[-1].write_bytes(b"damaged")
    path.write_text("4\n")
    undo.take_back(path)
    assert path.read_text() == "3\n"
    old = (time.time() - 31 * 86400) * 1e9
    (folder / f"{int(old):020}").write_bytes(b"x")
    os.utime(undo._root() / "tidied", (0, 0))
    undo._tidy()
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(undo, "KEEP_BYTES", 1)
    os.utime(undo._root() / "tidied", (0, 0))
    undo._tidy()
    assert not folder.exists()


def test_the_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it took back and what is left; where there is nothing, exit 1 and why."""
    answer(path)
    talking.resolved(path, Document.accept)
    assert main(["undo", str(path)]) == 0
    assert "; 1 earlier can be taken back too" in capsys.readouterr().out
    assert main(["undo", str(path), str(path)]) == 1
    told = capsys.readouterr()
    assert ": took back the change of 20" in told.out
    assert "no change by lmm is left here to take back" in told.err
    assert path.read_bytes() == DOCUMENT.encode()
