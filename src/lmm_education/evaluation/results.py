"""The results of an evaluation: the outcome of every question, figures computed from them, and both as text."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean
from typing import Any

import msgspec

from lmm.terminal import clipped, count, table
from lmm_education.evaluation.judge import LEVELS, Level, levels_of
from lmm_education.evaluation.questions import Question
from lmm_education.material import Passage

# -- measures --------------------------------------------------------------------------------------
# From ranks to figures: recall, MRR, nDCG, confidence intervals, and differences.
#
# There is one target per question and level (see `judge`), so that recall@k is the share of questions for which it was
# among the first k, and every way of cutting documents is measured against the same ideal.


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
"""Each measure as a function of the rank of the one right result; infinite if it was not found."""


class Statistic(msgspec.Struct, frozen=True):
    """A computed statistic; `rename` maps its fields to their names in JSON."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


class MeanEstimate(Statistic, frozen=True, rename={"mean": "value", "n": "questions"}):
    """A mean over questions and its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    n: int


class Difference(Statistic, frozen=True, rename={"mean": "difference", "is_real": "real"}):
    """How much better the second of two is on the same questions, with a 95 % confidence interval. `p` is the
    probability of a difference of this size if the two were exchangeable; if it is small (p < 0.05), the difference
    `is_real`.
    """

    mean: float
    low: float
    high: float
    p: float
    is_real: bool


def measure_ranks(ranks: Iterable[int | None], measure: str) -> list[float]:
    """Return a measure for each question, given the rank (from 1) of the right result, or None.

    >>> measure_ranks([1, 3, None], "mrr@10")
    [1.0, 0.3333333333333333, 0.0]
    """
    return [MEASURES[measure](math.inf if rank is None else rank) for rank in ranks]


def estimate(values: Sequence[float], groups: Sequence[Hashable]) -> MeanEstimate:
    """Return the mean and its interval, by resampling whole groups of questions (percentile bootstrap).

    Questions about the same passage are not independent, so they are drawn together: `groups` has the group of each.

    >>> found = estimate([1.0, 0.0, 1.0, 1.0], ["a", "b", "c", "d"])
    >>> found.mean, found.low <= 0.75 <= found.high
    (0.75, True)
    """
    if not values:
        return MeanEstimate(0.0, 0.0, 0.0, 0)
    low, high = _interval(*_sums(values, groups))
    return MeanEstimate(sum(values) / len(values), low, high, len(values))


def compare(before: Sequence[float], after: Sequence[float], groups: Sequence[Hashable]) -> Difference:
    """Return the difference between `after` and `before` per question: bootstrap interval and randomisation test.

    The test flips the sign of each group's difference at random: if the two were exchangeable, both signs would be
    equally likely.

    >>> compare([0.0] * 20, [1.0] * 20, range(20)).is_real, compare([0.5] * 20, [0.5] * 20, range(20)).is_real
    (True, False)
    """
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if not differences:
        return Difference(0.0, 0.0, 0.0, 1.0, False)
    sums, counts = _sums(differences, groups)
    low, high = _interval(sums, counts)
    moved = [total for total in sums if total]  # the sign of 0 does not matter
    seen = abs(sum(moved)) - 1e-12
    choices = random.Random(_SEED).choices
    turned = (sum(map(mul, moved, choices((-1.0, 1.0), k=len(moved)))) for _ in range(RESAMPLES))
    more = sum(abs(total) >= seen for total in turned)
    p = (more + 1) / (RESAMPLES + 1)
    return Difference(sum(differences) / len(differences), low, high, p, p < 0.05)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies; 0 if there are none.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.5
    """
    ordered = sorted(values) or [0.0]
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place % 1)


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Return median and 95th percentile in milliseconds."""
    return {"p50_ms": percentile(seconds, 0.5) * 1000, "p95_ms": percentile(seconds, 0.95) * 1000}


def _sums(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[list[float], list[int]]:
    """Return the sum of the values and their number for each group."""
    members: dict[Hashable, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        members.setdefault(group, []).append(value)
    return [sum(group) for group in members.values()], [len(group) for group in members.values()]


def _interval(sums: Sequence[float], counts: Sequence[int]) -> tuple[float, float]:
    """Return the range of 95 % of the means when groups are drawn with replacement."""
    choices = random.Random(_SEED).choices
    draws = (choices(range(len(sums)), k=len(sums)) for _ in range(RESAMPLES))
    means = [sum(map(sums.__getitem__, drawn)) / sum(map(counts.__getitem__, drawn)) for drawn in draws]
    return percentile(means, 0.025), percentile(means, 0.975)


# -- results ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeasuredSettings:
    """The outcomes of all questions with one set of settings; `missing` are the answers that are not in the store.

    Figures are computed `by` what they measure, the arguments of `values`.
    """

    label: str
    outcomes: tuple[Any, ...]
    missing: tuple[tuple[Question, str], ...] = ()
    notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        asked = f"{len(self.outcomes)} question{'s' * (len(self.outcomes) != 1)}"
        return f"{type(self).__name__}({', '.join(filter(None, (self.label, asked, *self._figures())))})"

    def _figures(self) -> Iterator[str]:
        """Iterate over the main figures, as text."""
        raise NotImplementedError

    def values(self, *by: Any) -> dict[int, float]:
        """Return a measure of each outcome to which it applies, by the number of its question."""
        raise NotImplementedError

    def groups(self, numbers: Iterable[int]) -> list[Hashable]:
        """Return the group of each of these questions: those about one passage are not independent."""
        asked = [self.outcomes[number].question for number in numbers]
        return [each.passages or ((each.document, each.section) if each.section else each.text) for each in asked]

    def estimate(self, *by: Any) -> MeanEstimate:
        """Return the mean of a measure, and its interval."""
        values = self.values(*by)
        return estimate(list(values.values()), self.groups(values))

    def difference(self, after: MeasuredSettings, *by: Any) -> Difference:
        """Return how much better `after` is on the questions to which the measure applies in both."""
        mine, other = self.values(*by), after.values(*by)
        both = [number for number in mine if number in other]
        return compare([mine[n] for n in both], [other[n] for n in both], self.groups(both))

    def differences(self, after: Any) -> dict[str, Any]:
        """Return the differences of `after`, as plain values."""
        raise NotImplementedError

    @property
    def latency(self) -> dict[str, float]:
        """The time that a question took, in milliseconds."""
        return latency([outcome.seconds for outcome in self.outcomes])

    def as_json(self) -> dict[str, Any]:
        """Return the values that all kinds of evaluations share."""
        return {
            "label": self.label,
            "latency": self.latency,
            "missing": [{"where": q.where, "question": q.text, "problem": problem} for q, problem in self.missing],
            "notices": list(self.notices),
        }


def comparison_json(evaluations: Sequence[MeasuredSettings]) -> dict[str, Any]:
    """Return several evaluations, and the difference of each from the first, as plain values."""
    first, *others = evaluations
    compared = [{"label": each.label, "against": first.label, **first.differences(each)} for each in others]
    return {"variants": [each.as_json() for each in evaluations], "differences": compared}


# -- passages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """A question: the ranks of the right results, the first results, and the time that it took."""

    question: Question
    ranks: Mapping[Level, int | None]
    found: tuple[Passage, ...] = ()
    seconds: float = 0.0

    @property
    def exact(self) -> Level:
        """The most exact level at which the question was judged."""
        return next(level for level in LEVELS if level in self.ranks)


@dataclass(frozen=True, repr=False)
class Evaluation(MeasuredSettings):
    """The outcomes of all answerable questions in one store, by level and measure.

    `unanswerable` counts the other questions; `size` is the mean length of the store's chunks in characters.
    """

    unanswerable: int = 0
    chunks: int = 0
    size: float = 0.0

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which at least one question can be judged."""
        return tuple(level for level in LEVELS if any(level in outcome.ranks for outcome in self.outcomes))

    def _figures(self) -> Iterator[str]:
        for level in self.levels:
            yield f"recall@5 {fmean(self.values(level, 'recall@5').values()):.0%} by {level}"

    def values(self, *by: Any) -> dict[int, float]:
        """See `MeasuredSettings.values`."""
        level, measure = by
        ranks = {number: each.ranks[level] for number, each in enumerate(self.outcomes) if level in each.ranks}
        return dict(zip(ranks, measure_ranks(ranks.values(), measure), strict=True))

    def failures(self, level: Level | None = None) -> list[QuestionOutcome]:
        """Return the questions whose target was not among the first results, at a level or at the most exact one."""
        judged = [outcome for outcome in self.outcomes if (level in outcome.ranks if level else outcome.ranks)]
        return [o for o in judged if (rank := o.ranks[level or o.exact]) is None or rank > DEPTH]

    def differences(self, after: Evaluation) -> dict[str, Any]:
        """Return the differences of `after` at each level, by measure."""
        return {
            level: {measure: self.difference(after, level, measure).as_json() for measure in MEASURES}
            for level in self.levels
        }

    def as_json(self) -> dict[str, Any]:
        """Return plain values: for each level, the measures by name, their intervals, and the number of questions."""
        levels: dict[str, Any] = {level: self._level_json(level) for level in self.levels}
        return MeasuredSettings.as_json(self) | {
            **levels,
            "questions": len(self.outcomes),
            "unanswerable": self.unanswerable,
            "chunks": self.chunks,
            "mean_chunk_characters": self.size,
        }

    def _level_json(self, level: Level) -> dict[str, Any]:
        found = {measure: self.estimate(level, measure) for measure in MEASURES}
        return {
            "questions": len(self.values(level, next(iter(MEASURES)))),
            **{measure: estimate.mean for measure, estimate in found.items()},
            "intervals": {measure: [estimate.low, estimate.high] for measure, estimate in found.items()},
        }


def failures_json(evaluation: Evaluation, level: Level | None = None) -> list[dict[str, Any]]:
    """Return the failed questions, with what was expected and what was found instead; see `Evaluation.failures`."""
    return [
        {
            "question": outcome.question.text,
            "where": outcome.question.where,
            "expected": outcome.question.gold,
            "level": level or outcome.exact,
            "rank": outcome.ranks[level or outcome.exact],
            "found": [
                {"place": str(text.place), "headings": list(text.place.headings), "text": text.text}
                for text in outcome.found
            ],
        }
        for outcome in evaluation.failures(level)
    ]


# -- the measure of comparisons -----------------------------------------------------------------------


MEASURE = "ndcg@10"
"""That by which variants are compared."""


def best_level(questions: Sequence[Question]) -> Level:
    """Return the most exact level at which any of the questions can be judged.

    >>> best_level([Question("?", document="a.md"), Question("?", section=("A",))])
    'section'
    """
    judged = {each for question in questions for each in levels_of(question)}
    return next((each for each in LEVELS if each in judged), "document")


# -- as text for the terminal ------------------------------------------------------------------------

Cells = tuple[str, ...]
_SHOWN = 160


def percent(value: float) -> str:
    """Return a share in percent.

    >>> percent(0.8763)
    '87.6'
    """
    return f"{100 * value:.1f}"


def short_percent(value: float) -> str:
    """Return a share in percent, without needless decimals."""
    return percent(value).replace("100.0", "100")


def with_interval(found: MeanEstimate) -> str:
    """Return a mean and its 95 % confidence interval, in percent."""
    return f"{percent(found.mean)} ({percent(found.low)}–{percent(found.high)})"


def evaluation_text(evaluation: Evaluation) -> str:
    """Return the figures of one evaluation, a line per level, and their intervals below; fits into 80 columns."""
    rows: list[Cells] = [("%", "questions", *MEASURES)]
    for level in evaluation.levels:
        found = [evaluation.estimate(level, measure) for measure in MEASURES]
        rows.append((level, str(found[0].n), *(percent(each.mean) for each in found)))
        rows.append(("", "95 %", *(f"{short_percent(each.low)}–{short_percent(each.high)}" for each in found)))
    speed, without = evaluation.latency, evaluation.unanswerable
    apart = f"{count(without, 'question')} without an answer not counted: lmm eval answers asks them\n"
    return (
        (table(rows) if evaluation.levels else "")
        + (apart if without else "")
        + (
            f"{evaluation.chunks:,} chunks of {evaluation.size:,.0f} characters on average; "
            f"a question takes {speed['p50_ms']:.1f} ms (p95 {speed['p95_ms']:.1f} ms)\n"
        )
    )


def comparison_text(evaluations: Sequence[Evaluation], level: Level) -> str:
    """Return variants side by side, with the difference of each from the first, and whether it may be chance."""
    first = evaluations[0]
    measures = ("recall@1", "recall@5", MEASURE)
    rows: list[Cells] = [
        (f"{level}, %", *measures, f"{MEASURE} against the first", "p", "p50 ms", "chunks"),
    ]
    for evaluation in evaluations:
        figures = [
            with_interval(mean) if measure == MEASURE else percent(mean.mean)
            for measure in measures
            for mean in [evaluation.estimate(level, measure)]
        ]
        than_first, speed = against(first, evaluation, level, MEASURE), evaluation.latency["p50_ms"]
        rows.append((evaluation.label, *figures, *than_first, f"{speed:.1f}", f"{evaluation.chunks:,}"))
    return table(rows)


def against(first: MeasuredSettings, other: MeasuredSettings, *by: str) -> Cells:
    """Return the difference between two evaluations in percentage points, with its interval, and its p-value."""
    if other is first:
        return "", ""
    found = first.difference(other, *by)
    mean, low, high = (f"{100 * value:+.1f}" for value in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high}){'' if found.is_real else ', may be chance'}", f"{found.p:.3f}"


def failure_text(outcome: QuestionOutcome, level: Level) -> str:
    """Return a failed question: what was expected, and what was found instead."""
    question = outcome.question
    rank = outcome.ranks[level]
    lines = [f"{question.where}: {question.text}", f"  expected {place_named(question)}".rstrip()]
    wanted = question.passages[:1] or question.answers[:1]
    lines += [f"    {excerpt(text)}" for text in wanted]
    lines.append(f"  found {'not among the results' if rank is None else f'at rank {rank}'}; instead:")
    lines += [f"  {i}. {place_of(text)}\n     {excerpt(text.text)}" for i, text in enumerate(outcome.found[:3], 1)]
    return "\n".join(lines) + "\n"


def place_named(question: Question) -> str:
    return " > ".join(part for part in (question.document, *question.section) if part)


def place_of(text: Passage) -> str:
    """Return the place of a passage, with its headings."""
    return " > ".join((str(text.place), *text.place.headings))


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line.

    >>> excerpt("Leaves are\\n  green.")
    'Leaves are green.'
    """
    return clipped(" ".join(text.split()), _SHOWN)
