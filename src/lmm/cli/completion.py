"""`lmm completion`: the script with which a shell completes commands, options and file names of `lmm`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from lmm import terminal
from lmm.cli import main, options

VARIABLE = "_LMM_COMPLETE"  # set by the script; its value is defined by click, such as bash_complete


class _Commands(click.Group):
    """All commands; only the module of the one on the command line is imported."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = next((row for row in main.COMMANDS if row.name == cmd_name), None)
        return main.load(row) if row else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(row.name, help=row.help) for row in main.COMMANDS if row.name.startswith(incomplete)]


@options.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash: lmm completion bash > ~/.local/share/bash-completion/completions/lmm
    zsh:  lmm completion zsh > "${fpath[1]}/_lmm"
    fish: lmm completion fish > ~/.config/fish/completions/lmm.fish

    On a new account, create the folder first (mkdir -p FOLDER).
    """
    script = get_completion_class(shell)
    assert script is not None  # one of the three supported by click
    terminal.say(script(_Commands(), {}, "lmm", VARIABLE).source())
    return terminal.DONE


def complete(instruction: str) -> int:
    """Answer a shell's request for completions; return the exit code."""
    return shell_complete(_Commands(), {}, "lmm", VARIABLE, instruction)
