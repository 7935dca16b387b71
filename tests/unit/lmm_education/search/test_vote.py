"""How passages vote for sections."""

from __future__ import annotations

from lmm_education.search.ranking import by_rank, by_relevance, vote


def test_often_wins_where_all_are_about_as_good() -> None:
    """Three good passages against the best one."""
    assert [v.section for v in vote(list("abbb"), by_relevance([0.60, 0.58, 0.57, 0.57]))] == ["b", "a"]
    assert [v.section for v in vote(list("abbb"), by_rank(4))] == ["b", "a"]


def test_a_long_tail_does_not_win() -> None:
    """Many passages that are hardly to the point."""
    relevances = [0.9, *([0.4] * 19)]
    assert [v.section for v in vote(["a", *("b" * 19)], by_relevance(relevances))] == ["a", "b"]


def test_where_nothing_is_relevant_ranks_count() -> None:
    """Cosines may be negative."""
    assert by_relevance([-0.1, -0.2]) == by_rank(2)
    assert by_relevance([]) == []
