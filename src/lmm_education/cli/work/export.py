"""What is done by `lmm export`."""

from __future__ import annotations

from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError
from lmm_education.study.export import Edits
from lmm_education.study.run_export import Exported, ExportOptions, ExportReport, export_notes, read_notes


def export(
    path: Path,
    output: Path | None,
    keep: tuple[str, ...],
    edits: Edits | None,
    keep_lines: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Write the clean notes of a file or a folder."""
    options = ExportOptions(keep, edits, keep_lines, config)
    if output is None:
        if path.is_dir():
            raise ConfigError("a folder needs a place to be exported to", where=str(path), hint="name one with -o")
        notes = read_notes(path, options)
        terminal.say_document(notes.text)
        return console.DONE
    report = export_notes(path, output, options)
    if as_json:
        terminal.say_json(as_values(report))
    else:
        _tell(report, is_folder=path.is_dir())
    for error in report.errors:
        terminal.tell_error(error)
    return console.FAILED if report.errors else console.DONE


def as_values(report: ExportReport) -> dict[str, object]:
    """The report as JSON holds it."""
    return {
        "documents": [
            {
                "source": str(each.source),
                "target": str(each.target),
                "changed": each.changed,
                "left_out": [{"type": item.kind, "line": item.line} for item in each.notes.left_out],
            }
            for each in report.documents
        ],
        "copied": [str(path) for path in report.copied],
        "skipped": [{"file": str(path), "reason": reason} for path, reason in report.skipped],
        "notices": report.notices,
        "errors": [str(error) for error in report.errors],
    }


def _tell(report: ExportReport, *, is_folder: bool) -> None:
    lines = [describe(each) for each in report.documents]
    lines += [f"{path}: copied" for path in report.copied]
    if is_folder:
        changed = sum(each.changed for each in report.documents)
        failed = f", {len(report.errors)} failed" if report.errors else ""
        lines.append(f"{terminal.count(len(report.documents), 'document')}: {changed} written{failed}")
    terminal.say("".join(f"{line}\n" for line in lines), end="")
    notes = [*(f"{path}: left out: {reason}" for path, reason in report.skipped), *report.notices]
    terminal.say("".join(f"{note}\n" for note in notes), err=True, end="")


def describe(document: Exported) -> str:
    """A line about a document: where it went, and what stayed out."""
    counted = [terminal.count(number, kind) for kind, number in document.left_out.items()]
    without = f", without {', '.join(counted)}" if counted else ""
    return f"{document.target}: {'written' if document.changed else 'unchanged'}{without}"
