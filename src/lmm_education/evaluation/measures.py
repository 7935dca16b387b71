"""From the ranks at which things were found to figures: recall, MRR, nDCG, how sure they are, and differences.

One thing is looked for per question and level (see `judge`), so that recall@k is the share of questions for
which it was among the first k, and every way of cutting documents is measured against the same ideal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import mul
from typing import Any

import msgspec

DEPTH = 10
RESAMPLES = 2_000
_SEED = 20_260

MEASURES: dict[str, Callable[[float], float]] = {
    "recall@1": lambda rank: float(rank <= 1),
    "recall@5": lambda rank: float(rank <= 5),
    "recall@10": lambda rank: float(rank <= DEPTH),
    "mrr@10": lambda rank: 1 / rank if rank <= DEPTH else 0.0,
    "ndcg@10": lambda rank: 1 / math.log2(1 + rank) if rank <= DEPTH else 0.0,
}
"""Each measure as a function of the rank at which the one right thing was found; infinite for never."""


class Statistic(msgspec.Struct, frozen=True):
    """What was computed; its fields have their names for programs in `rename`."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


class MeanEstimate(Statistic, frozen=True, rename={"mean": "value", "n": "questions"}):
    """A mean over questions and its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    n: int


class Difference(Statistic, frozen=True, rename={"mean": "difference", "is_real": "real"}):
    """How much better the second of two is on the same questions, with a 95 % interval. `p` is how often a
    difference of this size would come about if the two were exchangeable; where that is rare (p < 0.05), it `is_real`.
    """

    mean: float
    low: float
    high: float
    p: float
    is_real: bool


def measure_ranks(ranks: Iterable[int | None], measure: str) -> list[float]:
    """A measure for each question, from the rank (from 1) at which the right thing was found, or None.

    >>> measure_ranks([1, 3, None], "mrr@10")
    [1.0, 0.3333333333333333, 0.0]
    """
    return [MEASURES[measure](math.inf if rank is None else rank) for rank in ranks]


def estimate(values: Sequence[float], groups: Sequence[Hashable]) -> MeanEstimate:
    """The mean and its interval, by drawing whole groups of questions again and again (percentile bootstrap).

    Questions about one passage share its fate, so they are drawn together: `groups` says which ones.

    >>> found = estimate([1.0, 0.0, 1.0, 1.0], ["a", "b", "c", "d"])
    >>> found.mean, found.low <= 0.75 <= found.high
    (0.75, True)
    """
    if not values:
        return MeanEstimate(0.0, 0.0, 0.0, 0)
    low, high = _interval(*_sums(values, groups))
    return MeanEstimate(sum(values) / len(values), low, high, len(values))


def compare(before: Sequence[float], after: Sequence[float], groups: Sequence[Hashable]) -> Difference:
    """How `after` differs from `before`, question by question: bootstrap interval and randomisation test.

    The test turns the sign of each group's difference at random: had the two been exchangeable, either sign
    would have been as likely.

    >>> compare([0.0] * 20, [1.0] * 20, range(20)).is_real, compare([0.5] * 20, [0.5] * 20, range(20)).is_real
    (True, False)
    """
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if not differences:
        return Difference(0.0, 0.0, 0.0, 1.0, False)
    sums, counts = _sums(differences, groups)
    low, high = _interval(sums, counts)
    moved = [total for total in sums if total]  # either sign of nothing is nothing
    seen = abs(sum(moved)) - 1e-12
    choices = random.Random(_SEED).choices
    turned = (sum(map(mul, moved, choices((-1.0, 1.0), k=len(moved)))) for _ in range(RESAMPLES))
    more = sum(abs(total) >= seen for total in turned)
    p = (more + 1) / (RESAMPLES + 1)
    return Difference(sum(differences) / len(differences), low, high, p, p < 0.05)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; 0 for none.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.5
    """
    ordered = sorted(values) or [0.0]
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place % 1)


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    return {"p50_ms": percentile(seconds, 0.5) * 1000, "p95_ms": percentile(seconds, 0.95) * 1000}


def _sums(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[list[float], list[int]]:
    """Of each group, the sum of its values and how many they are."""
    members: dict[Hashable, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        members.setdefault(group, []).append(value)
    return [sum(group) for group in members.values()], [len(group) for group in members.values()]


def _interval(sums: Sequence[float], counts: Sequence[int]) -> tuple[float, float]:
    """Where 95 % of the means lie that drawing groups with replacement gives."""
    choices = random.Random(_SEED).choices
    draws = (choices(range(len(sums)), k=len(sums)) for _ in range(RESAMPLES))
    means = [sum(map(sums.__getitem__, drawn)) / sum(map(counts.__getitem__, drawn)) for drawn in draws]
    return percentile(means, 0.025), percentile(means, 0.975)
