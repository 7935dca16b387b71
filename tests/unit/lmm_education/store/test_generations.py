"""Copies of sparse folders: the same bytes, the same holes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from lmm_education.errors import StoreError
from lmm_education.store.generations import check_space, copy_folder, files_of, size_on_disk

HOLE = 1 << 20
# Pieces of data, each after a hole of some length.
PIECES = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=40)), max_size=4)


@given(files=st.dictionaries(st.sampled_from(["a", "b/c", "b/d", "e/f/g"]), PIECES, max_size=4), tail=st.integers(0, 2))
@settings(max_examples=40)
def test_a_copy_has_the_same_bytes_and_takes_no_more_room(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, list[tuple[int, bytes]]], tail: int
) -> None:
    """Whatever lies between holes, also at the very end."""
    source = tmp_path_factory.mktemp("source")
    for name, pieces in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for hole, data in pieces:
                file.seek(hole * HOLE, os.SEEK_CUR)
                file.write(data)
            file.truncate(file.tell() + tail * HOLE)
    target = source.parent / "target"
    shutil.rmtree(target, ignore_errors=True)
    copy_folder(source, target)
    for name in files:
        assert (target / name).read_bytes() == (source / name).read_bytes()
    assert sorted(p.relative_to(target) for p in files_of(target)) == sorted(Path(name) for name in files)
    assert size_on_disk(target) <= size_on_disk(source) + 4096 * len(files)
    shutil.rmtree(target)


def test_what_the_engine_is_replacing_is_left_out(tmp_path: Path) -> None:
    """Such folders come and go while they are looked at."""
    (tmp_path / "a" / ".atomicwriteXYZ").mkdir(parents=True)
    (tmp_path / "a" / ".atomicwriteXYZ" / "tmpfile.tmp").write_text("half")
    (tmp_path / "a" / "b").write_text("whole")
    copy_folder(tmp_path / "a", tmp_path / "target")
    assert [path.name for path in (tmp_path / "target").rglob("*")] == ["b"]


def test_too_little_space_is_told_with_numbers(tmp_path: Path) -> None:
    """Before anything is written."""
    check_space(tmp_path, 1)
    with pytest.raises(StoreError, match=r"the disk is full: .* MB are needed, .* MB are free"):
        check_space(tmp_path, 1 << 60)
