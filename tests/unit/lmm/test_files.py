"""Reading and replacing files exactly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmm import files
from lmm.errors import DocumentBusy, FileReadError, FileWriteError


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbfa\r\nb", b"a\rb\x00\xe2\x80\xa8", "grün".encode()])
def test_bytes_survive(tmp_path: Path, data: bytes) -> None:
    """What is read and written back is the same bytes."""
    path = tmp_path / "a.md"
    path.write_bytes(data)
    files.replace_document(path, files.read_document(path))
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
    files.replace_document(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    """A file that did not exist is not left with a temporary file's private mode."""
    old = os.umask(0o022)
    try:
        files.replace_document(tmp_path / "new.md", "x")
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


def test_writing_into_nothing_says_so(tmp_path: Path) -> None:
    """A missing folder is an error of ours, and no temporary file stays."""
    with pytest.raises(FileWriteError, match="cannot be written"):
        files.replace_document(tmp_path / "no" / "a.md", "x")


def test_the_lock_excludes_and_tells(tmp_path: Path) -> None:
    """A second holder is told once that it waits, and gives up after its time-out."""
    told: list[bool] = []
    path = tmp_path / "a.md"
    with (
        files.document_lock(path),
        pytest.raises(DocumentBusy),
        files.document_lock(path, on_wait=lambda: told.append(True), timeout=0.1),
    ):
        pass
    assert told == [True]
    with files.document_lock(path, timeout=0):
        pass


def test_the_cache_folder() -> None:
    """The one that the environment names, else the user's; the state is somewhere else."""
    assert files.cache_folder({"LMM_CACHE_DIR": "/fast/disk"}) == Path("/fast/disk")
    assert files.cache_folder({}).name == "lmmarkdown"
    assert files.cache_folder({}) != files.state_folder({})
