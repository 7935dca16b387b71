"""Choosing settings by cross-validation, and the score below which nothing relevant was found.

The best of many settings looks better than it is, because it was chosen on the questions that it is judged
by. So the questions are parted into `FOLDS`; the settings that are best on the others answer each part, and
these answers, to questions that had no say in the choice, are compared with the present settings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lmm.errors import LmmError
from lmm_education.evaluation.measures import Difference, MeanEstimate, Statistic, compare, estimate

FOLDS = 5


class Tuning(Statistic, frozen=True, rename={"held_out": "cross_validated", "is_real": "real"}):
    """What cross-validation found. `best` is best on all questions; `chosen` counts how often each was best on
    the others; `held_out` estimates what choosing brings, and `gain` compares that with the present settings. It
    `is_real` where other settings are better than the present ones beyond chance."""

    present: str
    best: str
    chosen: Mapping[str, int]
    means: Mapping[str, float]
    now: MeanEstimate
    held_out: MeanEstimate
    gain: Difference
    is_real: bool


def cross_validate(scores: Mapping[str, Sequence[float]], groups: Sequence[Hashable], *, present: str) -> Tuning:
    """`scores` has a score per question for every setting, `present` among them.

    Where several are equally good, the present setting is chosen, else the first.

    >>> scores = {"now": [0.2, 0.3] * 20, "new": [0.9, 0.8] * 20}
    >>> found = cross_validate(scores, range(40), present="now")
    >>> found.best, found.is_real, round(found.gain.mean, 2)
    ('new', True, 0.6)
    """
    order = [present, *(name for name in scores if name != present)]
    number: dict[Hashable, int] = {}
    folds = [number.setdefault(group, len(number)) % FOLDS for group in groups]
    held_out = [0.0] * len(groups)
    chosen: Counter[str] = Counter()
    for fold in sorted(set(folds)):
        others = [i for i, part in enumerate(folds) if part != fold]
        best = _best(scores, order, others) if others else present
        chosen[best] += 1
        for i, part in enumerate(folds):
            if part == fold:
                held_out[i] = scores[best][i]
    now, best = list(scores[present]), _best(scores, order, range(len(groups)))
    gain = compare(now, held_out, groups)
    return Tuning(
        present=present,
        best=best,
        chosen=dict(chosen.most_common()),
        means={name: _mean(values, range(len(groups))) for name, values in scores.items()},
        now=estimate(now, groups),
        held_out=estimate(held_out, groups),
        gain=gain,
        is_real=best != present and gain.is_real and gain.mean > 0,
    )


def _best(scores: Mapping[str, Sequence[float]], order: Sequence[str], which: Sequence[int]) -> str:
    return max(order, key=lambda name: _mean(scores[name], which))


def _mean(values: Sequence[float], which: Sequence[int]) -> float:
    return sum(values[i] for i in which) / max(len(which), 1)


# -- a threshold -----------------------------------------------------------------------------------


LEAST = 10
"""Questions of each kind without which a threshold would be a guess."""
KEPT = 0.95
"""The share of the questions that the course answers which a threshold should not refuse."""


class Threshold(
    Statistic,
    frozen=True,
    rename={"score": "threshold", "kept": "answerable_kept", "rejected": "unanswerable_rejected"},
):
    """A threshold: the share of answerable questions at or above it, and of the others below it."""

    score: float
    kept: float
    rejected: float


class Calibration(Statistic, frozen=True, rename={"held_out": "held_out_documents"}):
    """`advised` is the highest threshold that keeps `KEPT` of the answerable questions: to refuse an answer that
    is there is worse than to look at passages in vain. `balanced` makes the fewest errors of both kinds.

    `auc` is how often a question that the course answers scores higher than one that it does not: 0.5 is
    chance. `held_out` tells that the others are the same questions, with their document taken away.
    """

    advised: Threshold
    balanced: Threshold
    auc: float
    answerable: int
    unanswerable: int
    held_out: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        values = Statistic.as_json(self)
        return {**values.pop("advised"), **values}


def calibrate(answerable: Sequence[float], unanswerable: Sequence[float], *, held_out: bool = False) -> Calibration:
    """Choose a threshold between the best scores of the two kinds of question.

    Raises:
        LmmError: there are fewer than `LEAST` of one kind.

    >>> found = calibrate([0.5, 0.6, 0.7, 0.8] * 5, [0.1, 0.2, 0.3, 0.4] * 5)
    >>> found.advised, found.auc
    (Threshold(score=0.45, kept=1.0, rejected=1.0), 1.0)
    """
    for scores, kind in ((answerable, "that the course answers"), (unanswerable, "without an answer in the course")):
        if len(scores) < LEAST:
            hint = f"add rows to the question file until there are {LEAST}; without an answer: document empty"
            raise LmmError(f"there are only {len(scores)} questions {kind}", hint=hint)
    good, bad = sorted(answerable), sorted(unanswerable)
    scores = sorted({*good, *bad})
    middles = [(a + b) / 2 for a, b in pairwise(scores)]
    candidates = [_threshold(score, good, bad) for score in (scores[0], *middles)]
    advised = max((t for t in candidates if t.kept >= KEPT), key=lambda t: t.score)
    balanced = max(candidates, key=lambda t: (t.kept + t.rejected, -t.score))
    return Calibration(
        advised=advised,
        balanced=balanced,
        auc=_auc(good, bad),
        answerable=len(good),
        unanswerable=len(bad),
        held_out=held_out,
    )


def _threshold(score: float, good: Sequence[float], bad: Sequence[float]) -> Threshold:
    score = round(score, 3)
    return Threshold(score, 1 - bisect_left(good, score) / len(good), bisect_left(bad, score) / len(bad))


def _auc(good: Sequence[float], bad: Sequence[float]) -> float:
    """How often a good score is above a bad one; equal ones count half."""
    above = sum((bisect_left(bad, score) + bisect_right(bad, score)) / 2 for score in good)
    return above / (len(good) * len(bad))
