"""Which of several versions is the best: compared on the same cases, with some that no proposal was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chatmd.refine.cases import Case
from chatmd.refine.checks import Outcome, Verdict
from lmm.messages import Usage

FEWEST_TO_SPLIT = 4
_NOISE = 0.5  # points of a judge's mean score that are no difference


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one case."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether it fulfils all checks."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def score(self) -> float | None:
        """The mean of the judges' scores, from 0 to 10; None if nothing was judged."""
        scores = [verdict.score for verdict in self.verdicts if verdict.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why it failed."""
        return tuple(dict.fromkeys(verdict.reason for verdict in self.verdicts if not verdict.passed))


@dataclass(slots=True)
class Version:
    """Instructions, and what came of the cases so far. `id` is ``0`` as they are, else round and number: ``1.2``."""

    id: str
    text: str
    results: dict[str, CaseResult] = field(default_factory=dict)

    def tally(self, names: Iterable[str]) -> Tally:
        """How it fares on cases, of those that were measured."""
        return tally([self.results[name] for name in names if name in self.results])


@dataclass(frozen=True, slots=True)
class Tally:
    """Results summed up: cases that passed, of how many; a mean score from 0 to 10; what the runs used."""

    passed: int
    total: int
    score: float | None
    usage: Usage

    @property
    def is_perfect(self) -> bool:
        return self.passed == self.total and self.total > 0


def tally(results: Sequence[CaseResult]) -> Tally:
    """The sum of results."""
    scores = [result.score for result in results if result.score is not None]
    usage = Usage()
    for result in results:
        usage += result.outcome.usage
    return Tally(
        sum(result.passed for result in results), len(results), sum(scores) / len(scores) if scores else None, usage
    )


def split(cases: Sequence[Case], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the cases that proposals are made from, and of those that are held out: a third, drawn by `seed`.

    If a case says itself which it is, nothing is drawn. Of fewer than four, none is held out.
    """
    if any(case.held_out is not None for case in cases):
        return (
            tuple(case.name for case in cases if not case.held_out),
            tuple(case.name for case in cases if case.held_out),
        )
    names = [case.name for case in cases]
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}\n{name}".encode()).digest())
    held = set(drawn[: len(names) // 3 if len(names) >= FEWEST_TO_SPLIT else 0])
    return tuple(n for n in names if n not in held), tuple(n for n in names if n in held)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions on the same cases: those that only the first passes, those that only the second passes."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    score: float
    """By how much the first one's mean score is higher, over cases that both have one for."""

    @property
    def is_better(self) -> bool:
        """More cases pass; or as many, and the judge's score is higher by more than chance would have it."""
        more = len(self.gained) - len(self.lost)
        return more > 0 or (more == 0 and self.score > _NOISE)

    @property
    def is_worse(self) -> bool:
        more = len(self.gained) - len(self.lost)
        return more < 0 or (more == 0 and self.score < -_NOISE)


def compare(first: Mapping[str, CaseResult], second: Mapping[str, CaseResult], names: Iterable[str]) -> Comparison:
    """The first against the second, on those of the cases that both were measured on."""
    both = [name for name in names if name in first and name in second]
    differences = [
        a - b for name in both if (a := first[name].score) is not None and (b := second[name].score) is not None
    ]
    return Comparison(
        tuple(name for name in both if first[name].passed and not second[name].passed),
        tuple(name for name in both if second[name].passed and not first[name].passed),
        sum(differences) / len(differences) if differences else 0.0,
    )


def best_of(versions: Sequence[Version], names: Sequence[str]) -> Version:
    """The version that fares best; of equals, the first. Those not measured on all of these cases do not count."""
    complete = [version for version in versions if all(name in version.results for name in names)]
    best = complete[0] if complete else versions[0]
    for version in complete[1:]:
        if compare(version.results, best.results, names).is_better:
            best = version
    return best
