"""docs/commands.md and docs/lmm.1, made from the commands: `python tests/docs/commands_page.py` writes both."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from lmm.cli.main import COMMANDS, load

PAGE = Path(__file__).parent.parent.parent / "docs" / "commands.md"
MAN_PAGE = PAGE.with_name("lmm.1")
_HEAD = """\
# Commands

Made from the commands by `make reference`; `lmm COMMAND --help` shows the same. Exit codes: 0 done, 1 something failed
or was found, 2 wrong usage or missing agreement, 130 interrupted.

"""
_TITLES = {"lmm": "Documents", "lmm_education": "Courses", "chatmd": "Agents", "lmm_editor": "Editors"}
_GUIDES = {  # where a command is explained, if not on a page of its name
    "help": "index",
    "demo": "index", "init": "configuration", "status": "configuration", "trust": "configuration", "scan": "formats",
    "messages": "tutorial", "watch": "editors", "accept": "cookbook/edit", "reject": "cookbook/edit",
    "undo": "cookbook/edit", "annotate": "cookbook/annotate", "batch": "cookbook/batch-models",
    "extract": "cookbook/extract", "import": "cookbook/import", "clear": "tutorial", "log": "serve",
    "completion": "cookbook/install", "lsp": "editors",
    "eval": "retrieval", "toc": "cookbook/study", "plan": "cookbook/study", "cards": "cookbook/study",
    "exercises": "cookbook/study", "export": "cookbook/export", "run": "chatmd", "agents": "cookbook/agents",
    "check": "chatmd", "render": "chatmd", "tools": "chatmd-tools", "compact": "chatmd",
}  # fmt: skip


def page() -> str:
    """The page: a list of all commands, then each with its options."""
    overview, details = [], []
    common = _common_options()
    for package, title in _TITLES.items():
        rows = [row for row in COMMANDS if row.package == package]
        overview += [f"**{title}**\n\n| command | |\n|---|---|\n"]
        overview += [f"| [`lmm {row.name}`](#lmm-{row.name}) | {row.help} |\n" for row in rows] + ["\n"]
        for row in rows:
            guide = f"{_GUIDES.get(row.name, row.name)}.md"
            details += [*_section(f"lmm {row.name}", load(row), "##", common), f"[How to use it]({guide})\n\n"]
    shared = "**Options of many commands**\n\n" + _table(common)
    return _HEAD + "".join(overview) + shared + "".join(details).rstrip() + "\n"


def _common_options() -> list[tuple[str, str]]:
    """Options with one meaning in at least five commands: they are explained once."""
    commands = [click.Context(load(row), info_name=row.name) for row in COMMANDS]
    for context in commands:
        commands += [click.Context(found, info_name=part) for part, found in _parts(context)]
    counts = Counter(record for context in commands for record in _options(_own(context)))
    common = [record for record, count in counts.items() if count > 4]
    names = Counter(name for name, _ in common)
    return [record for record in common if names[record[0]] == 1]


def _table(records: list[tuple[str, str]]) -> str:
    rows = "".join(f"| `{_cell(names)}` | {_cell(words)} |\n" for names, words in records)
    return f"| option | |\n|---|---|\n{rows}\n"


def _section(name: str, command: click.Command, mark: str, common: list[tuple[str, str]]) -> Iterator[str]:
    context = click.Context(command, info_name=name, **command.context_settings)
    own = _own(context)
    usage = " ".join(own.command.collect_usage_pieces(own))
    yield f"{mark} {name}\n\n    {name} {usage}\n\n{_prose(own.command.help or '')}\n\n"
    records = _options(own)
    if special := [record for record in records if record not in common]:
        yield _table(special)
    if shared := [f"`{names.split()[0].rstrip(',')}`" for names, _ in records if (names, _) in common]:
        yield f"{'Also' if special else 'Options'}: {', '.join(shared)}.\n\n"
    for part, found in _parts(context):
        yield from _section(f"{name} {part}", found, "###", common)


def _own(context: click.Context) -> click.Context:
    """The command itself, or the hidden one of its name, which a group runs where no command of it is named."""
    name = (context.info_name or "").split()[-1]
    found = context.command.get_command(context, name) if isinstance(context.command, click.Group) else None
    return click.Context(found, info_name=name, **found.context_settings) if found and found.hidden else context


def _options(context: click.Context) -> list[tuple[str, str]]:
    options = [option for option in context.command.params if isinstance(option, click.Option) and not option.hidden]
    return [record for option in options if (record := option.get_help_record(context))]


def _parts(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(context.command, click.Group):
        for part in context.command.list_commands(context):
            found = context.command.get_command(context, part)
            if found and not found.hidden:
                yield part, found


def _prose(text: str) -> str:
    """Paragraphs; one that click is to leave alone (it begins with a backspace) is a block of code."""
    shown = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        code = paragraph.startswith("\b\n")
        shown.append(textwrap.indent(paragraph[2:], "    ") if code else paragraph.strip().replace("<", "&lt;"))
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def man_page() -> str:
    """The manual page lmm(1), in the macros of man(7)."""
    sections = "".join(line for row in COMMANDS for line in _man_section(f"lmm {row.name}", load(row)))
    return (
        '.TH LMM 1 "" "LM Markdown" "User Commands"\n.SH NAME\nlmm \\- markdown in which people and language models '
        "work together\n.SH SYNOPSIS\n.B lmm\n.I COMMAND\n[OPTIONS] [FILES]\n.SH COMMANDS\n"
        f"{sections}.SH EXIT STATUS\n0 done, 1 something failed or was found, 2 wrong usage or missing agreement, "
        "130 interrupted.\n"
    )


def _man_section(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, **command.context_settings)
    own = _own(context)
    yield f".SS {_roff(name)} {_roff(' '.join(own.command.collect_usage_pieces(own)))}\n"
    for paragraph in inspect.cleandoc(own.command.help or "").split("\n\n"):
        code = paragraph.startswith("\b\n")
        yield f".PP\n.nf\n{_roff(paragraph[2:])}\n.fi\n" if code else f".PP\n{_roff(paragraph.strip())}\n"
    yield from (f".TP\n.B {_roff(names)}\n{_roff(words)}\n" for names, words in _options(own))
    for part, found in _parts(context):
        yield from _man_section(f"{name} {part}", found)


def _roff(text: str) -> str:
    """Text as roff prints it: a dash stays a dash, a line may begin with a dot or a quote."""
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text.replace("\\", r"\e").replace("-", r"\-"))


if __name__ == "__main__":
    MAN_PAGE.write_text(man_page(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
