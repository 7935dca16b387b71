"""Loading and saving markdown: every byte as it is, and errors told to a logger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lmm.errors import DocumentError, FileReadError, FileWriteError
from lmm.markdown import (
    Logger,
    ioutils,
    load_markdown,
    load_text,
    load_tree,
    parse_markdown,
    save_markdown,
    save_tree,
    serialize,
    tree,
)


@pytest.mark.parametrize(
    "data", [b"", b"# A\n", b"\xef\xbb\xbf# A\r\n\r\nText.", "Größe: \u2028 €\n".encode(), b"a\rb\x0c\n\x00"]
)
def test_every_byte_comes_back(tmp_path: Path, data: bytes) -> None:
    """Loading and saving, as text or as a tree, gives the same file."""
    one, two, three = (tmp_path / f"{n}.md" for n in (1, 2, 3))
    one.write_bytes(data)
    text, read = load_markdown(one), load_tree(str(one))
    assert text is not None
    assert read is not None
    assert save_markdown(two, text)
    assert save_tree(three, read)
    assert two.read_bytes() == three.read_bytes() == data


def test_the_modules_hold_what_the_seed_calls_by_their_names(tmp_path: Path) -> None:
    """Programs are written from the seed; a tree, a part of it and the empty tree can be serialized as blocks can."""
    text = "---\ntitle: T\n---\n# A\n\none\n\n---\n?: why?\n---\n## B\n"
    assert ioutils.save_markdown(tmp_path / "a.md", text)
    assert ioutils.load_markdown(tmp_path / "a.md") == text
    blocks = parse_markdown.parse_markdown_text(text)
    root = tree.blocks_to_tree(blocks)
    assert root is not None
    assert parse_markdown.serialize(blocks) == parse_markdown.serialize(root) == text
    assert parse_markdown.serialize(root.headings[0].headings[0]) == text[text.index("---\n?:") :]
    assert parse_markdown.serialize(None) == parse_markdown.serialize([]) == ""
    read = tree.load_tree(tmp_path / "a.md")
    assert read is not None
    assert tree.save_tree(tmp_path / "b.md", read)
    assert (tmp_path / "b.md").read_text() == text
    assert serialize is parse_markdown.serialize


def test_a_tree_is_named_after_its_file(tmp_path: Path) -> None:
    """A document without a title of its own has its file's name."""
    file = tmp_path / "leaves.md"
    file.write_text("Text.\n")
    read = load_tree(file)
    assert read is not None
    assert read.title == "leaves"
    assert load_text("Text.\n", title="x").title == "x"


READERS: list[Callable[[Path, Logger], object]] = [load_markdown, load_tree]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: path.write_bytes(b"ok\nnot \xe9 UTF-8"), "byte 0xe9"),
    ],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, read: Callable[[Path, Logger], object], prepare: Callable[[Path], object], message: str
) -> None:
    """The logger gets the error with its place and a hint; the result is None, and nothing is raised."""
    file = tmp_path / "notes.md"
    prepare(file)
    told: list[DocumentError] = []
    assert read(file, told.append) is None
    (error,) = told
    assert isinstance(error, FileReadError)
    assert message in str(error)
    assert error.where.startswith(str(file))
    assert error.hint


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """False, and the logger gets the error."""
    told: list[DocumentError] = []
    assert not save_markdown(tmp_path / "missing" / "notes.md", "Text.\n", told.append)
    assert not save_tree(tmp_path / "missing" / "notes.md", load_text("Text.\n"), told.append)
    assert [type(error) for error in told] == [FileWriteError, FileWriteError]


def test_the_default_logger_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error."""
    assert load_markdown(tmp_path / "none.md") is None
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "none.md: there is no such file" in output.err
