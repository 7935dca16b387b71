"""What an evaluation found out: the outcome of every question, and the figures that follow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lmm_education.evaluation.judge import LEVELS, Level
from lmm_education.evaluation.measures import (
    DEPTH,
    MEASURES,
    Difference,
    MeanEstimate,
    compare,
    estimate,
    latency,
    measure_ranks,
)
from lmm_education.evaluation.questions import Question
from lmm_education.material import Passage


class Labelled(Protocol):
    """An evaluation of one of several settings."""

    @property
    def label(self) -> str:
        """Which they are."""
        ...


T = TypeVar("T", bound=Labelled)


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


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes of all questions that have an answer, in one store with one set of settings.

    `missing` tells which answers the store has no trace of; `unanswerable` counts the questions left out;
    `size` is the mean length of its chunks in characters.
    """

    label: str
    outcomes: tuple[QuestionOutcome, ...]
    missing: tuple[tuple[Question, str], ...] = ()
    unanswerable: int = 0
    chunks: int = 0
    size: float = 0.0
    notices: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which at least one question can be judged."""
        return tuple(level for level in LEVELS if any(level in outcome.ranks for outcome in self.outcomes))

    def judged(self, level: Level) -> list[QuestionOutcome]:
        """The outcomes that count at this level."""
        return [outcome for outcome in self.outcomes if level in outcome.ranks]

    def values(self, level: Level, measure: str) -> list[float]:
        """A measure for each question of `judged`."""
        return measure_ranks((outcome.ranks[level] for outcome in self.judged(level)), measure)

    def groups(self, level: Level) -> list[Hashable]:
        """For each question of `judged`, what it asks for: questions about one passage are not independent."""
        return [target_of(outcome.question) for outcome in self.judged(level)]

    def estimate(self, level: Level, measure: str) -> MeanEstimate:
        """The mean of a measure, and its interval."""
        return estimate(self.values(level, measure), self.groups(level))

    def failures(self, level: Level | None = None) -> list[QuestionOutcome]:
        """The questions for which the right thing was not among the first results, at a level or at their `exact`."""
        judged = self.judged(level) if level else [outcome for outcome in self.outcomes if outcome.ranks]
        return [o for o in judged if (rank := o.ranks[level or o.exact]) is None or rank > DEPTH]

    @property
    def latency(self) -> dict[str, float]:
        """What a question took, in milliseconds."""
        return latency([outcome.seconds for outcome in self.outcomes])


def target_of(question: Question) -> Hashable:
    """What a question asks for; alone in its group where that is not known."""
    return question.passages or ((question.document, question.section) if question.section else question.text)


def difference(before: Evaluation, after: Evaluation, level: Level, measure: str) -> Difference:
    """How much better `after` is on the same questions."""
    return compare(before.values(level, measure), after.values(level, measure), before.groups(level))


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON: under each level the measures by name, their intervals, and how many questions."""
    return {
        "label": evaluation.label,
        **{level: _level_json(evaluation, level) for level in evaluation.levels},
        "latency": evaluation.latency,
        "questions": len(evaluation.outcomes),
        "unanswerable": evaluation.unanswerable,
        "chunks": evaluation.chunks,
        "mean_chunk_characters": evaluation.size,
        "missing": [{"where": q.where, "question": q.text, "problem": problem} for q, problem in evaluation.missing],
        "notices": list(evaluation.notices),
    }


def _level_json(evaluation: Evaluation, level: Level) -> dict[str, Any]:
    found = {measure: evaluation.estimate(level, measure) for measure in MEASURES}
    return {
        "questions": len(evaluation.judged(level)),
        **{measure: estimate.mean for measure, estimate in found.items()},
        "intervals": {measure: [estimate.low, estimate.high] for measure, estimate in found.items()},
    }


def comparison_json(
    evaluations: Sequence[T], values: Callable[[T], Mapping[str, Any]], differences: Callable[[T, T], Mapping[str, Any]]
) -> dict[str, Any]:
    """Several evaluations, and how each differs from the first."""
    first, *others = evaluations
    compared = [{"label": each.label, "against": first.label, **differences(first, each)} for each in others]
    return {"variants": [values(each) for each in evaluations], "differences": compared}


def differences(before: Evaluation, after: Evaluation) -> dict[str, Any]:
    """How `after` differs at each level, by measure."""
    return {
        level: {measure: difference(before, after, level, measure).as_json() for measure in MEASURES}
        for level in before.levels
    }


def failures_json(evaluation: Evaluation, level: Level | None = None) -> list[dict[str, Any]]:
    """The questions that failed, with what was expected and what was found instead; see `Evaluation.failures`."""
    return [
        {
            "question": outcome.question.text,
            "where": outcome.question.where,
            "expected": {
                "document": outcome.question.document,
                "section": list(outcome.question.section),
                "passage": list(outcome.question.passages),
                "answers": list(outcome.question.answers),
            },
            "level": level or outcome.exact,
            "rank": outcome.ranks[level or outcome.exact],
            "found": [
                {"place": str(text.place), "headings": list(text.place.headings), "text": text.text}
                for text in outcome.found
            ],
        }
        for outcome in evaluation.failures(level)
    ]
