"""`lmm scan` and `lmm clear`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.scan")
Files = Annotated[
    list[Path],
    # What cannot be read is not Typer's to check: our own message says how to mend it.
    typer.Argument(metavar="FILE", help="Markdown, R Markdown or Quarto files.", readable=False),
]


@app.command()
def scan(
    files: Files,
    check: Annotated[bool, typer.Option("--check", help="Report only; write nothing.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Spell replies in which knitr would run code so that it does not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON lines.")] = False,
) -> int:
    """Add title and docid to headers that lack them, and report problems as path:line:col: message.

    The exit code is 1 if there is an error; warnings alone leave it 0.
    """
    return work.scan(files, check, fix, as_json)


@app.command()
def clear(
    files: Files,
    pending: Annotated[bool, typer.Option("--pending", help="Remove unanswered prompts too.")] = False,
) -> int:
    """Remove the chats from files; metadata blocks that held nothing else go with them."""
    return work.clear(files, pending)
