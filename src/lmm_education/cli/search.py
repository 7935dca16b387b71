"""`lmm search`: find passages in what was ingested."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.search")


@app.command()
def search(
    question: Annotated[
        Optional[str],
        typer.Argument(help="What you look for; *type* prefers that material, @document searches only it."),
    ] = None,
    types: Annotated[
        Optional[list[str]], typer.Option("--type", metavar="TYPE", help="Only material of this type; repeat for more.")
    ] = None,
    documents: Annotated[
        Optional[list[str]], typer.Option("--doc", metavar="DOC", help="Only this document: docid, file or its name.")
    ] = None,
    where: Annotated[
        Optional[list[str]], typer.Option(metavar="KEY=VALUE", help="Only passages with this metadata.")
    ] = None,
    fields: Annotated[
        Optional[list[str]],
        typer.Option(metavar="A,B", help="Show these fields of each passage: metadata keys, file, …"),
    ] = None,
    ids: Annotated[
        Optional[list[str]], typer.Option("--id", metavar="ID", help="Fetch the passage or section with this id.")
    ] = None,
    limit: Annotated[Optional[int], typer.Option(metavar="N", min=1, help="At most so many results.")] = None,
    companion: Annotated[
        Optional[bool], typer.Option("--documents/--chunks", help="Whole sections, or passages.", show_default=False)
    ] = None,
    sections: Annotated[bool, typer.Option("--sections", help="Also rank the sections that were hit.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show whole passages.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    expand: Annotated[
        Optional[int], typer.Option(metavar="N", min=0, help="Let the aux model write N sub-questions.")
    ] = None,
    rerank: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Rank anew: none, model, http, FastEmbed/….")
    ] = None,
    course: Annotated[Optional[str], typer.Option(metavar="NAME", help="The course, if there are several.")] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
) -> int:
    """Find passages: score, file:lines, headings, and the words that match.

    Without a question, --type, --doc and --where list what fits, in the order of the documents. Exit code 1:
    nothing was found.
    """
    return work.search(
        question or "",
        types=types or [],
        documents=documents or [],
        where=where or [],
        fields=fields or [],
        ids=ids or [],
        limit=limit,
        companion=companion,
        sections=sections,
        full=full,
        as_json=as_json,
        expand=expand,
        rerank=rerank,
        course=course,
        config=config,
    )
