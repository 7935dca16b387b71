"""`lmm compact`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.compact")


@app.command()
def compact(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A ChatMD file with a long conversation.", readable=False),
    ],
    keep: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the last turns stay as they are.")] = 3,
    to: Annotated[
        Optional[int],
        typer.Option(min=1, metavar="TOKENS", help="Keep fewer turns, if that is needed to get down to this."),
    ] = None,
    model: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="The model that summarises, instead of the file's own.")
    ] = None,
    config: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="The configuration file.", dir_okay=False)
    ] = None,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option("--root", metavar="DIR", help="Another folder that files may be imported from.", file_okay=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would stay and what would go; ask no model.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> int:
    """Replace the older part of a conversation by a summary, so that it fits the model again.

    Instructions, decisions and the last turns stay. The original is kept beside the file, in .chatmd.
    """
    return work.compact(file, keep, to, model, config, roots or [], dry_run, as_json)
