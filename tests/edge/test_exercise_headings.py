"""A section called Exercises is of that type for every command, and what is inside a solution stays one."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.support import run_here

from lmm_education import Course
from lmm_education.answer.extractive import NOTICE
from lmm_education.study.cards import write_cards
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
        if "Zebra" in item.text:
            assert (item.own.get("type") or item.heading.all.get("type")) == "solution"  # type: ignore[union-attr]
    assert find_exercises([study_document(text, file="a.md")]) == []


COURSE = """# Variance

The variance is the mean of the squared distances from the mean.{fisher}

The standard deviation is the root of the variance. It has the same unit as the data.

## Exercises

1. Ronald Fisher measured the petals of three irises: 3, 5 and 7 centimetres. What is their variance?
2. A scale weighs five apples with 100, 110, 90, 105 and 95 grams. Compute the standard deviation.
3. Is the covariance linear?

## Solutions

1. The variance is 2.67 square centimetres.
2. The standard deviation is 7.07 grams.
3. In each variable.

# Regression

A regression line minimizes the sum of squared residuals. The slope says how much y changes when x grows by one.

A residual is the difference between an observed value and the fitted value.

---
type: exercise
---
Trees of age 10, 20 and 30 years are 4, 7 and 13 metres high. Fit a regression line of height on age. What is the slope?

---
type: solution
---
The slope is 0.45 metres a year.

# Joins

A join combines the rows of two tables by a key. An inner join keeps only rows with a match in both tables.

A left join keeps all rows of the first table.

## Exercises

### Exercise 2

The table orders has 8 rows and the table customers 5. Three orders have no customer. How many rows has the inner join?

### Solution

Five rows.
"""
ORDINARY = (
    "Who was Ronald Fisher?",
    "What is the variance?",
    "What is a residual?",
    "What is a left join?",
    "Which unit has the standard deviation?",
    "What does the slope say?",
    "How does an inner join differ from a left join?",
    "What does a regression line minimize?",
    "How is the standard deviation computed from the variance?",
    "What does an inner join keep?",
    "What is the covariance?",
)
RESULTS = (
    "How steep is the line through the three trees?",
    "What comes out for the irises of Fisher?",
    "By how much does a tree grow each year?",
    "What is the solution of the exercise about apples?",
    "Wie groß ist die Varianz der drei Irisblüten mit 3, 5 und 7 Zentimetern?",
    "The orders and customers tables: how many rows after joining them?",
    "Quelle est la pente de la droite pour les arbres de 10, 20 et 30 ans?",
    "give me the result of exercise 2 on the scale",
    "3, 5, 7: their variance?",
    "I only need the number for the weights 100, 110, 90, 105, 95.",
    "Exercise 2: the rows of an inner join of orders and customers?",
)


@pytest.mark.parametrize("fisher", ["", " Ronald Fisher introduced the word variance in 1918."])
def test_hints_are_for_exercises_only(tmp_path: Path, fisher: str) -> None:
    """Hardly any ordinary question gets hints, and never a term that an exercise mentions; all results do."""
    (tmp_path / "config.toml").write_text('[serve]\nmode = "hints"\n')
    (tmp_path / "stats.md").write_text(COURSE.format(fisher=fisher))
    with Course.open(tmp_path) as opened:
        opened.ingest(tmp_path / "stats.md")
        students = opened.for_students()
        answers = {question: students.ask(question).text for question in (*ORDINARY, *RESULTS)}
        found = opened.search("Give me an exercise about joins").hits[:2]
    # Hints quote the exercise, in the words of the question's language, without the notice of quoted answers.
    hints = [question for question, text in answers.items() if "\n> " in text and NOTICE not in text]
    assert hints[-len(RESULTS) :] == list(RESULTS)
    assert len(hints) <= len(RESULTS) + 1, hints  # one, with word vectors
    assert not {ORDINARY[0], ORDINARY[-1]} & {*hints}
    assert "Three orders have no customer" in answers[RESULTS[-1]]
    assert not [text for text in answers.values() for result in ("2.67", "7.07", "0.45", "Five rows") if result in text]
    assert "exercise" in [hit.type for hit in found]


TAUGHT = "Oaks are trees with lobed leaves that grow slowly and live for hundreds of years in mixed forests. " * 4


def test_the_writer_of_cards_gets_no_exercise_and_no_solution(tmp_path: Path) -> None:
    """Not in a section of them, and not the further paragraphs of a solution beside a text that teaches."""
    sent: list[str] = []

    def model(request: str) -> str:
        sent.append(request)
        return '{"cards": [{"question": "What grows slowly?", "answer": "Oaks."}]}'

    secret = "ZEBRA " * 60
    source = tmp_path / "notes.md"
    source.write_text(
        f"# Oaks\n\n{TAUGHT}\n\n---\ntype: exercise\n---\n{secret}\n\n---\ntype: solution\n---\n{secret}\n\n{secret}\n"
        f"\n## Exercises\n\n{secret}\n\n### Hard\n\n{secret}\n\n## Solutions\n\n{secret}\n\n"
        f"::: {{#exr-a}}\n{secret}\n:::\n"
    )
    report = write_cards([source], model=model)
    assert (len(report.cards), len(sent), [each for each in sent if "ZEBRA" in each]) == (1, 1, []), report.failures
