"""`lmm store`: show, check, rebuild and copy the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE
from lmm_education.cli import course_options

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.store.open import Transfer
    from lmm_education.store.port import StoreStatus


@options.group()
def store() -> None:
    """Inspect, check and repair the store of a course, or copy it to a Qdrant server and back."""


@store.command()
@options.flag("--json", "as_json", help="Report as JSON.")
@course_options.opened
def status(course: Course, *, as_json: bool) -> int:
    """Show where the store is, its settings and its content."""
    found = course.status()
    documents = [(each.file, each.id, each.title) for each in course.documents()]
    if as_json:
        points = {"chunks": found.chunks, "documents": found.documents + found.sections}
        files = [{"file": file, "document": each, "title": title} for file, each, title in documents]
        terminal.say_json({**asdict(found), "points": points, "files": files})
    else:
        terminal.say(_as_text(found, documents), end="")
    return DONE


@store.command()
@course_options.opened
def check(course: Course) -> int:
    """Read the whole store and compare checksums. If anything is damaged, the exit code is 1."""
    terminal.say(f"{course.store.location} is as it was written: {course.check()}")
    return DONE


@store.command()
@options.argument(
    "paths",
    "[PATH]",
    "The documents, if the store no longer lists them.",
    many=True,
    required=False,
    type=options.PATH,
)
@options.flag("--prune", help="Continue without documents whose files are gone.")
@course_options.opened
def repair(course: Course, *, paths: tuple[Path, ...], prune: bool) -> int:
    """Rebuild the store from its documents, without opening the old one.

    Searches use the old one until the end. If a document is missing or fails, nothing is changed.
    """
    from lmm_education.cli.ingest import IngestPrinter, print_ingest

    printer = IngestPrinter(lines=True)
    return print_ingest(course, lambda: course.repair(*paths, prune=prune, listener=printer), printer)


@store.command()
@click.option("--to", metavar="URL", required=True, help="A Qdrant server, or a folder.")
@course_options.opened
def push(course: Course, *, to: str) -> int:
    """Copy this store to a server or into a folder, and make that equal to it.

    What is there already is not sent again, so an interrupted copy continues. The server's key comes from
    the environment variable that 'api_key_env' under [storage] names.
    """
    return _copied(course.push(to, on_points=_progress()))


@store.command()
@click.option("--from", "source", metavar="URL", required=True, help="A Qdrant server, or a folder.")
@course_options.opened
def pull(course: Course, *, source: str) -> int:
    """Make this store equal to that of a server or folder."""
    return _copied(course.pull(source, on_points=_progress()))


@store.command()
@options.argument("document", "DOC", "A document's docid, its file, or a folder.")
@course_options.opened
def delete(course: Course, *, document: str) -> int:
    """Remove a document from the store; its file stays."""
    chosen = course.remove(document)
    terminal.say("".join(f"removed {each.file} from the store\n" for each in chosen), end="")
    return DONE


def _progress() -> Callable[[int], None]:
    done = 0
    shown = terminal.is_terminal(err=True)

    def on_points(count: int) -> None:
        nonlocal done
        done += count
        if shown:
            terminal.say(f"{terminal.ERASE_LINE}{done:,} points", err=True, end="")

    return on_points


def _copied(copied: Transfer) -> int:
    terminal.erase_bar()
    terminal.say(
        f"{copied.target} is up to date: {terminal.count(copied.written, 'point')} written, "
        f"{copied.same:,} there already, {copied.removed:,} removed"
    )
    return DONE


def _as_text(status: StoreStatus, documents: list[tuple[str, str, str]]) -> str:
    from lmm_education.errors import StoreMissing

    rows = [("store", status.location)]
    if status.manifest is None:
        missing = StoreMissing(status.location)
        rows.append(("content", f"{missing.message} ({missing.hint})"))
    else:
        manifest = status.manifest
        model = f"{manifest.embedding} ({manifest.dimensions} numbers)" if manifest.embedding else ""
        made = [manifest.encoding, model, manifest.sparse, f"language {manifest.language}"]
        counted = [terminal.count(getattr(status, f"{noun}s"), noun) for noun in ("document", "section", "chunk")]
        rows.append(("made with", ", ".join(part for part in made if part)))
        rows.append(("content", ", ".join(counted)))
        rows += [("size", f"{terminal.megabytes(status.size)} on the disk")] if status.size is not None else []
    details = (str(value) if name == "engine" else f"{name} {value}" for name, value in status.details.items())
    rows.append(("engine", ", ".join(details)))
    for file, each, title in documents:
        value = f"{file}  {each}  {title}".rstrip()
        rows.append(("document", terminal.clipped(value, terminal.width() - 13) if terminal.is_terminal() else value))
    return "".join(f"{name:<10}  {value}\n" for name, value in rows)
