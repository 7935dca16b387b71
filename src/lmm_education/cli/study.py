"""`lmm toc`, `lmm plan`, `lmm cards` and `lmm exercises`: study material from documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("lmm_education.cli.work.study")
Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Markdown, R Markdown or Quarto files, folders, patterns.", readable=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Use this config.toml.", readable=False)]


@app.command()
def toc(
    paths: Paths,
    depth: Annotated[int, typer.Option(metavar="N", min=1, max=6, help="Down to headings of this level.")] = 6,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a nested list with links.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> int:
    """Print the headings of documents as a tree, each with its line."""
    return work.toc(paths, depth, markdown, as_json, config)


@app.command()
def plan(
    paths: Paths,
    depth: Annotated[int, typer.Option(metavar="N", min=1, max=6, help="A step for each heading to this level.")] = 2,
    words_per_minute: Annotated[
        int | None, typer.Option("--words-per-minute", metavar="N", min=1, help="How fast one reads (200, unless set).")
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> int:
    """Print a study plan, in markdown: what to read in which order, how long it takes, what it is about.

    Summaries are those in the metadata (lmm annotate --summaries makes them). 'prerequisites:' in the metadata of
    a document or a heading names documents or sections to read before it. The pace may also be set under [study]
    in config.toml.
    """
    return work.plan(paths, depth, words_per_minute, as_json, config)


@app.command()
def cards(
    paths: Paths,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write a .csv, .apkg (Anki), .md or .json file."),
    ] = None,
    deck: Annotated[str, typer.Option(metavar="NAME", help="The deck in Anki; each document is a deck below it.")] = "",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Let this model write cards for sections that have none.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the model's cards into the documents too, to be corrected there.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Ask the model anew what it was asked before.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> int:
    """Make study cards from the questions and answers in metadata, and print them or write them to a file.

    'cards:' holds questions with answers; 'questions:' are answered by 'answers:' beside them, else by their text.
    Imported into Anki again, cards that changed are updated, and keep what Anki recorded about them.
    """
    return work.cards(paths, output, deck, model, write, again, as_json, config)


@app.command()
def exercises(
    paths: Paths,
    solutions: Annotated[bool, typer.Option("--solutions", help="With their solutions.")] = False,
    kind: Annotated[
        list[str], typer.Option("--type", metavar="TYPE", help="Texts of this type instead; may be repeated.")
    ] = [],  # noqa: B006  # Typer reads it, nothing writes it
    as_json: Json = False,
    config: Config = None,
) -> int:
    """Print the exercises by section, in markdown.

    A solution stands under 'solution:' in an exercise's metadata, or follows it as a text of type 'solution'.
    """
    return work.exercises(paths, solutions, tuple(kind), as_json, config)
