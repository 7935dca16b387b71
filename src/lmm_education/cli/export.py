"""`lmm export`: the notes that students read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import code_of
from lmm.errors import ConfigError
from lmm.terminal import DONE
from lmm_education.cli import course_options
from lmm_education.options import ExportOptions

if TYPE_CHECKING:
    from lmm_education.study.notes import Exported, ExportReport


@options.command()
@options.argument("path", "PATH", "A markdown, R Markdown or Quarto file, or a folder.", type=options.PATH)
@click.option(
    "--output", "-o", metavar="OUT", help="Write there, into a folder if it ends in /. [default: print a single file]"
)
@course_options.of(ExportOptions, "keep", "edits", "keep_lines")
@options.config
@options.verbose
@options.as_json
def export(*, path: Path, output: str | None, config: Path | None, verbose: bool, as_json: bool, **chosen: Any) -> int:
    """Write clean notes, without metadata, chats, pending edits, and special material such as exercises.

    A folder is mirrored, with the pictures and other files that its documents show. Sources are never
    overwritten. To keep types of material, use --keep, or 'keep' under [study] in config.toml.
    """
    from lmm_education.course import Course

    if not output and path.is_dir():
        raise ConfigError("to export a folder, give an output folder", where=str(path), hint="give one with -o")
    with Course.open(config=config, beside=[path]) as course:
        if not output:
            terminal.say_document(course.notes(path, **chosen).text)
            return DONE
        report = course.export(path, output, **chosen)
    if as_json:
        terminal.say_json(report.as_json())
    else:
        _print_report(report, is_folder=path.is_dir(), verbose=verbose)
    for error in report.errors:
        terminal.tell_error(error)
    return code_of(report.errors)


def _print_report(report: ExportReport, *, is_folder: bool, verbose: bool) -> None:
    lines = terminal.SimilarLines(verbose=verbose, most=20, noun="file")
    notes = terminal.SimilarLines(verbose=verbose, err=True)
    for line in (*map(describe, report.documents), *(f"{path}: copied" for path in report.copied)):
        lines.say(line)
    lines.end()
    if is_folder:
        changed = sum(each.changed for each in report.documents)
        left_out = f", {len(report.skipped)} left out" if report.skipped else ""
        failed = f", {len(report.errors)} failed" if report.errors else ""
        terminal.say(f"{terminal.count(len(report.documents), 'document')}: {changed} written{left_out}{failed}")
    for note in (*(f"{path}: left out: {reason}" for path, reason in report.skipped), *report.notices):
        notes.say(note)
    notes.end()


def describe(document: Exported) -> str:
    """Return a line about a document: its target, and what was left out."""
    counted = [terminal.count(number, kind) for kind, number in document.left_out.items()]
    without = f", without {', '.join(counted)}" if counted else ""
    return f"{document.target}: {'written' if document.changed else 'unchanged'}{without}"
