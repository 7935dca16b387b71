"""What is done by `lmm eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError
from lmm_education.course import Course
from lmm_education.evaluation.judge import LEVELS, Level
from lmm_education.evaluation.plot import check_plot, save_plot
from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.read_questions import read_questions
from lmm_education.evaluation.report import (
    MEASURE,
    Mean,
    best_mean,
    calibration_text,
    comparison_text,
    evaluation_text,
    failure_text,
    names_level,
    tuning_text,
)
from lmm_education.evaluation.results import Evaluation, as_json, comparison_json, failures_json
from lmm_education.evaluation.run import calibrate_threshold, evaluate_variants, tune
from lmm_education.evaluation.run import evaluate as evaluate_course
from lmm_education.evaluation.scratch import course_of
from lmm_education.evaluation.variants import is_axis, make_variants
from lmm_education.parts import config_for

_TOLD = 5


@dataclass(frozen=True, slots=True)
class _Job:
    """What was asked for."""

    questions: Sequence[Question]
    documents: Sequence[Path]
    axes: Sequence[str]
    by: Mean
    level: Level | None
    failures: bool
    plot: Path | None
    as_json: bool


def evaluate(
    words: list[str],
    documents: list[Path],
    compare: list[str],
    tune: bool,
    calibrate: bool,
    failures: bool,
    level: str | None,
    plot: Path | None,
    course: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Measure how well questions find what answers them."""
    axes = [axis for text in compare for axis in text.split()]
    if axes:  # what the shell took for further arguments
        axes += [word for word in words if is_axis(word)]
    files = [Path(word) for word in words if word not in axes]
    modes = [name for name, on in (("--compare", bool(axes)), ("--tune", tune), ("--calibrate", calibrate)) if on]
    _check(modes, files, failures, plot)
    questions, problems = read_questions(files)
    if problems:
        terminal.say("".join(f"{problem}\n" for problem in problems), err=True, end="")
        terminal.say(f"lmm: {terminal.count(len(problems), 'row')} cannot be used; nothing was measured", err=True)
        return console.FAILED
    by = Mean(cast(Level, level), MEASURE) if level else best_mean(questions)
    job = _Job(questions, documents, axes, by, cast(Level, level) if level else None, failures, plot, as_json)
    if level is None and (axes or tune) and (note := left_out(questions, by.level)):
        terminal.say(note, err=True)
    run = {"--compare": _compare, "--tune": _tune, "--calibrate": _calibrate}[modes[0]] if modes else _evaluate
    with Course.open(config=config_for(documents, config), course=course) as opened:
        for hint in opened.models.hints:
            terminal.say(hint, err=True)
        return run(opened, job)


def _check(modes: Sequence[str], files: Sequence[Path], failures: bool, plot: Path | None) -> None:
    if not files:
        raise ConfigError("there is no question file", hint="lmm eval questions.csv --compare encoding=content,hybrid")
    if len(modes) > 1:
        raise ConfigError(f"{modes[0]} and {modes[1]} are different questions", hint="run them one after the other")
    if modes and failures:
        raise ConfigError(f"--failures does not go with {modes[0]}", hint="show the failures of one setting by itself")
    if plot is not None:
        if modes != ["--compare"]:
            raise ConfigError("--plot draws a comparison", hint="add --compare KEY=A,B")
        check_plot(plot)


def left_out(questions: Sequence[Question], level: Level) -> str:
    """A line on the questions that do not count at a level; empty if all do.

    >>> left_out([Question("?", document="a.md", section=("A",)), Question("?", document="b.md")], "section")
    'note: not counted, because no section is given: 1 of 2 questions; all count with --level document'
    """
    answerable = [question for question in questions if not question.unanswerable]
    missing = sum(not names_level(question, level) for question in answerable)
    if not missing:
        return ""
    every = next((each for each in LEVELS if all(names_level(question, each) for question in answerable)), None)
    counted = f"{missing} of {terminal.count(len(answerable), 'question')}"
    advice = f"; all count with --level {every}" if every else ""
    return f"note: not counted, because no {level} is given: {counted}{advice}"


# -- what can be done ------------------------------------------------------------------------------


def _evaluate(course: Course, job: _Job) -> int:
    with course_of(course, job.documents, progress=_bar) as chosen:
        found = evaluate_course(chosen, job.questions, progress=_bar)
    _tell([found])
    if job.as_json:
        more = {"failures": failures_json(found, job.level)} if job.failures else {}
        return _print(as_json(found) | more)
    terminal.say(evaluation_text(found), end="")
    if job.failures:
        _say_failures(found, job.level)
    return console.DONE


def _say_failures(found: Evaluation, level: Level | None) -> None:
    """At a level, or each at the most exact level at which it can be judged."""
    judged = found.judged(level) if level else found.outcomes
    used = [each for each in LEVELS if any((level or outcome.exact) == each for outcome in judged)]
    failed = found.failures(level)
    terminal.say(f"\n{len(failed)} of {len(judged)} failed ({', '.join(used)})")
    for outcome in failed:
        terminal.say("\n" + failure_text(outcome, level or outcome.exact), end="")


def _compare(course: Course, job: _Job) -> int:
    variants = make_variants(job.axes, course.settings)
    found = evaluate_variants(course, job.questions, variants, documents=job.documents, progress=_bar)
    _tell(found)
    if job.as_json:
        _print(comparison_json(found))
    else:
        terminal.say(comparison_text(found, job.by), end="")
    if job.plot is not None:
        save_plot(job.plot, found, job.by)
        terminal.say(f"{job.plot} drawn", err=True)
    return console.DONE


def _tune(course: Course, job: _Job) -> int:
    found = tune(course, job.questions, by=job.by, documents=job.documents, progress=_bar)
    if job.as_json:
        return _print(found.as_json())
    terminal.say(tuning_text(found, job.by), end="")
    return console.DONE


def _calibrate(course: Course, job: _Job) -> int:
    with course_of(course, job.documents, progress=_bar) as chosen:
        found = calibrate_threshold(chosen, job.questions, progress=_bar)
    if job.as_json:
        return _print(found.as_json())
    terminal.say(calibration_text(found), end="")
    return console.DONE


# -- what is said ----------------------------------------------------------------------------------


def _print(value: dict[str, Any]) -> int:
    terminal.say_json(value, indent=2)
    return console.DONE


def _tell(evaluations: Sequence[Evaluation]) -> None:
    """What may explain the figures: advice on models, and answers that are not in the store."""
    for notice in dict.fromkeys(notice for evaluation in evaluations for notice in evaluation.notices):
        terminal.say(notice, err=True)
    missing = evaluations[0].missing
    for question, problem in missing[:_TOLD]:
        terminal.say(f"{question.where}: {problem}; it counts as not found", err=True)
    if len(missing) > _TOLD:
        terminal.say(f"… and {len(missing) - _TOLD} more (--json has them all)", err=True)


def _bar(what: str, done: int, total: int) -> None:
    if done == total:
        terminal.erase_bar()
    else:
        terminal.show_bar(done, total, after=what)
