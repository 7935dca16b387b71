"""Question files: golden cases of every kind of file, and that no text makes the readers raise."""

from __future__ import annotations

import json

import pytest
from golden_files import Case, read_cases
from hypothesis import given, strategies as st

from lmm_education.evaluation.questions import READERS, Question, parse_questions


def line_of(question: Question) -> str:
    """A question as the golden files write it."""
    known = [
        *([f"document={question.document}"] if question.document else []),
        *([f"section={' > '.join(question.section)}"] if question.section else []),
        *(f"passage={passage!r}" for passage in question.passages),
        *([f"answers={';'.join(question.answers)}"] if question.answers else []),
        *(["unanswerable"] if question.unanswerable else []),
    ]
    return f"{question.where} {question.text} | {' '.join(known)}"


@pytest.mark.parametrize("case", read_cases("questions"), ids=str)
def test_files_are_read_as_the_golden_file_says(case: Case) -> None:
    kind = "." + case.title.split(":")[0]
    good, bad = parse_questions(case.source, kind, name="f")
    rows = [(int(q.where.split(":")[1]), line_of(q)) for q in good]
    rows += [(int(problem.where.split(":")[1]), str(problem)) for problem in bad]
    assert [text for _, text in sorted(rows, key=lambda row: row[0])] == list(case.expected)


@given(st.sampled_from(sorted(READERS)), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_gives_questions_or_problems_with_a_line(kind: str, text: str) -> None:
    good, bad = parse_questions(text, kind, name="f")
    assert good or bad
    lines = text.count("\n") + text.count("\r") + 2
    assert all(
        1 <= int(where.rpartition(":")[2]) <= lines for where in [q.where for q in good] + [p.where for p in bad]
    )


_TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@given(st.lists(st.tuples(_TEXTS, _TEXTS, st.lists(_TEXTS)), min_size=1))
def test_what_is_written_as_json_lines_is_read_back(rows: list[tuple[str, str, list[str]]]) -> None:
    written = [{"question": q, "passage": p, "answers": a} for q, p, a in rows]
    text = "".join(json.dumps(row) + "\n" for row in written)
    good, bad = parse_questions(text, ".jsonl", name="f")
    assert not bad
    assert [(q.text, q.passages, list(q.answers)) for q in good] == [(q, (p,), a) for q, p, a in rows]
