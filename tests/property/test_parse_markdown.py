"""What holds for every text: nothing is lost, nothing raises, lines are right, and time grows with the text."""

from __future__ import annotations

import re
from itertools import pairwise

from growth import is_linear
from hypothesis import example, given
from strategies import documents, texts

from lmm.markdown.blocks import ErrorBlock, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text

# Anything that may open a construct whose inside is opaque; without one, blank lines and headings decide.
_OPAQUE = re.compile(r"`{3}|~{3}|\$\$|<!--")
_ATX = re.compile(r" {0,3}#{1,6}([ \t][^\n]*|\r?)\Z")
_ITEM = re.compile(r"^[ \t]*(?:[-+*:~]|[(]?\w{1,4}[.)])[ \t]", re.MULTILINE)
_BLANK = re.compile(r"[ \t]*\r?\Z")


@given(documents())
@example("---\na: b\n---\r")
@example("---\n" + "#\r\n" * 300 + "x")
@example("---\n" + "#\r\r\n" * 300 + "x\n---\n")
def test_serialize_undoes_parse(text: str) -> None:
    """Parsing never raises, and the blocks joined are the text, character for character."""
    blocks = parse_markdown_text(text)
    assert serialize(blocks) == text
    assert all(block.source for block in blocks)


@given(documents())
def test_every_block_knows_its_line(text: str) -> None:
    """`line` is the 1-based line on which a block's content begins, LF and CRLF alone ending lines."""
    start = 0
    for block in parse_markdown_text(text):
        if block.content and not (start and block.source.startswith("\ufeff")):
            begin = start + len(block.source) - len(block.content + block.trailing)
            assert block.line == text.count("\n", 0, begin) + 1
            assert not text[:begin].rpartition("\n")[2].strip("\ufeff"), "content begins a line"
        start += len(block.source)


@given(documents())
@example("\n\n")
@example("\n  ")
def test_content_is_the_source_without_blank_lines_around(text: str) -> None:
    """A block's derived parts can be asked for, whatever its source; content is empty only where nothing stands."""
    for number, block in enumerate(parse_markdown_text(text)):
        assert block.source.endswith(block.content + block.trailing)
        assert not block.trailing.strip(" \t\r\n")
        before = block.source.removesuffix(block.content + block.trailing)
        assert not before.strip(" \t\r\n\ufeff")
        assert not before or number == 0 or before.startswith("\ufeff"), "only the first block has a prefix"
        if isinstance(block, HeadingBlock):
            assert 1 <= block.level <= 6
            assert "\n" not in block.title + block.attributes
        if isinstance(block, TextBlock):
            assert block.with_text(block.text) == block


@given(documents())
def test_metadata_blocks_can_be_read(text: str) -> None:
    """What the parser calls metadata reads as a mapping; what it cannot read is an error block with a place."""
    for block in parse_markdown_text(text):
        if isinstance(block, MetadataBlock):
            assert isinstance(block.values(), dict)
            assert block.with_body(block.body) == block
        if isinstance(block, ErrorBlock):
            assert block.reason
            assert block.hint
            assert block.line <= block.error_line <= text.count("\n") + 1


@given(documents())
def test_blocks_parse_alone_as_they_parse_together(text: str) -> None:
    """A heading or metadata block, parsed from its own source, is that block again: its source is complete."""
    for block in parse_markdown_text(text)[1:]:
        if isinstance(block, HeadingBlock | MetadataBlock):
            _, alone = parse_markdown_text("# Before\n" + block.source)
            assert alone.source == block.source
            assert alone.kind == block.kind.replace("header", "metadata")


@given(documents())
def test_no_heading_is_swallowed(text: str) -> None:
    """A heading line after a blank line or a heading is a heading block, outside opaque constructs, YAML and items."""
    above = ""
    for block in parse_markdown_text(text):
        above += block.source.removeprefix("\ufeff")
        if not isinstance(block, TextBlock) or _OPAQUE.search(block.source):
            continue
        lines = block.content.split("\n")
        assert not _ATX.match(lines[0]) or (lines[0].startswith(" ") and _ITEM.search(above))
        for before, line in pairwise(lines):
            assert not _BLANK.match(before), "a text block without opaque constructs has no blank line inside"
            if re.match(r"---[ \t]*\r?\Z", lines[0]) and before is lines[0]:
                assert not _ATX.match(line), "a rule does not hide the heading under it"


@given(texts())
def test_prose_around_does_not_change_a_heading(text: str) -> None:
    """An unclosed construct is ordinary text: a heading after it is still a heading."""
    paragraph = re.sub(r"[`~$<\n\r-]|\.\.\.", "", text)
    blocks = parse_markdown_text(
        f"```\n{paragraph}\n\n# Heading\n\n$$\n{paragraph}\n\n# Heading\n\n<!-- \n\n# Heading\n"
    )
    assert [block.title for block in blocks if isinstance(block, HeadingBlock)].count("Heading") == 3


# -- time ----------------------------------------------------------------------------------------

_REPEATS = [
    "```\n\n", "```a\n\n", "````\n```a\n\n", "~~~\n\n", "    ```\n\n", "- ```\n\n", "$$\n\n", "$$ x $$ $$\n\n",
    "<!--\n\n", "<!-- -->\n\n", "---\n\n", "---\nkey: x\n\n", "---\na\n\n", "---\nkey: x\n---\n", "---\nkey: x: y\n\n",
    "---\n# x\n", "---\n?: x\n\n", "a\n    \n", "``` ` \n", "\ufeff\n", "---\r\n#\r\n",
]  # fmt: skip
_INSIDE_METADATA = [
    "?: x\n", "?:\n\n", "?:\n  x\n\n", "?:\n   \n", "# c\n", "# c\r\n", "# c\r\r\n", "k: v\n", "k:\n  - v\n",
    "- k: v\n", "a: b: c\n", "\n", "  \n", "k: [", "[", "{", "- ", "? ", " ", "a", "k:\n", "'", '"', "&a ", "?: |\n",
    "k = v\n", "  k: v\n", "~",
]  # fmt: skip


def _read(text: str) -> None:
    """Parse a text and ask for what its blocks say."""
    for block in parse_markdown_text(text):
        _ = block.content
        if isinstance(block, HeadingBlock):
            _ = block.title


def test_time_is_linear() -> None:
    """A pathological repetition of several lines; `growth` tries single lines and marks."""
    assert [piece for piece in _REPEATS if not is_linear(_read, piece)] == []


def test_time_inside_metadata_is_linear() -> None:
    """The same holds inside a metadata block, closed or not."""
    tried = [(piece, "---\n" if number % 2 else "") for number, piece in enumerate(_INSIDE_METADATA)]
    assert [each for each in tried if not is_linear(_read, each[0], "---\nkey: x\n", "\n" + each[1])] == []


_OPENED = [("```\n", "\nx\n```\n"), ("<!--", "x -->\n")]


def test_time_inside_a_block_is_linear() -> None:
    """The same holds for what a block derives from its source."""
    tried = [(opening, piece, closing) for opening, closing in _OPENED for piece in ("\n", "# a\n\n", "---\n")]
    assert [each for each in tried if not is_linear(_read, each[1], each[0], each[2])] == []
