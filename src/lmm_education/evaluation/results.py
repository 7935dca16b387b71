"""What an evaluation found out: the outcome of every question, and the figures that follow."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lmm_education.evaluation import measures
from lmm_education.evaluation.judge import LEVELS, Level, levels_of
from lmm_education.evaluation.measures import DEPTH, MEASURES, Difference, MeanEstimate
from lmm_education.evaluation.questions import Question
from lmm_education.material import Passage


@dataclass(frozen=True)
class MeasuredSettings:
    """The outcomes of all questions with one set of settings; `missing` tells which answers the store has no trace of.

    Figures are asked for `by` what they measure, as its `values` have it.
    """

    label: str
    outcomes: tuple[Any, ...]
    missing: tuple[tuple[Question, str], ...] = ()
    notices: tuple[str, ...] = ()

    def values(self, *by: Any) -> dict[int, float]:
        """A measure of each outcome for which it counts, by the number of its question."""
        raise NotImplementedError

    def groups(self, numbers: Iterable[int]) -> list[Hashable]:
        """What the questions with these numbers ask for: those about one passage are not independent."""
        asked = [self.outcomes[number].question for number in numbers]
        return [each.passages or ((each.document, each.section) if each.section else each.text) for each in asked]

    def estimate(self, *by: Any) -> MeanEstimate:
        """The mean of a measure, and its interval."""
        values = self.values(*by)
        return measures.estimate(list(values.values()), self.groups(values))

    def difference(self, after: MeasuredSettings, *by: Any) -> Difference:
        """How much better `after` is on the questions that count in both."""
        mine, other = self.values(*by), after.values(*by)
        both = [number for number in mine if number in other]
        return measures.compare([mine[n] for n in both], [other[n] for n in both], self.groups(both))

    def differences(self, after: Any) -> dict[str, Any]:
        """How `after` differs, for programs."""
        raise NotImplementedError

    @property
    def latency(self) -> dict[str, float]:
        """What a question took, in milliseconds."""
        return measures.latency([outcome.seconds for outcome in self.outcomes])

    def as_json(self) -> dict[str, Any]:
        """What all evaluations tell programs."""
        return {
            "label": self.label,
            "latency": self.latency,
            "missing": [{"where": q.where, "question": q.text, "problem": problem} for q, problem in self.missing],
            "notices": list(self.notices),
        }


def comparison_json(evaluations: Sequence[MeasuredSettings]) -> dict[str, Any]:
    """Several evaluations, and how each differs from the first."""
    first, *others = evaluations
    compared = [{"label": each.label, "against": first.label, **first.differences(each)} for each in others]
    return {"variants": [each.as_json() for each in evaluations], "differences": compared}


# -- passages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """One question: the ranks at which the right things were found, the first results, and the time it took."""

    question: Question
    ranks: Mapping[Level, int | None]
    found: tuple[Passage, ...] = ()
    seconds: float = 0.0

    @property
    def exact(self) -> Level:
        """The most exact level at which the question was judged."""
        return next(level for level in LEVELS if level in self.ranks)


@dataclass(frozen=True)
class Evaluation(MeasuredSettings):
    """The outcomes of all questions that have an answer, in one store; measured by a level and a measure.

    `unanswerable` counts the questions left out; `size` is the mean length of its chunks in characters.
    """

    unanswerable: int = 0
    chunks: int = 0
    size: float = 0.0

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which at least one question can be judged."""
        return tuple(level for level in LEVELS if any(level in outcome.ranks for outcome in self.outcomes))

    def values(self, *by: Any) -> dict[int, float]:
        """See `MeasuredSettings.values`."""
        level, measure = by
        ranks = {number: each.ranks[level] for number, each in enumerate(self.outcomes) if level in each.ranks}
        return dict(zip(ranks, measures.measure_ranks(ranks.values(), measure), strict=True))

    def failures(self, level: Level | None = None) -> list[QuestionOutcome]:
        """The questions for which the right thing was not among the first results, at a level or at their `exact`."""
        judged = [outcome for outcome in self.outcomes if (level in outcome.ranks if level else outcome.ranks)]
        return [o for o in judged if (rank := o.ranks[level or o.exact]) is None or rank > DEPTH]

    def differences(self, after: Evaluation) -> dict[str, Any]:
        """How `after` differs at each level, by measure."""
        return {
            level: {measure: self.difference(after, level, measure).as_json() for measure in MEASURES}
            for level in self.levels
        }

    def as_json(self) -> dict[str, Any]:
        """For programs: under each level the measures by name, their intervals, and how many questions."""
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
    """The questions that failed, with what was expected and what was found instead; see `Evaluation.failures`."""
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


# -- what variants are compared by --------------------------------------------------------------------


class Mean(NamedTuple):
    """The measure that variants are compared by."""

    level: Level
    measure: str


MEASURE = "ndcg@10"


def best_mean(questions: Sequence[Question], level: Level | None = None) -> Mean:
    """What questions are compared by: the usual measure, at a level, else the most exact at which one can be judged.

    >>> best_mean([Question("?", document="a.md"), Question("?", section=("A",))])
    Mean(level='section', measure='ndcg@10')
    """
    judged = {each for question in questions for each in levels_of(question)}
    exact: Level = next((each for each in LEVELS if each in judged), "document")
    return Mean(level or exact, MEASURE)
