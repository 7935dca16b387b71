"""`lmm tools`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.tools")


@app.command()
def tools(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ChatMD file.", readable=False)],
    servers: Annotated[
        bool, typer.Option("--servers", help="Start or call its MCP servers, to list their tools.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what its tools can do, this time.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines: each tool exactly as models get it.")] = False,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option("--root", metavar="DIR", help="Another folder that files may be imported from.", file_okay=False),
    ] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
) -> int:
    """Show the tools that a file offers its model: what each can do, its description, its arguments.

    The exit code is 1 if one of them could not be used.
    """
    return work.tools(file, servers, yes, as_json, roots or [], config)
