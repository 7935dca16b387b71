"""`lmm render`: the request that a ChatMD file would send to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from chatmd.cli.run import input_values
from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE


@options.command()
@options.argument("file", "FILE", "A ChatMD file.", type=options.PATH)
@options.flag("--json", "as_json", help="Print messages and tools as JSON, unchanged.")
@options.flag("--transcript", help="Print the ChatMD file with its documents and results in it, to run it elsewhere.")
@options.flag("--run-agents", help="Ask agents in messages whose answers were not recorded.")
@options.flag("--servers", help="Start or call MCP servers, to count their tools.")
@options.flag("--replay", help="Use recorded documents and agents; fetch and ask nothing.")
@input_values
@options.flag("--yes", "-y", help="Agree to what the file's tools can do, without being asked.")
@options.model_option("Render for this model.", default="")
@options.config
@options.roots
def render(
    *,
    file: Path,
    as_json: bool,
    transcript: bool,
    run_agents: bool,
    servers: bool,
    config: Path | None,
    roots: tuple[Path, ...],
    **how: Any,
) -> int:
    """Print the next request: every message with its documents in place, the tools, and their tokens.

    Nothing is sent or written. Tokens are estimated on this machine.
    """
    from chatmd.call_texts import confirm_on_terminal
    from chatmd.chat import Chat
    from chatmd.rendering import as_data, as_text

    if transcript and as_json:
        raise click.UsageError("--transcript and --json cannot be used together")
    chat = Chat.open(file, config=config, roots=roots, confirm=confirm_on_terminal())
    if transcript:
        terminal.say_document(chat.export(**how))
        return DONE
    rendered = chat.render(servers=servers, run_agents=run_agents, **how)
    if as_json:
        terminal.say_json(as_data(rendered))
        return DONE
    terminal.say(as_text(rendered), end="")
    for note in rendered.notes:
        terminal.note(note)
    return DONE
