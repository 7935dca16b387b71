"""Blocks: what they derive from their source, and what a changed block keeps of it."""

from __future__ import annotations

import pytest

from lmm.errors import MetadataError
from lmm.markdown.blocks import HeadingBlock, MetadataBlock, TextBlock
from lmm.markdown.parse_markdown import parse_markdown_text

# -- headings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("# Old\n\n", "# New title\n\n"),
        ("  ##\tOld  \r\n\r\n", "  ##\tNew title  \r\n\r\n"),
        ("## Old ##\n", "## New title ##\n"),
        ("## Old {#id .c}\n", "## New title {#id .c}\n"),
        ("## Old ## {-}\n", "## New title ## {-}\n"),
        ("# {#id}\n", "# New title {#id}\n"),
        ("## ##\n", "## New title ##\n"),
        ("#\n", "# New title\n"),
        ("# \n", "# New title\n"),
        ("#\r\n", "# New title\r\n"),
        ("#", "# New title"),
        ("\ufeff\n# Old", "\ufeff\n# New title"),
        ("# O {x} O\n", "# New title\n"),
    ],
)
def test_with_title(source: str, changed: str) -> None:
    """Only the title changes: level, closing hashes, attributes and spacing stay."""
    heading = HeadingBlock(source, 7)
    renamed = heading.with_title("New title")
    assert renamed == HeadingBlock(changed, 7)
    assert renamed.title == "New title"
    assert (renamed.level, renamed.attributes) == (heading.level, heading.attributes)


@pytest.mark.parametrize("source", ["# A\n\n", "## A ## {#id}\n", "#   A  \r\n"])
def test_with_the_same_title(source: str) -> None:
    """A heading given its own title is the same heading."""
    heading = HeadingBlock(source, 1)
    assert heading.with_title(heading.title) == heading


def test_make_heading() -> None:
    """A made heading parses as that heading."""
    block = HeadingBlock.make(3, "A title", newline="\r\n", line=1)
    assert parse_markdown_text(block.source) == [block]
    assert (block.level, block.title, block.newline) == (3, "A title", "\r\n")


def test_not_a_heading() -> None:
    """A heading block cannot be asked for the title of something else."""
    with pytest.raises(ValueError, match="not a heading"):
        _ = HeadingBlock("text\n", 1).title


# -- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("Old\n\n", "New\n\n"),
        ("Old\r\nold\r\n \r\n\r\n", "New\r\n \r\n\r\n"),
        ("Old", "New"),
        ("\ufeff\n\n  Old\n", "\ufeff\n\nNew\n"),
        ("Old  \n", "New\n"),
        ("```\n\n\nx\n```\n\n", "New\n\n"),
        ("\n\n", "\n\nNew"),
    ],
)
def test_with_text(source: str, changed: str) -> None:
    """Only the text changes: the blank lines around it, a byte order mark and the newline style stay."""
    assert TextBlock(source, 3).with_text("New") == TextBlock(changed, 3)


def test_make_text() -> None:
    """A made text block parses as that text."""
    block = TextBlock.make("A\nb", line=1)
    assert parse_markdown_text(block.source) == [block]
    assert block.text == "A\nb"


# -- metadata ------------------------------------------------------------------------------------


def _metadata(source: str) -> MetadataBlock:
    (block,) = parse_markdown_text(source)
    assert isinstance(block, MetadataBlock)
    return block


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("---\na: 1\n---\n\n", "a: 1\n"),
        ("---\n---\n", ""),
        ("--- # note\r\na: 1\r\n... # end\r\n", "a: 1\r\n"),
        ("\ufeff\n \n---\na: 1\n\nb: 2\n---", "a: 1\n\nb: 2\n"),
        ("---\na: |\n  ---\n  ...\n---\r", "a: |\n  ---\n  ...\n"),
        ("---\n----: x\n--- # ---\n", "----: x\n"),
    ],
)
def test_body(source: str, body: str) -> None:
    """The body is what stands between the markers; with it, the block is as it was."""
    block = _metadata(source)
    assert block.body == body
    assert block.with_body(body) == block


def test_body_without_final_newline_gets_one() -> None:
    """The closing marker stays on its own line."""
    assert _metadata("---\r\na: 1\r\n---\r\n").with_body("b: 2").source == "---\r\nb: 2\r\n---\r\n"


def test_with_key_on_crlf() -> None:
    """A block with CRLF is edited with CRLF, block scalars included, and reads back with LF."""
    block = _metadata('---\r\na:   "x"  # note\r\n?: why\r\n---\r\n\r\n').with_key("~b", "one\ntwo").with_key("c", [1])
    assert block.source == (
        '---\r\na:   "x"  # note\r\n?: why\r\n~b: |-\r\n  one\r\n  two\r\nc:\r\n  - 1\r\n---\r\n\r\n'
    )
    assert block.values() == {"a": "x", "~b": "one\ntwo", "c": [1]}
    assert [prompt.text for prompt in block.prompts] == ["why"]
    assert block.without_key("~b").without_key("c").source == '---\r\na:   "x"  # note\r\n?: why\r\n---\r\n\r\n'


def test_with_key_in_an_empty_block() -> None:
    """A block without entries takes its first."""
    assert _metadata("---\n# c\n---\n").with_key("a", True).source == "---\n# c\na: true\n---\n"


def test_with_key_refused() -> None:
    """A block that cannot be edited safely says so, with a hint, and is as it was."""
    block = _metadata("---\na: &x 1\nb: *x\n---\n")
    with pytest.raises(MetadataError, match="'a' cannot be changed") as caught:
        block.with_key("a", 2)
    assert caught.value.hint
    assert block.values() == {"a": 1, "b": 1}


def test_get_reads_whoever_wrote_it() -> None:
    """`get` reads by base name, the author's before the model's."""
    assert _metadata("---\n~a: model\na: mine\n---\n").get("a") == "mine"
    assert _metadata("---\n~a: model\n---\n").get("a") == "model"
    assert _metadata("---\nb: 1\n---\n").get("a", "none") == "none"


def test_body_line() -> None:
    """The body begins on the line after the marker, blank lines before the block counted."""
    assert _metadata("\n\n---\na: 1\n---\n").body_line == 4
