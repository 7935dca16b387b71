"""`lmm render`: what the model would get of a ChatMD file."""

from __future__ import annotations

from pathlib import Path

import click

from chatmd.cli.asking import input_values
from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE


@options.command()
@options.argument("file", "FILE", "A ChatMD file.", type=options.PATH)
@options.flag("--tokens", help="A table of the tokens alone.")
@options.flag("--json", "as_json", help="Messages and tools as JSON, exactly as they are.")
@options.flag("--transcript", help="The ChatMD file itself, with its documents and results in it: it runs elsewhere.")
@options.flag("--run-agents", help="Ask the agents in messages whose answers were not recorded.")
@options.flag("--servers", help="Start or call its MCP servers, to count their tools.")
@options.flag("--replay", help="Take documents and agents as recorded; fetch and ask nothing for them.")
@input_values
@options.yes("Agree to what the file's tools can do.")
@click.option("--model", metavar="NAME", default="", show_default=False, help="As if this model were asked.")
@options.config
@options.roots("Another folder that files may be read and imported from.")
def render(
    *,
    file: Path,
    tokens: bool,
    as_json: bool,
    transcript: bool,
    run_agents: bool,
    servers: bool,
    replay: bool,
    inputs: dict[str, str],
    yes: bool,
    model: str,
    config: Path | None,
    roots: tuple[Path, ...],
) -> int:
    """Print what the model would get next: every message with its documents in place, the tools, and their tokens.

    Nothing is sent to the model, and nothing is written. Tokens are counted on this machine, rather too high.
    """
    from chatmd.chat import Chat
    from chatmd.cli.asking import confirm_on_terminal
    from chatmd.rendering import as_data, as_table, as_text

    chat = Chat.open(file, config=config, roots=roots)
    if transcript:
        terminal.say_document(chat.export(replay=replay, inputs=inputs))
        return DONE
    confirm = confirm_on_terminal()
    rendered = chat.render(
        servers=servers, run_agents=run_agents, model=model, yes=yes, replay=replay, inputs=inputs, confirm=confirm
    )
    if as_json:
        terminal.say_json(as_data(rendered), indent=1)
        return DONE
    terminal.say((as_table if tokens else as_text)(rendered), end="")
    for note in rendered.notes:
        terminal.note(note)
    return DONE
