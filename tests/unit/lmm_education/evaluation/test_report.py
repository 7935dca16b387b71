"""What is shown of an evaluation."""

from __future__ import annotations

from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.results import Evaluation, QuestionOutcome, evaluation_text


def test_the_figures_fit_into_80_columns() -> None:
    """With their intervals beneath."""
    outcomes = [
        QuestionOutcome(Question(f"{i}?"), {"passage": i % 9 or None, "section": 1, "document": None if i == 7 else 1})
        for i in range(200)
    ]
    lines = evaluation_text(Evaluation("a", tuple(outcomes), chunks=3, size=100.0)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:2] == ["passage", "200"]
    assert lines[4].split() == ["95", "%", *["100–100"] * 5]
