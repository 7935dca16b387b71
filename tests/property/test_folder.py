"""Whatever links a folder has: reading and writing through `Folder` reaches nothing outside of it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, strategies as st

from lmm.disk.folder import Folder, check_named, documents_below
from lmm.errors import DocumentError

NAMES = st.sampled_from(["a", "b", "c.md", "d.md", ".lmm", "out", ".."])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ENTRIES = st.lists(
    st.tuples(PATHS, st.one_of(st.none(), PATHS, PATHS.map(lambda path: f"../outside/{path}"))), max_size=12
)
OUTSIDE = {"a": b"outside a", "c.md": b"outside c", "b/c.md": b"outside deep", "out/d.md": b"outside d"}


@contextlib.contextmanager
def world(entries: list[tuple[str, str | None]]) -> Iterator[tuple[Path, Path]]:
    """A folder with these files (None) and links, beside one that is nobody else's business."""
    base = Path(tempfile.mkdtemp()).resolve()
    inside, outside = base / "inside", base / "outside"
    inside.mkdir()
    try:
        for name, data in OUTSIDE.items():
            (outside / name).parent.mkdir(parents=True, exist_ok=True)
            (outside / name).write_bytes(data)
        for name, target in entries:
            path = inside / name
            with contextlib.suppress(OSError, RuntimeError):
                if not path.parent.resolve().is_relative_to(inside):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                if target is None and not path.is_symlink():
                    path.write_bytes(b"inside")
                elif target is not None:
                    path.symlink_to(target)
        yield inside, outside
    finally:
        shutil.rmtree(base)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(ENTRIES, st.lists(PATHS, max_size=8))
def test_nothing_outside_is_reached(entries: list[tuple[str, str | None]], paths: list[str]) -> None:
    """What is read is the folder's own, and what is outside stays as it is, whatever is written, made or removed."""
    with world(entries) as (inside, outside):
        folder = Folder(inside)
        for path in folder.documents():
            assert folder.read(path) == b"inside"
        for name in [*paths, *(name for name, _ in entries)]:
            with contextlib.suppress(DocumentError):
                assert folder.read(name) in (b"inside", b"ours")
            with contextlib.suppress(DocumentError):
                folder.write(name, b"ours")
            with contextlib.suppress(DocumentError):
                folder.make(name)
            with contextlib.suppress(DocumentError):
                folder.remove(name)
        assert contents(outside) == OUTSIDE


@given(ENTRIES)
def test_documents_are_the_folders_own(entries: list[tuple[str, str | None]]) -> None:
    """Documents below a folder lie in it really, and may be named one by one, too."""
    with world(entries) as (inside, _):
        for path in documents_below(inside):
            assert path.resolve().is_relative_to(inside)
            assert path.read_bytes() == b"inside"


@given(ENTRIES, PATHS)
def test_what_may_be_named_lies_where_it_seems_to(entries: list[tuple[str, str | None]], name: str) -> None:
    """A path that passes `check_named` as the last part of a path leads to something in its own folder."""
    with world(entries) as (inside, _):
        path = inside / name
        with contextlib.suppress(DocumentError, RuntimeError):  # of links in a circle, which lead nowhere
            check_named(path)
            if not name.endswith(".."):
                assert path.resolve().is_relative_to(path.parent.resolve())
