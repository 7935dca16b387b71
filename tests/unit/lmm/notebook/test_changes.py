"""Which files count as documents, under which name, and how changes are noticed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from lmm.disk.folder import is_document
from lmm.disk.watching import WatchedPaths, _next, changes, signature
from lmm.errors import FileReadError

DOCUMENTS = ["a.md", "a.Rmd", "a.qmd", "a.markdown", "A.MD", "sub/deep/a.md", "ä ö.md"]
OTHERS = ["a.txt", "a.md~", ".a.md.swp", ".#a.md", "a.chatmd", "a.knit.md", "a.utf8.md",
          ".git/a.md", "sub/.ipynb_checkpoints/a.md", "4913", "md", ".lmm-x.tmp"]  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name: str) -> None:
    """By their names, whatever the case, in any folder that is not hidden."""
    assert is_document(Path(name))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_document(name: str) -> None:
    """Hidden files and folders, what editors and knitr put beside a document, our own outputs."""
    assert not is_document(Path(name))


def test_documents_of_a_folder(tmp_path: Path) -> None:
    """All those in it but those that were knitted, and those in a folder that came into it."""
    for name in DOCUMENTS + OTHERS:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    roots = WatchedPaths.at([tmp_path])
    own = sorted(tmp_path / name for name in DOCUMENTS if name not in ("a.md", "a.markdown"))  # beside a.Rmd
    assert roots.documents([tmp_path.resolve()]) == own
    assert roots.documents([tmp_path.resolve() / "sub"]) == [tmp_path / "sub/deep/a.md"]
    assert set(roots.signatures()) == {tmp_path.resolve() / name for name in DOCUMENTS}


def test_names_are_those_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder gives relative names; a file that is named and in a named folder is one document."""
    (tmp_path / "notes").mkdir()
    file = tmp_path / "notes" / "a.md"
    file.write_text("")
    monkeypatch.chdir(tmp_path)
    here = Path.cwd()
    assert WatchedPaths.at(["notes"]).name(here / "notes" / "a.md") == Path("notes/a.md")
    assert WatchedPaths.at(["."]).name(here / "notes" / "a.md") == Path("notes/a.md")
    assert WatchedPaths.at(["notes", file]).documents([here / "notes"]) == [Path("notes/a.md")]


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    """Who names a file means it; its neighbours are left alone."""
    for name in (".hidden.txt", "other.md"):
        (tmp_path / name).write_text("")
    roots = WatchedPaths.at([tmp_path / ".hidden.txt"])
    assert roots.documents([tmp_path.resolve()]) == [tmp_path / ".hidden.txt"]


def test_a_hidden_folder_may_be_named(tmp_path: Path) -> None:
    """Only what is hidden below the named folder is left out."""
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes" / "a.md").write_text("")
    roots = WatchedPaths.at([tmp_path / ".notes"])
    assert roots.documents([(tmp_path / ".notes").resolve()]) == [tmp_path / ".notes" / "a.md"]


def test_a_link_is_its_target(tmp_path: Path) -> None:
    """A save of the file that a link points to is a save of the document."""
    (tmp_path / "target").mkdir()
    target = tmp_path / "target" / "t.md"
    target.write_text("")
    link = tmp_path / "link.md"
    link.symlink_to(target)
    roots = WatchedPaths.at([link])
    assert roots.documents([target.resolve()]) == [link]
    assert roots.documents([tmp_path.resolve() / "link.md"]) == [link]


def test_a_path_with_nothing_there(tmp_path: Path) -> None:
    """Is a mistake, and said to be one at once."""
    with pytest.raises(FileReadError, match="no such file or folder"):
        WatchedPaths.at([tmp_path / "a.md"])


def test_signature(tmp_path: Path) -> None:
    """Every save changes it; a folder, or nothing, has none."""
    file = tmp_path / "a.md"
    seen = [signature(file), signature(tmp_path)]
    for text in ("a", "ab"):
        file.write_text(text)
        seen.append(signature(file))
    (tmp_path / "b.md").write_text("ba")
    os.replace(tmp_path / "b.md", file)  # noqa: PTH105  # as editors do
    seen.append(signature(file))
    assert seen[:2] == [None, None]
    assert len(set(seen[2:])) == 3


@pytest.mark.parametrize("poll", [False, True])
def test_changes(tmp_path: Path, poll: bool) -> None:
    """What is there comes first, though it be nothing; then every save, those of one second each."""
    file = tmp_path.resolve() / "a.md"

    async def watch() -> list[Collection[Path]]:
        source = changes(WatchedPaths.at([tmp_path]), poll=poll)
        async with contextlib.aclosing(source):
            seen: list[Collection[Path]] = [await anext(source)]
            for text in ("a", "ab", "abc"):
                file.write_text(text)
                while file not in (told := await asyncio.wait_for(anext(source), 30)):
                    pass
                seen.append(told)
            return seen

    first, *rest = asyncio.run(watch())
    assert set(first) == set()
    assert all(file in told for told in rest)


def test_where_there_are_no_notifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told, and the files are looked at: here, because watchfiles cannot be loaded."""
    folder = tmp_path / "notes"
    folder.mkdir()
    roots = WatchedPaths.at([folder])
    file = folder.resolve() / "a.md"
    reasons = list[str]()
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    async def watch() -> Collection[Path]:
        source = changes(roots, on_poll=reasons.append)
        async with contextlib.aclosing(source):
            await anext(source)
            file.write_text("a")
            return await asyncio.wait_for(anext(source), 30)

    assert set(asyncio.run(watch())) == {file}
    assert len(reasons) == 1


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_a_change_counts(tmp_path: Path, turns: int) -> None:
    """Ctrl-C some turns of the loop after a save ends the watching: Python 3.11's `asyncio.wait_for` may forget it."""

    async def forgotten() -> bool:
        told: asyncio.Queue[set[Path] | Exception] = asyncio.Queue()
        waiting = asyncio.create_task(_next(told, time.monotonic() + 1))
        await asyncio.sleep(0.01)
        told.put_nowait({tmp_path})
        for _ in range(turns):
            await asyncio.sleep(0)
        was_running = waiting.cancel()
        await asyncio.wait((waiting,))
        return was_running and not waiting.cancelled()

    assert not asyncio.run(forgotten())
