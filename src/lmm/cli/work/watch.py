"""What is done by `lmm watch`: answer on every save."""

from __future__ import annotations

import signal
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.errors import LmmError, Place
from lmm.messages import Event, Usage
from lmm.watcher import Scanned, WatchReport, watch_documents


def watch(paths: list[Path], quiet: float, poll: bool, model: str | None, config: Path | None) -> int:
    """Answer what waits in the documents now, and after every save; Ctrl-C stops."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = watch_documents(paths, model=model, config=config, quiet=quiet, poll=poll, listener=_Lines())
    over_the_echo = terminal.ERASE_LINE if terminal.is_terminal() else ""  # the ^C that a terminal shows
    terminal.say(f"{over_the_echo}{_summary(report)}")
    return console.DONE


class _Lines(terminal.EventPrinter):
    """A line for everything that happens; what went wrong on standard error."""

    def __init__(self) -> None:
        super().__init__(pieces=False)

    def __call__(self, event: Event, place: Place) -> None:
        if isinstance(event, Scanned) and event.unplaced:
            what = f"a reply found no place in the changed document; it is in {event.unplaced}"
            terminal.tell_error(LmmError(what, where=str(place)))
        super().__call__(event, place)


def _summary(report: WatchReport) -> str:
    parts = [terminal.count(report.answered - report.remembered, "reply")]
    if report.remembered:
        parts.append(f"{report.remembered} remembered")
    if report.failed:
        parts.append(f"{report.failed} not answered")
    if report.usage != Usage():
        parts.append(terminal.usage_text(report.usage))
    return f"stopped: {', '.join(parts)}"
