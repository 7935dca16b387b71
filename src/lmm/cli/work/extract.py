"""What is done by `lmm extract`: structured data from the sections of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.progress import usage_text
from lmm.errors import LmmError
from lmm.extraction import Extraction, ExtractOptions, extract_files, load_schema, plan_extraction
from lmm.extraction.plan import Job
from lmm.extraction.table import check_output, json_line, save_records
from lmm.messages import Usage, render


def extract(
    schema: str,
    files: list[Path],
    select: str | None,
    output: Path | None,
    model: str | None,
    config: Path | None,
    again: bool,
    dry_run: bool,
) -> int:
    """Extract one record per section, or several where the schema is a list, and print or save them as rows."""
    options = ExtractOptions(select, model, config, again)
    compiled = load_schema(schema)
    if output is not None:
        check_output(output)
    jobs = plan_extraction(files, compiled, options)
    if not jobs:
        return _nothing(select)
    if dry_run:
        return _show(jobs, again)
    try:
        extraction = extract_files(files, compiled, options, progress=_bar)
    except KeyboardInterrupt:
        terminal.say("\nlmm: interrupted; run it again: what had arrived is remembered", err=True)
        return console.INTERRUPTED
    if output is None:
        terminal.say_document("".join(map(json_line, extraction.records)))
    elif extraction.records or not extraction.failures:  # nothing at all does not replace an earlier table
        save_records(output, extraction.records, compiled.fields)
    return _summary(extraction, output)


def _nothing(select: Optional[str]) -> int:
    if select is None:
        terminal.say("no section has text", err=True)
        return console.DONE
    raise LmmError(f"no section fits --select '{select}'", hint="give a part of a title, key=value, or key=")


def _show(jobs: list[Job], again: bool) -> int:
    """What would be asked: a line per section, then what it comes to."""
    new = [job for job in jobs if again or not job.is_remembered]
    for job in jobs:
        place = " > ".join(job.section.headings) or "the document"
        known = "" if job in new else "; remembered"
        terminal.say(f"{job.file}:{job.section.line}: {place} ({len(job.section.text):,} characters{known})")
    tokens = sum(len(render(message)) for job in new for message in job.request.messages) // 4
    models = ", ".join(sorted({job.model_name for job in jobs}))
    asked = f"{terminal.count(len(new), 'request')} to {models}"
    terminal.say(f"{terminal.count(len(jobs), 'section')}, {asked}, about {tokens:,} tokens in")
    return console.DONE


def _bar(done: int, total: int) -> None:
    terminal.show_bar(done, total)
    if done == total:
        terminal.erase_bar()


def _summary(extraction: Extraction, output: Optional[Path]) -> int:
    for hint in extraction.hints:
        terminal.say(hint, err=True)
    _tell(extraction)
    parts = [
        f"{terminal.count(len(extraction.records), 'record')} from {terminal.count(extraction.sections, 'section')}",
        *([f"{len(extraction.failures)} failed"] if extraction.failures else []),
        *([usage_text(extraction.usage)] if extraction.usage != Usage() else []),
    ]
    terminal.say(
        f"{f'{output}: ' if output else ''}{', '.join(parts)}", err=output is None
    )  # standard output is for rows
    return console.FAILED if extraction.failures else console.DONE


def _tell(extraction: Extraction) -> None:
    """Each failure with its place; one that all sections share, once."""
    errors = {str(failure.error) for failure in extraction.failures}
    if len(errors) == 1 < len(extraction.failures) == extraction.sections:
        terminal.tell_error(extraction.failures[0].error)
        return
    for failure in extraction.failures:
        terminal.say(str(failure), err=True)
