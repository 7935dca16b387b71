"""`lmm serve`: the course as a web chat and as an HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.serve")


@app.command()
def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", min=0, max=65535, help="0: any that is free.")] = 8000,
    public: Annotated[bool, typer.Option("--public", help="Let others in. There is no login.")] = False,
    model: Annotated[Optional[str], typer.Option(metavar="NAME", help="The model that answers.")] = None,
    course: Annotated[Optional[str], typer.Option(metavar="NAME", help="The course.")] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="The configuration file.")] = None,
) -> int:
    """Serve the course: a page on which students ask and read, and an API for OpenAI clients.

    What `lmm ingest` stores meanwhile counts for the next answer. Needs the extra `web`.
    """
    return work.serve(host, port, public, model, course, config)
