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


EXERCISES = "# Samples\n\n## Exercises\n\n"


def test_a_solution_in_the_line_of_its_exercise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ingestion names its lines; the worksheet and the search of students do not have it (see test_solution_forms)."""
    source = tmp_path / "notes.md"
    source.write_text(f"{EXERCISES}**Exercise 1.** Is a census one? **Solution.** No zebra.\n")
    ran = run_here(capsys, "ingest", str(source))
    assert (ran.code, "notes.md:5: kept from students (solution)" in ran.out + ran.err) == (0, True), ran
    with Course.open(tmp_path) as opened:
        shown = [each.text for each in opened.for_students().search("census zebra").hits]
    worksheet = run_here(capsys, "exercises", str(source)).out
    key = run_here(capsys, "exercises", str(source), "--solutions").out
    assert ("zebra" in "".join(shown), "zebra" in worksheet, "zebra" in key) == (False, False, True)
    assert "census" in worksheet


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# A\n\nWhy?\n\n**Solution 6.1.** So.\n", 5),
        ("# A\n\nWhy?\n\n<details><summary>Solution</summary>\n\nSo.\n\n</details>\n", 5),
        ("# Salt\n\nSolutions of salt conduct. Solution means a mixture.\n", 0),
        (f"{EXERCISES}Why?\n\n---\ntype: solution\n---\n**Solution 1.** So.\n", 0),
        (f"{EXERCISES}Why?\n\n---\ntype: text\n---\n**Solution 1.** A mixture.\n", 0),
    ],
)
def test_what_may_be_a_solution_and_is_shown_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int
) -> None:
    """Scan and ingest name its line, and what to write."""
    source = tmp_path / "notes.md"
    source.write_text(text)
    for command in ("ingest", "scan"):
        ran = run_here(capsys, command, str(source))
        said = ran.out + ran.err
        assert ("shown to students" in said) is bool(line), said
        if line and command == "ingest":
            assert f":{line}:" in said
            assert "type: solution" in said


def test_an_included_file_with_a_labelled_solution_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with other solutions in included files, none of it is read, and ingest says that it is not included."""
    (tmp_path / "_key.qmd").write_text("**Solution.** No zebra.\n")
    (tmp_path / "_more.qmd").write_text("An okapi is no case.\n")
    source = tmp_path / "notes.qmd"
    source.write_text(f"{EXERCISES}Why?\n\n{{{{< include _key.qmd >}}}}\n\n{{{{< include _more.qmd >}}}}\n")
    ran = run_here(capsys, "ingest", str(source))
    assert "_key.qmd" in ran.out + ran.err
    worksheet = run_here(capsys, "exercises", str(source)).out
    assert ("zebra" in worksheet, "okapi" in worksheet) == (False, True)
