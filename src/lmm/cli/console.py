"""What commands share: running a Typer app, and exit codes."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import typer

from lmm import terminal
from lmm.errors import ConfigError, LmmError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def run_app(app: typer.Typer, name: str, words: list[str]) -> int:
    """Run the Typer app of one command; errors of ours become one line and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a reply may have characters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = _only(app, name)(words[1:], prog_name=f"lmm {name}", standalone_mode=False)
        return result if isinstance(result, int) else DONE
    except LmmError as error:
        terminal.tell_error(error)
        return USAGE if isinstance(error, ConfigError) else FAILED
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        terminal.say("\nlmm: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) went away
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # else flushing at exit complains
        return DONE
    except click.ClickException as error:
        told = io.StringIO()
        error.show(told)
        terminal.say(told.getvalue(), err=True, end="")
        return error.exit_code


def _only(app: typer.Typer, name: str) -> typer.Typer:
    """An app with that one command of `app`, so that usage and errors name `lmm COMMAND`; or its group of that name."""
    for group in app.registered_groups:
        if group.name == name and group.typer_instance is not None:
            return group.typer_instance
    single = make_app()
    single.registered_commands = [c for c in app.registered_commands if _name(c.name, c.callback) == name]
    return single


def _name(given: str | None, function: Callable[..., object] | None) -> str:
    return given or getattr(function, "__name__", "").replace("_", "-")


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


def each(paths: Sequence[Path], work: Callable[[Path], int]) -> int:
    """Do the work on every file: the error of one does not end the others. The highest exit code.

    Raises:
        LmmError: there is only one.
    """
    codes = [DONE]
    for path in paths:
        try:
            codes.append(work(path))
        except LmmError as error:
            if len(paths) == 1:
                raise
            terminal.tell_error(error)
            codes.append(USAGE if isinstance(error, ConfigError) else FAILED)
        if codes[-1] == INTERRUPTED:
            break
    return max(codes)
