"""`lmm watch`: answer on every save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.watch")


@app.command()
def watch(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Markdown files, or folders: their .md, .Rmd, .qmd and .markdown files."),
    ],
    quiet: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, help="Answer when a document has not been saved for so long."),
    ] = 1.0,
    poll: Annotated[
        bool, typer.Option("--poll", help="Look at the files again and again; for folders that tell of no changes.")
    ] = False,
    model: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2.")
    ] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
) -> int:
    """Answer what waits in the documents now, and after every save; Ctrl-C stops.

    A prompt whose call fails stays where it is, and is asked again when the document is saved again.
    """
    return work.watch(paths, quiet, poll, model, config)
