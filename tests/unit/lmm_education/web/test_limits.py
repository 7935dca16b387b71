"""Nobody gets more than his bucket holds, and everybody gets that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmm_education.web.limits import Buckets

steps = st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 20)), max_size=60)


@given(steps, st.integers(1, 5), st.integers(1, 10))
def test_never_more_than_burst_and_rate(steps: list[tuple[str, float]], burst: int, every: int) -> None:
    """In any stretch of time; and who waits as long as he was told is let in."""
    buckets, now = Buckets(burst, every), 0.0
    taken: dict[str, list[float]] = {"a": [], "b": []}
    for name, pause in steps:
        now += pause
        wait = buckets.take(name, now)
        if wait == 0:
            taken[name].append(now)
        else:
            assert 0 < wait <= every + 1e-6
    for times in taken.values():
        for i, first in enumerate(times):
            for j, last in enumerate(times[i:], i):
                assert j - i + 1 <= burst + (last - first) / every + 1e-6


def test_many_names_take_no_more_room() -> None:
    """Those whose bucket is full are forgotten, then the others."""
    buckets = Buckets(1, 60)
    for i in range(45_000):
        buckets.take(str(i), now=i / 1000)
    assert len(buckets._full_at) <= 20_000
    assert buckets.take("44999", now=45.0) > 0
