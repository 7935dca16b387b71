"""`lmm export`: the notes that students read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.export")


class WaitingEdits(StrEnum):
    """What to do where an edit waits."""

    refuse = "refuse"
    old = "old"
    new = "new"


@app.command()
def export(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A markdown, R Markdown or Quarto file, or a folder.", readable=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="Write there; a file without it is printed."),
    ] = None,
    keep: Annotated[
        list[str], typer.Option(metavar="TYPE", help="Leave texts of this type in the notes; may be repeated.")
    ] = [],  # noqa: B006  # Typer reads it, nothing writes it
    edits: Annotated[
        WaitingEdits | None,
        typer.Option(
            help="Where an edit waits: refuse to export, or take the old or the new text.", show_default=False
        ),
    ] = None,
    keep_lines: Annotated[
        bool,
        typer.Option("--keep-lines", help="Blank lines for what is left out, so that lines keep their numbers."),
    ] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Use this config.toml.", readable=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> int:
    """Write clean notes: without metadata, chats, edits that wait, and special material such as exercises.

    A folder is mirrored, with the pictures and other files that its documents show. Sources are never written
    over. Types that stay in the notes: --keep, or 'keep' under [study] in config.toml.
    """
    return work.export(path, output, tuple(keep), edits and edits.value, keep_lines, config, as_json)
