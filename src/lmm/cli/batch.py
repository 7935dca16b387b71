"""`lmm annotate` and `lmm batch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import each
from lmm.cli.options import change, cost_text, exit_code, print_failures, print_hints, show_progress, work
from lmm.terminal import DONE

if TYPE_CHECKING:
    from lmm.notebook.generated_fields import FieldStatus
    from lmm.pipeline import Report

_FLAGS = {name: name for name in ("titles", "questions", "keywords")} | {"summary": "summaries"}
_how = options.together(
    options.model,
    options.config,
    options.flag("--dry-run", help="Show what would be made and its cost, without asking a model."),
    options.flag("--changed", help="List what is out of date, and why, without asking a model."),
    options.flag("--refresh", help="Also make again what was made with another prompt, model or heading path."),
    options.again,
    options.budget(),
    options.json_lines,
)


def _make(name: str) -> options.Decorator:
    return click.option(f"--{name}/--no-{name}", default=None, help=f"Make {name}, whatever the configuration says.")


@options.command()
@options.files
@options.together(*map(_make, _FLAGS.values()))
@options.flag("--clear", help="Remove generated annotations: all, or those named by options here. Edited ones stay.")
@_how
def annotate(*, files: tuple[Path, ...], clear: bool, **how: Any) -> int:
    """Add annotations to sections where they are missing, or where the text changed.

    What you wrote or edited is kept. Annotations are chosen by [RAG] in config.toml, 'model: RAG:' in the
    header, or the options here.
    """
    flags = {name: how.pop(option) for name, option in _FLAGS.items()}
    if clear:
        return each(files, lambda path: _clear(path, [name for name, on in flags.items() if on], how["dry_run"]))
    return _run(files, lambda document, **options: document.annotate(flags=flags, **options), **how)


def _clear(path: Path, fields: Sequence[str], dry_run: bool) -> int:
    cleared = change(path, lambda document: document.clear_annotations(*fields), save=not dry_run)
    what = (" and " if cleared else " or ").join(_FLAGS[name] for name in fields) or "annotations"
    done = f"would remove its {what}" if dry_run else f"removed its {what}; lmm undo takes that back"
    terminal.say(f"{terminal.path_text(path)}: {done if cleared else f'there are no generated {what}'}")
    return DONE


@options.command()
@options.argument("name", "NAME", "The batch model's name.")
@options.files
@click.option(
    "--from", "source", metavar="FILE.py", type=options.PATH, help="Load this Python file, which registers it."
)
@_how
def batch(*, name: str, files: tuple[Path, ...], source: Path | None, **how: Any) -> int:
    """Run a batch model: a Python function registered with @lmm.batch_model("NAME")."""
    from lmm.notebook.batch import find_batch_model
    from lmm.user_code import load_python

    if source is not None:
        load_python(source)
    function = find_batch_model(name)
    return _run(files, lambda document, **options: document.batch(function, **options), **how)


def _run(
    files: Sequence[Path],
    verb: Callable[..., Report[FieldStatus]],
    *,
    config: Path | None,
    dry_run: bool,
    changed: bool,
    budget: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Apply a method to all files, and print the outcomes; hints shared by several files are printed once."""
    from lmm import Document
    from lmm.models.budget import SharedBudget

    estimate = dry_run or changed
    options |= {"budget": SharedBudget.of(budget), "estimate": estimate}
    hints: dict[str, None] = {}

    def act(path: Path) -> int:
        document = Document.open(path, config=config, listener=show_progress)
        report = work(document, lambda it: verb(it, **options), save=not estimate)
        print_hints(report, hints)
        if report.error is not None:
            terminal.tell_error(report.error)
        if as_json:
            terminal.say_json({"path": str(path), **report.as_json()}, line=True)
        else:
            _summary(path, report, estimate=estimate, changed=changed)
        return exit_code(report)

    return each(files, act)


def _summary(path: Path, report: Report[FieldStatus], *, estimate: bool, changed: bool) -> None:
    from lmm.document import STALE
    from lmm.notebook.staleness import State

    print_failures(report)
    if changed:
        stale = [visited for visited in report.results if visited.state in STALE]
        for visited in sorted(stale, key=lambda visited: visited.place.line):
            terminal.say(f"{visited.place}: {visited.field} of '{visited.title}': {visited.state}")
        if not stale:
            terminal.say(f"{terminal.path_text(path)}: nothing is out of date")
    else:
        for visited in report.results:
            if (visited.state, visited.made) in ((State.EDITED, False), (State.OLD_HASH, True)):
                done = "made anew" if visited.made else "kept"
                what = f"{visited.field} of '{visited.title}': {visited.state}; {done}"
                terminal.say(f"{visited.place}: {what}", err=True)
        terminal.say(f"{terminal.path_text(path)}: {'; '.join(_parts(report, estimate=estimate))}")


def _parts(report: Report[FieldStatus], *, estimate: bool) -> list[str]:
    """Return the parts of the summary line."""
    from lmm.notebook.staleness import State

    verb = "would " if estimate else ""

    def counted(statuses: Iterable[FieldStatus]) -> str:
        numbers = Counter(one.field.removesuffix("s") if one.field == "titles" else one.field for one in statuses)
        units = {field: f"set of {field}" if field.endswith("s") else field for field in numbers}
        return ", ".join(terminal.count(number, units[field]) for field, number in numbers.items())

    states = Counter(visited.state for visited in report.results if not visited.made)
    made = counted(one for one in report.results if one.made)
    removed = counted(one for one in report.results if one.state is State.GONE and not one.made)
    incomplete = report.failures or report.error or report.interrupted
    nothing = "nothing added" if incomplete and not estimate else "nothing to add"
    parts = [f"{verb}{'add' if verb else 'added'} {made}" if made else nothing]
    if removed:
        parts.append(f"{verb}{'remove' if verb else 'removed'} {removed}, whose text is gone or part of an entry")
    if without := counted(one for one in report.results if one.state is State.NOTHING):
        parts.append(f"too short, or in a small entry, for {without}")
    if estimate:
        parts.append(cost_text(report.usage, report.model))
    elif report.usage.requests:
        parts.append(f"{terminal.count(report.usage.requests, 'call')}, {terminal.usage_text(report.usage)}")
    if outdated := states[State.OTHER_RECIPE]:
        parts.append(f"{outdated} made with other settings: --changed lists them, --refresh makes them again")
    if report.failures:
        failed, waiting = len(report.failures), states[State.BLOCKED]
        depend = f"{waiting} {'depends' if waiting == 1 else 'depend'} on {'it' if failed == 1 else 'them'}"
        parts.append(f"{failed} failed, and {depend}" if waiting else f"{failed} failed")
    if report.interrupted:
        parts.append("interrupted; what was added is saved")
    return parts
