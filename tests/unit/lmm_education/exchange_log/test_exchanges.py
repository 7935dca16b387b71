"""The log for other programs: each reads what was written, whatever students wrote."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from unit.lmm_education.exchange_log.logs import logs

from lmm.csv_table import harmless
from lmm_education.evaluation.questions import parse_questions
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource, as_csv, as_jsonl, as_questions, asked


@given(logs())
def test_json_lines(held: list[LoggedExchange]) -> None:
    """A line is an exchange."""
    rows = [json.loads(line) for line in as_jsonl(held).split("\n")[:-1]]
    assert [(row["id"], row["question"], row["answer"]) for row in rows] == [(e.id, e.question, e.answer) for e in held]


@given(logs())
def test_csv(held: list[LoggedExchange]) -> None:
    """A row is an exchange; a text that a spreadsheet would take for a formula has a mark before it."""
    rows = list(csv.DictReader(io.StringIO(as_csv(held), newline="")))
    assert len(rows) == len(held)
    for row, exchange in zip(rows, held, strict=True):
        for name in ("question", "answer", "comment"):
            text = getattr(exchange, name)
            assert row[name].replace("'", "") == text.replace("'", "")
            assert harmless(row[name]) == row[name]


def test_a_spreadsheet_runs_nothing() -> None:
    """A student may write a formula."""
    row = next(csv.DictReader(as_csv([LoggedExchange("1", 0.0, "=1+1", comment="-2+3", cost=-0.5)]).splitlines()))
    assert (row["question"], row["comment"], row["cost"]) == ("'=1+1", "'-2+3", "-0.5")
    text = as_csv([LoggedExchange("1", 0.0, "Why;=HYPERLINK(1)", answer="So.\n@SUM(A1)")])
    cells = [cell for row in csv.reader(io.StringIO(text), delimiter=";") for cell in row]
    assert [cell for cell in cells if cell.startswith(("=", "@"))] == []


@given(logs())
def test_a_question_file_is_one(held: list[LoggedExchange]) -> None:
    """`lmm eval` reads it; the rows that it cannot use are those that nobody has said an answer's place of."""
    text = as_questions(held)
    good, bad = parse_questions(text, ".jsonl", name="q")
    places = [json.loads(line) for line in text.split("\n")[:-1]]
    assert len(places) == len({asked(exchange) for exchange in held})
    usable = [row for row in places if row["question"].strip() and "document" in row]
    assert [question.text for question in good] == [row["question"].strip() for row in usable]
    assert len(good) + len([problem for problem in bad if "this file has no questions" not in problem.message]) == len(
        places
    )


def test_what_is_proposed() -> None:
    """The section that the best answer cites first; nothing where students say it is wrong; none where nothing is."""
    source = LoggedSource(1, "s", "a.md", ("Leaves",), cited=True)
    held = [
        LoggedExchange("1", 1.0, "Why green?", sources=(source,)),
        LoggedExchange("2", 2.0, "Why  green?", reaction=1, sources=(LoggedSource(1, "r", "b.md", cited=True),)),
        LoggedExchange("3", 3.0, "Why red?", sources=(source,), reaction=-1),
        LoggedExchange("4", 4.0, "Exam?", outcome="not found"),
    ]
    rows = {row.pop("question"): row for row in map(json.loads, as_questions(held).splitlines())}
    assert rows == {
        "Why green?": {"document": "b.md", "asked": 2, "up": 1, "down": 0},
        "Why red?": {"asked": 1, "up": 0, "down": 1},
        "Exam?": {"document": "", "asked": 1, "up": 0, "down": 0},
    }
