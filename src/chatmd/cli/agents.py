"""`lmm agents`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.agents")


@app.command()
def agents(
    names: Annotated[Optional[list[str]], typer.Argument(metavar="NAME", help="Those to copy; none lists all.")] = None,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Copy them here.", file_okay=False)] = Path(),
) -> int:
    """Copy ready-made agents into this folder, to use and to change.

    Without a name, list which there are. The agents that one asks are copied with it. A file that is there already
    is never replaced.
    """
    return work.agents(names or [], to)
