"""`lmm eval`: evaluate a course's search and its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError
from lmm.terminal import DONE, FAILED, INTERRUPTED
from lmm_education.cli import course_options

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.evaluation.judge import Level
    from lmm_education.evaluation.questions import Question
    from lmm_education.evaluation.results import MeasuredSettings
    from lmm_education.evaluation.reword import Rewording

_TOLD = 5


@options.command("eval")
@options.argument(
    "words",
    "QUESTIONS",
    "JSONL, CSV or YAML files with questions, and document, section, passage, answers or facts.",
    many=True,
)
@click.option(
    "--documents",
    metavar="PATH",
    multiple=True,
    type=options.PATH,
    help="Measure on these files or folders in a temporary store; may be repeated.",
)
@click.option(
    "--compare",
    metavar="KEY=A,B",
    multiple=True,
    help="Compare settings side by side, such as: --compare encoding=content,hybrid max_size=1000,2000",
)
@options.flag("--answers", help="Ask each question, and measure the answers: right, grounded, cited, refused.")
@click.option("--judge", metavar="MODEL", help="With --answers: also judge them with this model.")
@click.option(
    "--check", metavar="MEASURE=%", multiple=True, help="Exit with code 1 if a measure is lower, such as recall@5=90"
)
@options.flag("--tune", help="Choose leg weights and chunk sizes, and show whether they matter.")
@click.option(
    "--reword",
    metavar="FILE",
    type=options.PATH,
    help="Let the aux model reword the questions, into a .jsonl file.",
)
@options.again
@options.budget()
@options.dry_run("Show the cost of --reword, without asking a model.")
@options.flag("--calibrate", help="Find the threshold below which nothing relevant was found.")
@options.flag("--failures", help="Show the questions that failed, and what was found instead.")
@click.option(
    "--level",
    type=click.Choice(["passage", "section", "document"]),
    help="The level that --compare, --tune and --failures use.",
)
@click.option("--plot", metavar="FILE", type=options.PATH, help="Draw the comparison into a .png, .svg or .pdf file.")
@course_options.course
@options.config
@options.flag("--json", "as_json", help="Report as JSON.")
def evaluate(
    *,
    words: tuple[str, ...],
    compare: tuple[str, ...],
    check: tuple[str, ...],
    course: str | None,
    config: Path | None,
    **given: Any,
) -> int:
    """Measure how often questions find the right text: recall, MRR, nDCG, with 95 % intervals, and latency; with
    --answers, also measure the answers.

    You need a question file of your own: some thirty questions from students, each
    with the passage or section that answers it, show large differences. Settings are compared
    in temporary stores; the course's store is unchanged.
    """
    from lmm_education.course import Course
    from lmm_education.evaluation.experiments import is_axis
    from lmm_education.evaluation.questions import read_questions
    from lmm_education.evaluation.results import best_mean

    axes = [axis for text in compare for axis in text.split()]
    if axes:  # the shell passed them as further arguments
        axes += [word for word in words if is_axis(word)]
    wanted = SimpleNamespace(**given, axes=axes, files=[Path(word) for word in words if word not in axes])
    modes = [name for name in _MODES if getattr(wanted, "axes" if name == "--compare" else name.removeprefix("--"))]
    _check(modes, wanted)
    wanted.least = _least(check, modes)
    wanted.questions, problems = read_questions(wanted.files)
    if problems:
        terminal.say("".join(f"{problem}\n" for problem in problems), err=True, end="")
        terminal.say(f"lmm: {terminal.count(len(problems), 'problem')}; nothing was measured", err=True)
        return FAILED
    wanted.by = best_mean(wanted.questions, wanted.level)
    notes = [
        left_out(wanted.questions, wanted.by.level)
        if wanted.level is None and (axes or wanted.tune) and not wanted.answers
        else "",
        repeats(wanted.questions) if wanted.tune else "",
    ]
    terminal.say("".join(f"{note}\n" for note in notes if note), err=True, end="")
    with Course.open(config=config, beside=wanted.documents, course=course) as opened:
        for hint in opened.models.hints:
            terminal.say(hint, err=True)
        measure = _measure_answers if wanted.answers else _MODES[modes[0]] if modes else _measure
        return measure(opened, wanted)


def _check(modes: Sequence[str], wanted: Any) -> None:
    """Raise an error for options that exclude each other."""
    later, mode = "run them one after the other", next(iter(modes), "")
    others = [name for name in modes if name != "--compare"]
    others += [f"--{name}" for name in ("level", "plot") if getattr(wanted, name)]
    of_reword = wanted.again or wanted.dry_run or (wanted.budget and not wanted.answers)
    for refused, what, hint in (
        (not wanted.files, "there is no question file", "lmm eval questions.csv --compare encoding=content,hybrid"),
        (len(modes) > 1, f"{' and '.join(modes[:2])} are different questions", later),
        (
            mode and wanted.failures,
            f"--failures cannot be combined with {mode}",
            "show the failures of one setting alone",
        ),
        (wanted.plot and modes != ["--compare"], "--plot draws a comparison", "add --compare KEY=A,B"),
        (of_reword and not wanted.reword, "--again, --budget and --dry-run need --reword", "add --reword FILE"),
        (wanted.judge and not wanted.answers, "--judge needs --answers", "add --answers"),
        (wanted.answers and others, f"--answers cannot be combined with {''.join(others[:1])}", later),
    ):
        if refused:
            raise ConfigError(what, hint=hint)
    if wanted.plot:
        from lmm_education.evaluation.report_text import check_plot

        check_plot(wanted.plot)


def _least(checks: Sequence[str], modes: Sequence[str]) -> dict[str, float]:
    """Parse minimum values of measures, such as ``right=80``.

    Raises:
        ConfigError: one is invalid, or several settings are measured.
    """
    if checks and modes:
        raise ConfigError(f"--check cannot be combined with {modes[0]}", hint="check one setting alone")
    found = {}
    for text in checks:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value) / 100
        except ValueError:
            raise ConfigError(f"'{text}' is not a check", hint="write MEASURE=PERCENT, such as recall@5=90") from None
    return found


def _checked(means: Mapping[str, float], least: Mapping[str, float]) -> int:
    """Report measures that are below their minimum; return the exit code.

    Raises:
        ConfigError: a measure was not computed.
    """
    for name in least.keys() - means.keys():
        raise ConfigError(f"'{name}' was not measured", where="--check", hint=f"measured: {', '.join(means)}")
    low = [name for name, value in least.items() if means[name] < value]
    for name in low:
        terminal.say(f"lmm: {name} is {100 * means[name]:.1f} %, less than {100 * least[name]:g} %", err=True)
    return FAILED if low else DONE


def left_out(questions: Sequence[Question], level: Level) -> str:
    """Return a line on the questions that do not count at a level; empty if all do.

    >>> from lmm_education.evaluation.questions import Question
    >>> left_out([Question("?", document="a.md", section=("A",)), Question("?", document="b.md")], "section")
    'note: not counted, because they have no section: 1 of 2 questions; all count with --level document'
    """
    from lmm_education.evaluation.judge import LEVELS, levels_of

    judged = [levels_of(question) for question in questions if not question.unanswerable]
    missing = sum(level not in levels for levels in judged)
    if not missing:
        return ""
    every = next((each for each in LEVELS if all(each in levels for levels in judged)), None)
    counted = f"{missing} of {terminal.count(len(judged), 'question')}"
    advice = f"; all count with --level {every}" if every else ""
    return f"note: not counted, because they have no {level}: {counted}{advice}"


def repeats(questions: Sequence[Question]) -> str:
    """Return a line if questions repeat the text's words: the best settings for them are not the best for students."""
    from lmm_education.evaluation.judge import REPEATING, repeated

    share = repeated(questions)
    if share <= REPEATING:
        return ""
    return (
        f"note: {100 * share:.0f} % of these questions' words occur in the passages that answer them, which favours "
        "search by words; students use their own words: add such questions before you tune "
        "(--reword FILE lets the aux model write them)"
    )


# -- modes -----------------------------------------------------------------------------------------


def _measure(course: Course, wanted: Any) -> int:
    from lmm_education.evaluation.judge import LEVELS
    from lmm_education.evaluation.report_text import evaluation_text, failure_text
    from lmm_education.evaluation.results import MEASURES, failures_json

    found, level = course.evaluate(wanted.questions, documents=wanted.documents, progress=_bar), wanted.level
    texts = [failure_text(outcome, level or outcome.exact) for outcome in found.failures(level)]
    judged = [level or outcome.exact for outcome in found.outcomes if not level or level in outcome.ranks]
    head = f"{len(texts)} of {len(judged)} failed ({', '.join(each for each in LEVELS if each in judged)})\n"
    _say_measured(found, evaluation_text(found), wanted, failures_json(found, level), [head, *texts])
    return _checked({name: found.estimate(wanted.by.level, name).mean for name in MEASURES}, wanted.least)


def _measure_answers(course: Course, wanted: Any) -> int:
    from lmm_education.evaluation.report_text import answers_text, compared_answers_text, failed_answer_text
    from lmm_education.evaluation.results import comparison_json

    options = {"judge": wanted.judge or "", "documents": wanted.documents, "budget": wanted.budget}
    found = course.evaluate_answers(wanted.questions, *wanted.axes, **options, progress=_bar)
    for error, times in Counter(str(o.error) for each in found for o in each.outcomes if o.error).items():
        terminal.say(f"{terminal.count(times, 'question')} without an answer: {error}", err=True)
    if len(found) > 1:
        _print_notices(found)
        terminal.say_result(compared_answers_text(found), comparison_json(found), as_json=wanted.as_json)
        return DONE
    first = found[0]
    failed = [{"question": o.question.text, "answer": o.answer.text if o.answer else ""} for o in first.failures]
    head = f"{len(failed)} of {len(first.outcomes)} failed\n"
    _say_measured(first, answers_text(first), wanted, failed, [head, *map(failed_answer_text, first.failures)])
    return _checked({name: first.estimate(name).mean for name in first.measures}, wanted.least)


def _say_measured(
    found: MeasuredSettings, text: str, wanted: Any, failed: Sequence[Mapping[str, Any]], lines: Sequence[str]
) -> None:
    """Print the figures of one setting and, if requested, what failed: `lines` as text, under a headline."""
    _print_notices([found])
    values = found.as_json() | ({"failures": failed} if wanted.failures else {})
    terminal.say_result(text, values, as_json=wanted.as_json)
    if wanted.failures and not wanted.as_json:
        terminal.say("\n" + "\n".join(lines), end="")


def _compare(course: Course, wanted: Any) -> int:
    from lmm_education.evaluation.report_text import comparison_text, save_plot
    from lmm_education.evaluation.results import comparison_json

    found = course.compare(wanted.questions, *wanted.axes, documents=wanted.documents, progress=_bar)
    _print_notices(found)
    terminal.say_result(comparison_text(found, wanted.by), comparison_json(found), as_json=wanted.as_json)
    if wanted.plot is not None:
        save_plot(wanted.plot, found, wanted.by)
        terminal.say(f"{wanted.plot} drawn", err=True)
    return DONE


def _tune(course: Course, wanted: Any) -> int:
    from lmm_education.evaluation.report_text import tuning_text

    level, documents = wanted.by.level, wanted.documents
    found = course.tune(wanted.questions, level=level, documents=documents, progress=_bar)
    terminal.say_result(tuning_text(found, wanted.by), found.as_json(), as_json=wanted.as_json)
    return DONE


def _calibrate(course: Course, wanted: Any) -> int:
    from lmm_education.evaluation.report_text import calibration_text

    found = course.calibrate(wanted.questions, documents=wanted.documents, progress=_bar)
    terminal.say_result(calibration_text(found), found.as_json(), as_json=wanted.as_json)
    return DONE


def _reword(course: Course, wanted: Any) -> int:
    from lmm.cli.options import cost_text

    options = {"again": wanted.again, "budget": wanted.budget, "estimate": wanted.dry_run}
    found, file = course.reword(wanted.questions, wanted.reword, **options, progress=_bar), wanted.reword
    for error, times in Counter(error.message for error in found.failures).items():
        terminal.tell_error(next(each for each in found.failures if each.message == error))
        if times > 1:
            terminal.say(f"{times - 1} more: {error}", err=True)
    if not found.waiting:
        text = f"{file} has all questions in other words\n"
    elif wanted.dry_run:
        asked = terminal.count(found.waiting, "question")
        text = f"{asked} to ask in other words: {cost_text(found.usage, found.model)}\n"
    else:
        text = _rewording_text(found, wanted.files, file)
    terminal.say_result(text, found.as_json(), as_json=wanted.as_json)
    if found.interrupted:
        terminal.say("lmm: interrupted; what arrived is kept; run it again for the rest", err=True)
        return INTERRUPTED
    return FAILED if found.failures else DONE


_MODES: Mapping[str, Callable[[Course, Any], int]] = {
    "--compare": _compare,
    "--tune": _tune,
    "--reword": _reword,
    "--calibrate": _calibrate,
}


def _rewording_text(found: Rewording, files: Sequence[Path], file: Path) -> str:
    """Return how many were reworded, the cost, and whether they are better for tuning."""
    from lmm_education.evaluation.judge import REPEATING

    lines = [f"{file}: {len(found.pairs)} of {terminal.count(found.waiting, 'question')} in other words"]
    if found.useless:
        lines[0] += f"; {found.useless} were empty, incomplete or duplicates: left out"
    if found.usage.requests:
        lines.append(f"{found.model}: {terminal.usage_text(found.usage)}")
    if found.before or found.after:
        lines.append(
            f"their words that occur in the passages: {100 * found.before:.0f} %, now {100 * found.after:.0f} %"
        )
        if found.after > REPEATING:
            lines.append("that is still a lot: check them, or let another model write (under [aux] in config.toml)")
    if found.pairs:
        lines.append(f"read them, then: lmm eval {' '.join(map(str, files))} {file} --tune")
    return "".join(f"{line}\n" for line in lines)


def _print_notices(evaluations: Sequence[MeasuredSettings]) -> None:
    """Print what may explain the figures: advice on models, and answers that are not in the store."""
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
