"""Below a folder, no links out: reading, writing, listing and removing through `Folder`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmm.disk import opened
from lmm.disk.folder import Folder, check_named, documents_below, is_document, is_foreign, is_internal
from lmm.disk.opened import open_folder
from lmm.errors import DocumentError, FileReadError, FileWriteError, LinkOutside


@pytest.fixture(params=["open folders", "paths"])
def walks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to reach a file: through open folders, and by real paths as on Windows."""
    monkeypatch.setattr(opened, "WALKS", opened.WALKS and request.param == "open folders")


pytestmark = pytest.mark.usefixtures("walks")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What a stranger's folder wants to reach."""
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "diary.md").write_text("secret\n")
    (home / "sub" / "deep.md").write_text("deep\n")
    return home


@pytest.fixture
def clone(tmp_path: Path, home: Path) -> Path:
    """A folder from a stranger, with links of every kind."""
    clone = tmp_path / "clone"
    (clone / "notes").mkdir(parents=True)
    (clone / "a.md").write_text("# A\n")
    (clone / "notes" / "b.md").write_text("# B\n")
    (clone / "out.md").symlink_to(home / "diary.md")
    (clone / "chain.md").symlink_to("out.md")
    (clone / "inside.md").symlink_to("notes/b.md")
    (clone / "folder").symlink_to(home)
    (clone / "same").symlink_to("notes")
    (clone / "up.md").symlink_to("../home/diary.md")
    (clone / "loop.md").symlink_to("loop.md")
    (clone / ".lmm").mkdir()
    (clone / ".lmm" / "store").symlink_to(home)
    (clone / ".lmm" / "inside").symlink_to("../notes")
    return clone


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


OUT = ["out.md", "chain.md", "up.md", "loop.md", "folder/diary.md", "folder/new.md", "folder/sub/deep.md", "../home/x"]
OURS = [".lmm/store/diary.md", ".lmm/store", ".LMM/store/x" if os.name == "nt" else ".lmm/store/x", ".lmm/inside/b.md"]
USES: dict[str, Callable[[Folder, str], object]] = {
    "path": lambda folder, name: folder.path(name),
    "read": lambda folder, name: folder.read(name),
    "open": lambda folder, name: folder.open(name, "ab"),
    "write": lambda folder, name: folder.write(name, b"ours"),
    "stat": lambda folder, name: folder.stat(name),
    "make": lambda folder, name: folder.make(name),
    "remove": lambda folder, name: folder.remove(name),
    "entries": lambda folder, name: list(folder.entries(name)),
}


@pytest.mark.parametrize("use", USES)
def test_no_link_leads_out(clone: Path, home: Path, use: str) -> None:
    """Whatever is asked for, a link out is refused, and below .lmm every link; what it leads to is as it was."""
    before = everything(home)
    for name in OUT + OURS:
        try:
            USES[use](Folder(clone), name)
        except LinkOutside:
            assert everything(home) == before, name
        else:
            pytest.fail(f"{use} {name} is allowed")


def test_links_inside_are_followed(clone: Path) -> None:
    """A link to a file or folder within is harmless."""
    folder = Folder(clone)
    assert folder.read("inside.md") == folder.read("same/b.md") == b"# B\n"
    folder.write("same/b.md", b"# C\n")
    assert (clone / "notes" / "b.md").read_bytes() == b"# C\n"


def test_our_own_folder_is_no_link(clone: Path) -> None:
    """A folder below .lmm that is reached over a link is not even opened."""
    with pytest.raises(LinkOutside, match="links are not allowed here"):
        Folder(clone / ".lmm" / "store")
    with pytest.raises(LinkOutside, match="links are not allowed here"):
        Folder(clone / ".lmm" / "store" / "sub")
    (clone / "notes" / ".lmm").symlink_to(clone / "notes")
    with pytest.raises(LinkOutside, match="links are not allowed here"):
        Folder(clone / "notes" / ".lmm")


def test_a_link_that_is_slipped_in_later(clone: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that becomes a link between our look and our use is not followed."""
    folder, look = Folder(clone), Folder.path

    def swapped(self: Folder, name: str) -> Path:
        real = look(self, name)
        (clone / "notes").rename(clone / "was")
        (clone / "notes").symlink_to(home)
        return real

    monkeypatch.setattr(Folder, "path", swapped)
    with pytest.raises((LinkOutside, FileWriteError)):
        folder.write("notes/diary.md", b"ours")
    assert (home / "diary.md").read_text() == "secret\n"


def test_reading_and_writing(tmp_path: Path) -> None:
    """Bytes come back; folders are made; the mode of a file is kept, and a new one may have its own."""
    folder = Folder(tmp_path)
    folder.write("a/b/c.txt", "é\r\n")
    assert folder.read("a/b/c.txt") == folder.read(tmp_path / "a/b/c.txt") == "é\r\n".encode()
    (tmp_path / "a/b/c.txt").chmod(0o640)
    folder.write("a/b/c.txt", b"new")
    found = folder.stat("a/b/c.txt")
    assert found is not None
    assert found.st_mode & 0o777 == 0o640
    folder.write("key", b"", private=True)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileReadError, match="more than 2 bytes"):
        folder.read("a/b/c.txt", most=2)
    with folder.open("log", "ab") as file:
        file.write(b"1")
    with folder.open("log", "ab") as file:
        file.write(b"2")
    assert folder.read("log") == b"12"
    assert [entry.name for entry in folder.entries()] == ["a", "key", "log"]
    folder.remove("log")
    folder.remove("log", missing_ok=True)
    folder.remove("none/log", missing_ok=True)
    with pytest.raises(FileWriteError, match="no such file"):
        folder.remove("log")
    assert folder.stat("log") is None
    assert folder.stat("none/log") is None
    assert folder.make("x/y") == tmp_path.resolve() / "x" / "y"
    (tmp_path / "key").chmod(0o400)
    with pytest.raises(FileWriteError, match="read-only"):
        folder.write("key", b"new")
    assert not list(tmp_path.rglob(".lmm-*"))


def test_secrets_are_not_read(tmp_path: Path) -> None:
    """A file named like a key is read only where the caller says so."""
    (tmp_path / "id_rsa").write_text("key")
    with pytest.raises(FileReadError, match="keys or passwords"):
        Folder(tmp_path).read("id_rsa")
    assert Folder(tmp_path, secrets=True).read("id_rsa") == b"key"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    """What would wait for ever is not opened."""
    os.mkfifo(tmp_path / "pipe")
    for use in ("read", "open", "write"):
        with pytest.raises((FileReadError, FileWriteError), match="pipe"):
            USES[use](Folder(tmp_path), "pipe")


def test_walk(clone: Path) -> None:
    """Links inside count as files, links out are told of, folders that are links are not gone into."""
    (clone / "pictures").mkdir()
    (clone / "pictures" / "p.png").symlink_to("/etc/hostname")
    (clone / ".gitignore").write_text("notes/\n")
    told: list[DocumentError] = []
    found = list(Folder(clone).documents(on_skip=told.append))
    assert found == [clone / "a.md", clone / "inside.md", clone / "notes" / "b.md"]
    assert {Path(str(error.where)).name for error in told} == {"out.md", "chain.md", "up.md", "loop.md", "folder"}


def test_a_folder_that_cannot_be_read_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its documents are missing from what is found; one that has disappeared meanwhile is not missed."""
    for name in ("closed", "gone", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").touch()
    errors = {
        "closed": PermissionError(errno.EACCES, "Permission denied"),
        "gone": FileNotFoundError(errno.ENOENT, "x"),
    }

    def opened(path: Path, **how: Any) -> Any:
        if path.name in errors:
            raise errors[path.name]
        return open_folder(path, **how)

    monkeypatch.setattr("lmm.disk.folder.open_folder", opened)
    told: list[DocumentError] = []
    assert list(documents_below(tmp_path, on_skip=told.append)) == [tmp_path / "open" / "a.md"]
    assert [str(error) for error in told] == [f"{tmp_path / 'closed'}: this folder cannot be read: Permission denied"]


def test_documents_below(clone: Path) -> None:
    """Documents of folders and files that were named, each once."""
    told: list[DocumentError] = []
    found = list(documents_below(clone / "notes" / "b.md", clone, on_skip=told.append))
    assert found == [clone / "notes" / "b.md", clone / "a.md"]
    assert len(told) == 5
    for name in ("out.md", "folder", "up.md"):
        with pytest.raises(LinkOutside):
            list(documents_below(clone / name))
    with pytest.raises(FileReadError, match="no such file"):
        list(documents_below(clone / "none.md"))


@pytest.mark.parametrize("name", ["a.md", "inside.md", "same", "notes/b.md", ".", "", "none.md", "notes/../a.md"])
def test_named(clone: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What lies where it seems to lie may be named, by any path."""
    assert check_named(clone / name) == clone / name
    monkeypatch.chdir(clone)
    assert check_named(Path(name)) == Path(name)


@pytest.mark.parametrize("name", ["out.md", "chain.md", "up.md", "folder", "folder/diary.md", "folder/sub/deep.md"])
def test_named_but_a_link_out(clone: Path, home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A shell's pattern names links too: the error gives the real path."""
    monkeypatch.chdir(clone)
    real = os.path.realpath(name)
    with pytest.raises(LinkOutside, match=f"name {real} itself"):
        check_named(Path(name))
    if "/" not in name:
        with pytest.raises(LinkOutside):
            check_named(clone / name)


def test_the_upper_part_of_an_absolute_path_is_the_users_own(clone: Path, tmp_path: Path) -> None:
    """A linked home, or /tmp on a Mac, is no trick."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "work").symlink_to(clone)
    assert check_named(tmp_path / "elsewhere" / "work" / "a.md")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither our files nor root's are foreign, nor those of the user who called sudo; all others are."""
    path = tmp_path / "config.toml"
    path.write_text("")
    assert not is_foreign(path)
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert is_foreign(path) == (owner != 0)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(owner))
    assert not is_foreign(path)


def test_what_is_a_document() -> None:
    """Neither hidden files, nor knitr's, nor secrets."""
    assert is_document(Path("a/B.QMD"))
    assert not any(map(is_document, map(Path, (".a.md", "a/.ssh/b.md", "x.knit.md", "a.txt", "secrets/.env"))))
    assert is_internal((".lmm", "store"))
