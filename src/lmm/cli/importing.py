"""`lmm import`: other people's files to markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.importing")


@app.command("import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="PDF, DOCX, HTML, EPUB or IPYNB files.", readable=False)
    ],
    output: Annotated[
        Optional[Path],
        typer.Option("--output", "-o", help="The markdown file, or the folder for it; else beside each FILE."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what exists under the output's name.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long a file may take to read.")
    ] = 300,
) -> int:
    """Turn PDF, Word, HTML, EPUB and Jupyter files into markdown, with their images in a folder beside it.

    Read and correct the result before you ingest it. No code is run, and nothing is fetched from the network.
    """
    return work.import_files(files, output, force, timeout)
