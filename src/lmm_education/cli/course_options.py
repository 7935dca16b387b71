"""Options that several commands share: the course, and which of its documents."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lmm.cli import options

course = click.option("--course", metavar="NAME", help="The name of the course, if there are several.")
paths = options.argument(
    "paths", "PATH", "Markdown, R Markdown or Quarto files, folders, patterns.", many=True, type=options.PATH
)
conditions = options.together(
    click.option("--type", "types", metavar="TYPE", multiple=True, help="Only material of this type; may be repeated."),
    click.option(
        "--doc", "documents", metavar="DOC", multiple=True, help="Only this document: its docid, file or file name."
    ),
    click.option("--where", metavar="KEY=VALUE", multiple=True, help="Only passages with this metadata."),
)
"""Conditions on passages, passed as ``types``, ``documents`` and ``where``."""
effort = options.together(
    click.option("--expand", metavar="N", type=click.IntRange(min=0), help="Let the aux model write N sub-questions."),
    click.option("--rerank", "reranker", metavar="NAME", help="Rank again with: none, model, http, FastEmbed/…."),
)
"""More effort for a search, passed as ``expand`` and ``reranker``."""


def _opening(*declared: options.Decorator) -> Callable[[Callable[..., int]], Callable[..., int]]:
    def declare(function: Callable[..., int]) -> Callable[..., int]:
        @options.together(*declared)
        @functools.wraps(function)
        def run(*, config: Path | None, course: str | None = None, **given: Any) -> int:
            from lmm_education.course import Course

            with Course.open(config=config, course=course, beside=given.get("paths", ())) as opened:
                return function(opened, **given)

        return run

    return declare


opened = _opening(course, options.config)
"""Declare ``--course`` and ``--config``, and pass the opened course as the command's first argument."""
read = _opening(options.config)
"""The same without ``--course``, for commands that read documents."""
