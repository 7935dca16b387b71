"""Reading and replacing files exactly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lmm
from lmm.disk import files
from lmm.errors import DocumentBusy, FileReadError, FileWriteError


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbfa\r\nb", b"a\rb\x00\xe2\x80\xa8", "grün".encode()])
def test_bytes_survive(tmp_path: Path, data: bytes) -> None:
    """What is read and written back is the same bytes."""
    path = tmp_path / "a.md"
    path.write_bytes(data)
    files.replace(path, files.read_document(path))
    assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_not_utf8_is_refused_with_its_place(tmp_path: Path) -> None:
    """A Latin-1 byte is named with line and column, and how to convert."""
    path = tmp_path / "a.md"
    path.write_bytes(b"one\ntwo \xe4\n")
    with pytest.raises(FileReadError, match=r"a\.md:2:5: byte 0xe4 is not UTF-8 \(convert it.*: iconv -f WINDOWS-1252"):
        files.read_document(path)


def test_mode_is_kept_and_links_are_followed(tmp_path: Path) -> None:
    """The new file has the old one's mode; a symbolic link still is one afterwards."""
    path, link = tmp_path / "a.md", tmp_path / "link.md"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.replace(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    """A file that did not exist is not left with a temporary file's private mode."""
    old = os.umask(0o022)
    try:
        files.replace(tmp_path / "new.md", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "new.md").stat().st_mode & 0o777 == 0o644


def test_a_read_only_file_is_refused_early(tmp_path: Path) -> None:
    """Even for a superuser: the author said so."""
    path = tmp_path / "a.md"
    path.write_text("x")
    path.chmod(0o444)
    with pytest.raises(FileWriteError, match=r"the file is read-only \(chmod u\+w"):
        files.check_writable(path)


def test_the_lock_excludes(tmp_path: Path) -> None:
    """A second holder gives up after its time-out."""
    path = tmp_path / "a.md"
    with files.document_lock(path), pytest.raises(DocumentBusy), files.document_lock(path, timeout=0.1):
        pass
    with files.document_lock(path, timeout=0):
        pass


def test_a_block_inside_of_a_block_leaves_the_lock_to_the_outer_one(tmp_path: Path) -> None:
    """A function that holds the document may be called by one that holds it."""
    path = tmp_path / "a.md"
    path.write_text("# A\n")
    doc = lmm.Document.open(path)
    with doc:
        with doc:
            pass
        with pytest.raises(DocumentBusy), files.document_lock(path, timeout=0):
            pass
    with files.document_lock(path, timeout=0):
        pass


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the environment names, else the user's; the state is somewhere else."""
    monkeypatch.setenv("LMM_CACHE_DIR", "/fast/disk")
    assert files.cache_folder() == Path("/fast/disk")
    monkeypatch.delenv("LMM_CACHE_DIR")
    monkeypatch.delenv("LMM_STATE_DIR", raising=False)
    assert files.cache_folder().name == "lmmarkdown"
    assert files.cache_folder() != files.state_folder()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_only_ordinary_files_are_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a device: an error, and no waiting."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(FileReadError, match="a device or a pipe"):
            files.read_document(path)


def test_what_is_said_of_a_file_that_could_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is missing is to be made; a disk that is full wants space, and no temporary file stays."""
    with pytest.raises(FileWriteError, match=r"its folder does not exist \(make it: mkdir -p .*/no/such\)"):
        files.replace(tmp_path / "no" / "such" / "a.md", "x")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileWriteError, match=r"the disk is full; nothing was changed \(free some space"):
        files.replace(tmp_path / "a.md", "x")
    assert not list(tmp_path.iterdir())


def test_a_new_file_may_be_private(tmp_path: Path) -> None:
    files.replace(tmp_path / "a", b"x", private=True)
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
