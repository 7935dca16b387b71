"""Choosing settings by cross-validation: is what looks best on these questions better on others, too?

The best of many settings looks better than it is, because it was chosen on the questions that it is judged
by. So the questions are parted into `FOLDS`; the settings that are best on the others answer each part, and
these answers, to questions that had no say in the choice, are compared with the present settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm_education.evaluation.measures import Difference, Estimate, compare, estimate

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Tuning:
    """What cross-validation found. `best` is best on all questions; `chosen` counts how often each was best on
    the others; `held_out` estimates what choosing brings, and `gain` compares that with the present settings."""

    present: str
    best: str
    chosen: Mapping[str, int]
    means: Mapping[str, float]
    now: Estimate
    held_out: Estimate
    gain: Difference

    @property
    def is_real(self) -> bool:
        """Whether other settings are better than the present ones beyond chance."""
        return self.best != self.present and self.gain.is_real and self.gain.mean > 0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "best": self.best,
            "present": self.present,
            "real": self.is_real,
            "means": dict(self.means),
            "chosen": dict(self.chosen),
            "now": self.now.as_json(),
            "cross_validated": self.held_out.as_json(),
            "gain": self.gain.as_json(),
        }


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
    now = list(scores[present])
    return Tuning(
        present=present,
        best=_best(scores, order, range(len(groups))),
        chosen=dict(chosen.most_common()),
        means={name: _mean(values, range(len(groups))) for name, values in scores.items()},
        now=estimate(now, groups),
        held_out=estimate(held_out, groups),
        gain=compare(now, held_out, groups),
    )


def _best(scores: Mapping[str, Sequence[float]], order: Sequence[str], which: Sequence[int]) -> str:
    return max(order, key=lambda name: _mean(scores[name], which))


def _mean(values: Sequence[float], which: Sequence[int]) -> float:
    return sum(values[i] for i in which) / max(len(which), 1)
