"""Clean notes, case by case (tests/golden/export/notes.md); what holds for all: tests/property/test_export.py."""

from __future__ import annotations

import pytest
import talking
from golden_files import Case, read_cases

from lmm.testing import ScriptedModel
from lmm_education.errors import ExportError
from lmm_education.study.exercises import find_exercises
from lmm_education.study.notes import clean_notes
from lmm_education.study.plans import study_plan
from lmm_education.study.study_documents import study_document

CASES = [case for case in read_cases("export") if case.file == "notes"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_notes(case: Case) -> None:
    """The source becomes what is expected, and that becomes itself."""
    assert clean_notes(case.source).text.rstrip("\n") == case.after.rstrip("\n")
    assert clean_notes(case.after).text == case.after


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept_lines(case: Case) -> None:
    """With lines kept, the same is left, on the lines on which it stood."""
    kept = clean_notes(case.source, keep_lines=True).text
    assert _lines(kept) == _lines(clean_notes(case.source).text)
    assert clean_notes(kept).text == kept


def _lines(text: str) -> list[str]:
    return [line for line in text.removeprefix("\ufeff").split("\n") if line.strip()]


def test_types_that_are_kept() -> None:
    """Whatever case they are written in; what is left out is told with its line."""
    text = "# A\n\n---\ntype: Definition\n---\nA leaf is green.\n\n---\ntype: exercise\n---\nWhy?\n"
    notes = clean_notes(text, keep=["definition"])
    assert notes.text == "# A\n\nA leaf is green.\n\n"
    assert [(item.type, item.line) for item in notes.left_out] == [("exercise", 11)]


def test_headings_under_which_nothing_is_left() -> None:
    """They are no special material, so they stay, unless they are called after what was left out."""
    notes = clean_notes(
        "# A\n\n## Exercises\n\n---\ntype: exercise\n---\nWhy?\n\n## B\n\n---\ntype: exercise\n---\nHow?\n"
    )
    assert notes.text == "# A\n\n## B\n\n"


def test_a_document_that_is_special_as_a_whole() -> None:
    """The header says the type of everything."""
    notes = clean_notes("---\ntype: exercise\ntitle: Sheet\n---\n# Sheet\n\nWhy?\n")
    assert notes.nothing_left
    assert not clean_notes("---\ntitle: Sheet\n---\n").nothing_left


REFUSED = {
    "broken metadata": ("Text.\n\n---\ntype: b: c\n---\nText.\n", "notes.md:4:"),
    "an edit without its end": ("---\n~edit_:\n  edit: x\n  ~~id: 3f2a91\n---\nText.\n", "notes.md:1"),
    "a mark without an edit": ("Text.\n\n<!-- lmm:end 3f2a91 -->\n", "notes.md:3"),
    "a header that cannot be taken apart": ("---\ndocid: &a x\ntitle: *a\n---\nText.\n", "notes.md:1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused(name: str) -> None:
    """Rather than showing to students what was not meant for them."""
    text, place = REFUSED[name]
    with pytest.raises(ExportError) as refused:
        clean_notes(text, where="notes.md", edits="new")
    assert refused.value.where.startswith(place)
    assert refused.value.hint


def test_an_edit_keeps_types_of_the_text_it_is_about() -> None:
    """An exercise in an edited section is left out of the new text too."""
    text = "One.\n\n---\n=: shorter\n---\n# A\n\nLong text.\n\n---\ntype: exercise\n---\nWhy is it green?\n"
    edited = talking.answered(text, model=ScriptedModel(["Text.\n\nWhy is it green?"])).text
    assert clean_notes(edited, edits="new").text.split() == ["One.", "#", "A", "Text."]
    assert clean_notes(edited, edits="old").text.split() == ["One.", "#", "A", "Long", "text."]


def test_a_list_of_exercises_is_left_out_as_a_whole() -> None:
    """Also with blank lines between its items."""
    text = "One.\n\n---\ntype: exercise\n---\n1. Why?\n\n2. How?\n\n   And when?\n\nTwo.\n"
    assert clean_notes(text).text.split() == ["One.", "Two."]


def test_exercises_are_counted_as_lmm_exercises_finds_them() -> None:
    """The items of a list under Exercises; the plan counts the same, and has no solutions."""
    text = "# Leaves\n\nGreen.\n\n## Exercises\n\n1. Why?\n2. When?\n\n## Solutions\n\n1. So.\n2. Now.\n"
    gone = [(item.type, item.line) for item in clean_notes(text).left_out]
    documents = [study_document(text, file="a.md")]
    assert gone == [("solution", 12), *(("exercise", each.line) for each in find_exercises(documents))]
    assert [(step.title, step.material) for step in study_plan(documents).steps] == [
        ("Leaves", {}),
        ("Exercises", {"exercise": 2}),
    ]
