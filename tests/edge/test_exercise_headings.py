"""A section called Exercises is of that type for every command, and what is inside a solution stays one."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.support import run_here

from lmm_education import Course
from lmm_education.study.exercises import find_exercises
from lmm_education.study.notes import clean_notes
from lmm_education.study.study_documents import study_document

NOTES = """# R

---
type: exercise
---
What is the slope of the zebra line?

---
type: solution
---
3.93

Because of the zebra.

{level} {exercises}

1. Join the tables of oaks.
2. Join the tables of beeches.

{level} Solutions

1. With merge, the oaks.
2. With merge, the beeches.

## Joins

Joins combine tables of birches.
"""
SECRET = ("3.93", "Because of the zebra", "With merge")


@pytest.mark.parametrize("exercises", ["Exercises", "1.4 Übungen:", "Exercices"])
@pytest.mark.parametrize("level", ["##", "###"])
def test_a_section_of_exercises_ends_a_solution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: str, exercises: str
) -> None:
    """All three exercises are listed with their solutions; students find them, and none of the solutions."""
    source = tmp_path / "notes.md"
    text = NOTES.format(level=level, exercises=exercises)
    source.write_text(text)
    found = find_exercises([study_document(text, file="notes.md")])
    assert [each.text for each in found] == [
        "What is the slope of the zebra line?",
        "1. Join the tables of oaks.",
        "2. Join the tables of beeches.",
    ]
    assert [each.solution[:12] for each in found] == ["3.93\n\nBecaus", "1. With merg", "2. With merg"]
    assert run_here(capsys, "ingest", str(source)).code == 0
    with Course.open(tmp_path) as opened:
        seen = opened.for_students().search("join the tables of oaks", types=["exercise"])
        assert any("oaks" in hit.text for hit in seen.hits)
        every = " ".join(hit.text for hit in opened.for_students().search("zebra slope merge oaks beeches").hits)
    assert not any(secret in every for secret in SECRET)
    notes = clean_notes(text).text
    assert notes == "# R\n\n## Joins\n\nJoins combine tables of birches.\n"


def test_exercises_and_birches_have_their_types(tmp_path: Path) -> None:
    """A question for an exercise about joins finds exercises, before texts on joins."""
    (tmp_path / "notes.md").write_text(NOTES.format(level="##", exercises="Exercises"))
    with Course.open(tmp_path) as opened:
        opened.ingest(tmp_path / "notes.md")
        hits = opened.search("Give me an *exercise* about joins").hits
    assert hits[0].type == "exercise"


@pytest.mark.parametrize(
    "text",
    [
        "# Solutions\n\n## Exercise 1\n\nZebra.\n\n## Exercises 2\n\nZebra.\n",
        "# A\n\n---\ntype: solution\n---\n\n## Key\n\n### Exercises\n\nZebra.\n",
        "# Key\n\n---\ntype: solution\n---\nThese:\n\n## Exercise 1\n\nZebra.\n",
        "# A\n\nText.\n\n::: {.solution}\n\n## Exercise 1\n\nZebra.\n\n:::\n",
        "# A\n\nText.\n\n---\ntype: solution\n---\n::: {.callout-tip}\n\n## Exercise 1\n\nZebra.\n\n:::\n",
        "# A\n\nText.\n\n---\ntype: solution\n---\nSo.\n\n::: {.callout-tip}\n\n## Exercise 1\n\nZebra.\n\n:::\n",
    ],
)
def test_exercises_inside_a_solution_are_part_of_it(text: str) -> None:
    """A section of solutions is often divided by the names of its exercises."""
    items = study_document(text, file="a.md").outline.items
    assert "Zebra" not in clean_notes(text).text
    for item in items:
        if "Zebra" in item.source:
            assert (item.own.get("type") or item.heading.all.get("type")) == "solution"  # type: ignore[union-attr]
    assert find_exercises([study_document(text, file="a.md")]) == []
