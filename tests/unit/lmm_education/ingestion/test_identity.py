"""Which document a file is, and when that has to be asked."""

from __future__ import annotations

import pytest

from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education.errors import IngestError
from lmm_education.ingestion.identity import Doubt, Found, docid_of, find_doubts, is_chatmd, lost_documents
from lmm_education.payloads import StoredDocument


def kinds(
    found: list[Found], stored: list[StoredDocument], present: dict[str, str | None] | None = None
) -> dict[str, tuple[str, str]]:
    """Kind and other document of each doubt, by file."""
    doubts = find_doubts(found, stored, present or {})
    return {file: (doubt.kind, doubt.other_id) for file, doubt in doubts.items()}


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
    assert docid_of(parse_markdown_text(text)) == docid


def test_a_docid_that_cannot_be_read_is_an_error() -> None:
    """The path would be another identity, and the document would be stored twice."""
    with pytest.raises(IngestError, match="header cannot be read"):
        docid_of(parse_markdown_text("---\ndocid: cells\ntitle: [\n---\n"))


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
    assert is_chatmd(text) is expected


def test_a_document_that_is_new_or_as_before_is_certain() -> None:
    """Neither a first ingest nor a second one asks anything."""
    found = [Found("a.md", "a.md", "h"), Found("x", "b.md", "h2", True)]
    assert kinds(found, []) == {}
    assert kinds(found, [StoredDocument("a.md", "a.md", "old"), StoredDocument("x", "b.md", "h2")]) == {}


def test_a_docid_moves_with_its_file() -> None:
    """The old file is gone, or holds another document now: nobody else claims the docid."""
    stored = [StoredDocument("x", "a.md", "h")]
    assert kinds([Found("x", "b.md", "h", True)], stored, {"a.md": None}) == {}
    assert kinds([Found("x", "b.md", "h", True)], stored, {"a.md": "y"}) == {}


def test_two_files_with_one_docid() -> None:
    """A copy of a stored document is told from it; of two new ones nobody knows which is the copy."""
    found = [Found("x", "a.md", "h", True), Found("x", "b.md", "h", True)]
    assert kinds(found, [StoredDocument("x", "a.md", "h")]) == {"b.md": ("copy", "x")}
    assert kinds(found[1:], [StoredDocument("x", "a.md", "h")], {"a.md": "x"}) == {"b.md": ("copy", "x")}
    assert kinds(found, []) == {"a.md": ("twins", "x"), "b.md": ("twins", "x")}


def test_a_docid_added_later() -> None:
    """The file is stored under its path, or under the docid it had before."""
    for old in ("a.md", "y"):
        assert kinds([Found("x", "a.md", "h2", True)], [StoredDocument(old, "a.md", "h")]) == {"a.md": ("docid", old)}


def test_files_that_exchanged_their_names_are_certain() -> None:
    """The document that was in this file is another file of the same run."""
    stored = [StoredDocument("x", "a.md", "h")]
    assert kinds([Found("x", "b.md", "h", True), Found("a.md", "a.md", "h3")], stored) == {}


def test_a_renamed_file_without_a_docid() -> None:
    """Its text is that of a stored document whose file is gone."""
    stored = [StoredDocument("a.md", "a.md", "h")]
    assert kinds([Found("b.md", "b.md", "h")], stored, {"a.md": None}) == {"b.md": ("renamed", "a.md")}
    assert kinds([Found("b.md", "b.md", "other")], stored, {"a.md": None}) == {}
    assert kinds([Found("b.md", "b.md", "h")], stored, {"a.md": "a.md"}) == {}  # a copy without docid is a document


def test_an_error_says_which_flag_decides() -> None:
    """Every doubt can be decided."""
    found = Found("x", "b.md", "h", True)
    for kind in ("copy", "renamed", "docid"):
        assert "--moved" in str(Doubt(kind, found, "a.md", "y").as_error())
    error = str(Doubt("twins", found, "a.md", "x").as_error())
    assert error.startswith("b.md: ")
    assert "lmm scan" in error
    assert Doubt("copy", found, "a.md", "x").question.endswith("?")


def test_lost_documents() -> None:
    """A document is lost when its file is gone, or holds another."""
    stored = [StoredDocument("a.md", "a.md", ""), StoredDocument("x", "b.md", ""), StoredDocument("c.md", "c.md", "")]
    assert lost_documents(stored, {"a.md": "a.md", "b.md": "y", "c.md": None}) == stored[1:]
