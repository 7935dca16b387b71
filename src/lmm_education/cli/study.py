"""`lmm toc`, `lmm plan`, `lmm cards` and `lmm exercises`: study material from documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import code_of
from lmm.errors import ConfigError, LmmError
from lmm.messages import Usage
from lmm.terminal import DONE, FAILED, usage_text
from lmm_education.cli import course_options

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.study.study_documents import Reading


def _depth(default: int, help: str) -> options.Decorator:
    return click.option("--depth", metavar="N", type=click.IntRange(1, 6), default=default, help=help)


@options.command()
@course_options.paths
@_depth(6, "Show headings down to this level.")
@options.flag("--markdown", help="Print a nested list with links.")
@options.as_json
@course_options.read
def toc(course: Course, *, paths: tuple[Path, ...], depth: int, markdown: bool, as_json: bool) -> int:
    """Print the headings of documents as a tree, each with its line."""
    from lmm_education.study.study_documents import toc_as_markdown, toc_as_text, toc_as_values

    reading = course.read(*paths)
    entries = course.toc(reading, depth=depth)
    text = toc_as_markdown(entries) if markdown else toc_as_text(entries)
    terminal.say_result(text, toc_as_values(entries), as_json=as_json)
    return _ended(reading)


@options.command()
@course_options.paths
@_depth(2, "Make a step for each heading down to this level, counted from the document's highest.")
@click.option("--words-per-minute", metavar="N", type=click.IntRange(min=1), help="The reading speed; 200 if not set.")
@options.as_json
@course_options.read
def plan(course: Course, *, paths: tuple[Path, ...], depth: int, words_per_minute: int | None, as_json: bool) -> int:
    """Print a study plan in markdown: sections in order, with reading times and summaries.

    Summaries are those in the metadata (lmm annotate --summaries makes them). 'prerequisites:' in the metadata of
    a document or a heading names what to read before it. The pace may also be set under [study]
    in config.toml.
    """
    from lmm_education.study.plans import plan_as_markdown, plan_as_values

    reading = course.read(*paths)
    made = course.plan(reading, depth=depth, words_per_minute=words_per_minute)
    terminal.say_result(plan_as_markdown(made) if reading.documents else "", plan_as_values(made), as_json=as_json)
    return _ended(reading)


@options.command()
@course_options.paths
@click.option(
    "--output", "-o", metavar="FILE", type=options.PATH, help="Write a .csv, .apkg (Anki), .md or .json file."
)
@click.option(
    "--deck",
    metavar="NAME",
    default="",
    show_default=False,
    help="The name of the deck in Anki; each document is a deck below it.",
)
@options.model_option("Let this model write cards for sections that have none.")
@options.flag("--solutions", help="Print, or write, cards with solutions and other texts withheld from students too.")
@options.flag("--write", help="Write the model's cards into the documents too, to be corrected there.")
@options.flag("--again", help="Ask the model again, even if an earlier run already has the reply.")
@options.budget()
@options.as_json
@course_options.read
def cards(
    course: Course,
    *,
    paths: tuple[Path, ...],
    output: Path | None,
    deck: str,
    model: str | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Make study cards from the questions and answers in metadata, and print them or write them to a file.

    'cards:' contains questions with answers; 'questions:' are answered by 'answers:' beside them, else by their text.
    If you import them into Anki again, changed cards are updated and keep their learning records.
    """
    from lmm_education.study.cards import card_as_values, cards_as_markdown, check_output, save_cards

    if (asked["write"] or asked["again"]) and model is None:
        raise ConfigError("--write and --again need --model", hint="name one with --model")
    if output is not None:
        check_output(output)
    report = course.cards(*paths, model=model, **asked)
    notes = [*report.hints, *(f"{file}: cards written" for file in report.changed)]
    notes += [usage_text(report.usage)] if report.usage != Usage() else []
    terminal.say("".join(f"{line}\n" for line in notes), err=True, end="")
    if output is not None and not report.cards:
        terminal.say(f"{output} was not written: there are no cards", err=True)
    elif output is not None:
        save_cards(output, report.cards, deck=deck)
        terminal.say(f"{output}: {terminal.count(len(report.cards), 'card')}", err=as_json)
    if as_json or output is None:
        values = [card_as_values(card) for card in report.cards]
        terminal.say_result(cards_as_markdown(report.cards), values, as_json=as_json)
    if not report.cards and report.reading.documents and not report.failures:
        none = (
            "no questions in the metadata: write 'cards:', run lmm annotate --questions, or name a model with --model"
        )
        terminal.say(none if model is None else "no cards: sections of fewer than 40 words are skipped", err=True)
    unwritten = output is not None and not report.cards
    return max(_ended(report.reading, report.failures), FAILED if unwritten else DONE)


@options.command()
@course_options.paths
@options.flag("--solutions", help="Print, or write, the solutions too.")
@click.option(
    "--output", "-o", metavar="FILE", type=options.PATH, help="Write a .xml (Moodle), .gift or .zip (QTI 2.1) file."
)
@click.option(
    "--type", "types", metavar="TYPE", multiple=True, help="Print texts of this type instead; may be repeated."
)
@options.as_json
@course_options.read
def exercises(
    course: Course,
    *,
    paths: tuple[Path, ...],
    solutions: bool,
    output: Path | None,
    types: tuple[str, ...],
    as_json: bool,
) -> int:
    """Print the exercises by section, in markdown, or write them for a learning platform.

    A solution is under 'solution:' in an exercise's metadata, or follows it as a text of type 'solution'. Only with
    --solutions, a file contains solutions, and the platform grades those with 'choices:' or a number.
    """
    from lmm_education.study.exercises import exercises_as_markdown, exercises_as_values
    from lmm_education.study.quiz import check_quiz, save_quiz

    if output is not None:
        check_quiz(output)

    reading = course.read(*paths)
    found = course.exercises(reading, types=types)
    kinds = " or ".join(repr(kind) for kind in types or course.settings.study.exercises)
    if not found and reading.documents and not as_json:
        terminal.say(f"no text is of type {kinds}, or under a heading of that name", err=True)
    if output is not None and not found:
        terminal.say(f"{output} was not written", err=True)
    elif output is not None:
        graded = save_quiz(output, found, solutions=solutions)
        how = f"; the platform grades {graded}" if solutions else ""
        terminal.say(f"{output}: {terminal.count(len(found), 'exercise')}{how}", err=as_json)
    text = exercises_as_markdown(found, solutions=solutions) if output is None else ""
    if output is None or as_json:
        terminal.say_result(text, exercises_as_values(found, solutions=solutions), as_json=as_json)
    without = sum(not exercise.solution for exercise in found)
    if solutions and without and not as_json:
        terminal.say(f"{without} of {terminal.count(len(found), 'exercise')} without a solution", err=True)
    return max(_ended(reading), FAILED if output is not None and not found else DONE)


def _ended(reading: Reading, failures: Sequence[LmmError] = ()) -> int:
    """Report skipped files and errors; return the exit code."""
    for path, reason in reading.skipped:
        terminal.say(f"{path}: left out: {reason}", err=True)
    for error in (*reading.errors, *failures):
        terminal.tell_error(error)
    return code_of((*reading.errors, *failures))
