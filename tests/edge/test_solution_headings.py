"""A solution under a heading of that name is one for every command, and students never see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.support import run_here

from lmm_education import Course
from lmm_education.study.exercises import find_exercises
from lmm_education.study.study_documents import study_document

NOTES = """# Samples

A sample is a part of the population.

## Exercises

1. Is a census a sample?

### {solution}

No: it covers every case of the population, the zebra.

## Weights

Weights of cases, after the zebra crossing.
"""


@pytest.mark.parametrize("solution", ["Solution", "Solutions:", "1.2 Lösung", "Corrigés"])
def test_a_solution_under_a_heading_is_kept_from_students(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], solution: str
) -> None:
    """Its author finds it; students do not, and the exported notes do not have it; ingest names its lines."""
    source = tmp_path / "notes.md"
    source.write_text(NOTES.format(solution=solution))
    ran = run_here(capsys, "ingest", str(source))
    assert (ran.code, f"{source}:9-11: kept from students (solution)" in ran.out + ran.err) == (0, True), ran
    found = run_here(capsys, "search", "does it cover every case, the zebra?", "--full")
    assert "[solution]" in found.out
    with Course.open(tmp_path) as opened:
        seen = opened.for_students().search("does it cover every case, the zebra?")
    assert not any("every case" in passage.text for passage in seen.hits)
    assert any("zebra crossing" in passage.text for passage in seen.hits)
    exported = run_here(capsys, "export", str(source), "-o", str(tmp_path / "clean.md"))
    assert exported.code == 0
    assert "every case" not in (tmp_path / "clean.md").read_text()
    exercise = find_exercises([study_document(source.read_text(), file="notes.md")])
    assert [each.solution for each in exercise] == ["No: it covers every case of the population, the zebra."]


@pytest.mark.parametrize(
    "text",
    [
        "# Salt\n\n---\ntype: text\n---\n\n## Solutions\n\nSalt in water.\n",
        "# Salt\n\n## Solutions\n\n---\ntype: text\n---\n\nSalt in water.\n",
        "# Salt\n\n## Solutions of salt\n\nSalt in water.\n",
    ],
)
def test_type_text_shows_what_is_no_solution(text: str) -> None:
    """A chapter on solutions, in chemistry, is one line away from its readers."""
    items = study_document(text, file="a.md").outline.items
    assert not any(item.own.get("type") == "solution" for item in items)
