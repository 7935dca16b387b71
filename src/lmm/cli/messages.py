"""`lmm messages`: answer the questions that wait in documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.messages")


@app.command()
def messages(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Markdown files; - reads standard input and writes standard output.",
            readable=False,  # not Typer's to check: our own message says how to mend it
        ),
    ],
    at: Annotated[
        Optional[int], typer.Option(metavar="LINE", help="Answer only the metadata block on this line.")
    ] = None,
    model: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2.")
    ] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask anew what an earlier run already got a reply to.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, ask nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show as a word diff what waiting edits would change.")] = False,
) -> int:
    """Answer every pending ?:, +: and =: (query:, message:, edit:) of the files, inside the files.

    Nothing else in a file changes. An edit waits beside the old text until lmm accept or lmm reject. A prompt
    whose call fails stays where it is, and the exit code is 1.
    """
    return work.messages(files, at, model, config, again, dry_run, diff)
