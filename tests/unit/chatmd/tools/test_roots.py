"""No path leads out of the roots, whatever its form and whatever is on the disk."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from unit.chatmd.tools.file_tools import READING, WRITING, attempts, call, workplace

from chatmd.errors import ChatmdError, FileRefused
from chatmd.language.agent import Tool
from chatmd.tools.roots import roots_of
from lmm.disk.folder import is_internal
from lmm.disk.names import comparable, is_secret_file
from lmm.errors import LmmError

Snapshot = dict[str, tuple[int, bytes]]


def snapshot(folder: Path, *, but: str = "") -> Snapshot:
    """Return the kinds, modes and contents of everything in a folder, except the folder `but`."""
    found: Snapshot = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if but and (name == but or name.startswith(f"{but}/")):
            continue
        mode = path.lstat().st_mode
        data = path.read_bytes() if stat.S_ISREG(mode) else os.fsencode(path.readlink()) if path.is_symlink() else b""
        found[name] = (mode, data)
    return found


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder `work`, which is the root, in a folder with secrets that must not be read or changed."""
    land = tmp_path_factory.mktemp("land").resolve()
    for name, text in {
        "secret.txt": "SECRET",
        "other/secret.txt": "SECRET",
        "workshop/secret.txt": "SECRET",
        "notes/n.md": "note\n",
        "work/a.md": "all\n",
        "work/sub/b.md": "bee\n",
        "work/sub/deep/c.md": "sea\n",
        "work/with space.md": "space\n",
        f"work/{unicodedata.normalize('NFD', 'é')}.md": "accent\n",
        "work/.env": "SECRET",
        "work/.git/config": "SECRET",
        "work/.git/hooks/x": "hook",
        "work/.chatmd/p.json": "payload",
        "work/.ssh/known": "SECRET",
        "work/talk.chatmd": "talk\n",
        "work/.github/w.yml": "yes\n",
    }.items():
        (land / name).parent.mkdir(parents=True, exist_ok=True)
        (land / name).write_text(text)
    work = land / "work"
    for name, goal in {
        "in.md": "sub/b.md",
        "inside": "sub",
        "out.md": "../secret.txt",
        "outside": "../other",
        "abs.md": str(land / "secret.txt"),
        "sibling": "../workshop",
        "chain": "chain2",
        "chain2": "sub/../out.md",
        "up": "..",
        "root": "/",
        "dot": ".",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "../made.txt",
        "dangling_folder": "../made",
        "proc": "/proc/self",
        "dev": "/dev",
        "etc": "/etc",
        "envelope": ".env",
        "repository": ".git",
        "back": "../work/sub",
        "to_notes": "../notes",
        "sub/far": "../../other",
        "sub/deep/farther": "../../../other/secret.txt",
    }.items():
        (work / name).symlink_to(goal)
    os.link(work / "talk.chatmd", work / "twin.chatmd")
    os.mkfifo(work / "pipe")
    (work / "pipe_link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
        server.bind(str(work / "socket"))
        yield land


# -- what is allowed -------------------------------------------------------------------------------------------------

ALLOWED = {
    "a.md": "a.md",
    "./a.md": "a.md",
    ".//./a.md": "a.md",
    "sub/b.md": "sub/b.md",
    "sub//b.md": "sub/b.md",
    "sub/../a.md": "a.md",
    "sub/deep/../../a.md": "a.md",
    "../work/a.md": "a.md",
    "in.md": "sub/b.md",
    "inside/b.md": "sub/b.md",
    "inside/deep/c.md": "sub/deep/c.md",
    "inside/deep/../b.md": "sub/b.md",
    "dot/dot/dot/a.md": "a.md",
    "back/b.md": "sub/b.md",
    "up/work/a.md": "a.md",
    "with space.md": "with space.md",
    "é.md": f"{unicodedata.normalize('NFD', 'é')}.md",
    "dot/é.md": f"{unicodedata.normalize('NFD', 'é')}.md",
    ".github/w.yml": ".github/w.yml",
    "missing/../a.md": "a.md",
}


@pytest.mark.parametrize(("path", "means"), ALLOWED.items())
def test_paths_that_mean_a_file_inside(land: Path, path: str, means: str) -> None:
    """They are read, and shown by the direct name."""
    text = call("read_file", land / "work", path=path)
    assert text.startswith(f"{means}:1-1:\n")
    assert text.endswith((land / "work" / means).read_text().strip())
    assert call("read_file", land / "work", path=str(land / "work" / path)) == text


# -- what is not -----------------------------------------------------------------------------------------------------

# Ways out; each is taken by itself and with every detour before it.
OUT = [
    "../secret.txt", "..", "../", "../other/secret.txt", "../workshop/secret.txt", "../work/../secret.txt",
    "../made.txt", "out.md", "outside/secret.txt", "outside", "outside/new.txt", "outside/../secret.txt", "abs.md",
    "sibling/secret.txt", "chain", "chain2", "up/secret.txt", "up/other/secret.txt", "up/../../etc/passwd",
    "root/etc/passwd", "root", "dangling", "dangling_folder/new.txt", "proc/environ", "proc/root/etc/passwd",
    "dev/zero", "dev/stdin", "etc/passwd", "to_notes/n.md", "sub/far/secret.txt", "sub/deep/farther",
]  # fmt: skip
DETOURS = ["", "sub/deep/../../", "dot/", "missing/../"]
# Paths that are refused without a detour.
REFUSED = [
    " ", "\t", "\0", "a.md\0", "a.md\0.txt", "../secret.txt\0a.md", "a\nb", "a.md\n", "\x1b[2Ja", "a\x7fb", "\u2028",
    "~", "~/", "~/.ssh/id_rsa", "~root/x", "~\\x", "file:///etc/passwd", "http://127.0.0.1/", "C:\\Windows\\win.ini",
    "C:/Windows/win.ini", "c:", "\\\\server\\share\\x", "..\\secret.txt", "sub\\..\\..\\secret.txt", "sub\\b.md", "/",
    "//", "/etc/passwd", "//etc/passwd", "/etc/../etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd",
    "/proc/self/fd/0", "/proc/self/cwd", "/dev/zero", "/dev/stdin", "/dev/tty", "/dev/fd/0", "/sys/kernel", "/tmp",
    "../\u200bsecret.txt", "sub/" * 30 + "../" * 31 + "secret.txt", "loop", "loop/x", "ping", "pong/x", "a.md/x",
    "a.md/../../secret.txt", "pipe", "pipe_link", "socket", "pipe/x", "x" * 256, "x" * 300 + "/y", "é" * 200,
    "x/" * 101 + "y", "x/" * 1500 + "y", "y" * 5000, "sub/" + "z" * 255 + "z", "\ud800", "\udc80.md", ".", "sub",
    "inside", "dot", "./", "sub/.", "sub/deep/..",
]  # fmt: skip
# These only look like something else: they are ordinary names.
ODD = [
    "....//secret.txt", "..././secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "．．/secret.txt", "‥/secret.txt",
    "..\u2215secret.txt", "a.md:stream", "-rf", "--help", "$(id)", "${HOME}/x", "a;b", "*", "?", "[a-z]", "{a,b}",
    "a b/c d", "'", '"', "`id`", "|", "&", "#", "%00", "..a", "a..", "...", "COM1", "\u202eab", "é" * 100, "🙂",
    "x/" * 99 + "y",
]  # fmt: skip
REFUSED_TO_READ = [
    ".env", "./.env", "sub/../.env", "envelope", "dot/.env", ".git/config", "repository/config", ".ssh/known", ".ENV",
    ".env.local", "dot/.ssh/known", ".Git/Config",
]  # fmt: skip
REFUSED_TO_WRITE = [
    ".git", ".git/new", ".git/hooks/x", ".git/hooks/post-commit", "repository/hooks/x", "sub/.git/hooks/x",
    ".GIT/hooks/x", ".g\u200bit/hooks/x", ".git./x", ".git /x", "git~1/x", "GIT~1/hooks/x", ".chatmd/p.json",
    ".chatmd/new", ".ChatMD/x", ".hg/hgrc", ".svn/x", "talk.chatmd", "./talk.chatmd", "dot/talk.chatmd",
    "twin.chatmd", "new/.git/x",
]  # fmt: skip
TRICKS = [
    *((path, READING + WRITING) for path in dict.fromkeys([d + way for d, way in product(DETOURS, OUT)] + REFUSED)),
    *((path, READING + WRITING) for path in REFUSED_TO_READ),
    *((path, WRITING) for path in REFUSED_TO_WRITE),
]
PARTS = 20
# A path of a folder inside is not a file, but may be listed and searched.
FOLDERS = {".", "sub", "inside", "dot", "./", "sub/.", "sub/deep/.."}


@pytest.mark.parametrize("part", range(PARTS))
def test_path_tricks(land: Path, part: int) -> None:
    """Every tool refuses with one of our errors, waits for no pipe, shows no secret and changes nothing."""
    place = workplace(land / "work", protected=[land / "work/talk.chatmd"])
    before = snapshot(land)
    tried = [(path, tools, *attempt) for path, tools in TRICKS[part::PARTS] for attempt in attempts(path)]
    for path, tools, name, arguments in tried:
        if name not in tools or (path in FOLDERS and name in ("read_directory", "search_files")):
            continue
        if name == "apply_patch" and ("\n" in path or "\u2028" in path or "`" in path):
            continue
        try:
            done = call(name, place, **arguments)
        except LmmError as refused:
            shown = str(refused)
        else:
            pytest.fail(f"{name} took {path!a}: {done}")
        assert "SECRET" not in shown, path
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown), path
    assert snapshot(land) == before


@pytest.mark.parametrize("path", ODD, ids=ascii)
def test_odd_names_stay_inside(tmp_path: Path, path: str) -> None:
    """A file of any name is created, read and listed inside; nothing changes elsewhere."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.txt").write_text("SECRET")
    before = snapshot(tmp_path, but="work")
    call("write_file", work, path=path, content="x\n")
    assert (work / path).read_text() == "x\n"
    assert call("read_file", work, path=path).endswith("\tx")
    assert call("search_files", work, path=path, pattern="x").count(":1: x") == 1
    if path[0] == path[-1] == "`" or path[0] in "'\"":
        return  # a patch cannot name it
    call("apply_patch", work, patch=f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch")
    assert not (work / path).exists()
    assert snapshot(tmp_path, but="work") == before


@pytest.mark.parametrize("path", ["sub/new.md", "new/folder/new.md", "inside/new.md", "dot/new.md", "back/new.md"])
@pytest.mark.parametrize("name", ["write_file", "append_to_file", "apply_patch"])
def test_new_files_inside(land: Path, tmp_path: Path, path: str, name: str) -> None:
    """The contrary: files inside are created, also through links to folders."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    for link, goal in (("inside", "sub"), ("dot", "."), ("back", "../work/sub")):
        (work / link).symlink_to(goal)
    arguments: dict[str, Any] = {"path": path, "content": "x\n"}
    if name == "apply_patch":
        arguments = {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"}
    call(name, work, **arguments)
    assert (work / path).read_text() == "x\n"


def test_a_link_to_nothing_inside_can_be_written(tmp_path: Path) -> None:
    """The target of the link is created; the link stays."""
    (tmp_path / "link.md").symlink_to("made.md")
    call("write_file", tmp_path, path="link.md", content="x")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "made.md").read_text() == "x"


def test_a_second_name_of_a_file_outside_is_never_written(tmp_path: Path) -> None:
    """Hard links look like files; but files are replaced rather than written to, so the other one stays."""
    (tmp_path / "outside.md").write_text("a\n")
    (tmp_path / "work").mkdir()
    os.link(tmp_path / "outside.md", tmp_path / "work/a.md")
    call("append_to_file", tmp_path / "work", path="a.md", content="b")
    assert (tmp_path / "outside.md").read_text() == "a\n"


# -- several roots ---------------------------------------------------------------------------------------------------


def test_paths_mean_the_same_whatever_the_roots(land: Path) -> None:
    """They are relative to the working folder; roots only restrict them."""
    declared = {"roots": ("../notes", "sub")}
    assert call("read_file", land / "work", declared=declared, path="../notes/n.md").startswith("../notes/n.md:1-1:")
    assert call("read_file", land / "work", declared=declared, path="to_notes/n.md").startswith("../notes/n.md:1-1:")
    assert call("read_file", land / "work", declared=declared, path=str(land / "notes/n.md")).endswith("note")
    assert call("read_file", land / "work", declared=declared, path="inside/b.md").startswith("sub/b.md:1-1:")
    for path in ("a.md", "n.md", ".", "../secret.txt"):
        with pytest.raises(FileRefused, match=r"outside .* \(it may use: ../notes, sub\)"):
            call("read_file", land / "work", declared=declared, path=path)


def test_a_root_can_be_one_file(land: Path) -> None:
    """It can then be a file that is otherwise refused, as its author has named it."""
    declared = {"roots": (".env", "a.md")}
    assert call("read_file", land / "work", declared=declared, path=".env").endswith("SECRET")
    assert call("read_file", land / "work", declared=declared, path="a.md").endswith("all")
    with pytest.raises(FileRefused):
        call("read_file", land / "work", declared=declared, path="sub/b.md")


def test_a_root_that_is_not_there(land: Path) -> None:
    """It is reported when the tool is opened, not when the model calls it."""
    with pytest.raises(ChatmdError, match='roots="nowhere" is not a folder'):
        roots_of(Tool("builtin", "read_file", roots=("nowhere",)), workplace(land / "work"))


def test_the_model_is_told_of_the_roots(land: Path) -> None:
    """By the author's names, which do not reveal folders above."""
    one = roots_of(Tool("builtin", "read_file"), workplace(land / "work")).described()
    two = roots_of(Tool("builtin", "read_file", roots=("../notes", "sub")), workplace(land / "work")).described()
    assert one == "Paths are relative to the working folder, and stay inside it."
    assert two == "Paths are relative to the working folder; you may use ../notes, sub and what is below."


# -- races -----------------------------------------------------------------------------------------------------------


@contextmanager
def exchanging(work: Path) -> Iterator[None]:
    """Run a thread that keeps exchanging the folder `sub` with a link to a folder outside."""
    stop, outside = threading.Event(), (work / "link").readlink()

    def exchange() -> None:
        while not stop.is_set():
            for old, new in (("sub", "kept"), ("link", "sub"), ("sub", "link"), ("kept", "sub")):
                with suppress(OSError):
                    (work / old).rename(work / new)
            if not (work / "link").is_symlink() or (work / "sub").is_symlink() or (work / "kept").exists():
                # A tool has created the folder that was missing at that moment; start again.
                for name in ("sub", "link", "kept"):
                    shutil.rmtree(work / name, ignore_errors=True)
                    with suppress(OSError):
                        (work / name).unlink()
                with suppress(OSError):
                    (work / "sub").mkdir()
                with suppress(OSError):
                    (work / "link").symlink_to(outside)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


RACES: dict[str, dict[str, Any]] = {
    "read_file": {"path": "sub/a.md"},
    "search_files": {"pattern": "e", "path": "."},
    "write_file": {"path": "sub/a.md", "content": "new\n", "overwrite": True},
    "apply_patch": {"patch": "*** Begin Patch\n*** Add File: sub/c.md\n+c\n*** Add File: sub/d.md\n+d\n*** End Patch"},
}


@pytest.mark.parametrize("name", RACES)
def test_a_folder_that_becomes_a_link(tmp_path: Path, name: str) -> None:
    """Nothing gets in or out, whenever a folder is exchanged with a link to outside."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder, text in ((work / "sub", "inside\n"), (outside, "SECRET\n")):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(text)
    (work / "link").symlink_to(outside)
    with exchanging(work):
        for _ in range(100):
            with suppress(LmmError):
                assert "SECRET" not in call(name, work, **RACES[name])
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.md": "SECRET\n"}


# -- rules -----------------------------------------------------------------------------------------------------------


def test_names_as_careless_file_systems_compare_them() -> None:
    """Case, invisible characters, composed letters, dots and spaces at the end make no difference."""
    assert {
        comparable(name) for name in (".git", ".GIT", ".gi\u200ct", ".git.", ".git ", ".ＧIT".replace("Ｇ", "G"))
    } == {".git"}
    assert is_internal(("a", ".GiT", "b"))
    assert not is_internal((".gitignore", ".github", "git", "agit~1x"))


@pytest.mark.parametrize(
    ("name", "secret"),
    {".env": True, ".env.production": True, "prod.env": True, ".env.example": False, "id_rsa": True,
     "id_rsa.pub": False, "cert.pem": True, "README.md": False, ".npmrc": True, "key.md": False, "Server.KEY": True,
     "environment.yml": False}.items(),
)  # fmt: skip
def test_names_of_files_with_secrets(name: str, secret: bool) -> None:
    """By patterns, without regard to case; names of examples are not secret."""
    assert is_secret_file(f"a/{name}") is secret
    assert is_secret_file("") is False


def test_why_files_with_keys_are_left_alone(tmp_path: Path) -> None:
    """The reasons for reading and for writing differ."""
    roots = roots_of(Tool("builtin", "t"), workplace(tmp_path))
    with pytest.raises(FileRefused, match="and their content would be sent to the model"):
        roots.readable(".git/config")
    with pytest.raises(FileRefused, match="and tools may not change them"):
        roots.writable(".git/config")
