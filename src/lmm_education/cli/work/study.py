"""What is done by `lmm toc`, `lmm plan`, `lmm cards` and `lmm exercises`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError, LmmError
from lmm.messages import Usage
from lmm.terminal import usage_text
from lmm_education.settings import CourseSettings
from lmm_education.study.ask_cards import cards_of, write_cards
from lmm_education.study.card_files import check_output, save_cards
from lmm_education.study.cards import Card, card_as_values, cards_as_markdown
from lmm_education.study.exercises import exercises_as_markdown, exercises_as_values, find_exercises
from lmm_education.study.plan import plan_as_markdown, plan_as_values, study_plan
from lmm_education.study.reading import Reading, read_documents, settings_at
from lmm_education.study.toc import table_of_contents, toc_as_markdown, toc_as_text, toc_as_values


def toc(paths: list[Path], depth: int, markdown: bool, as_json: bool, config: Path | None) -> int:
    """Print the headings of documents."""
    _, reading = _read(paths, config)
    entries = table_of_contents(reading.documents, depth=depth)
    if as_json:
        _print_json(toc_as_values(entries))
    else:
        _print(toc_as_markdown(entries) if markdown else toc_as_text(entries))
    return _ended(reading)


def plan(paths: list[Path], depth: int, words_per_minute: int | None, as_json: bool, config: Path | None) -> int:
    """Print a study plan."""
    settings, reading = _read(paths, config)
    study = settings.study
    pace = words_per_minute or study.words_per_minute
    made = study_plan(reading.documents, depth=depth, words_per_minute=pace, keep=study.keep)
    if as_json:
        _print_json(plan_as_values(made))
    else:
        _print(plan_as_markdown(made))
    return _ended(reading, [LmmError(problem) for problem in made.problems])


def cards(
    paths: list[Path],
    output: Path | None,
    deck: str,
    model: str | None,
    write: bool,
    again: bool,
    as_json: bool,
    config: Path | None,
) -> int:
    """Make study cards, and print them or write them to a file."""
    if (write or again) and model is None:
        raise ConfigError("--write and --again are about a model's cards", hint="name one with --model")
    if output is not None:
        check_output(output)
    settings, reading = _read(paths, config)
    failures: list[LmmError] = []
    if model is not None:
        report = write_cards(paths, model=model, config=config, again=again, save=write)
        reading, failures = report.reading, report.failures
        told = [*report.hints, *(f"{file}: cards written" for file in report.changed)]
        told += [usage_text(report.usage)] if report.usage != Usage() else []
        terminal.say("".join(f"{line}\n" for line in told), err=True, end="")
    _show(cards_of(reading.documents, settings.study).cards, output, deck, as_json)
    return _ended(reading, failures)


def _show(made: Sequence[Card], output: Path | None, deck: str, as_json: bool) -> None:
    if output is not None:
        save_cards(output, made, deck=deck)
        terminal.say(f"{output}: {terminal.count(len(made), 'card')}", err=as_json)
    if as_json:
        _print_json([card_as_values(card) for card in made])
    elif output is None:
        _print(cards_as_markdown(made))
    if not made:
        terminal.say("no questions in the metadata: lmm annotate --questions, or --model, makes some", err=True)


def exercises(paths: list[Path], solutions: bool, kinds: tuple[str, ...], as_json: bool, config: Path | None) -> int:
    """Print the exercises by section."""
    settings, reading = _read(paths, config)
    study = settings.study
    found = find_exercises(reading.documents, kinds=kinds or study.exercises, solutions=study.solutions)
    if as_json:
        _print_json(exercises_as_values(found, solutions=solutions))
    else:
        _print(exercises_as_markdown(found, solutions=solutions))
        without = sum(not exercise.solution for exercise in found)
        if solutions and without:
            terminal.say(f"{without} of {terminal.count(len(found), 'exercise')} without a solution", err=True)
    return _ended(reading)


# -- what they share -------------------------------------------------------------------------------


def _read(paths: list[Path], config: Path | None) -> tuple[CourseSettings, Reading]:
    settings = settings_at(paths[0], config)
    return settings, read_documents(paths, settings)


def _ended(reading: Reading, failures: Sequence[LmmError] = ()) -> int:
    """Tell what was passed over and what failed; the exit code."""
    for path, reason in reading.skipped:
        terminal.say(f"{path}: left out: {reason}", err=True)
    for error in (*reading.errors, *failures):
        terminal.tell_error(error)
    return console.FAILED if reading.errors or failures else console.DONE


def _print(text: str) -> None:
    terminal.say(text, end="")


def _print_json(value: Any) -> None:
    terminal.say_json(value, indent=2)
