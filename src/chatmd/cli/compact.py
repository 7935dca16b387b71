"""`lmm compact`: replace the older part of a conversation by a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE, usage_text


@options.command()
@options.argument("file", "FILE", "A ChatMD file with a long conversation.", type=options.PATH)
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), default=3, help="Keep this many of the last turns unchanged."
)
@click.option(
    "--to",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    help="Keep fewer turns if needed to get down to this many tokens.",
)
@options.model_option("Summarise with this model instead of the file's own.", default="")
@options.config
@options.roots
def compact(*, file: Path, config: Path | None, roots: tuple[Path, ...], **how: Any) -> int:
    """Replace the older part of a conversation with a summary, so that it fits the model again.

    Instructions and the last turns stay. The original is kept beside the file, in .chatmd.
    """
    from chatmd.chat import Chat
    from chatmd.errors import NothingToCompact

    chat = Chat.open(file, config=config, roots=roots)
    try:
        done = chat.compact(**how)
    except NothingToCompact as nothing:
        terminal.say(f"{file}: {nothing}")
        return DONE
    requests = terminal.count(done.usage.requests, "request")
    paid = f"{requests}, {usage_text(done.usage)}" if done.usage.requests else "remembered"
    terminal.say(
        f"{file}: {done.before:,} tokens became {done.after:,}; "
        f"{terminal.count(len(done.plan.removed), 'item')} in a summary, {len(done.plan.retained)} kept\n"
        f"summary by {done.model} ({paid})\n"
        f"the original: {done.original}"
    )
    return DONE
