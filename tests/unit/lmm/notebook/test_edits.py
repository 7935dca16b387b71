"""The form in which edits wait (tests/golden/edit/*.md)."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases

from lmm.markdown import parse_markdown_text, serialize
from lmm.messages import Reply
from lmm.notebook.answers import with_replies
from lmm.notebook.edits import find_edits, resolve
from lmm.notebook.pending_prompts import plan


@pytest.mark.parametrize("case", read_cases("edit"), ids=str)
def test_golden(case: Case) -> None:
    """Old and new text stand side by side; rejecting gives back the document without its prompts."""
    before, *replies = case.source.split("<=\n")
    blocks = parse_markdown_text(before)
    asks = [ask for thread in plan(blocks) for ask in thread.asks]
    texts = [reply.removesuffix("\n") for reply in replies]
    placed, failed = with_replies(
        blocks, [(ask, Reply(text, "Scripted/m")) for ask, text in zip(asks, texts, strict=True)]
    )
    assert failed == []
    assert serialize(placed) == case.after
    found = parse_markdown_text(case.after)
    assert len(find_edits(found)) == len(texts)
    rejected, _, _ = resolve(found, "reject")
    assert serialize(rejected) == before.replace("---\n=: change\n---\n", "").replace("=: change\n", "")
