"""Evaluations of answers as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from lmm.terminal import usage_text
from lmm_education.evaluation.answers import AnswerEvaluation, AnswerOutcome
from lmm_education.evaluation.report_text import (
    Cells,
    difference_text,
    excerpt,
    percent,
    place_of,
    short_percent,
    table,
    with_interval,
)


def answers_text(found: AnswerEvaluation) -> str:
    """The figures of one evaluation of answers, a line per measure."""
    rows: list[Cells] = [("%", "answers", "mean", "95 %")]
    for measure in found.measures:
        mean = found.estimate(measure)
        rows.append((measure, str(mean.n), percent(mean.mean), f"{short_percent(mean.low)}–{short_percent(mean.high)}"))
    speed, agreement = found.latency, found.agreement
    lines = [f"{found.model}: {usage_text(found.usage)}"] if found.usage.requests else [found.model]
    lines += [f"an answer takes {speed['p50_ms'] / 1000:.2f} s (p95 {speed['p95_ms'] / 1000:.2f} s)"]
    if agreement.n:
        lines += [f"{found.judge} agrees with the facts in {with_interval(agreement)} % of {agreement.n} answers"]
    return table(rows) + "; ".join(lines[:2]) + "\n" + "".join(f"{line}\n" for line in lines[2:])


def compared_answers_text(evaluations: Sequence[AnswerEvaluation]) -> str:
    """Variants side by side, by measure: the difference of each to the first, and whether chance explains it."""
    first, rows = evaluations[0], [("%", "", "mean (95 %)", "against the first", "p")]
    for measure in first.measures:
        for evaluation in evaluations:
            against = ("", "")
            if evaluation is not first:
                found = first.difference(evaluation, measure)
                against = f"{difference_text(found)}{'' if found.is_real else ', may be chance'}", f"{found.p:.3f}"
            name = measure if evaluation is first else ""
            rows.append((name, evaluation.label, with_interval(evaluation.estimate(measure)), *against))
    figures = (f"{e.label}: {e.latency['p50_ms'] / 1000:.2f} s, {usage_text(e.usage)}\n" for e in evaluations)
    return table(rows) + "".join(figures)


def failed_answer_text(outcome: AnswerOutcome) -> str:
    """An answer that failed: what was expected, and what was said instead."""
    question = outcome.question
    expected = " > ".join(part for part in (question.document, *question.section) if part)
    wanted = " | ".join((*question.facts, *question.answers)) or expected
    lines = [f"{question.where}: {question.text}"]
    lines += [f"  expected {wanted or 'no answer'}", f"  said {excerpt(outcome.answer.text if outcome.answer else '')}"]
    lines += [f"  cited {place_of(source)}" for source in (outcome.answer.cited if outcome.answer else ())]
    lines += [f"  {outcome.error}"] if outcome.error else []
    return "\n".join(lines) + "\n"
