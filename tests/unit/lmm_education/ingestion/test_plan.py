"""Which document a file is, and what has to be done about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmm_education.books.chapters import Books
from lmm_education.errors import IngestError
from lmm_education.ingestion.plan import DocumentFile, docid_of, ids_by_file_of, passed_over, plan_ingest, read_file
from lmm_education.ingestion.source_files import SourceFile
from lmm_education.payloads import StoredDocument


def file(name: str, docid: str = "", hash: str = "h") -> DocumentFile:
    """A document in a file, under its docid if it has one."""
    return DocumentFile(SourceFile(Path(name), name), docid or name, hash)


def record(name: str, docid: str = "", hash: str = "h") -> StoredDocument:
    """What is stored of a file."""
    return StoredDocument(docid or name, name, hash)


def planned(
    files: list[DocumentFile], stored: list[StoredDocument], ids_by_file: dict[str, str | None] | None = None
) -> dict[str, object]:
    """What is to be done, by file: for a changed one, where it was and what it replaces."""
    plan = plan_ingest(files, stored, ids_by_file=ids_by_file or {})
    return {
        **{each.document.file: (each.moved_from, *each.replaces) for each in plan.changed},
        **{each.document.file: "unchanged" for each in plan.unchanged},
        **{document.file: error.message for document, error in plan.failed},
        **{each.file: f"{each.id} is gone" for each in plan.missing},
    }


@pytest.mark.parametrize(
    ("text", "docid"),
    [
        ("---\ndocid: cells\n---\n", "cells"),
        ("---\ndocid: 12\n---\n", "12"),
        ("---\ndocid:\n---\n", ""),
        ("---\ndocid: [a]\n---\n", ""),
        ("# docid\n", ""),
        ("", ""),
    ],
)
def test_docid(text: str, docid: str) -> None:
    """A docid is text or a number in the header."""
    assert docid_of(text) == docid


def test_a_docid_that_cannot_be_read_is_an_error() -> None:
    """The path would be another identity, and the document would be stored twice."""
    with pytest.raises(IngestError, match="header cannot be read"):
        docid_of("---\ndocid: cells\ntitle: [\n---\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<config model="x"/>\n', True),
        ("<!-- a prompt -->\n\n<system>\n", True),
        ("<user>hello</user>", True),
        ('<tool name="x"/>', True),
        ("<users>", False),
        ("text <user>", False),
        ("---\ntitle: x\n---\n<user>", False),
        ("<div>", False),
    ],
)
def test_files_of_agents_are_no_documents(text: str, expected: bool) -> None:
    """A prompt or transcript begins with one of its tags."""
    assert bool(passed_over(SourceFile(Path("a.md"), "a.md", named=False), text)) is expected


def test_a_document_that_is_new_or_as_before() -> None:
    """It is encoded, or left alone."""
    files = [file("a.md"), file("b.md", "x")]
    assert planned(files, []) == {"a.md": ("",), "b.md": ("",)}
    assert planned(files, [record("a.md", hash="old"), record("b.md", "x")]) == {"a.md": ("",), "b.md": "unchanged"}


def test_a_docid_moves_with_its_file() -> None:
    """The old file is gone, or holds another document now: nobody else claims the docid."""
    for ids_by_file in (None, "y"):
        assert planned([file("b.md", "x")], [record("a.md", "x")], {"a.md": ids_by_file}) == {"b.md": ("a.md",)}


def test_two_files_with_one_docid() -> None:
    """A copy of a stored document is told from it; of two new ones nobody knows which is the copy."""
    files = [file("a.md", "x"), file("b.md", "x")]
    copy = "its docid 'x' belongs to a.md, which is still there"
    assert planned(files, [record("a.md", "x")]) == {"a.md": "unchanged", "b.md": copy}
    assert planned(files[1:], [record("a.md", "x")], {"a.md": "x"}) == {"b.md": copy}
    assert planned(files, []) == {
        "a.md": "it has the same docid 'x' as b.md",
        "b.md": "it has the same docid 'x' as a.md",
    }


def test_a_file_that_holds_another_document_replaces_the_one_before() -> None:
    """It was stored under its path, or under the docid it had before."""
    for old in ("a.md", "y"):
        assert planned([file("a.md", "x")], [record("a.md", old)]) == {"a.md": ("", old)}


def test_files_that_exchanged_their_names() -> None:
    """The document that was in this file is another file of the same run."""
    stored = [record("a.md", "x"), record("b.md", "y")]
    assert planned([file("b.md", "x"), file("a.md", "y")], stored) == {"b.md": ("a.md",), "a.md": ("b.md",)}


def test_a_renamed_file_without_a_docid() -> None:
    """It is a new document, and the old one is gone."""
    assert planned([file("b.md")], [record("a.md")], {"a.md": None}) == {"b.md": ("",), "a.md": "a.md is gone"}
    assert planned([file("b.md")], [record("a.md")], {"a.md": "a.md"}) == {"b.md": ("",)}


def test_only_what_was_looked_for_is_gone() -> None:
    """A file outside of the folders of this run is not missed."""
    stored = [record("a.md"), record("notes/b.md")]
    plan = plan_ingest(
        [], stored, ids_by_file={"a.md": None, "notes/b.md": None}, covers=lambda name: name.startswith("notes/")
    )
    assert plan.missing == stored[1:]


def test_a_plan_for_many_files_takes_as_long_for_each() -> None:
    """No file is compared with all others: 20,000 take seconds where that is done."""
    files = [file(f"{number}.md") for number in range(20_000)]
    plan = plan_ingest(files, [record(each.file) for each in files[::2]])
    assert (len(plan.changed), len(plan.unchanged)) == (10_000, 10_000)


def test_what_a_document_shows_is_part_of_its_hash(tmp_path: Path) -> None:
    """A reference reads in another way when a chapter comes before it, and code is shown or not as the book says."""
    book = "book:\n  chapters: [index.qmd, b.qmd]\n"
    (tmp_path / "_quarto.yml").write_text(book)
    (tmp_path / "index.qmd").write_text("# One {#sec-one}\n")
    (tmp_path / "b.qmd").write_text("# Two\n\nSee @sec-one.\n\n```{r}\n1 + 1\n```\n")
    found = [_hash_in(tmp_path)]
    (tmp_path / "index.qmd").write_text("# One, {#sec-first}\n\n# And one {#sec-one}\n")
    found.append(_hash_in(tmp_path))
    (tmp_path / "_quarto.yml").write_text(f"{book}execute:\n  echo: false\n")
    found.append(_hash_in(tmp_path))
    assert len(set(found)) == 3
    (tmp_path / "c.qmd").write_text("# No chapter\n")
    assert _hash_in(tmp_path) == found[-1]


def _hash_in(folder: Path) -> str:
    read = read_file(SourceFile(folder / "b.qmd", "b.qmd"), "", Books())
    assert isinstance(read, DocumentFile)
    return read.hash


def test_a_chapter_that_changes_during_a_run_has_its_own_numbers(tmp_path: Path) -> None:
    """The other files of its book were looked at once; its own is looked at when it is read."""
    (tmp_path / "_quarto.yml").write_text("book:\n  chapters: [index.qmd, b.qmd]\n")
    (tmp_path / "index.qmd").write_text("# One\n")
    (tmp_path / "b.qmd").write_text("# Two\n")
    books = Books()
    assert books.chapter(tmp_path / "index.qmd").numbers.headings == {1: "1"}
    (tmp_path / "b.qmd").write_text("\n---\n~summary_: x\n---\n# Two\n")
    assert books.chapter(tmp_path / "b.qmd").numbers.headings == {5: "2"}


def test_a_file_in_a_folder_that_cannot_be_read_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can see whether it is there: what is stored of it stays."""
    stored = [record("closed/a.md"), record("b.md")]
    real = Path.stat

    def status(path: Path, **how: bool) -> os.stat_result:
        if path.parent.name == "closed":
            raise PermissionError
        return real(path, **how)

    monkeypatch.setattr(Path, "stat", status)
    assert ids_by_file_of(stored, [], tmp_path) == {"closed/a.md": "closed/a.md", "b.md": None}
