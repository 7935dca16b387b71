"""Options that several commands share: the course, and which of its documents."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.config_tables import Key, Names, Option, Table, keys_of

course = click.option("--course", metavar="NAME", help="The name of the course, if there are several.")
paths = options.argument(
    "paths", "PATH", "Markdown, R Markdown or Quarto files, folders, patterns.", many=True, type=options.PATH
)


def of(kind: type[Table], *names: str) -> options.Decorator:
    """Declare options as the fields of a table are annotated (`lmm.config_tables.Option`)."""
    keys = keys_of(kind)
    return options.together(*(_declared(keys[name]) for name in names))


def _declared(option: Key) -> options.Decorator:
    assert isinstance(option, Option)
    flags, _, metavar = option.flags.partition(" ")
    kinds = typing.get_args(option.type) or (option.type,)
    how: dict[str, Any] = {"help": option.about, "show_default": False}
    if bool in kinds:
        how |= {"default": option.default} | ({} if "/" in flags else {"flag_value": not option.default})
    else:
        several = Names in kinds or option.name == "where"
        how |= {"metavar": metavar, "multiple": several, "callback": functools.partial(_read, option)}
    return click.option(flags, option.field, **how)


def _read(option: Option, context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    if option.name == "where":
        from lmm_education.search.query import read_where

        return read_where(given)
    try:
        return option.default if given is None else option.read(given, strict=False)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _opening(*declared: options.Decorator, hints: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    def declare(function: Callable[..., int]) -> Callable[..., int]:
        @options.together(*declared)
        @functools.wraps(function)
        def run(*, config: Path | None, course: str | None = None, **given: Any) -> int:
            from lmm_education.course import Course

            with Course.open(config=config, course=course, beside=given.get("paths", ())) as opened:
                terminal.say("".join(f"{hint}\n" for hint in opened.models.hints if hints), err=True, end="")
                return function(opened, **given)

        return run

    return declare


opened = _opening(course, options.config)
"""Declare ``--course`` and ``--config``, and pass the opened course as the command's first argument."""
hinting = _opening(course, options.config, hints=True)
"""The same, after what would make the course's models better."""
read = _opening(options.config)
"""The same without ``--course``, for commands that read documents."""
