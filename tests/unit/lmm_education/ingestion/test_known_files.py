"""Files that have not changed are not read again; every change is noticed by the next run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmm_education import ingest
from lmm_education.books.chapters import Books


def _same_size_and_time(note: Path) -> None:
    before = note.stat()
    note.write_text("# Leaves\n\nLeaves are brown.\n")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(note: Path) -> None:
    before, new = note.stat(), note.with_suffix(".new")
    new.write_text("# Leaves\n\nLeaves are brown.\n")
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(note)


def _into_a_book(note: Path) -> None:
    note.with_name("other.md").write_text("# Roots\n")
    note.with_name("_quarto.yml").write_text("project: {type: book}\nbook: {title: B, chapters: [note.md, other.md]}\n")


def _included(note: Path) -> None:
    note.with_name("more.md").write_text("Included.\n")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("# Leaves\n\nLeaves are green.\n", _same_size_and_time),
        ("# Leaves\n\nLeaves are green.\n", _replaced),
        ("# Leaves\n\nLeaves are green.\n", _into_a_book),
        ("# Leaves\n\n--8<-- 'more.md'\n", _included),
    ],
    ids=lambda value: getattr(value, "__name__", "text"),
)
@pytest.mark.parametrize("settled", [True, False])
def test_a_change_is_noticed(tmp_path: Path, text: str, change: Callable[[Path], None], settled: bool) -> None:
    """Also one that keeps size and time, directly after the run, and one of another file that this one depends on."""
    note = tmp_path / "note.md"
    note.write_text(text)
    (tmp_path / "config.toml").write_text('[RAG]\nencoding_model = "sparse"\n')
    if settled:
        time.sleep(0.12)
    ingest(tmp_path, config=tmp_path / "config.toml")
    change(note)
    assert ingest(note, config=tmp_path / "config.toml").count("changed") == 1
    assert ingest(note, config=tmp_path / "config.toml").count("unchanged") == 1


def test_what_is_unchanged_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other settings, it is."""
    (tmp_path / "note.md").write_text("# Leaves\n\nLeaves are green.\n")
    (tmp_path / "config.toml").write_text('[RAG]\nencoding_model = "sparse"\n')
    time.sleep(0.12)
    ingest(tmp_path, config=tmp_path / "config.toml")
    read, original = list[Path](), Books.read

    def spy(books: Books, path: Path) -> str:
        read.append(path)
        return original(books, path)

    monkeypatch.setattr(Books, "read", spy)
    assert ingest(tmp_path, config=tmp_path / "config.toml").count("unchanged") == 1
    assert read == []
    (tmp_path / "config.toml").write_text('[RAG]\nencoding_model = "sparse"\n[serve]\nwithhold = ["exam"]\n')
    assert ingest(tmp_path, config=tmp_path / "config.toml").count("changed") == 1
