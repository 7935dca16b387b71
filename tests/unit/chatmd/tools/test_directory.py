"""Listing and searching folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from unit.chatmd.tools.file_tools import call, workplace

from chatmd.errors import ChatmdError, FileRefused
from lmm.disk.opened import open_folder
from lmm.errors import FileReadError


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A folder with all kinds of entries that a listing must handle."""
    work = tmp_path / "work"
    for name, text in {
        "b.md": "Leaves are green.\n",
        "A.md": "Roots are not.\r\nLEAVES fall.\n",
        "notes/cells.md": "leaf " * 100 + "Leaves" + " leaf" * 100,
        "notes/deep/er/x.txt": "Leaves\n",
        "notes/.draft.md": "Leaves\n",
        "notes/built/out.md": "Leaves\n",
        "node_modules/p/index.md": "Leaves\n",
        ".git/config": "Leaves\n",
        ".env": "Leaves\n",
        ".github/w.yml": "Leaves\n",
        ".gitignore": "built/\n*.log\n!keep.log\n",
        "x.log": "Leaves\n",
        "notes/x.log": "Leaves\n",
        "notes/keep.log": "Leaves\n",
        "image.png": "\0Leaves\n",
        "old.txt": "",
        "big.bin": "x" * 1_234_567,
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(text.encode())
    (work / "old.txt").write_bytes(b"caf\xe9 Leaves\n")
    (work / "inside.md").symlink_to("notes/cells.md")
    (work / "outside").symlink_to("/etc")
    os.mkfifo(work / "pipe")
    (work / "line\nbreak").touch()
    (tmp_path / "secret.md").write_text("Leaves\n")
    return work


def test_one_folder(course: Path) -> None:
    """All its entries are listed, sorted without regard to case; special ones are marked."""
    assert call("read_directory", course).splitlines() == [
        "./:",
        ".env (7 bytes; keys or passwords, cannot be read)",
        ".git/",
        ".github/",
        ".gitignore (23 bytes)",
        "A.md (29 bytes)",
        "b.md (18 bytes)",
        "big.bin (1.2 MB)",
        "image.png (8 bytes)",
        "inside.md -> notes/cells.md",
        "line\\x0abreak (0 bytes)",
        "node_modules/",
        "notes/",
        "old.txt (12 bytes)",
        "outside -> outside of what the tool may use",
        "pipe (no ordinary file)",
        "x.log (7 bytes)",
    ]


def test_several_folders_deep(course: Path) -> None:
    """Below it, hidden and ignored files are left out, and internal folders are not opened."""
    text = call("read_directory", course, depth=3)
    assert [line for line in text.splitlines() if "/" in line and "->" not in line] == [
        "./:",
        ".git/ (not looked into)",
        ".github/ (not looked into)",
        "node_modules/ (not looked into)",
        "notes/",
        "notes/built/ (not looked into)",
        "notes/cells.md (1 kB)",
        "notes/deep/",
        "notes/deep/er/",
        "notes/keep.log (7 bytes)",
    ]


def test_what_is_named_is_listed(course: Path) -> None:
    """A hidden or ignored folder is listed if it is named; the rules of folders above it still apply."""
    assert call("read_directory", course, path=".github") == ".github/:\nw.yml (7 bytes)"
    assert call("read_directory", course, path="notes/built") == "notes/built/:\nout.md (7 bytes)"
    assert "x.log" in call("read_directory", course, path="notes")


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.md", ["A.md", "b.md", "notes/cells.md"]),
        ("**/*.{txt,yml}", ["notes/deep/er/x.txt", "old.txt"]),
        ("notes/*", ["notes/cells.md", "notes/keep.log"]),
        ("notes/**", ["notes/cells.md", "notes/deep/er/x.txt", "notes/keep.log"]),
        ("./b.md", ["b.md"]),
        ("*.rs", []),
        ("../*", []),
    ],
)
def test_a_glob(course: Path, glob: str, found: list[str]) -> None:
    """It selects files in all folders below; links are not followed."""
    text = call("read_directory", course, glob=glob)
    assert [line.rpartition(" (")[0] for line in text.splitlines()[1:] if "->" not in line] == found


def test_a_list_that_is_too_long(tmp_path: Path) -> None:
    """It is cut after a line, and says so."""
    for number in range(300):
        (tmp_path / f"a rather long name {number:03}").touch()
    text = call("read_directory", tmp_path, declared={"max_output": 3000})
    assert len(text) <= 3000
    assert text.endswith("[there is more than can be shown; list one of the folders, or give a glob]")
    assert text.count("\n") > 50


def test_folders_that_are_none(course: Path) -> None:
    """A file, a missing folder, an empty folder."""
    (course / "empty").mkdir()
    assert call("read_directory", course, path="empty") == "empty is empty."
    for path in ("b.md", "missing", "b.md/x"):
        with pytest.raises(FileReadError):
            call("read_directory", course, path=path)


def test_without_a_path_the_first_root(course: Path) -> None:
    """If the working folder is not one of the roots."""
    assert call("read_directory", course, declared={"roots": ("notes/deep", "notes/built")}).startswith("notes/deep/:")


# -- search_files ------------------------------------------------------------------------------------


def test_searching_a_folder(course: Path) -> None:
    """Each line with the text is found with its place, but not in hidden, ignored, secret or outside files."""
    lines = call("search_files", course, pattern="Leaves").splitlines()
    assert [line.split(": ")[0] for line in lines[:-1]] == [
        "b.md:1",
        "notes/cells.md:1",
        "notes/deep/er/x.txt:1",
        "notes/keep.log:1",
        "old.txt:1",
    ]
    assert lines[1].startswith("notes/cells.md:1: …")
    assert len(lines[1]) < 250
    assert lines[-1] == "[5 lines in 5 files fit]"


def test_ways_of_searching(course: Path) -> None:
    """Without regard to case, in some files, in one file, in a file that is otherwise skipped."""
    assert call("search_files", course, pattern="leaves", ignore_case=True, glob="*.md").splitlines()[:2] == [
        "A.md:2: LEAVES fall.",
        "b.md:1: Leaves are green.",
    ]
    assert call("search_files", course, pattern="Leaves", path="x.log").startswith("x.log:1: Leaves")
    assert call("search_files", course, pattern="Leaves", path=".github").startswith(".github/w.yml:1: Leaves")
    assert call("search_files", course, literal=True, pattern="(?:Leaves|x)") == "No line in . fits."
    with pytest.raises(FileRefused, match="keys or passwords"):
        call("search_files", course, pattern="Leaves", path=".env")
    with pytest.raises(ChatmdError, match="on one line"):
        call("search_files", course, literal=True, pattern="a\nb")


def test_files_that_are_not_searched(tmp_path: Path) -> None:
    """What is no text, or very large, is not said to be without the text: it is refused, or counted."""
    (tmp_path / "a.md").write_text("Leaves\n")
    (tmp_path / "a.bin").write_bytes(b"Leaves\0")
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(b"Leaves\n" + b" " * 10_000)
        file.truncate(20_000_001)
    assert call("search_files", tmp_path, pattern="Leaves").splitlines() == [
        "a.md:1: Leaves",
        "[1 line in 1 file fit]",
        "[not searched: 1 file of more than 20 MB]",
    ]
    with pytest.raises(ChatmdError, match="more than 20 MB"):
        call("search_files", tmp_path, pattern="Leaves", path="large.txt")
    with pytest.raises(FileReadError, match="not a text file"):
        call("search_files", tmp_path, pattern="Leaves", path="a.bin")


def test_what_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder below and a file: they may hold what is looked for. One that has disappeared does not."""
    for name in ("open/a.md", "closed/b.md", "gone/c.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("Leaves\n")
    errors = {"closed": PermissionError(errno.EACCES, "no"), "gone": FileNotFoundError(errno.ENOENT, "no")}

    def opened(path: Path, **how: Any) -> Any:
        if path.name in errors:
            raise errors[path.name]
        return open_folder(path, **how)

    monkeypatch.setattr("lmm.disk.folder.open_folder", opened)
    assert call("search_files", tmp_path, pattern="Roots").splitlines() == [
        "No line in . fits.",
        "[not searched: 1 files or folders that cannot be read]",
    ]
    assert call("read_directory", tmp_path, depth=2).splitlines()[-1] == "[1 folder below cannot be read]"
    monkeypatch.undo()
    errors["open"] = errors.pop("closed")
    monkeypatch.setattr("chatmd.tools.files.open_folder", opened)
    assert call("search_files", tmp_path, pattern="Leaves").splitlines()[-1].startswith("[not searched: 1 ")


def test_results_that_are_too_long(tmp_path: Path) -> None:
    """They are cut, and their number is given."""
    (tmp_path / "a.md").write_text("the same line\n" * 1000)
    text = call("search_files", tmp_path, pattern="same", declared={"max_output": 1000})
    assert len(text) <= 1000
    assert "[1000 lines in 1 file fit]" in text
    assert "of them are left out" in text


def test_a_search_that_takes_too_long(course: Path) -> None:
    """It stops before the call times out, and returns what it has found."""
    text = call("search_files", course, pattern="Leaves", declared={"timeout": 1e-9})
    assert "the time was over" in text


def test_the_conversation_itself_is_not_found(course: Path) -> None:
    """Its call contains each text that is searched for; it is refused if it is named."""
    (course / "talk.chatmd").write_text("Where is chlorophyllin?")
    place = workplace(course, protected=[course / "talk.chatmd"])
    assert call("search_files", place, pattern="chlorophyllin").startswith("No line in")
    with pytest.raises(ChatmdError, match="belongs to the conversation"):
        call("search_files", place, pattern="chlorophyllin", path="talk.chatmd")
    assert call("search_files", place, pattern="chloro.*llin").startswith("No line in")
