"""Versions are compared on the same cases, some of them held out, and noise does not count as progress."""

from __future__ import annotations

from hypothesis import given, strategies as st

from chatmd.refine.cases import Case, RunOutcome
from chatmd.refine.search import CaseResult, Version, best_of, split


def result(passed: bool, score: float | None = None) -> CaseResult:
    return CaseResult(RunOutcome("x"), () if passed else ("no",), score)


def cases(count: int) -> list[Case]:
    return [Case(f"case {n}", "?", ()) for n in range(count)]


_RESULT = st.builds(result, st.booleans(), st.none() | st.integers(0, 10))
_RESULTS = st.dictionaries(st.sampled_from("abcdef"), _RESULT, min_size=1)
_ALL = st.fixed_dictionaries(dict.fromkeys("abc", _RESULT)).map(lambda results: Version("1", "", results))


@given(st.integers(0, 40))
def test_a_third_is_held_out(count: int) -> None:
    """Each case is on one side, in order; the draw depends only on the names."""
    train, held = split(cases(count))
    assert sorted([*train, *held]) == sorted(case.name for case in cases(count))
    assert len(held) == (count // 3 if count >= 4 else 0)
    assert set(split(list(reversed(cases(count))))[1]) == set(held)


@given(_ALL, _ALL)
def test_comparison_is_antisymmetric(first: Version, second: Version) -> None:
    assert first.advantage(second, "abc") == -second.advantage(first, "abc")


@given(st.lists(_RESULTS, min_size=1, max_size=5))
def test_nobody_beats_the_best_by_cases(results: list[dict[str, CaseResult]]) -> None:
    """Of the versions that were measured on everything, none passes more cases."""
    versions = [Version(str(n), str(n), each) for n, each in enumerate(results)]
    names = tuple(results[0])
    best = best_of(versions, names)
    assert all(name in best.results for name in names)
    for version in versions:
        if all(name in version.results for name in names):
            assert version.passed(names) <= best.passed(names)


def test_a_small_difference_of_scores_is_none() -> None:
    old, better, noise = (Version("1", "", {"a": result(True, score)}) for score in (7.0, 8.0, 7.3))
    assert better.advantage(old, "a") > 0
    assert noise.advantage(old, "a") == old.advantage(noise, "a") == 0
