"""The score below which nothing relevant was found, from questions that the course answers and others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lmm.errors import LmmError

LEAST = 10
"""Questions of each kind without which a threshold would be a guess."""
KEPT = 0.95
"""The share of the questions that the course answers which a threshold should not refuse."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold: the share of answerable questions at or above it, and of the others below it."""

    score: float
    kept: float
    rejected: float

    def as_json(self) -> dict[str, float]:
        """Plain values."""
        return {"threshold": self.score, "answerable_kept": self.kept, "unanswerable_rejected": self.rejected}


@dataclass(frozen=True, slots=True)
class Calibration:
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
        return {
            **self.advised.as_json(),
            "balanced": self.balanced.as_json(),
            "auc": self.auc,
            "answerable": self.answerable,
            "unanswerable": self.unanswerable,
            "held_out_documents": self.held_out,
        }


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
    candidates = [_threshold(score, good, bad) for score in _between(sorted({*good, *bad}))]
    advised = max((t for t in candidates if t.kept >= KEPT), key=lambda t: t.score)
    balanced = max(candidates, key=lambda t: (t.kept + t.rejected, -t.score))
    return Calibration(advised, balanced, _auc(good, bad), len(good), len(bad), held_out)


def _between(scores: Sequence[float]) -> list[float]:
    """The lowest score, and the middle between each two that follow each other."""
    return [scores[0], *((a + b) / 2 for a, b in pairwise(scores))]


def _threshold(score: float, good: Sequence[float], bad: Sequence[float]) -> Threshold:
    score = round(score, 3)
    return Threshold(score, 1 - bisect_left(good, score) / len(good), bisect_left(bad, score) / len(bad))


def _auc(good: Sequence[float], bad: Sequence[float]) -> float:
    """How often a good score is above a bad one; equal ones count half."""
    above = sum(
        bisect_left(bad, score) + (bisect_left(bad, score + 1e-12) - bisect_left(bad, score)) / 2 for score in good
    )
    return above / (len(good) * len(bad))
