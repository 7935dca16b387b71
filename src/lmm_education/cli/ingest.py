"""`lmm ingest`: prepare documents and store them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.ingest")


@app.command()
def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Markdown, R Markdown or Quarto files, folders, patterns.", readable=False),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and how many chunks would be embedded.")
    ] = False,
    save_files: Annotated[
        bool, typer.Option("--save-files", help="Write what each step makes, as markdown, beside the document.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write these files there (implies --save-files).")
    ] = None,
    no_ingest: Annotated[bool, typer.Option("--no-ingest", help="Prepare only; embed and store nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Ingest again on every save; Ctrl-C stops.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents from the store whose files are gone.")
    ] = False,
    moved: Annotated[
        bool | None,
        typer.Option(
            "--moved/--not-moved",
            help="A file that may be a stored document under another name or docid: it is, or it is not.",
            show_default=False,
        ),
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="First make missing or stale annotations, as lmm annotate does.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Embed everything again; after other settings, make the store anew.")
    ] = False,
    course: Annotated[str | None, typer.Option(metavar="NAME", help="The course, if there are several.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No line for each document; only the summary and what is wrong.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> int:
    """Prepare documents and store them, so that they can be searched.

    Ingesting twice changes nothing: only what changed is embedded, and what was removed from a document goes.
    Folders are looked through for .md, .markdown, .Rmd and .qmd files. A document that cannot be read is
    reported, the others go on, and the exit code is 1.
    """
    return work.ingest(
        paths,
        dry_run=dry_run,
        save_files=save_files or output is not None,
        output=output,
        no_ingest=no_ingest,
        watch=watch,
        prune=prune,
        moved=moved,
        annotate=annotate,
        again=again,
        course=course,
        config=config,
        as_json=as_json,
        quiet=quiet,
    )
