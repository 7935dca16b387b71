"""`lmm extract`: structured data from the sections of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.extract")


@app.command()
def extract(
    schema: Annotated[
        str, typer.Argument(metavar="SCHEMA", help="module:Model, path/to/file.py:Model, or a JSON schema file.")
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Markdown, R Markdown or Quarto files.", readable=False)
    ],
    select: Annotated[
        Optional[str],
        typer.Option(metavar="EXPR", help="Sections with this in their title, or with this key=value in metadata."),
    ] = None,
    output: Annotated[
        Optional[Path],
        typer.Option("-o", "--output", metavar="FILE", help="Write a .csv, .jsonl or .parquet file, not JSON lines."),
    ] = None,
    model: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2.")
    ] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask anew what an earlier run already got a reply to.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the sections that would be read, ask nothing.")
    ] = False,
) -> int:
    """Extract one record per section, or several where the schema is a list, and print or save them as rows.

    Every row is valid by the schema: a reply that is not is sent back with the error, twice. A section that
    gives no data is reported as path:line, the others are kept, and the exit code is 1.
    """
    return work.extract(schema, files, select, output, model, config, again, dry_run)
