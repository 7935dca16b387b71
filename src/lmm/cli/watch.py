"""`lmm watch`: answer on every save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import Place
from lmm.messages import Asked, Event, Failed, Notice, Reply, Retrying, Usage, Waiting
from lmm.terminal import DONE

if TYPE_CHECKING:
    from lmm.watcher import WatchReport


@options.command()
@options.argument(
    "paths",
    "PATH",
    "Markdown files, or folders: their .md, .Rmd, .qmd and .markdown files.",
    many=True,
    type=options.PATH,
)
@click.option(
    "--quiet",
    metavar="SECONDS",
    type=click.FloatRange(min=0.0),
    default=1.0,
    help="Answer when a document has not been saved for this long.",
)
@options.flag("--poll", help="Check the files repeatedly, for folders that do not report changes.")
@options.model
@options.config
def watch(*, paths: tuple[Path, ...], quiet: float, poll: bool, model: str | None, config: Path | None) -> int:
    """Answer pending prompts now and after every save; Ctrl-C stops.

    A prompt whose call fails stays pending and is asked again at the next save.
    """
    from lmm.watcher import watch_documents

    report = watch_documents(paths, model=model, config=config, quiet=quiet, poll=poll, listener=_tell)
    over_the_echo = terminal.ERASE_LINE if terminal.is_terminal() else ""  # the ^C that a terminal shows
    terminal.say(f"{over_the_echo}{_summary(report)}")
    return DONE


def _tell(event: Event, place: Place) -> None:
    """A line for what is asked and what comes of it; what went wrong on standard error."""
    match event:
        case Waiting() | Notice():
            terminal.tell_notice(event, place)
        case Asked(text=text):
            terminal.say(f"{place} {' '.join(text.split())}")
        case Retrying(reason=reason, wait=wait):
            terminal.say(f"{place} {reason}; again in {wait:.1f} s")
        case Reply():
            terminal.say(f"{place} answered ({terminal.reply_note(event)})")
        case Failed(error=error, what=what):
            terminal.tell_failed(error, what, place)


def _summary(report: WatchReport) -> str:
    parts = [terminal.count(report.answered - report.remembered, "reply")]
    if report.remembered:
        parts.append(f"{report.remembered} remembered")
    if report.failed:
        parts.append(f"{report.failed} not answered")
    if report.usage != Usage():
        parts.append(terminal.usage_text(report.usage))
    return f"stopped: {', '.join(parts)}"
