"""What looks like metadata and cannot be read: it is found in every form, and nothing else is."""

from __future__ import annotations

import pytest
from unread import BLOCKS, HEADERS, NOT_METADATA

from lmm.markdown import parse_markdown_text
from lmm.markdown.lookalikes import conflicts, find_lookalikes


def test_a_header_that_names_a_model() -> None:
    """It is found, with its key, its place and what to do."""
    for name, header in HEADERS.items():
        found = find_lookalikes(parse_markdown_text(header))
        assert any("model" in one.controls and one.hint for one in found), name
        assert all(1 <= one.line <= header.count("\n") + 1 for one in found), name


@pytest.mark.parametrize("key", ["skip: true", "type: solution", "frozen: true"])
def test_a_block_that_says_who_may_read(key: str) -> None:
    """It is found in the middle of a document and as its header."""
    for source in BLOCKS.values():
        block = source.replace("KEY: VALUE", key).replace("KEY:VALUE", key.replace(" ", ""))
        for text in (f"---\ntitle: T\n---\n\n# A\n\nText.\n\n{block}\nThe answer.\n", f"{block}\nThe answer.\n"):
            assert any(key.split(":")[0] in one.controls for one in find_lookalikes(parse_markdown_text(text))), text


@pytest.mark.parametrize("name", NOT_METADATA)
def test_what_is_none(name: str) -> None:
    """Rules, tables, code and prose are none."""
    assert find_lookalikes(parse_markdown_text(NOT_METADATA[name])) == []


def test_conflicts_in_code_are_examples() -> None:
    """A conflict is one where it is text."""
    conflict = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n"
    assert conflicts(f"A.\n\n```\n{conflict}```\n\n{conflict}") == [11]
