"""`lmm refine`: test a prompt on cases, and find a better one."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import LmmError
from lmm.messages import Usage
from lmm.terminal import DONE, FAILED, INTERRUPTED, usage_text

if TYPE_CHECKING:
    from chatmd.refine.search import Refinement, Version


@options.command()
@options.argument("file", "FILE", "A ChatMD file; its system message is refined.", type=options.PATH)
@click.option(
    "--cases",
    metavar="CASES",
    type=options.PATH,
    required=True,
    help="A YAML or JSON file with inputs and conditions for the replies.",
)
@options.flag("--check", help="Only measure the file unchanged; the exit code is 1 if a case fails.")
@click.option(
    "--rounds", metavar="N", type=click.IntRange(min=1), default=4, help="The greatest number of rounds of proposals."
)
@options.budget("Send no request that exceeds this in all: tokens (20000) or money (0.50$).")
@options.model_option("Run the file with this model instead of its own.", default="")
@options.config
@options.again
@options.flag("--apply", help="Write the better version into FILE.")
@options.flag("--yes", "-y", help="Agree to what the file's tools can do, without being asked.")
def refine(*, file: Path, cases: Path, check: bool, rounds: int, config: Path | None, apply: bool, **how: Any) -> int:
    """Measure a prompt on cases, and look for a better one.

    A model reads the failures and proposes other versions. The best of them is shown as a diff, if it does
    better on the cases, and no worse on those that were held out. With --check, only the prompt is tested, as in CI.
    """
    from chatmd.call_texts import confirm_on_terminal
    from chatmd.chat import Chat
    from chatmd.errors import LimitReached

    def progress(text: str) -> None:
        terminal.say(terminal.styled(text, "dim", err=True), err=True)

    if check and apply:
        raise click.UsageError("--check only measures: --apply cannot be used with it.")
    options.check_given(file, cases)
    done = Chat.open(file, config=config).refine(
        cases, rounds=0 if check else rounds, progress=progress, confirm=confirm_on_terminal(), **how
    )
    if isinstance(done.error, LmmError) and not done.baseline.results and not isinstance(done.error, LimitReached):
        raise done.error  # there is nothing to show
    failed = None
    if apply and done.winner is not None:
        try:
            done.apply()
        except LmmError as error:  # the findings are printed all the same
            failed = error
    terminal.say(_report(done, apply, written=failed is None), end="")
    options.print_excess(how["budget"], done.usage)
    if failed is not None:
        raise failed
    if isinstance(done.error, asyncio.CancelledError):
        return INTERRUPTED
    if done.error is not None and not isinstance(done.error, LimitReached):
        terminal.tell_error(done.error)
        return FAILED
    return FAILED if check and done.baseline.passed(done.train) < len(done.cases) else DONE


# -- the report ------------------------------------------------------------------------------------

_NAME = 32


def _report(done: Refinement, apply: bool, *, written: bool) -> str:
    parts = [f"{_versions(done)}\n{_cases(done)}".rstrip()]
    version = done.winner or done.baseline
    measured = ((case.name, version.results.get(case.name)) for case in done.cases)
    lines = [f"  {name}: {' '.join(fault.split())}" for name, one in measured if one for fault in one.faults]
    if lines:
        which = "as it is" if version is done.baseline else f"with version {version.id}"
        parts.append("\n".join([f"what fails {which}:", *lines]))
    if done.winner is not None:
        parts.append(_difference(done, done.winner))
    used = f"{usage_text(done.usage)} in all"
    ending = [f"stopped: {done.stopped}" if done.stopped else "", done.reason, used, _next(done, apply, written)]
    parts.append("\n".join(line for line in ending if line))
    return "\n\n".join(parts) + "\n"


def _next(done: Refinement, apply: bool, written: bool) -> str:
    if apply and done.winner is not None:
        return f"{done.path}: written" if written else ""
    if done.winner is not None:
        return "to write it: the same command with --apply and without --again, which asks no model"
    if done.stopped:
        return "to continue: the same command; replies so far are kept"
    return f"{done.path}: nothing to write" if apply else ""


def _versions(done: Refinement) -> str:
    """Return a row for each version, without empty columns."""
    rows = [["version", "train" if done.held_out else "cases", "held out", "judge", "tokens/case", "cost/case"]]
    for version in done.versions:
        score, count = version.score(version.results), max(len(version.results), 1)
        usage = sum((result.outcome.usage for result in version.results.values()), Usage())
        rows.append([
            "as it is" if version is done.baseline else f"{version.id}{' *' if version is done.winner else ''}",
            _passed(version, done.train),
            _passed(version, done.held_out),
            "–" if score is None else f"{score:.1f}",
            f"{round((usage.input_tokens + usage.output_tokens) / count):,}",
            f"${usage.cost / count:.5f}" if usage.cost else "–",
        ])  # fmt: skip
    columns = [n for n, column in enumerate(zip(*rows[1:], strict=True)) if n < 2 or set(column) != {"–"}]
    return terminal.table([[row[n] for n in columns] for row in rows])


def _passed(version: Version, names: Sequence[str]) -> str:
    if not (count := len(version.of(names))):
        return "–"
    part = f" ({count} of {len(names)} measured)" if count < len(names) else ""
    return f"{version.passed(names)}/{count}{part}"


def _cases(done: Refinement) -> str:
    rows = [["case", *(("as it is" if v is done.baseline else v.id) for v in done.versions)]]
    for case in done.cases:
        name = case.name if len(case.name) <= _NAME else f"{case.name[: _NAME - 1]}…"
        marker = " (held out)" if case.name in done.held_out else ""
        results = [version.results.get(case.name) for version in done.versions]
        rows.append([f"{name}{marker}", *("–" if one is None else "pass" if one.passed else "FAIL" for one in results)])
    return terminal.table(rows)


def _difference(done: Refinement, version: Version) -> str:
    """Return what a version changes in the file, as a unified diff."""
    old, new = done.source.splitlines(keepends=True), done.agent(version).splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{done.path.name}", f"b/{done.path.name}")
    marked = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(marked).rstrip("\n")
