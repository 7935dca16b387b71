"""`lmm run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.run")


@app.command()
def run(
    file: Annotated[
        Path,
        # What cannot be read is not Typer's to check: our own message says how to mend it.
        typer.Argument(metavar="FILE", help="A ChatMD file, whatever its extension.", readable=False),
    ],
    output: Annotated[
        Optional[Path],
        typer.Option("--output", "-o", metavar="FILE", help="Leave FILE as it is, and write this new one."),
    ] = None,
    interactive: Annotated[bool, typer.Option("--interactive", "-i", help="Go on asking for messages.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after one reply and the calls that it makes.")] = False,
    max_turns: Annotated[
        Optional[int], typer.Option(metavar="N", min=1, help="At most so many requests, those of agents included.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="AMOUNT", help="At most so many tokens (20000), or so much money (0.50$).")
    ] = "",
    timeout: Annotated[
        Optional[float], typer.Option(metavar="SECONDS", min=0.001, help="Give up a turn after this time.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to what the file's tools can do.")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Show each call, and ask before it is made.")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Take documents and agents as recorded; fetch and ask nothing for them.")
    ] = False,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2, whatever the file says.")
    ] = "",
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option("--root", metavar="DIR", help="Another folder that files may be imported from.", file_okay=False),
    ] = None,
) -> int:
    """Run a ChatMD file: what the model says, its calls and their results are appended to it.

    The run ends at an empty <user>, where you write what comes next. Ctrl-C cancels it; what was said and done so
    far stays, and lmm run goes on from there.
    """
    return work.run(
        file, output, interactive, once, max_turns, budget, timeout, yes, ask, replay, model, config, roots or []
    )
