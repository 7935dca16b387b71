"""The file tools against the world: killed at every step, full disks, several processes at once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from edge.patch_child import BEFORE, PATCH, contents
from fakes.openai_server import Action, ScriptedServer

import chatmd
from chatmd.tools.files import edit_file
from chatmd.tools.patch import apply_patch
from chatmd.tools.roots import Root, RootedPath, ToolRoots
from lmm.disk import opened
from lmm.errors import FileWriteError

AFTER = {"a.md": "A\n", "new/d.md": "d\n", "sub/e.md": "C\n"}


def roots_at(folder: Path) -> ToolRoots:
    """One root, which is also the working folder."""
    return ToolRoots(folder, (Root(".", folder),))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_step(tmp_path: Path) -> None:
    """Whenever the process dies: each file is as before the patch, or as after it, and nothing of both is lost."""
    child = Path(__file__).parent / "patch_child.py"
    done = subprocess.run([sys.executable, child, tmp_path], capture_output=True, timeout=100, check=False)
    assert not done.stderr, done.stderr.decode()
    found = json.loads(done.stdout)
    assert len(found) > 15
    for one in found:
        files = {name: text for name, text in one["left"].items() if ".lmm-" not in name}
        assert all(text in (BEFORE.get(name), AFTER.get(name)) for name, text in files.items()), one
        assert {"a", "c"} <= {text.strip().lower() for text in one["left"].values()}, one
    assert found[0]["left"] == BEFORE
    assert (found[-1]["left"], found[-1]["killed"]) == (AFTER, False)


# -- the disk ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root may mount a small file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small file system: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """All files are as they were, and nothing is left behind that takes space."""
    (small_disk / "a.md").write_text("a\n")
    (small_disk / "big.md").write_text("line\n" * 6000)
    before = contents(small_disk)
    lines = ["*** Begin Patch", "*** Update File: a.md", "-a", "+A", "*** Add File: new/b.md", "+b",
             "*** Update File: big.md", *["+" + "y" * 4000] * 5, "*** End of File", "*** End Patch"]  # fmt: skip
    with pytest.raises(FileWriteError, match=r"big\.md: the disk is full; nothing was changed"):
        apply_patch("\n".join(lines), roots_at(small_disk))
    assert contents(small_disk) == before
    assert not (small_disk / "new").exists()
    with pytest.raises(FileWriteError, match="the disk is full"):
        edit_file(roots_at(small_disk), "big.md", lambda old, target: ((old or "") * 2, ""))
    assert contents(small_disk) == before


def test_a_full_state_folder(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be taken back is not changed."""
    monkeypatch.setenv("LMM_STATE_DIR", str(small_disk))
    (tmp_path / "a.md").write_text("a\n")
    with contextlib.suppress(OSError):
        (small_disk / "other").write_bytes(bytes(100_000))
    with pytest.raises(FileWriteError, match=r"cannot write to .*undo: No space left") as error:
        edit_file(roots_at(tmp_path), "a.md", lambda old, target: ("b" * 10_000, ""))
    assert error.value.hint.startswith("free some space")
    assert (tmp_path / "a.md").read_text() == "a\n"


def test_a_read_only_file_system(small_disk: Path) -> None:
    """What cannot be written is said; reading goes on."""
    (small_disk / "a.md").write_text("a\n")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(FileWriteError, match="read-only"):
        edit_file(roots_at(small_disk), "a.md", lambda old, target: ("b", ""))
    assert (small_disk / "a.md").read_text() == "a\n"


def test_a_file_that_changes_in_between(tmp_path: Path) -> None:
    """Somebody who holds no lock writes the file after it was read: that is not overwritten."""

    def edit(old: str | None, target: RootedPath) -> tuple[str, str]:
        target.real.write_text("theirs\n")
        return "ours\n", ""

    (tmp_path / "a.md").write_text("a\n")
    with pytest.raises(FileWriteError, match="another program has just changed this file"):
        edit_file(roots_at(tmp_path), "a.md", edit)
    assert contents(tmp_path) == {"a.md": "theirs\n"}


def test_calls_at_once_lose_nothing(tmp_path: Path) -> None:
    """Parallel calls change the same file one after the other."""
    roots = roots_at(tmp_path)

    def add(number: int) -> str:
        return edit_file(roots, "a.md", lambda old, target: (f"{old or ''}{number}\n", ""))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert sorted(map(int, (tmp_path / "a.md").read_text().split())) == list(range(40))


def test_without_open_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system cannot open files through folders, as on Windows, the tools do the same by paths."""
    monkeypatch.setattr(opened, "WALKS", False)
    roots = roots_at(tmp_path)
    for name, text in BEFORE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    apply_patch(PATCH, roots)
    assert contents(tmp_path) == AFTER
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    with pytest.raises(OSError, match="link"), opened.open_folder(tmp_path / "link"):
        pass


# -- in a run ----------------------------------------------------------------------------------------


PROMPT_FILE = """<config show_tool_call/>
<tool name="read_file"/>
<tool name="apply_patch"/>
<tool name="write_file"/>

<user>Correct the notes.</user>
"""


def test_in_a_run(folder: Path, server: ScriptedServer) -> None:
    """A model reads, patches without JSON, and is told why it may not write its own transcript; all is in the file."""
    (folder / "notes.md").write_text("# Leaves\n\nA leaf is blue.\n")
    (folder / "talk.chatmd").write_text(PROMPT_FILE)
    named = (folder / "config.toml").rename(folder.parent / "named.toml")  # one beside the conversation would be new
    patch = "*** Begin Patch\n*** Update File: notes.md\n-A leaf is blue.\n+A leaf is green.\n*** End Patch"
    calls = [
        ("c1", "read_file", '{"file": "notes.md"}'),
        ("c2", "apply_patch", patch),
        *(("c3", "write_file", json.dumps({"path": path, "content": "x", "overwrite": True}))
          for path in ("talk.chatmd", "config.toml", "Config.toml", ".chatmd/x", ".lmm", "../x.md")),
    ]  # fmt: skip
    script = [Action(calls=(call,)) for call in calls] + [Action("Done.")]
    server.answer = lambda request: script[request.number - 1]
    chatmd.Chat.open(folder / "talk.chatmd").run(yes=True, config=named)
    assert (folder / "notes.md").read_text() == "# Leaves\n\nA leaf is green.\n"
    text = (folder / "talk.chatmd").read_text()
    assert "notes.md:1-3:\n[total_lines=3]\n     1\t# Leaves\n     2\t\n     3\tA leaf is blue." in text
    assert "M notes.md\n@@ -3,1 +3,1 @@" in text
    assert text.count("talk.chatmd: this file belongs to the conversation") == 1
    assert text.count("onfig.toml: this file belongs to the conversation") == 2
    assert text.count(": this is in a folder that belongs to a program") == 2
    assert not (folder / "config.toml").exists()
    assert text.count("../x.md: this is outside of what the tool may use") == 1
