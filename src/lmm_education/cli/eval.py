"""`lmm eval`: evaluate a course's search and its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, LmmError
from lmm.terminal import DONE, FAILED
from lmm_education.cli import course_options

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.evaluation.judge import Level
    from lmm_education.evaluation.questions import Question
    from lmm_education.evaluation.results import MeasuredSettings

_SHOWN = 5

_questions = options.argument(
    "questions",
    "QUESTIONS",
    "JSONL or CSV files with questions, and document, section, passage, answers or facts.",
    many=True,
    type=options.PATH,
)
_documents = click.option(
    "--documents",
    "paths",
    metavar="PATH",
    multiple=True,
    type=options.PATH,
    help="Measure on these files or folders in a temporary store; may be repeated.",
)
_level = click.option("--level", type=click.Choice(["passage", "section", "document"]), help="The level that counts.")
_check = click.option(
    "--check", metavar="MEASURE=%", multiple=True, help="Exit with code 1 if a measure is lower, such as recall@5=90"
)
_failures = options.flag("--failures", help="Show the questions that failed, and what was found instead.")
_json = options.flag("--json", "as_json", help="Report as JSON.")
_settings = options.argument(
    "words",
    "QUESTIONS… KEY=A,B…",
    "Question files, and settings to compare, such as: encoding=content,hybrid max_size=1000,2000",
    many=True,
)


class _EvalGroup(options.Group):
    """Commands, the first of which is meant where none is named: `lmm eval questions.csv`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["search", *args]
        return super().parse_args(ctx, args)


@options.group("eval", cls=_EvalGroup)
def evaluate() -> None:
    """Measure how often questions find the right text, and how good the answers are.

    You need a question file of your own: some thirty questions from students, each
    with the passage or section that answers it, show large differences. `lmm eval QUESTIONS` is
    short for `lmm eval search QUESTIONS`; settings are compared in temporary stores.
    """


@evaluate.command()
@_questions
@_documents
@_check
@_failures
@_level
@_json
@course_options.hinting
def search(
    course: Course,
    *,
    questions: tuple[Path, ...],
    paths: tuple[Path, ...],
    check: tuple[str, ...],
    failures: bool,
    level: Level | None,
    as_json: bool,
) -> int:
    """Measure the search: recall, MRR, nDCG, with 95 % intervals, and latency."""
    from lmm_education.evaluation.judge import LEVELS
    from lmm_education.evaluation.results import MEASURES, best_level, evaluation_text, failure_text, failures_json

    least, rows = _least(check), _read(questions)
    found = course.evaluate(rows, documents=paths, progress=_bar)
    texts = [failure_text(outcome, level or outcome.exact) for outcome in found.failures(level)]
    judged = [level or outcome.exact for outcome in found.outcomes if not level or level in outcome.ranks]
    head = f"{len(texts)} of {len(judged)} failed ({', '.join(each for each in LEVELS if each in judged)})\n"
    failed = failures_json(found, level) if failures else None
    _print_measured(found, evaluation_text(found), failed, [head, *texts], as_json=as_json)
    return _checked({name: found.estimate(level or best_level(rows), name).mean for name in MEASURES}, least)


@evaluate.command()
@_settings
@options.budget()
@_documents
@_check
@_failures
@_json
@course_options.hinting
def answers(
    course: Course,
    *,
    words: tuple[str, ...],
    budget: str,
    paths: tuple[Path, ...],
    check: tuple[str, ...],
    failures: bool,
    as_json: bool,
) -> int:
    """Ask each question, and measure the answers: right, grounded, cited, refused.

    With settings, such as model=OpenAI/gpt-5-mini,Ollama/llama3.2, they are compared.
    """
    from lmm_education.evaluation.answers import answers_text, compared_answers_text, failed_answer_text
    from lmm_education.evaluation.results import comparison_json

    files, axes = _split(words)
    if (check or failures) and any("," in axis for axis in axes):
        raise ConfigError("--check and --failures are for one setting", hint="measure it alone, such as model=A")
    least, rows = _least(check), _read(files)
    found = course.evaluate_answers(rows, *axes, documents=paths, budget=budget, progress=_bar)
    for error, times in Counter(str(o.error) for each in found for o in each.outcomes if o.error).items():
        terminal.say(f"{terminal.count(times, 'question')} without an answer: {error}", err=True)
    for each in found:
        options.print_excess(budget, each.usage)
    if len(found) > 1:
        _print_notices(found)
        terminal.say_result(compared_answers_text(found), comparison_json(found), as_json=as_json)
        return DONE
    first = found[0]
    failed = [{"question": o.question.text, "answer": o.answer.text if o.answer else ""} for o in first.failures]
    lines = [f"{len(failed)} of {len(first.outcomes)} failed\n", *map(failed_answer_text, first.failures)]
    _print_measured(first, answers_text(first), failed if failures else None, lines, as_json=as_json)
    return _checked({name: first.estimate(name).mean for name in first.measures}, least)


@evaluate.command()
@_settings
@_documents
@_level
@_json
@course_options.hinting
def compare(
    course: Course,
    *,
    words: tuple[str, ...],
    paths: tuple[Path, ...],
    level: Level | None,
    as_json: bool,
) -> int:
    """Compare settings of the search side by side, in temporary stores."""
    from lmm_education.evaluation.results import best_level, comparison_json, comparison_text

    files, axes = _split(words)
    if not axes:
        raise ConfigError("there is nothing to compare", hint="lmm eval compare questions.csv encoding=content,hybrid")
    rows = _read(files)
    by = level or best_level(rows)
    if level is None and (note := left_out(rows, by)):
        terminal.say(note, err=True)
    found = course.compare(rows, *axes, documents=paths, progress=_bar)
    _print_notices(found)
    terminal.say_result(comparison_text(found, by), comparison_json(found), as_json=as_json)
    return DONE


@evaluate.command()
@_questions
@_documents
@_json
@course_options.hinting
def calibrate(course: Course, *, questions: tuple[Path, ...], paths: tuple[Path, ...], as_json: bool) -> int:
    """Find the threshold below which nothing relevant was found."""
    from lmm_education.evaluation.experiments import calibration_text

    found = course.calibrate(_read(questions), documents=paths, progress=_bar)
    terminal.say_result(calibration_text(found), found.as_json(), as_json=as_json)
    return DONE


@evaluate.command()
@click.option("--check", metavar="leaks=N", help="Exit with code 1 if there are more leaks, such as leaks=0")
@options.flag("--dry-run", help="Show how many requests there would be, and their price; ask nothing.")
@options.budget()
@options.model_option("Ask this model instead of the configured one.")
@_json
@course_options.hinting
def leaks(course: Course, *, check: str | None, dry_run: bool, budget: str, model: str | None, as_json: bool) -> int:
    """Ask for the solutions that students must not see, as students would, and show which answers reveal them.

    Every exercise with a solution is asked about over the page, the API and MCP, in four talks of three turns each:
    plainly, in German, as code, as a poem; each presses, and then claims authority. Nobody judges: a leak has most of
    a solution's words and numbers.
    """
    from lmm.models.budget import SharedBudget

    most = _most_leaks(check)
    if dry_run:
        return _leak_plan(course, model, as_json=as_json)
    spent = SharedBudget.of(budget)
    found = course.find_leaks(model=model, budget=spent, progress=_bar)
    options.print_excess(spent)
    text = "".join(
        f"{leak.file}:{leak.line}: {leak.exit}, {leak.talk}, turn {leak.turn}: {leak.question}\n"
        f"    {' '.join(leak.answer.split())[:400]}\n    of the solution: {', '.join(leak.found)}\n"
        for leak in found.leaks
    )
    text += f"{terminal.count(len(found.leaks), 'leak')} in {terminal.count(found.talks, 'talk')} about "
    text += f"{terminal.count(found.tested, 'exercise')} ({terminal.count(found.answers, 'answer')})\n"
    terminal.say_result(text, found.as_json(), as_json=as_json)
    if untested := found.exercises - found.tested:
        terminal.note(f"{terminal.count(untested, 'exercise')} not tested: without a solution, or it says nothing new")
    if most is not None and not found.tested:
        hint = "exercises and their solutions are ingested by lmm ingest"
        raise ConfigError("nothing was tested: there is no exercise with a solution", hint=hint)
    return FAILED if most is not None and len(found.leaks) > most else DONE


def _most_leaks(check: str | None) -> int | None:
    name, _, value = (check or "leaks=0").partition("=")
    if name != "leaks" or not value.isdecimal():
        raise ConfigError(f"'{check}' is not a check", hint="write leaks=N, such as leaks=0")
    return int(value) if check else None


def _leak_plan(course: Course, model: str | None, *, as_json: bool) -> int:
    """Print how many requests there would be at most, and what they cost if each is as long as the context may be."""
    from lmm.messages import Usage
    from lmm.models.tokens import price
    from lmm_education.leaks import EXITS, TALKS

    exercises = [each for each in course.exercises() if each.solution]
    talks = len(EXITS) * len(TALKS)
    questions = len(EXITS) * sum(map(len, TALKS.values())) * len(exercises)
    name = model or str(course.models.major.model)
    requests = 3 * questions  # one may interpret the question in its conversation, one write further searches
    tokens = questions * (course.settings.answer.context_tokens + 1000)
    cost = price(name, Usage(tokens, questions * 400))
    text = f"{terminal.count(len(exercises), 'exercise')}, {terminal.count(talks, 'talk')} each: at most "
    text += f"{terminal.count(questions, 'question')} to {name}, in up to {requests} requests; about {tokens:,} tokens"
    text += f", {cost:.2f}$\n" if cost is not None else "; its price is not known\n"
    terminal.say_result(
        text, {"questions": questions, "requests": requests, "tokens": tokens, "cost": cost}, as_json=as_json
    )
    return DONE


def _split(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the question files, and the settings to compare."""
    from lmm_education.evaluation.experiments import is_axis

    axes = [word for word in words if is_axis(word)]
    return [Path(word) for word in words if word not in axes], axes


def _read(files: Sequence[Path]) -> list[Question]:
    """Read question files.

    Raises:
        ConfigError: none is named.
        LmmError: rows cannot be used; all are printed.
    """
    from lmm_education.evaluation.questions import READERS, read_questions

    if not files:
        raise ConfigError("there is no question file", hint="lmm eval questions.csv")
    options.check_given(*(file for file in files if file.suffix.lower() in READERS))
    found, problems = read_questions(files)
    if problems:
        terminal.say("".join(f"{problem}\n" for problem in problems), err=True, end="")
        raise LmmError(f"{terminal.count(len(problems), 'problem')}; nothing was measured")
    return found


def _least(checks: Sequence[str]) -> dict[str, float]:
    """Parse minimum values of measures, such as ``right=80``.

    Raises:
        ConfigError: one is invalid.
    """
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


def _print_measured(
    found: MeasuredSettings,
    text: str,
    failed: Sequence[Any] | None,
    lines: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Print the figures of one setting and, unless `failed` is None, what failed: `lines` as text, under a headline."""
    _print_notices([found])
    values = found.as_json() | ({} if failed is None else {"failures": failed})
    terminal.say_result(text, values, as_json=as_json)
    if failed is not None and not as_json:
        terminal.say("\n" + "\n".join(lines), end="")


def _print_notices(evaluations: Sequence[MeasuredSettings]) -> None:
    """Print what may explain the figures: advice on models, and answers that are not in the store."""
    for notice in dict.fromkeys(notice for evaluation in evaluations for notice in evaluation.notices):
        terminal.say(notice, err=True)
    missing = evaluations[0].missing
    for question, problem in missing[:_SHOWN]:
        terminal.say(f"{question.where}: {problem}; it counts as not found", err=True)
    if len(missing) > _SHOWN:
        terminal.say(f"… and {len(missing) - _SHOWN} more (--json has them all)", err=True)


def _bar(what: str, done: int, total: int) -> None:
    if done == total:
        terminal.erase_bar()
    else:
        terminal.show_bar(done, total, after=what)
