"""What can be done at the prompt besides speaking: one row of a table each."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from lmm.errors import ConfigError

_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


class Command(NamedTuple):
    """A command; `argument` is how it is called in the help. `anytime`: also while the model is at work."""

    name: str
    argument: str
    help: str
    anytime: bool = False


COMMANDS = (
    Command("help", "", "this list", True),
    Command("tools", "", "the tools that the model is offered", True),
    Command("cost", "", "tokens and money so far, and the limits", True),
    Command("budget", "AMOUNT", "allow so many tokens (20000) or so much money (0.50$) from now on", True),
    Command("edit", "", "take back your last message, and change it"),
    Command("undo", "", "take back your last message, and what followed it"),
    Command("compact", "", "replace the older part of the conversation by a summary"),
    Command("quit", "", "leave; lmm run FILE goes on from there", True),
)

KEYS = (
    ("Enter", "sends; while the model is at work, it gets your note with the next result"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Ctrl-X Ctrl-E", "opens $EDITOR"),
    ("Up, Ctrl-R", "earlier messages"),
    ("@name, Tab", "a file, which is sent along"),
    ("Ctrl-C", "cancels what the model does; else empties the line; twice leaves"),
    ("Ctrl-D", "leaves"),
)


def read_command(text: str) -> tuple[Command, str] | None:
    """The command that a line calls, with its argument; None if it is a message, as ``/etc/hosts?`` is.

    Raises:
        ConfigError: there is no such command, or something is wrong with its argument.

    >>> read_command("/budget 1$")[1], read_command(" /budget 1$"), read_command("/etc/hosts")
    ('1$', None, None)
    >>> read_command("/hlep")
    Traceback (most recent call last):
    lmm.errors.ConfigError: there is no command /hlep (did you mean /help? to say it, begin with a space)
    """
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), (found[2] or "").strip()
    command = next((row for row in COMMANDS if row.name == name), None)
    if command is None:
        close = get_close_matches(name, [row.name for row in COMMANDS], n=1)
        hint = f"did you mean /{close[0]}?" if close else "/help lists them;"
        raise ConfigError(f"there is no command /{found[1]}", hint=f"{hint} to say it, begin with a space")
    if bool(argument) != bool(command.argument):
        how = f"write: /{name} {command.argument}".rstrip()
        raise ConfigError(f"/{name} takes {'an' if command.argument else 'no'} argument", hint=how)
    return command, argument


def help_rows() -> list[tuple[str, str]]:
    """Keys and commands, each with what it does."""
    rows = [(f"/{row.name} {row.argument}".rstrip(), row.help) for row in COMMANDS]
    return rows + list(KEYS)
