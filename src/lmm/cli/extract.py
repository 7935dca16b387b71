"""`lmm extract`: structured data from the sections of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.options import exit_code, print_failures, show_progress
from lmm.errors import LmmError
from lmm.messages import Usage, render
from lmm.terminal import DONE, INTERRUPTED

if TYPE_CHECKING:
    from lmm.extraction import Job, Record
    from lmm.pipeline import Report


@options.command()
@options.argument(
    "schema", "SCHEMA", "module:Model, file.py:Model, or a JSON schema file; file.py:list[Model] for several a section."
)
@options.files
@click.option("--select", metavar="EXPR", help="Sections with this in their title, or with this key=value in metadata.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=options.PATH,
    help="Write a .csv or .jsonl file instead of printing JSON lines.",
)
@options.model
@options.config
@options.again
@options.budget()
@options.flag("--dry-run", help="Show the sections that would be read, without asking a model.")
def extract(
    *,
    schema: str,
    files: tuple[Path, ...],
    select: str | None,
    output: Path | None,
    config: Path | None,
    budget: str,
    dry_run: bool,
    **asking: Any,
) -> int:
    """Extract one record per section, or several where the schema is a list, and print or save them as rows.

    Every row fits the schema: a reply that does not is sent back with the error, twice. A section that
    gives no data is reported as path:line, the others are kept, and the exit code is 1.

    'lines' has the line of each text and number that the section has in the same words; the others are
    'unfound': a model may have made them up, or put them into its own words.
    """
    from lmm import Document
    from lmm.document import record_source
    from lmm.extraction import check_output, json_lines, plan_records, read_records, row_of, save_records
    from lmm.loop import run
    from lmm.models.budget import SharedBudget
    from lmm.models.structured import load_schema

    compiled, spent = load_schema(schema), SharedBudget.of(budget)
    if output is not None:
        check_output(output)
    documents = [Document.open(path, config=config, listener=show_progress) for path in files]
    jobs = plan_records([record_source(each, budget=spent, **asking) for each in documents], compiled, select)
    if not jobs and select is not None:
        raise LmmError(f"no section matches --select '{select}'", hint="give a part of a title, key=value, or key=")
    if not jobs:
        terminal.say(f"no section has text{_unwritten(output)}", err=True)
        return DONE
    if dry_run:
        return _show(jobs, asking["again"])
    report = run(read_records(jobs, compiled))
    terminal.erase_bar()
    if report.interrupted:
        terminal.say("\nlmm: interrupted; run it again: replies that arrived are kept", err=True)
        return INTERRUPTED
    if output is None:
        terminal.say_document(json_lines(map(row_of, report.results)))
    elif report.results or not report.failures:  # without any results, an earlier table is not replaced
        save_records(output, report.results, compiled.fields)
    return _summary(report, len(jobs), output)


def _unwritten(output: Path | None) -> str:
    return f"; {output} was not written" if output else ""


def _show(jobs: list[Job], again: bool) -> int:
    """Print what would be asked: a line per section, then the total."""
    from lmm.disk import journal

    new = [job for job in jobs if again or journal.get(job.source.client.journal_key(job.ask)) is None]
    for job in jobs:
        place = " > ".join(job.section.headings) or "the document"
        known = "" if job in new else "; remembered"
        terminal.say(f"{job.ask.place}: {place} ({len(job.section.text):,} characters{known})")
    tokens = sum(len(render(message)) for job in new for message in job.ask.request.messages) // 4
    models = ", ".join(sorted({job.source.client.name for job in jobs}))
    asked = f"{terminal.count(len(new), 'request')} to {models}"
    terminal.say(f"{terminal.count(len(jobs), 'section')}, {asked}, about {tokens:,} tokens in")
    return DONE


def _summary(report: Report[Record[Any]], sections: int, output: Path | None) -> int:
    for hint in report.hints:
        terminal.say(hint, err=True)
    print_failures(report)
    parts = [
        f"{terminal.count(len(report.results), 'record')} from {terminal.count(sections, 'section')}",
        *([f"{len(report.failures)} failed"] if report.failures else []),
        *([terminal.usage_text(report.usage)] if report.usage != Usage() else []),
    ]
    written = output if report.results or not report.failures else None
    text = ", ".join(parts) if written else f"{', '.join(parts)}{_unwritten(output)}"
    # Standard output is reserved for rows.
    terminal.say(f"{written}: {text}" if written else text, err=written is None)
    return exit_code(report)
