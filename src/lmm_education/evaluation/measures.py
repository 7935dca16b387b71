"""From the ranks at which things were found to figures: recall, MRR, nDCG, how sure they are, and differences.

One thing is looked for per question and level (see `judge`), so that recall@k is the share of questions for
which it was among the first k, and every way of cutting documents is measured against the same ideal.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmm.errors import LmmError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MEASURES: dict[str, str] = {
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "mrr@10": "RR@10",
    "ndcg@10": "nDCG@10",
}
"""Our names of the measures, and those of ``ir-measures``."""
DEPTH = 10
RESAMPLES = 5_000
_SEED = 20_260


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions and its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    n: int

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"value": self.mean, "low": self.low, "high": self.high, "questions": self.n}


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second of two is on the same questions, with a 95 % interval. `p` is how often a
    difference of this size would come about if the two were exchangeable."""

    mean: float
    low: float
    high: float
    p: float

    @property
    def is_real(self) -> bool:
        """Whether chance is an unlikely explanation (p < 0.05)."""
        return self.p < 0.05

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"difference": self.mean, "low": self.low, "high": self.high, "p": self.p, "real": self.is_real}


def measure_ranks(ranks: Sequence[int | None]) -> dict[str, list[float]]:
    """Each measure for each question, from the rank (from 1) at which the right thing was found, or None.

    Raises:
        LmmError: ``ir-measures`` is not installed.

    >>> measure_ranks([1, 3, None])["mrr@10"]
    [1.0, 0.3333333333333333, 0.0]
    """
    try:
        import ir_measures
    except ImportError as error:
        hint = "pip install 'lmmarkdown[eval]'"
        raise LmmError("measuring needs a package that is not installed: ir-measures", hint=hint) from error
    wanted = {name: ir_measures.parse_measure(code) for name, code in MEASURES.items()}
    judged = [ir_measures.Qrel(str(number), "right", 1) for number in range(len(ranks))]
    run = [
        ir_measures.ScoredDoc(str(number), "right" if place == rank else f"wrong {place}", -float(place))
        for number, rank in enumerate(ranks)
        for place in range(1, DEPTH + 1)
    ]
    values = {name: [0.0] * len(ranks) for name in wanted}
    names = {measure: name for name, measure in wanted.items()}
    if ranks:
        for metric in ir_measures.iter_calc(list(names), judged, run):
            values[names[metric.measure]][int(metric.query_id)] = metric.value
    return values


def estimate(values: Sequence[float], groups: Sequence[Hashable], *, seed: int = _SEED) -> Estimate:
    """The mean and its interval, by drawing whole groups of questions again and again (percentile bootstrap).

    Questions about one passage share its fate, so they are drawn together: `groups` says which ones.

    >>> found = estimate([1.0, 0.0, 1.0, 1.0], ["a", "b", "c", "d"])
    >>> found.mean, found.low <= 0.75 <= found.high
    (0.75, True)
    """
    if not values:
        return Estimate(0.0, 0.0, 0.0, 0)
    low, high = _interval(*_sums(values, groups), seed)
    return Estimate(sum(values) / len(values), low, high, len(values))


def compare(
    before: Sequence[float], after: Sequence[float], groups: Sequence[Hashable], *, seed: int = _SEED
) -> Difference:
    """How `after` differs from `before`, question by question: bootstrap interval and randomisation test.

    The test turns the sign of each group's difference at random: had the two been exchangeable, either sign
    would have been as likely.

    >>> compare([0.0] * 20, [1.0] * 20, range(20)).is_real, compare([0.5] * 20, [0.5] * 20, range(20)).is_real
    (True, False)
    """
    import numpy as np

    differences = [b - a for a, b in zip(before, after, strict=True)]
    if not differences:
        return Difference(0.0, 0.0, 0.0, 1.0)
    sums, counts = _sums(differences, groups)
    low, high = _interval(sums, counts, seed)
    random = np.random.default_rng(seed)
    seen = abs(float(sums.sum())) - 1e-12
    more = sum(
        int((np.abs(random.choice((-1.0, 1.0), size=(rows, len(sums))) @ sums) >= seen).sum())
        for rows in _batches(len(sums))
    )
    return Difference(sum(differences) / len(differences), low, high, (more + 1) / (RESAMPLES + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; 0 for none.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.5
    """
    ordered = sorted(values)
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def latency(seconds: Sequence[float]) -> Mapping[str, float]:
    """Median and 95th percentile in milliseconds."""
    return {"p50_ms": percentile(seconds, 0.5) * 1000, "p95_ms": percentile(seconds, 0.95) * 1000}


def _sums(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[Array, Array]:
    """Of each group, the sum of its values and how many they are."""
    import numpy as np

    number: dict[Hashable, int] = {}
    places = np.array([number.setdefault(group, len(number)) for group in groups])
    return np.bincount(places, weights=np.array(values)), np.bincount(places).astype(float)


def _interval(sums: Array, counts: Array, seed: int) -> tuple[float, float]:
    import numpy as np

    random = np.random.default_rng(seed)
    means: list[float] = []
    for rows in _batches(len(sums)):
        drawn = random.integers(0, len(sums), size=(rows, len(sums)))
        means += (sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)).tolist()
    return percentile(means, 0.025), percentile(means, 0.975)


def _batches(width: int) -> list[int]:
    """`RESAMPLES` rows in parts that fit into memory."""
    rows = max(1, min(RESAMPLES, 1_000_000 // max(width, 1)))
    return [rows] * (RESAMPLES // rows) + ([RESAMPLES % rows] if RESAMPLES % rows else [])
