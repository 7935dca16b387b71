"""`lmm ask`: answer a question from the course."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.ask")


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you want to know; *type* and @document narrow it.")],
    types: Annotated[
        Optional[list[str]], typer.Option("--type", metavar="TYPE", help="Only material of this type; repeat for more.")
    ] = None,
    documents: Annotated[
        Optional[list[str]], typer.Option("--doc", metavar="DOC", help="Only this document: docid, file or its name.")
    ] = None,
    where: Annotated[
        Optional[list[str]], typer.Option(metavar="KEY=VALUE", help="Only passages with this metadata.")
    ] = None,
    history: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="The conversation that this question continues.")
    ] = None,
    mode: Annotated[
        Optional[str], typer.Option(metavar="MODE", help="What the history is for: none, summary, extraction, rewrite.")
    ] = None,
    agent: Annotated[bool, typer.Option("--agent", help="Give the model tools to look for itself.")] = False,
    budget: Annotated[Optional[int], typer.Option(metavar="TOKENS", min=1, help="Size of the context.")] = None,
    model: Annotated[Optional[str], typer.Option(metavar="NAME", help="The model that answers.")] = None,
    show_context: Annotated[bool, typer.Option("--show-context", help="Print what the model is shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    course: Annotated[Optional[str], typer.Option(metavar="NAME", help="The course.")] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="The configuration file.")] = None,
) -> int:
    """Answer a question from the course's own material, with numbered sources.

    Exit code 1: nothing relevant was found, or the model did not answer.
    """
    return work.ask(
        question, types or [], documents or [], where or [], history, mode, agent, budget, model, show_context, as_json,
        course, config,
    )  # fmt: skip
