"""What commands share: running a Typer app, exit codes, colours, and how an error is told."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import click
import typer

from lmm.errors import ConfigError, LmmError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def run_app(app: typer.Typer, name: str, words: list[str]) -> int:
    """Run the Typer app of one command; errors of ours become one line and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a reply may have characters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = _only(app, name)(words[1:], prog_name=f"lmm {name}", standalone_mode=False)
        return result if isinstance(result, int) else DONE
    except LmmError as error:
        tell_error(error)
        return USAGE if isinstance(error, ConfigError) else FAILED
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("\nlmm: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) went away
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # else flushing at exit complains
        return DONE
    except click.ClickException as error:
        error.show()
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


def tell_error(error: LmmError) -> None:
    """One line on standard error: where, what, and what to do next."""
    sys.stderr.write(f"{style('lmm:', 'red', sys.stderr)} {error}\n")


def say(text: str, stream: IO[str]) -> None:
    """Write for a reader who may have gone away (head, less): then the rest goes nowhere, and the work goes on."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def printable(text: str) -> str:
    """`text` without the power to move the cursor or set colours: control characters are spelled out.

    >>> printable("a\\x1b[31mb\\n\\tc")
    'a\\\\x1b[31mb\\n\\tc'
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def note(text: str) -> None:
    """Tell on standard error what somebody should know who asked for something else."""
    say(f"{style('note:', 'yellow', sys.stderr)} {printable(text)}\n", sys.stderr)


def style(text: str, name: str, stream: IO[str]) -> str:
    """`text` in a style, if `stream` is a terminal that has styles and NO_COLOR is not set."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "reply"), count(2, "reply"), count(3, "file")
    ('1 reply', '2 replies', '3 files')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {noun if number == 1 else plural}"
