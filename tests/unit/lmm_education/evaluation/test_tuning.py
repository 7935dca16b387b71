"""Choosing settings: what is better is chosen, what only looks better is not called real."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from lmm_education.evaluation.experiments import cross_validate


def test_what_is_clearly_better_is_chosen_in_every_fold() -> None:
    now, new = [0.5, 0.4] * 30, [0.9, 0.8] * 30
    found = cross_validate({"new": new, "now": now}, range(60), present="now")
    assert (found.best, found.chosen, found.is_real) == ("new", {"new": 5}, True)
    assert found.held_out.mean == found.means["new"]


def test_the_best_of_many_equal_settings_is_seldom_real() -> None:
    """Twenty settings that differ by chance: the best always looks better on the questions it was chosen by."""
    looks_better, real = [], 0
    for seed in range(40):
        throw = random.Random(seed)
        scores = {str(i): [throw.random() for _ in range(50)] for i in range(20)}
        found = cross_validate(scores, range(50), present="0")
        looks_better.append(found.means[found.best] - found.now.mean)
        real += found.is_real
    assert sum(looks_better) / 40 > 0.05
    assert real <= 4


def test_the_present_settings_are_kept_where_nothing_is_better() -> None:
    found = cross_validate({"a": [0.5] * 20, "now": [0.5] * 20}, range(20), present="now")
    assert (found.best, found.is_real) == ("now", False)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=30))
def test_any_scores_give_a_result(rows: list[tuple[float, float, int]]) -> None:
    """One question, or questions about one passage only, cannot be parted; then nothing is real."""
    scores = {"now": [a for a, _, _ in rows], "new": [b for _, b, _ in rows]}
    found = cross_validate(scores, [group for *_, group in rows], present="now")
    assert sum(found.chosen.values()) == len({group for *_, group in rows})
    if len(rows) < 2:
        assert not found.is_real
