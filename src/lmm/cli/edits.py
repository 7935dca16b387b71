"""`lmm accept`, `lmm reject` and `lmm undo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.edits")
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Documents with waiting edits.")]
Line = Annotated[Optional[int], typer.Option(metavar="N", help="Only the edit that covers this line.")]


@app.command()
def accept(files: Files, line: Line = None) -> int:
    """Keep the new text of waiting edits, with your own changes to it."""
    return work.accept(files, line)


@app.command()
def reject(files: Files, line: Line = None) -> int:
    """Restore the old text of waiting edits, byte for byte."""
    return work.reject(files, line)


@app.command()
def undo(files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Documents that lmm has changed.")]) -> int:
    """Take back the last change that lmm made to each file, byte for byte; what you wrote elsewhere since stays.

    Several undos in a row go further back.
    """
    return work.undo(files)
