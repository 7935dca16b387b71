"""`lmm eval`: measure how well a course's passages are found."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.evaluation")


class Level(StrEnum):
    """What has to be found."""

    passage = "passage"
    section = "section"
    document = "document"


@app.command("eval")
def evaluate(
    questions: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTIONS",
            help="JSONL, CSV or YAML files: question, and document, section, passage or answers.",
        ),
    ],
    documents: Annotated[
        Optional[list[Path]],
        typer.Option(metavar="PATH", help="Measure on these files or folders in a temporary store; may be repeated."),
    ] = None,
    compare: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="KEY=A,B",
            help="Compare settings side by side, such as: --compare encoding=content,hybrid max_size=1000,2000",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose leg weights and chunk sizes, and say whether it matters.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Find the threshold below which nothing relevant was found.")
    ] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Show the questions that failed, and what was found instead.")
    ] = False,
    level: Annotated[
        Optional[Level], typer.Option(help="What --compare, --tune and --failures look at.", show_default=False)
    ] = None,
    plot: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Draw the comparison into a .png, .svg or .pdf file.")
    ] = None,
    course: Annotated[Optional[str], typer.Option(metavar="NAME", help="The course, if there are several.")] = None,
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> int:
    """Measure how well questions find what answers them: recall, MRR, nDCG, with 95 % intervals, and latency.

    Without a question file of your own there is no telling: some thirty questions that students asked, each
    with the passage or section that answers it, are enough to see large differences. Settings are compared
    in temporary stores, the course's own store stays as it is.
    """
    return work.evaluate(
        questions, documents or [], compare or [], tune, calibrate, failures, level.value if level else None, plot,
        course, config, as_json,
    )  # fmt: skip
