"""What the commands share that are still written for Typer."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import typer

from lmm.cli.main import each
from lmm.terminal import DONE, FAILED, INTERRUPTED, USAGE

__all__ = ["DONE", "FAILED", "INTERRUPTED", "USAGE", "Later", "each", "make_app"]


class Later:
    """A module that is imported when something of it is first used: explaining a command must not cost its work.

    >>> Later("math").floor(2.5)
    2
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(importlib.import_module(self._module), name)
        return function


def make_app() -> typer.Typer:
    """A Typer app as all our commands use it: plain help, no completion machinery, fast to start."""
    return typer.Typer(
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
