"""What is done by `lmm render`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from chatmd.cli.work.asking import confirm_on_terminal
from chatmd.rendering.render_file import render as render_file
from chatmd.rendering.rendered import as_data, as_table, as_text
from chatmd.runtime.options import Hooks, RunOptions
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
        console.say(json.dumps(as_data(rendered), ensure_ascii=False, indent=1) + "\n", sys.stdout)
        return console.DONE
    console.say(console.printable((as_table if tokens else as_text)(rendered)), sys.stdout)
    for note in rendered.notes:
        console.say(f"{console.style('note:', 'yellow', sys.stderr)} {console.printable(note)}\n", sys.stderr)
    return console.DONE
