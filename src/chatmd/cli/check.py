"""`lmm check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.check")


@app.command()
def check(
    files: Annotated[
        list[Path],
        # What cannot be read is not Typer's to check: our own message says how to mend it.
        typer.Argument(metavar="FILE", help="ChatMD files, whatever their extension.", readable=False),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Read as the published language says, to the letter.")
    ] = False,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option("--root", metavar="DIR", help="Another folder that files may be taken from.", file_okay=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON lines.")] = False,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
) -> int:
    """Report what is wrong with ChatMD files, as path:line:col: message, and what would be dropped.

    Files, programs and agents that they refer to are looked for; nothing is fetched, asked or run. The exit code is 1
    if there is an error, which would stop lmm run; warnings alone leave it 0.
    """
    return work.check(files, strict, roots or [], as_json, config)
