"""`lmm log`: what students asked on the pages of `lmm serve`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
log = console.make_app()
app.add_typer(log, name="log")
work = console.Later("lmm_education.cli.work.log")


class Kind(StrEnum):
    """What a log can be exported as."""

    csv = "csv"
    jsonl = "jsonl"
    questions = "questions"


Since = Annotated[str, typer.Option(metavar="TIME", help="From then on: 2026-11-01, 7d, 12h.", show_default=False)]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to then.", show_default=False)]
Unanswered = Annotated[bool, typer.Option("--unanswered", help="Nothing was found, or the answer cites nothing.")]
Up = Annotated[bool, typer.Option("--up", help="With thumbs up.")]
Down = Annotated[bool, typer.Option("--down", help="With thumbs down.")]
Errors = Annotated[bool, typer.Option("--errors", help="That could not be answered.")]
Contains = Annotated[
    str, typer.Option(metavar="TEXT", help="With this in question, answer or comment.", show_default=False)
]
LogPath = Annotated[
    Optional[Path], typer.Option("--log", metavar="FILE", help="This log, instead of the configured one.")
]
Config = Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@log.callback()
def about() -> None:
    """What students asked on the pages of lmm serve, if 'log' under [serve] in config.toml names a file for it."""


@log.command()
def show(
    exchange: Annotated[
        str, typer.Argument(metavar="ID", help="All of this exchange; the beginning of its id is enough.")
    ] = "",
    latest: Annotated[int, typer.Option("-n", "--latest", metavar="N", min=1, help="So many, the latest.")] = 50,
    since: Since = "",
    until: Until = "",
    unanswered: Unanswered = False,
    up: Up = False,
    down: Down = False,
    errors: Errors = False,
    contains: Contains = "",
    as_json: Json = False,
    file: LogPath = None,
    config: Config = None,
) -> int:
    """Show the latest exchanges as a table, or one of them with its answer."""
    chosen = (since, until, unanswered, up, down, errors, contains)
    return work.show(exchange, latest, chosen, as_json, file, config)


@log.command()
def export(
    kind: Annotated[Kind, typer.Option("--as", help="A table, JSON lines, a question file for lmm eval.")] = Kind.csv,
    output: Annotated[Optional[Path], typer.Option("-o", "--output", metavar="FILE", help="Write it there.")] = None,
    since: Since = "",
    until: Until = "",
    unanswered: Unanswered = False,
    up: Up = False,
    down: Down = False,
    errors: Errors = False,
    contains: Contains = "",
    file: LogPath = None,
    config: Config = None,
) -> int:
    """Write the exchanges as CSV, as JSON lines, or their questions for lmm eval.

    A question file proposes for each question the section that its answer cites, to be checked by you.
    """
    chosen = (since, until, unanswered, up, down, errors, contains)
    return work.export(kind.value, output, chosen, file, config)


@log.command()
def clear(
    before: Annotated[
        str, typer.Option(metavar="TIME", help="Older than this: 2026-11-01, 30d. Unset: older than 'log_days'.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="All of it.")] = False,
    as_json: Json = False,
    file: LogPath = None,
    config: Config = None,
) -> int:
    """Delete old exchanges, so that nothing of them is left in the file. The server does it by itself every hour."""
    return work.clear(before, everything, as_json, file, config)
