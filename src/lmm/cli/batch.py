"""`lmm annotate` and `lmm batch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm.cli.work.batch")
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Markdown, R Markdown or Quarto files.", readable=False),
]
Model = Annotated[Optional[str], typer.Option(metavar="NAME", help="Ask this model, such as Ollama/llama3.2.")]
Config = Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.", readable=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be made, and what it costs; ask nothing.")]
Changed = Annotated[bool, typer.Option("--changed", help="List what is stale, and why; ask nothing.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Make anew also what another prompt, model or heading path made.")
]
Again = Annotated[bool, typer.Option("--again", help="Ask anew what an earlier run already got a reply to.")]


def _switch(name: str) -> object:
    return typer.Option(
        f"--{name}/--no-{name}", help=f"Make {name}, whatever the configuration says.", show_default=False
    )


@app.command()
def annotate(
    files: Files,
    titles: Annotated[Optional[bool], _switch("titles")] = None,
    questions: Annotated[Optional[bool], _switch("questions")] = None,
    keywords: Annotated[Optional[bool], _switch("keywords")] = None,
    summaries: Annotated[Optional[bool], _switch("summaries")] = None,
    model: Model = None,
    config: Config = None,
    dry_run: DryRun = False,
    changed: Changed = False,
    refresh: Refresh = False,
    again: Again = False,
) -> int:
    """Add annotations to sections where they are missing, or where the text changed.

    What you wrote or edited yourself is kept. Which annotations: [RAG] in config.toml, 'model: RAG:' in the
    header, or the options here.
    """
    return work.annotate(files, titles, questions, keywords, summaries, model, config, dry_run, changed, refresh, again)


@app.command()
def batch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The batch model's name.")],
    files: Files,
    source: Annotated[
        Optional[Path],
        typer.Option("--from", metavar="FILE.py", help="Load this Python file, which registers it.", readable=False),
    ] = None,
    model: Model = None,
    config: Config = None,
    dry_run: DryRun = False,
    changed: Changed = False,
    refresh: Refresh = False,
    again: Again = False,
) -> int:
    """Run a batch model: a Python function registered with @lmm.batch_model("NAME")."""
    return work.batch(name, files, source, model, config, dry_run, changed, refresh, again)
