"""`lmm store`: look at the store, check it, make it anew, compact it, copy it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmm.cli import console

app = console.make_app()
store = console.make_app()
app.add_typer(store, name="store")
work = console.Later("lmm_education.cli.work.store")

Course = Annotated[str | None, typer.Option("--course", metavar="NAME", help="The course, if there are several.")]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Use this config.toml.")]


@store.callback()
def about() -> None:
    """Look at the store of a course, check it, make it anew, compact it, copy it to a Qdrant server and back."""


@store.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
    course: Course = None,
    config: Config = None,
) -> int:
    """Show where the store is, what it was made with, and what is in it."""
    return work.status(as_json, course, config)


@store.command()
def check(course: Course = None, config: Config = None) -> int:
    """Read all that is stored, and compare it with what was written. If anything is damaged, the exit code is 1."""
    return work.check(course, config)


@store.command()
def repair(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]…", help="The documents, where the store cannot tell which it had.", readable=False
        ),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Go on without documents whose files are gone.")] = False,
    course: Course = None,
    config: Config = None,
) -> int:
    """Make the store anew from its documents, opening nothing of what is there.

    Whoever reads the old one keeps it until the end. If a document is missing or fails, nothing is changed.
    """
    return work.repair(paths or [], prune, course, config)


@store.command()
def compact(course: Course = None, config: Config = None) -> int:
    """Write everything into new files with new indexes, and remove what is no longer needed."""
    return work.compact(course, config)


@store.command()
def push(
    to: Annotated[str, typer.Option("--to", metavar="URL", help="A Qdrant server, or a folder.")],
    course: Course = None,
    config: Config = None,
) -> int:
    """Copy this store to a server or into a folder, which then holds the same.

    What is there already is not sent again, so a copy that was cut off goes on. The server's key is taken from
    the environment variable that 'api_key_env' under [storage] names.
    """
    return work.push(to, course, config)


@store.command()
def pull(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="A Qdrant server, or a folder.")],
    course: Course = None,
    config: Config = None,
) -> int:
    """Copy the store of a server or folder into this one, which then holds the same."""
    return work.pull(source, course, config)


@store.command()
def delete(
    document: Annotated[str, typer.Argument(metavar="DOC", help="A document's id, its file, or a folder of files.")],
    course: Course = None,
    config: Config = None,
) -> int:
    """Remove a document from the store; its file stays."""
    return work.delete(document, course, config)
