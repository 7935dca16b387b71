"""What several commands of a course have in common: which course, which of its documents."""

from __future__ import annotations

import click

from lmm.cli import options

course = click.option("--course", metavar="NAME", help="The course, if there are several.")
paths = options.argument(
    "paths", "PATH", "Markdown, R Markdown or Quarto files, folders, patterns.", many=True, type=options.PATH
)
conditions = options.together(
    click.option("--type", "types", metavar="TYPE", multiple=True, help="Only material of this type; repeat for more."),
    click.option(
        "--doc", "documents", metavar="DOC", multiple=True, help="Only this document: docid, file or its name."
    ),
    click.option("--where", metavar="KEY=VALUE", multiple=True, help="Only passages with this metadata."),
)
"""Conditions that passages meet, as ``types``, ``documents`` and ``where``."""
