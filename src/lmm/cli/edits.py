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
def accept(
    files: Files,
    line: Line = None,
    force: Annotated[bool, typer.Option("--force", help="Accept even where text would be lost.")] = False,
) -> int:
    """Keep the new text of waiting edits, with your own changes to it.

    Nothing is accepted, and the exit code is 1, where text would be lost: the reply was cut off, it drops
    labels, citations or footnotes, or you changed the old text since the model saw it.
    """
    return work.accept(files, line, force)


@app.command()
def reject(
    files: Files,
    line: Line = None,
    again: Annotated[bool, typer.Option("--again", help="Put the question back, too, to be asked anew.")] = False,
) -> int:
    """Restore the old text of waiting edits, byte for byte."""
    return work.reject(files, line, again)


@app.command()
def undo(files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Documents that lmm has changed.")]) -> int:
    """Take back the last change that lmm made to each file, byte for byte; what you wrote elsewhere since stays.

    Several undos in a row go further back.
    """
    return work.undo(files)
