"""`lmm refine`: test a prompt on cases, and find a better one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import LmmError
from lmm.terminal import DONE, FAILED, INTERRUPTED, usage_text

if TYPE_CHECKING:
    from chatmd.refine.api import Refinement
    from chatmd.refine.search import SearchOutcome, Task
    from chatmd.refine.versions import CaseResult, CaseTally, Version


@options.command()
@options.argument("file", "FILE", "A ChatMD file; its system message is refined.", type=options.PATH)
@click.option(
    "--cases",
    metavar="CASES",
    type=options.PATH,
    required=True,
    help="A YAML, JSON or JSONL file with inputs and conditions for the replies.",
)
@options.flag("--check", help="Only measure the file unchanged; the exit code is 1 if a case fails.")
@click.option(
    "--rounds", metavar="N", type=click.IntRange(min=1), default=4, help="The greatest number of rounds of proposals."
)
@options.budget("Spend at most this much in all: tokens (20000) or money (0.50$).")
@click.option(
    "--model", metavar="NAME", default="", show_default=False, help="Run the file with this model instead of its own."
)
@options.config
@options.flag("--apply", help="Write the better version into FILE.")
@options.yes("Agree to what the file's tools can do, without being asked.")
def refine(
    *,
    file: Path,
    cases: Path,
    check: bool,
    rounds: int,
    budget: str,
    model: str,
    config: Path | None,
    apply: bool,
    yes: bool,
) -> int:
    """Measure a prompt on cases, and look for a better one.

    A model reads the failures and proposes other versions. The best of them is shown as a diff, if it does
    better on the cases, and no worse on those that were held out. With --check, only the prompt is tested, as in CI.
    """
    from chatmd.chat import Chat
    from chatmd.cli.asking import confirm_on_terminal

    found = Chat.open(file, config=config).refine(
        cases, rounds=0 if check else rounds, progress=_progress, model=model, budget=budget, yes=yes,
        confirm=confirm_on_terminal(),
    )  # fmt: skip
    return _end(found, apply, check)


def _progress(text: str) -> None:
    terminal.say(terminal.styled(text, "dim", err=True), err=True)


def _end(found: Refinement, apply: bool, check: bool) -> int:
    done = found.done
    if done.error is not None and not done.baseline.results:  # there is nothing to show
        raise done.error
    failed = _applied(found) if apply and done.winner is not None else None
    terminal.say(_text(found, apply, written=failed is None), end="")
    if failed is not None:
        raise failed
    if done.interrupted:
        return INTERRUPTED
    if done.error is not None:
        terminal.tell_error(done.error)
        return FAILED
    incomplete = len(done.baseline.results) < len(done.cases)
    if check and (incomplete or not all(result.passed for result in done.baseline.results.values())):
        return FAILED
    return DONE


def _applied(found: Refinement) -> LmmError | None:
    """Write the winner; why that could not be done. What was found is to be shown all the same."""
    try:
        found.apply()
    except LmmError as error:
        return error
    return None


def _text(found: Refinement, apply: bool, *, written: bool) -> str:
    done, file = found.done, found.path
    parts = [f"{_versions(done)}\n{_cases(done)}".rstrip()]
    shown = done.winner or done.baseline
    if lines := faults(done, shown):
        which = "as it is" if shown is done.baseline else f"with version {shown.id}"
        parts.append(f"what fails {which}:\n{_indented(lines)}")
    if done.winner is not None:
        parts.append(difference(found.task, done.winner, file.name).rstrip("\n"))
    ending = [f"stopped: {done.stopped}"] if done.stopped else []
    ending += [done.reason] if done.reason else []
    ending += [f"{usage_text(found.usage)} in all", _next(found, apply, written=written)]
    parts.append("\n".join(line for line in ending if line))
    return "\n\n".join(parts) + "\n"


def _next(found: Refinement, apply: bool, *, written: bool) -> str:
    done = found.done
    if apply and done.winner is not None:
        return f"{found.path}: written" if written else ""
    if done.winner is not None:
        return "to write it: the same command with --apply, which asks no model again"
    if done.stopped:
        return "to continue: the same command; replies so far are kept"
    return f"{found.path}: nothing to write" if apply else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


# -- the report ------------------------------------------------------------------------------------

_NAME = 32


def _versions(done: SearchOutcome) -> str:
    judged = any(version.tally(version.results).score is not None for version in done.versions)
    priced = any(version.tally(version.results).usage.cost for version in done.versions)
    head = ["version", "cases" if not done.held_out else "train", *(["held out"] if done.held_out else []),
            *(["judge"] if judged else []), "tokens/case", *(["cost/case"] if priced else [])]  # fmt: skip
    rows = [head]
    for version in done.versions:
        train, everything = version.tally(done.train), version.tally(version.results)
        held = [_passed(version.tally(done.held_out), len(done.held_out))] if done.held_out else []
        score = ["–" if everything.score is None else f"{everything.score:.1f}"] if judged else []
        count = max(everything.total, 1)
        cost = [f"${(everything.usage.cost or 0) / count:.5f}"] if priced else []
        tokens = round((everything.usage.input_tokens + everything.usage.output_tokens) / count)
        rows.append([_name(version, done), _passed(train, len(done.train)), *held, *score, f"{tokens:,}", *cost])
    return terminal.table(rows)


def _name(version: Version, done: SearchOutcome) -> str:
    mark = " *" if version is done.winner else ""
    return "as it is" if version is done.baseline else f"{version.id}{mark}"


def _passed(came: CaseTally, total: int) -> str:
    if not came.total:
        return "–"
    part = f" ({came.total} of {total} measured)" if came.total < total else ""
    return f"{came.passed}/{came.total}{part}"


def _cases(done: SearchOutcome) -> str:
    rows = [["case", *(("as it is" if v is done.baseline else v.id) for v in done.versions)]]
    for case in done.cases:
        name = case.name if len(case.name) <= _NAME else f"{case.name[: _NAME - 1]}…"
        held = " (held out)" if case.name in done.held_out else ""
        rows.append([f"{name}{held}", *(_mark(version.results.get(case.name)) for version in done.versions)])
    return terminal.table(rows)


def _mark(result: CaseResult | None) -> str:
    return "–" if result is None else "pass" if result.passed else "FAIL"


def faults(done: SearchOutcome, version: Version) -> str:
    """Why cases fail with a version, a line each; empty if none does."""
    measured = ((case.name, version.results.get(case.name)) for case in done.cases)
    return "\n".join(
        f"{name}: {' '.join(fault.split())}" for name, result in measured if result for fault in result.faults
    )


def difference(task: Task, version: Version, file: str) -> str:
    """What a version changes in the file, as a unified diff."""
    old, new = task.source.splitlines(keepends=True), task.agent(version.text).splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
