"""Exercises and their solutions."""

from __future__ import annotations

import pytest

from lmm_education.audience import Withholding
from lmm_education.study.exercises import Exercise, exercises_as_markdown, exercises_as_values, find_exercises
from lmm_education.study.notes import clean_notes
from lmm_education.study.study_documents import study_document

TEXT = """# A

---
type: exercise
solution: Because.
---
Why?

---
type: exercise
---
How?

---
type: solution
---
So.

---
type: solution
---
```r
1
```

---
type: topic
---
Know this.

---
type: exercise
---
## Exercises

Do all of them.

### First

One.

Two.

---
type: solution
---
Three.

Four.

---
solution: Six.
---
### Second

Five.
"""
FOUND = find_exercises([study_document(TEXT, file="a.md")])


def test_texts_and_sections_are_exercises() -> None:
    """A typed text is one; under a typed heading, its text and each subheading are."""
    assert [(e.number, e.title, e.text, e.line) for e in FOUND] == [
        (1, "", "Why?", 7),
        (2, "", "How?", 12),
        (3, "Exercises", "Do all of them.", 34),
        (4, "First", "One.\n\nTwo.", 38),
        (5, "Second", "Five.", 54),
    ]
    assert [e.headings for e in FOUND] == [("A",), ("A",), ("A",), ("A", "Exercises"), ("A", "Exercises")]


def test_solutions_stand_in_metadata_or_follow() -> None:
    """Those that follow may be several texts."""
    assert [e.solution for e in FOUND] == ["Because.", "So.\n\n```r\n1\n```", "", "Three.\n\nFour.", "Six."]


def test_other_types() -> None:
    """Topics of an exam are listed in the same way; names in another language too."""
    (topic,) = find_exercises([study_document(TEXT, file="a.md")], kinds=["Topic"])
    assert topic.text == "Know this."
    german = "# A\n\n---\ntype: Aufgabe\n---\nWarum?\n\n---\ntype: Lösung\n---\nDarum.\n"
    document = study_document(german, file="a.md", kinds=Withholding(solutions=("lösung",)))
    (found,) = find_exercises([document], kinds=["aufgabe"], solutions=["lösung"])
    assert (found.text, found.solution) == ("Warum?", "Darum.")


def test_headings_that_are_called_exercises() -> None:
    """Without any metadata, in other languages too; a type that somebody gave counts more."""
    text = (
        "# A\n\n## 2.3 Exercises\n\n1. Why?\n\n### Solutions\n\nSo.\n\n### More {-}\n\nHow?\n\n"
        "---\ntype: text\n---\n## Exercises\n\nNone.\n\n# Übungsaufgaben\xa04:\n\nWarum?\n\n"
        "# Exercises in style\n\nNo.\n"
    )
    found = find_exercises([study_document(text, file="a.md")])
    assert [(e.title, e.text, e.solution) for e in found] == [
        ("2.3 Exercises", "1. Why?", "So."),
        ("More", "How?", ""),
        ("Übungsaufgaben\xa04:", "Warum?", ""),
    ]


def test_numbered_labels_begin_exercises_in_any_section() -> None:
    """What follows a single one, or one below other text, may teach; a sentence, or an item, is none."""
    text = (
        "# Sheet 2\n\n**Exercise 1**\n\nWhy?\n\n(a) How?\n\n**Aufgabe 2** (4 Punkte)\n\nWarum?\n\nUnd?\n\n"
        "# A\n\n**Exercise 1.1:** When?\n\nOaks grow slowly.\n\n# B\n\n**Exercise 1** shows oaks.\n\n"
        "Exercise 1.2 is on oaks.\n\n- Exercise 3: oaks\n\n**Exercise 1**, which has no oaks, is hard.\n"
    )
    found = find_exercises([study_document(text, file="a.md")])
    assert [each.text for each in found] == [
        "**Exercise 1**\n\nWhy?\n\n(a) How?",
        "**Aufgabe 2** (4 Punkte)\n\nWarum?\n\nUnd?",
        "**Exercise 1.1:** When?",
    ]
    notes = "# A\n\nOaks grow.\n\n**Exercise 1.** Why?\n\nBirches grow.\n\n**Exercise 2.** How?\n\nElms grow.\n"
    found = find_exercises([study_document(notes, file="a.md")])
    assert [each.text for each in found] == ["**Exercise 1.** Why?", "**Exercise 2.** How?"]


def test_each_item_of_a_list_of_exercises_is_one() -> None:
    """Loose or tight, with what stands in an item, each with its line; solutions in as many items are told apart. A
    list under a heading in the singular is one."""
    text = (
        "# A\n\n## Exercises\n\nUse `x`.\n\n1. Why?\n\n   ```r\n   x\n   ```\n2. How?\n   - then\n   - now\n\n"
        "3. When?\n\n### Solutions\n\n1. So.\n\n2. Thus.\n\n   Always.\n\n3. Now.\n"
    )
    found = find_exercises([study_document(text, file="a.md")])
    assert [(e.number, e.line, e.title, e.text, e.solution) for e in found] == [
        (1, 3, "Exercises", "Use `x`.\n\n1. Why?\n\n   ```r\n   x\n   ```", "1. So."),
        (2, 12, "", "2. How?\n   - then\n   - now", "2. Thus.\n\n   Always."),
        (3, 16, "", "3. When?", "3. Now."),
    ]
    (one,) = find_exercises([study_document("# Exercise 1\n\n1. Why?\n2. How?\n", file="a.md")])
    assert one.text == "1. Why?\n2. How?"


def test_what_looks_like_an_item_inside_an_exercise_is_none() -> None:
    """Lines of code and of formulas, and the choices of an exercise that has a number, also one that is escaped."""
    first = "1\\. Which of these?\n\n```yaml\n- one\n2. two\n```\n\na. Leaves.\nb. Needles.\n\n$$\n- x\n$$"
    text = f"# Exercises\n\nUse these:\n\n- `x`\n\n{first}\n\n2\\. Why?\n\n* Because.\n"
    found = find_exercises([study_document(text, file="a.md")])
    assert [(e.line, e.text) for e in found] == [
        (1, f"Use these:\n\n- `x`\n\n{first}"),
        (21, "2\\. Why?\n\n* Because."),
    ]


def test_markdown_with_and_without_solutions() -> None:
    """A sheet, by section."""
    sheet = exercises_as_markdown(FOUND[:2])
    assert sheet == "# A\n\n## A\n\n### 1\n\nWhy?\n\n### 2\n\nHow?\n"
    assert exercises_as_markdown(FOUND[:1], solutions=True).endswith("Why?\n\n**Solution.** Because.\n")


def test_json_tells_solutions_only_when_asked() -> None:
    """But always whether there is one."""
    plain, solved = exercises_as_values(FOUND), exercises_as_values(FOUND, solutions=True)
    assert not any("solution" in value for value in plain)
    assert [value["has_solution"] for value in plain] == [True, True, False, True, True]
    assert solved[0]["solution"] == "Because."


def test_a_solution_without_an_exercise_is_nothing() -> None:
    """No exercise is made of it."""
    text = "# A\n\n---\ntype: solution\n---\nBecause.\n"
    assert find_exercises([study_document(text, file="a.md")]) == []


def test_environments_of_quarto_and_bookdown() -> None:
    """One exercise each, also in a section of them, with what stands in it beside its solution."""
    text = (
        "# A\n\n---\ntype: exercise\n---\n## Exercises\n\n"
        "::: {#exr-one}\nWhy?\n\n- when\n\n::: {.solution}\nBecause.\n:::\n\nAnd how?\n:::\n\n"
        "::: {.exercise #two}\nWhat?\n:::\n\n::: {#sol-two}\nThat.\n\nAll of it.\n:::\n\n"
        "```{exercise}\nWho?\n```\n\n```{solution}\nShe.\n```\n"
    )
    found = find_exercises([study_document(text, file="a.qmd")])
    assert [(e.number, e.text, e.solution) for e in found] == [
        (1, "Why?\n\n- when\n\nAnd how?", "**Solution.** Because."),
        (2, "**Exercise.** What?", "**Solution.** That.\n\nAll of it."),
        (3, "**Exercise.** Who?", "**Solution.** She."),
    ]
    assert exercises_as_markdown(found, solutions=True).count("**Solution.**") == 3
    assert [(out.type, out.line) for out in clean_notes(text).left_out] == [
        *(("exercise", 8), ("solution", 13), ("exercise", 20), ("solution", 24), ("exercise", 30), ("solution", 34))
    ]


@pytest.mark.parametrize(
    "solution", ["Solution\n\nFour.", "Solution. Four.", "**Lösung 2.** Vier.", "**Proof.** Four."]
)
def test_a_solution_that_is_labelled_gets_no_second_label(solution: str) -> None:
    """In whatever way it is written."""
    exercise = Exercise(1, "exercise", "Why?", solution, "Leaves", "a.md", 5, ("Colour",))
    assert exercises_as_markdown([exercise], solutions=True).endswith(f"Why?\n\n{solution}\n")
