"""Evaluate answers: ask every question as students do, and judge the answers.

An answer is *right* if it contains what the author requires: all of a question's `facts`, and one of its `answers`,
ignoring case, punctuation and markup. *Answered* means that the answer cites a source; otherwise it is *refused*.
*Grounded* is the share of an answer's quotations and cited sentences in which its `Verification` finds nothing wrong.
*Precision* is the share of the cited sources that contain what answers the question, and *recall* whether one of them
does.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from lmm.errors import LmmError
from lmm.messages import Usage
from lmm.terminal import table, usage_text
from lmm_education.answer.answer import Answer
from lmm_education.answer.answering import Answering
from lmm_education.evaluation.experiments import Progress, read_texts
from lmm_education.evaluation.judge import Expected, contains, find_ranks, find_targets, words
from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.results import (
    Cells,
    MeasuredSettings,
    against,
    excerpt,
    percent,
    place_named,
    place_of,
    short_percent,
    with_interval,
)

Measure = Literal["answered", "right", "grounded", "precision", "recall", "refused"]


@dataclass(frozen=True)
class AnswerOutcome:
    """A question, its answer or the error, and the seconds that it took."""

    target: Expected
    answer: Answer | None
    seconds: float = 0.0
    error: LmmError | None = None

    @property
    def question(self) -> Question:
        """The question that was asked."""
        return self.target.question

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer that is based on the course."""
        return self.answer is not None and self.answer.rests_on == "course"

    @property
    def is_right(self) -> bool | None:
        """Whether the answer contains what is required; None if the question does not specify that."""
        facts, answers = self.question.facts, self.question.answers
        if not facts and not answers:
            return None
        answer_words = words(self.answer.text if self.answer else "")
        contained = functools.partial(map, lambda text: contains(answer_words, words(text)))
        return all(contained(facts)) and (not answers or any(contained(answers)))

    @functools.cached_property
    def right_sources(self) -> list[bool]:
        """For each source that the answer cites, whether it contains what answers the question."""
        level = next((level for level in ("section", "passage", "document") if level in self.target.levels), None)
        if level is None or self.answer is None:
            return []
        return [find_ranks(self.target, [source])[level] is not None for source in self.answer.cited]

    @functools.cached_property
    def values(self) -> Mapping[Measure, float]:
        """The measures that apply to this answer."""
        if self.question.unanswerable:
            return {"refused": float(not self.is_answered)}
        values = ((measure, value(self)) for measure, value in _MEASURES.items())
        return {measure: float(value) for measure, value in values if value is not None}


def _grounded(outcome: AnswerOutcome) -> float | None:
    if outcome.answer is None:
        return None
    found = outcome.answer.verification
    checked = len(found.quotations) + len(found.claims)
    return 1 - len(found.failures) / checked if checked else None


def _precision(outcome: AnswerOutcome) -> float | None:
    right = outcome.right_sources
    return sum(right) / len(right) if right else None


_MEASURES: Mapping[Measure, Callable[[AnswerOutcome], float | None]] = {
    "answered": lambda outcome: outcome.is_answered,
    "right": lambda outcome: outcome.is_right,
    "grounded": _grounded,
    "precision": _precision,
    "recall": lambda outcome: any(outcome.right_sources) if outcome.target.levels else None,
}
ANSWER_MEASURES: tuple[Measure, ...] = (*_MEASURES, "refused")


@dataclass(frozen=True, repr=False)
class AnswerEvaluation(MeasuredSettings):
    """The answers to all questions, with one model and one set of settings."""

    model: str = ""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that apply to at least one answer."""
        return tuple(each for each in ANSWER_MEASURES if self.values(each))

    def _figures(self) -> Iterator[str]:
        for measure in self.measures:
            yield f"{measure} {fmean(self.values(measure).values()):.0%}"

    def values(self, *by: Any) -> dict[int, float]:
        """See `MeasuredSettings.values`."""
        (measure,) = by
        return {n: outcome.values[measure] for n, outcome in enumerate(self.outcomes) if measure in outcome.values}

    @property
    def failures(self) -> list[AnswerOutcome]:
        """Answers that are wrong, cite no right source, or should have been refused, and missing ones."""
        needed: tuple[Measure, ...] = ("refused", "right", "recall")
        return [outcome for outcome in self.outcomes if any(outcome.values.get(measure) == 0 for measure in needed)]

    @property
    def usage(self) -> Usage:
        """The usage of all answers together."""
        return sum((outcome.answer.usage for outcome in self.outcomes if outcome.answer), Usage())

    def differences(self, after: AnswerEvaluation) -> dict[str, Any]:
        """See `MeasuredSettings.differences`."""
        return {measure: self.difference(after, measure).as_json() for measure in self.measures}

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain values."""
        figures: dict[str, Any] = {measure: self.estimate(measure).as_json() for measure in self.measures}
        return MeasuredSettings.as_json(self) | {
            "model": self.model,
            **figures,
            "tokens": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "cost": self.usage.cost,
            "failed": [{"question": o.question.text, "error": str(o.error)} for o in self.outcomes if o.error],
        }


# -- asking ----------------------------------------------------------------------------------------


async def evaluate_answers(
    answering: Answering,
    questions: Sequence[Question],
    *,
    label: str = "",
    progress: Progress,
) -> AnswerEvaluation:
    """Ask every question, concurrently if the model runs on another server, and judge the answers.

    Raises:
        StoreError: there is no store, or it cannot be read.
        LmmError: no question was answered; the first error.
    """
    course = answering.searching.course
    answerable, missing = find_targets(questions, await asyncio.to_thread(read_texts, course))
    targets = [*answerable, *(Expected(question) for question in questions if question.unanswerable)]
    if answering.can_write:
        at_once = asyncio.Semaphore(course.models.major.concurrency)
    else:  # concurrent calls on this machine would slow each other down
        at_once = asyncio.Semaphore(1)
        await _asked(answering, targets[0])  # open the store and load the embedding model before measuring
    done = 0

    async def one(target: Expected) -> AnswerOutcome:
        nonlocal done
        async with at_once:
            outcome = await _asked(answering, target)
        done += 1
        progress(label or "answering", done, len(targets))
        return outcome

    outcomes = await asyncio.gather(*map(one, targets))
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if len(errors) == len(outcomes):
        raise errors[0]
    model = next(o.answer.model for o in outcomes if o.answer)
    return AnswerEvaluation(label, tuple(outcomes), tuple(missing), course.encoder.notices, model)


async def _asked(answering: Answering, target: Expected) -> AnswerOutcome:
    start = time.perf_counter()
    try:
        *_, answer = [event async for event in answering.stream(target.question.text)]
    except LmmError as error:
        return AnswerOutcome(target, None, time.perf_counter() - start, error=error)
    assert isinstance(answer, Answer)
    return AnswerOutcome(target, answer, time.perf_counter() - start)


# -- as text for the terminal ---------------------------------------------------------------------------------------


def answers_text(found: AnswerEvaluation) -> str:
    """Return the figures of one evaluation of answers, a line per measure."""
    rows: list[Cells] = [("%", "answers", "mean", "95 %")]
    for measure in found.measures:
        mean = found.estimate(measure)
        rows.append((measure, str(mean.n), percent(mean.mean), f"{short_percent(mean.low)}–{short_percent(mean.high)}"))
    speed = found.latency
    lines = [f"{found.model}: {usage_text(found.usage)}"] if found.usage.requests else [found.model]
    lines += [f"an answer takes {speed['p50_ms'] / 1000:.2f} s (p95 {speed['p95_ms'] / 1000:.2f} s)"]
    return table(rows) + "; ".join(lines) + "\n"


def compared_answers_text(evaluations: Sequence[AnswerEvaluation]) -> str:
    """Return variants side by side, by measure, with differences from the first, and whether they may be chance."""
    first = evaluations[0]
    rows: list[Cells] = [("%", "", "mean (95 %)", "against the first", "p")]
    for measure in first.measures:
        for evaluation in evaluations:
            name, mean = measure if evaluation is first else "", with_interval(evaluation.estimate(measure))
            rows.append((name, evaluation.label, mean, *against(first, evaluation, measure)))
    figures = (f"{e.label}: {e.latency['p50_ms'] / 1000:.2f} s, {usage_text(e.usage)}\n" for e in evaluations)
    return table(rows) + "".join(figures)


def failed_answer_text(outcome: AnswerOutcome) -> str:
    """Return a failed answer: what was expected, and what was said instead."""
    question = outcome.question
    wanted = " | ".join((*question.facts, *question.answers)) or place_named(question)
    lines = [f"{question.where}: {question.text}"]
    lines += [f"  expected {wanted or 'no answer'}", f"  said {excerpt(outcome.answer.text if outcome.answer else '')}"]
    lines += [f"  cited {place_of(source)}" for source in (outcome.answer.cited if outcome.answer else ())]
    lines += [f"  {outcome.error}"] if outcome.error else []
    return "\n".join(lines) + "\n"
