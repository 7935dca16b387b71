"""Evaluations as text for the terminal, and a comparison as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmm.terminal import count, table, usage_text
from lmm_education.evaluation.experiments import Calibration
from lmm_education.evaluation.judge import Level
from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.results import (
    MEASURE,
    MEASURES,
    Evaluation,
    MeanEstimate,
    MeasuredSettings,
    QuestionOutcome,
)
from lmm_education.material import Passage

if TYPE_CHECKING:
    from lmm_education.evaluation.answers import AnswerEvaluation, AnswerOutcome

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
        against, speed = _against(first, evaluation, level, MEASURE), evaluation.latency["p50_ms"]
        rows.append((evaluation.label, *figures, *against, f"{speed:.1f}", f"{evaluation.chunks:,}"))
    return table(rows)


def _against(first: MeasuredSettings, other: MeasuredSettings, *by: str) -> Cells:
    """Return the difference between two evaluations in percentage points, with its interval, and its p-value."""
    if other is first:
        return "", ""
    found = first.difference(other, *by)
    mean, low, high = (f"{100 * value:+.1f}" for value in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high}){'' if found.is_real else ', may be chance'}", f"{found.p:.3f}"


def calibration_text(found: Calibration) -> str:
    """Return the threshold and its effects."""
    kept, rejected = percent(found.advised.kept), percent(found.advised.rejected)
    others = (
        "the same questions, asked of all other documents"
        if found.held_out
        else f"{found.unanswerable} questions without an answer"
    )
    return (
        f"{found.answerable} questions with an answer, against {others}; AUC {found.auc:.3f} (0.5 is chance)\n"
        + f"it keeps {kept} % of the answerable questions and rejects {rejected} % of the others; in config.toml:\n\n"
        + f"[search]\nthreshold = {found.advised.score}\n"
    )


def failure_text(outcome: QuestionOutcome, level: Level) -> str:
    """Return a failed question: what was expected, and what was found instead."""
    question = outcome.question
    rank = outcome.ranks[level]
    lines = [f"{question.where}: {question.text}", f"  expected {_named(question)}".rstrip()]
    wanted = question.passages[:1] or question.answers[:1]
    lines += [f"    {excerpt(text)}" for text in wanted]
    lines.append(f"  found {'not among the results' if rank is None else f'at rank {rank}'}; instead:")
    lines += [f"  {i}. {place_of(text)}\n     {excerpt(text.text)}" for i, text in enumerate(outcome.found[:3], 1)]
    return "\n".join(lines) + "\n"


def _named(question: Question) -> str:
    return " > ".join(part for part in (question.document, *question.section) if part)


def place_of(text: Passage) -> str:
    """Return the place of a passage, with its headings."""
    return " > ".join((str(text.place), *text.place.headings))


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line.

    >>> excerpt("Leaves are\\n  green.")
    'Leaves are green.'
    """
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


# -- answers ---------------------------------------------------------------------------------------


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
            rows.append((name, evaluation.label, mean, *_against(first, evaluation, measure)))
    figures = (f"{e.label}: {e.latency['p50_ms'] / 1000:.2f} s, {usage_text(e.usage)}\n" for e in evaluations)
    return table(rows) + "".join(figures)


def failed_answer_text(outcome: AnswerOutcome) -> str:
    """Return a failed answer: what was expected, and what was said instead."""
    question = outcome.question
    wanted = " | ".join((*question.facts, *question.answers)) or _named(question)
    lines = [f"{question.where}: {question.text}"]
    lines += [f"  expected {wanted or 'no answer'}", f"  said {excerpt(outcome.answer.text if outcome.answer else '')}"]
    lines += [f"  cited {place_of(source)}" for source in (outcome.answer.cited if outcome.answer else ())]
    lines += [f"  {outcome.error}"] if outcome.error else []
    return "\n".join(lines) + "\n"
