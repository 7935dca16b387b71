"""`lmm agents`: ready-made agents to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import nearest
from lmm.terminal import DONE

_SUFFIX = ".chatmd"


@options.command()
@options.argument("names", "[NAME]", "The agents to copy; without a name, all are listed.", many=True, required=False)
@click.option("--to", metavar="DIR", type=options.FOLDER, default=Path(), help="Copy them here.")
def agents(*, names: tuple[str, ...], to: Path) -> int:
    """Copy ready-made agents into this folder, to use and change.

    Without a name, list all. The agents that an agent asks are copied with it. An existing file
    is never replaced.
    """
    from chatmd.errors import ChatmdError
    from chatmd.language.nodes import Comment
    from chatmd.language.syntax import parse
    from lmm.disk import files

    folder = resources.files("chatmd.examples")
    found = sorted(file.name for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    ready = {name.removesuffix(_SUFFIX): folder.joinpath(name).read_text(encoding="utf-8") for name in found}
    if not names:
        for name, text in ready.items():  # with the comment at the top of the file
            first = next((node for node in parse(text).children if isinstance(node, Comment)), Comment(""))
            terminal.say(f"{terminal.styled(name, 'bold')}\n  {' '.join(first.value.split())}")
        return DONE
    chosen = list(dict.fromkeys(name.removesuffix(_SUFFIX) for name in names))
    for name in chosen:
        if name not in ready:
            raise ChatmdError(f"there is no ready-made agent '{name}'", hint=nearest(name, ready))
        if (file := to / f"{name}{_SUFFIX}").exists():
            hint = "delete it, or choose another folder: --to"
            raise ChatmdError("this file exists already", where=str(file), hint=hint)
    to.mkdir(parents=True, exist_ok=True)
    for name, asking in (dict.fromkeys(chosen, "") | _asked_by(chosen, ready)).items():
        why = f"{asking} asks it" if asking else ""
        if (file := to / f"{name}{_SUFFIX}").exists():
            terminal.say(f"{file}: there already, and kept; {why}")
        else:
            files.replace(file, ready[name])
            terminal.say(f"{file}: {why}" if why else str(file))
    if (to / "AGENTS.md").is_file():
        hint = 'for what AGENTS.md says, write <system><import src="AGENTS.md"/></system> into them'
        terminal.say(hint, err=True)
    return DONE


def _asked_by(names: list[str], ready: dict[str, str]) -> dict[str, str]:
    """Return the agents that these ask, directly or not, except `names`, each with the agent that asks it."""
    from chatmd.language.agent import interpret
    from chatmd.language.syntax import parse

    found: dict[str, str] = {}
    pending = list(names)
    while pending:
        asking = pending.pop(0)
        tools = interpret(parse(ready[asking]))[0].tools
        asked = [tool.agent.removesuffix(_SUFFIX) for tool in tools if tool.kind == "agent" and tool.local]
        new = [name for name in asked if name in ready and name not in names and name not in found]
        found |= dict.fromkeys(new, asking)
        pending += new
    return found
