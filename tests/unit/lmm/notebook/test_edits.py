"""The form in which edits wait (tests/golden/edit/*.md)."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases

from lmm import Document
from lmm.errors import EditError
from lmm.markdown import parse_markdown_text, serialize
from lmm.notebook.edits import find_edits, resolve
from lmm.testing import ScriptedModel


@pytest.mark.parametrize("case", read_cases("edit"), ids=str)
def test_golden(case: Case) -> None:
    """Old and new text stand side by side; rejecting gives back the document without its prompts."""
    before, *replies = case.source.split("<=\n")
    texts = [reply.removesuffix("\n") for reply in replies]
    document = Document.from_text(before)
    document.answer(model=ScriptedModel(texts, name="Scripted/m")).check()
    assert document.text == case.after
    found = parse_markdown_text(case.after)
    assert len(find_edits(found)) == len(texts)
    rejected, _, _ = resolve(found, "reject")
    assert serialize(rejected) == before.replace("---\n=: change\n---\n", "").replace("=: change\n", "")


def test_metadata_is_no_change_of_an_edit() -> None:
    """One change by one keeps it, too; where the new text has no place for it, the change is refused."""
    old = "Ann says so.\n\n---\nskip: true\n---\n### B\n\nOne.\n\n---\nnote: mine\n---\nOaks grow.\n"
    document = Document.from_text(f"# T\n\n---\n=: polish\n---\n## A\n\n{old}")
    document.answer(model=ScriptedModel(["<new>\nBo says so.\n\n### B\n\nTwo.\n\nOaks grow well.\n</new>"]))
    for hunk in (1, 1):
        document.accept(hunk=hunk)
    with pytest.raises(EditError, match="no place for the metadata before 'Oaks grow"):
        document.accept(hunk=1)
    assert document.edits[0].old == old.replace("Ann", "Bo").replace("One", "Two") + "\n"
