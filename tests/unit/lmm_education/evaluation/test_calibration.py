"""The threshold below which nothing relevant was found."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lmm.errors import LmmError
from lmm_education.evaluation.experiments import LEAST, calibrate

_SCORES = st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=LEAST, max_size=40)


def test_scores_that_overlap() -> None:
    found = calibrate([0.2] + [0.5] * 9 + [0.9] * 10, [0.1] * 15 + [0.6] * 5)
    assert found.auc == pytest.approx((0.05 * 0.75) + (0.45 * 0.75) + 0.5)
    assert (found.advised.score, found.advised.kept, found.advised.rejected) == (0.35, 0.95, 0.75)


@given(_SCORES, _SCORES)
def test_a_threshold_does_what_it_says(good: list[float], bad: list[float]) -> None:
    found = calibrate(good, bad)
    choice = found.advised
    assert choice.kept == pytest.approx(sum(score >= choice.score for score in good) / len(good))
    assert choice.rejected == pytest.approx(sum(score < choice.score for score in bad) / len(bad))
    assert found.auc == pytest.approx(sum((a > b) + (a == b) / 2 for a in good for b in bad) / (len(good) * len(bad)))


def test_too_few_questions_are_no_basis() -> None:
    with pytest.raises(LmmError, match="only 2 questions without an answer"):
        calibrate([0.5] * LEAST, [0.1, 0.2])
    with pytest.raises(LmmError, match="there is only 1 question that the course answers"):
        calibrate([0.5], [0.1, 0.2])
