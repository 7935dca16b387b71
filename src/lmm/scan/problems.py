"""What is wrong, or soon will be, in a document: each problem with its place and a way to mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lmm.config import load_settings
from lmm.errors import ConfigError, MetadataError
from lmm.markdown import metadata, yaml_core
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, MetadataBlock, TextBlock
from lmm.markdown.parse_markdown import unclosed_construct
from lmm.scan.header import missing_keys

_RULE_LIKE_METADATA = re.compile(r"---[ \t]*\r?\n[ \t]*[^\s]")


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; `line` and `column` count from 1. An ``error`` makes `lmm scan` exit with 1."""

    line: int
    column: int
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"


def find_problems(blocks: Sequence[Block]) -> list[Problem]:
    """All problems of a document, in the order of its lines.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> [(p.line, p.hint) for p in find_problems(parse_markdown_text("---\\ntype: x\\nfrozen = True\\n---\\n"))]
    [(4, "write 'key: value', with a colon")]
    """
    found = [p for block in blocks for p in _block_problems(block)]
    return sorted(found, key=lambda p: (p.line, p.column))


def header_gaps(blocks: Sequence[Block]) -> list[Problem]:
    """What `lmm scan` would add to the header."""
    return [Problem(1, 1, f"the header has no {key}", "lmm scan adds it", "warning") for key in missing_keys(blocks)]


def _block_problems(block: Block) -> Iterator[Problem]:
    if isinstance(block, ErrorBlock):
        yield Problem(block.error_line or block.line, block.error_column, block.reason, block.hint)
    elif isinstance(block, MetadataBlock):
        yield from _metadata_problems(block)
    elif isinstance(block, TextBlock):
        yield from _text_problems(block)


def _text_problems(block: TextBlock) -> Iterator[Problem]:
    if _RULE_LIKE_METADATA.match(block.content) and "\n---" in block.content[3:]:
        yield Problem(
            block.line,
            1,
            "Pandoc reads this rule as the start of metadata",
            "put a blank line after it, or write *** for a rule",
            "warning",
        )
    opened = unclosed_construct(block.content)
    if opened is not None:
        offset, mark = opened
        before = block.content[:offset]
        yield Problem(
            block.line + before.count("\n"),
            offset - before.rfind("\n"),
            f"'{mark}' is never closed",
            "close it; until then it is read as plain text",
            "warning",
        )


def _metadata_problems(block: MetadataBlock) -> Iterator[Problem]:
    body, first = block.body, block.body_line
    for name, line in metadata.duplicate_keys(body):
        yield Problem(
            first + line - 1, 1, f"'{name}' stands here a second time; the last one counts", "delete one of them"
        )
    if block.prompts:
        yield from _prompt_problems(block, body, first)
    if isinstance(block, HeaderBlock):
        yield from _header_problems(block, body, first)


def _prompt_problems(block: MetadataBlock, body: str, first: int) -> Iterator[Problem]:
    for prompt in block.prompts:
        line = first + prompt.line - 1
        if not prompt.text:
            yield Problem(
                line, 1, f"'{prompt.spelling}:' asks nothing", "write the question after the colon", "warning"
            )
        if yaml_core.runs_in_knitr(prompt.text):
            yield Problem(
                line,
                1,
                "knitr would run the code in this prompt, even inside metadata",
                "answer it before knitting: lmm messages",
                "warning",
            )
    try:
        yaml_core.compose(body)
    except MetadataError as error:
        line = first + error.line - 1
        yield Problem(
            line,
            error.column,
            "Pandoc refuses the document until this prompt is answered",
            f"answer it, or write '{block.prompts[0].spelling}: |' and the prompt on an indented line below",
            "warning",
        )


def _header_problems(block: HeaderBlock, body: str, first: int) -> Iterator[Problem]:
    try:
        load_settings(env={}, header=block.values())
    except ConfigError as error:
        yield Problem(first + (metadata.key_line(body, "model") or 1) - 1, 1, error.message, error.hint)
