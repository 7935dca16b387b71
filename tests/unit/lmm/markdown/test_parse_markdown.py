"""The grammar, case by case: tests/golden/parse/*.md."""

from __future__ import annotations

import json
import re

import pytest
from golden_files import Case, read_cases

from lmm.markdown.blocks import Block, ErrorBlock, HeadingBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text

_INVISIBLE = re.compile(r"[\x7f-\xa0\u2000-\u200f\u2028\u2029\ufeff]")


def describe(block: Block) -> str:
    """A block as one line of a golden file: ``kind line: detail``."""
    return f"{block.kind} {block.line}: {_detail(block)}"


def _detail(block: Block) -> str:
    if isinstance(block, MetadataBlock):
        prompts = "".join(f" {prompt.word}={_shown(prompt.text)}" for prompt in block.prompts)
        return _shown(block.values()) + prompts
    if isinstance(block, HeadingBlock):
        return f"{'#' * block.level} {_shown(block.title)} {block.attributes}".rstrip()
    if isinstance(block, ErrorBlock):
        return f"{_shown(block.content)} at {block.error_line}:{block.error_column}, {block.reason}"
    return _shown(block.content)


def _shown(value: object) -> str:
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize("case", read_cases("parse"), ids=str)
def test_golden(case: Case) -> None:
    """A document's blocks are those written under it, and joined they are the document."""
    blocks = parse_markdown_text(case.source)
    assert tuple(describe(block) for block in blocks) == case.expected
    assert serialize(blocks) == case.source


def test_no_text_has_no_blocks() -> None:
    """The empty string gives the empty list."""
    assert parse_markdown_text("") == []
