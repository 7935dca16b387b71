"""One ranking out of several: the legs of a hybrid query, or several questions, weighed against each other.

*Distribution-based.* Scores of different kinds (BM25's sum, a cosine) are compared by where they lie among the
candidates of their own leg: 0 is three standard deviations below the mean, 1 three above. What lies higher is
not cut off at 1: with the 60 best of a thousand passages, the right one often does, and cutting made equals of
them (nDCG@10 on the SQuAD documents: 89.5, cut 87.4; with 200 candidates 79.2). What a leg did not find has 0
there. *Reciprocal rank* looks at ranks only, and needs legs that are about equally good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Fusion = Literal["dbsf", "rrf"]
Ranking = Sequence[tuple[str, float]]
"""Ids with their scores, best first."""
_K = 60  # as in the paper (Cormack, Clarke, Büttcher 2009)


class Fused(NamedTuple):
    """An id with its score out of all legs, and the score that each leg gave it."""

    id: str
    score: float
    legs: Mapping[str, float]


def fuse(
    rankings: Mapping[str, Ranking], weights: Mapping[str, float], *, method: Fusion = "dbsf", boost: float = 0.0,
    boosted: frozenset[str] = frozenset(),
) -> list[Fused]:  # fmt: skip
    """All candidates, best first; equal ones by their ids, whatever order the engine had.

    `weights` are relative to each other; a leg without one weighs 1, a leg that weighs 0 is as if it was not
    there. `boost` is added to the score of the `boosted`.

    >>> words, meaning = [("a", 9.0), ("b", 5.0), ("c", 4.0)], [("c", 0.8), ("b", 0.4), ("a", 0.3)]
    >>> [f.id for f in fuse({"sparse": words, "dense": meaning}, {"sparse": 0.8, "dense": 0.2})]
    ['a', 'b', 'c']
    >>> [f.id for f in fuse({"sparse": words}, {}, boost=1.0, boosted=frozenset("b"))]
    ['b', 'a', 'c']
    """
    counted = {name: weight for name in rankings if (weight := weights.get(name, 1.0)) > 0}
    total = math.fsum(counted.values())
    scores: dict[str, float] = {}
    found: dict[str, dict[str, float]] = {}
    for name, weight in counted.items():
        for (id, raw), normal in zip(rankings[name], _METHODS[method](rankings[name]), strict=True):
            scores[id] = scores.get(id, 0.0) + weight / total * normal
            found.setdefault(id, {})[name] = raw
    for id in boosted & scores.keys():
        scores[id] += boost
    best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Fused(id, score, found[id]) for id, score in best]


def by_distribution(ranking: Ranking) -> list[float]:
    """Each score by its place in the distribution of all; 0.5 where all are equal.

    >>> by_distribution([("a", 2.0), ("b", 1.0), ("c", 0.0)])
    [0.6666666666666666, 0.5, 0.33333333333333337]
    """
    scores = [score for _, score in ranking]
    if not scores:
        return []
    mean = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(1, len(scores) - 1))
    if not spread:
        return [0.5] * len(scores)
    return [max(0.0, 0.5 + (score - mean) / (6 * spread)) for score in scores]


def by_rank(ranking: Ranking) -> list[float]:
    """The reciprocal of each rank, counted from far enough below that the first is not everything."""
    return [1 / (_K + rank) for rank, _ in enumerate(ranking, 1)]


_METHODS: dict[Fusion, Callable[[Ranking], list[float]]] = {"dbsf": by_distribution, "rrf": by_rank}
