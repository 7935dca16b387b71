"""The command `lmm`: find the command's module in the table, and run it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from lmm import terminal
from lmm.cli.commands import COMMANDS

USAGE = "Usage: lmm COMMAND [OPTIONS] [FILES]…"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 something failed or was found, 2 wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        terminal.say(help_text(), end="")
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        terminal.say(f"lmm {version('lmmarkdown')}")
        return 0
    command = next((c for c in COMMANDS if c.name == words[0]), None)
    if command is None:
        terminal.say(f"lmm: there is no command '{words[0]}'{_closest(words[0])}", err=True)
        return 2
    try:
        from lmm.cli.console import run_app

        app = importlib.import_module(command.module).app
    except KeyboardInterrupt:  # before anything was begun
        return 130
    return run_app(app, command.name, words)


def help_text() -> str:
    """The list of commands."""
    width = max(len(c.name) for c in COMMANDS)
    rows = "".join(f"  {c.name:<{width}}  {c.help}\n" for c in COMMANDS)
    return (
        f"{USAGE}\n\nMarkdown in which people and language models work together.\n\n{rows}\n"
        "lmm COMMAND --help explains a command; start with: lmm demo\n"
    )


def _closest(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, [c.name for c in COMMANDS], n=1)
    return f"; did you mean '{close[0]}'?" if close else " (lmm --help lists them)"
