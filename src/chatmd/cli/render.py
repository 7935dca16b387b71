"""`lmm render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.render")


@app.command()
def render(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ChatMD file.", readable=False)],
    tokens: Annotated[bool, typer.Option("--tokens", help="A table of the tokens alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Messages and tools as JSON, exactly as they are.")] = False,
    run_agents: Annotated[
        bool, typer.Option("--run-agents", help="Ask the agents in messages whose answers were not recorded.")
    ] = False,
    servers: Annotated[
        bool, typer.Option("--servers", help="Start or call its MCP servers, to count their tools.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Take documents and agents as recorded; fetch and ask nothing for them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to what the file's tools can do.")] = False,
    model: Annotated[str, typer.Option(metavar="NAME", help="As if this model were asked.")] = "",
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option(
            "--root", metavar="DIR", help="Another folder that files may be read and imported from.", file_okay=False
        ),
    ] = None,
) -> int:
    """Print what the model would get next: every message with its documents in place, the tools, and their tokens.

    Nothing is sent to the model, and nothing is written. Tokens are counted on this machine, rather too high.
    """
    return work.render(file, tokens, as_json, run_agents, servers, replay, yes, model, config, roots or [])
