"""docs/commands.md, made from the commands: `python tests/docs/commands_page.py` writes it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from lmm.cli.main import COMMANDS, load

PAGE = Path(__file__).parent.parent.parent / "docs" / "commands.md"
_HEAD = """\
# Commands

Made from the commands by `make reference`; `lmm COMMAND --help` shows the same. Exit codes: 0 done, 1 something failed
or was found, 2 wrong usage or missing agreement, 130 interrupted.

"""
_TITLES = {"lmm": "Documents", "lmm_education": "Courses", "chatmd": "Agents"}
_GUIDES = {  # where a command is explained, if not on a page of its name
    "demo": "index", "init": "configuration", "status": "configuration", "trust": "configuration", "scan": "formats",
    "messages": "tutorial", "watch": "cookbook/watch", "accept": "cookbook/edit", "reject": "cookbook/edit",
    "undo": "cookbook/edit", "annotate": "cookbook/annotate", "batch": "cookbook/batch-models",
    "extract": "cookbook/extract", "import": "cookbook/import", "clear": "tutorial", "log": "serve",
    "eval": "retrieval", "toc": "cookbook/study", "plan": "cookbook/study", "cards": "cookbook/study",
    "exercises": "cookbook/study", "export": "cookbook/export", "run": "chatmd", "agents": "cookbook/agents",
    "check": "chatmd", "render": "chatmd", "tools": "chatmd-tools", "compact": "chatmd",
}  # fmt: skip


def page() -> str:
    """The page: a list of all commands, then each with its options."""
    overview, details = [], []
    for package, title in _TITLES.items():
        rows = [row for row in COMMANDS if row.package == package]
        overview += [f"**{title}**\n\n| command | |\n|---|---|\n"]
        overview += [f"| [`lmm {row.name}`](#lmm-{row.name}) | {row.help} |\n" for row in rows] + ["\n"]
        for row in rows:
            guide = f"{_GUIDES.get(row.name, row.name)}.md"
            details += [*_section(f"lmm {row.name}", load(row), "##"), f"[How to use it]({guide})\n\n"]
    return _HEAD + "".join(overview) + "".join(details).rstrip() + "\n"


def _section(name: str, command: click.Command, mark: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, **command.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"{mark} {name}\n\n    {name} {usage}\n\n{_prose(command.help or '')}\n\n"
    options = [
        parameter for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden
    ]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        yield "| option | |\n|---|---|\n"
        yield from (f"| `{_cell(names)}` | {_cell(words)} |\n" for names, words in records)
        yield "\n"
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            if found and not found.hidden:
                yield from _section(f"{name} {part}", found, "###")


def _prose(text: str) -> str:
    """Paragraphs; one that click is to leave alone (it begins with a backspace) is a block of code."""
    shown = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        code = paragraph.startswith("\b\n")
        shown.append(textwrap.indent(paragraph[2:], "    ") if code else paragraph.strip().replace("<", "&lt;"))
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
