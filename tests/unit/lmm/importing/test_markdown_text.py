"""Markdown from elsewhere is no metadata here, and leaves nothing open."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases
from hypothesis import given
from strategies import texts

from lmm.importing.markdown_text import defused, front_matter
from lmm.markdown import parse_markdown_text
from lmm.markdown.lookalikes import find_lookalikes
from lmm.markdown.parse_markdown import unclosed_construct
from lmm.notebook.near_misses import find_near_misses


@pytest.mark.parametrize("case", read_cases("import_text"), ids=str)
def test_the_golden_files(case: Case) -> None:
    """What each becomes."""
    assert defused(case.source).rstrip("\n") == case.after.rstrip("\n")


@given(texts())
def test_whatever_is_written_is_no_metadata_and_is_closed(text: str) -> None:
    """Also when other text follows; `lmm scan` sees no prompt in it, which --fix would make a question."""
    safe = defused(text)
    blocks = parse_markdown_text(safe)
    assert not find_near_misses(blocks, find_lookalikes(blocks, unsure=True))
    assert {block.kind for block in parse_markdown_text(safe)} <= {"heading", "text"}
    assert unclosed_construct(safe) is None


def test_front_matter_gives_title_and_language() -> None:
    """As Quarto and Jupytext write it into the first cell."""
    assert front_matter("---\ntitle: A\nlang: de\nformat: html\n---\n\nText") == ({"title": "A", "lang": "de"}, "Text")
    assert front_matter("Text") == ({}, "Text")
