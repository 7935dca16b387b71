"""What is done by `lmm render`."""

from __future__ import annotations

from pathlib import Path

from chatmd.cli.work.asking import confirm_on_terminal
from chatmd.rendering.render_file import render as render_file
from chatmd.rendering.rendered import as_data, as_table, as_text
from chatmd.runtime.options import Hooks, RunOptions
from lmm import terminal
from lmm.cli import console


def render(
    file: Path,
    tokens: bool,
    as_json: bool,
    run_agents: bool,
    servers: bool,
    replay: bool,
    yes: bool,
    model: str,
    config: Path | None,
    roots: list[Path],
) -> int:
    """Print what a model would get of a file."""
    options = RunOptions(model=model, config=config, yes=yes, replay=replay, roots=tuple(roots))
    hooks = Hooks(confirm=confirm_on_terminal())
    rendered = render_file(file, options, hooks, run_agents=run_agents, servers=servers)
    if as_json:
        terminal.say_json(as_data(rendered), indent=1)
        return console.DONE
    terminal.say((as_table if tokens else as_text)(rendered), end="")
    for note in rendered.notes:
        terminal.note(note)
    return console.DONE
