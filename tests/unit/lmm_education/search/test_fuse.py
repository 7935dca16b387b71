"""Fusing by distribution and by rank: what the formulas come to."""

from __future__ import annotations

import pytest

from lmm_education.search.ranking import by_distribution, fuse


def test_one_that_stands_out_is_not_cut_off() -> None:
    """Two outliers among many keep their order, and the lead of the first."""
    ranking = [("first", 30.0), ("second", 24.0), *((f"other {i}", 1.0 - i / 100) for i in range(60))]
    first, second, third = by_distribution(ranking)[:3]
    assert first > second > 1.0 > third


def test_no_score_is_below_that_of_a_candidate_that_was_not_found() -> None:
    """However far it lies below the others."""
    ranking = [*((f"good {i}", 9.0) for i in range(60)), ("bad", -50.0)]
    assert by_distribution(ranking)[-1] == 0.0


@pytest.mark.parametrize("scores", [[], [0.3], [2.0, 2.0, 2.0]])
def test_without_differences_there_is_no_preference(scores: list[float]) -> None:
    """One candidate, or all equal."""
    assert by_distribution([(str(i), score) for i, score in enumerate(scores)]) == [0.5] * len(scores)


def test_equal_scores_are_ordered_by_id() -> None:
    """So that both stores give the same result."""
    assert [f.id for f in fuse({"x": [("b", 1.0), ("a", 1.0)]}, {})] == ["a", "b"]


def test_reciprocal_ranks() -> None:
    """As in the paper: 60 is added to each rank."""
    found = {f.id: f.score for f in fuse({"x": [("a", 9.0), ("b", 1.0)], "y": [("b", 5.0)]}, {}, method="rrf")}
    assert found == {"a": pytest.approx(0.5 / 61), "b": pytest.approx(0.5 / 62 + 0.5 / 61)}


def test_nothing_fuses_to_nothing() -> None:
    """No legs, or none with a weight."""
    assert fuse({}, {}) == fuse({"x": [("a", 1.0)]}, {"x": 0.0}) == []
