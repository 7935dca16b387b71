"""`lmm mcp`: a course and prompt files for other programs, by the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.mcp")


@app.command()
def mcp(
    prompts: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="Publish the ChatMD files of this folder.")
    ] = None,
    no_course: Annotated[bool, typer.Option("--no-course", help="Publish the prompts alone.")] = False,
    http: Annotated[
        Optional[str], typer.Option(metavar="[HOST:]PORT", help="Listen there, instead of standard input and output.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --http: let others in.")] = False,
    token_env: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="With --http: the variable with the token that callers need.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what the prompts' tools can do.")] = False,
    model: Annotated[Optional[str], typer.Option(metavar="NAME", help="The model that answers.")] = None,
    budget: Annotated[
        str, typer.Option(metavar="AMOUNT", help="The most that one call of a prompt may use: 20000 tokens, 0.50$.")
    ] = "",
    course: Annotated[Optional[str], typer.Option(metavar="NAME", help="The course.")] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="The configuration file.")] = None,
) -> int:
    """Publish a course's search and answers, and prompt files, to programs that speak MCP (Claude, editors, agents).

    Such a program starts this command itself: see docs/mcp.md. Needs the extra `mcp`.
    """
    return work.mcp(prompts, no_course, http, public, token_env, yes, model, budget, course, config)
