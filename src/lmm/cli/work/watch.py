"""What is done by `lmm watch`: answer on every save."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.live import Live
from lmm.cli.work.progress import usage_text
from lmm.messages import Usage
from lmm.scan import MessageOptions, WatchOptions, WatchReport, watch_documents
from lmm.scan import watch as happened
from lmm.scan.answering import Outcome
from lmm.scan.events import Again, Answered, Asking, Event, Failed, Piece, Waiting
from lmm.scan.messages import Ask

_ROWS_AT_FIRST = 12  # of more documents, only those have a line in which something happens
_REDRAW = 0.1  # seconds, at least, between drawings of pieces that arrive


def watch(paths: list[Path], quiet: float, poll: bool, model: str | None, config: Path | None) -> int:
    """Answer what waits in the documents now, and after every save; Ctrl-C stops."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = WatchOptions(MessageOptions(model=model, config=config), quiet, poll)
    report = watch_documents(paths, options, listener=Board(Live()) if terminal.is_terminal() else tell_plainly)
    terminal.say(f"{_over_the_echo()}{_summary(report)}")
    return console.DONE


def _over_the_echo() -> str:
    """What clears the ^C that a terminal shows."""
    return terminal.ERASE_LINE if terminal.is_terminal() else ""


def _summary(report: WatchReport) -> str:
    parts = [terminal.count(report.answered - report.remembered, "reply")]
    if report.remembered:
        parts.append(f"{report.remembered} remembered")
    if report.failed:
        parts.append(f"{report.failed} not answered")
    if report.usage != Usage():
        parts.append(usage_text(report.usage))
    return f"stopped: {', '.join(parts)}"


# -- in words ------------------------------------------------------------------------------------


def tell_plainly(event: happened.WatchEvent) -> None:
    """A line for everything that happens; what went wrong on standard error."""
    if text := _said(event):
        terminal.say(text)
    elif text := _wrong(event):
        terminal.say(text, err=True)


def _said(event: happened.WatchEvent) -> str:
    match event:
        case happened.Watching(documents):
            return f"watching {terminal.count(len(documents), 'document')}; Ctrl-C stops"
        case happened.Polling(reason):
            return f"no file notifications ({reason}); looking at the files again and again"
        case happened.Gone(document):
            return f"{document}: not there any more; waiting for it to come back"
        case happened.Heard(document, Waiting()):
            return f"{document}: another lmm is working on it; waiting"
        case happened.Heard(document, Asking(ask)):
            return f"{document}:{_prompt(ask)}"
        case happened.Heard(document, Again(ask, reason, wait)):
            return f"{document}:{ask.line} {reason}; again in {wait:.1f} s"
        case happened.Heard(document, Answered(ask, reply, source)):
            note = usage_text(reply.usage) if source == "model" else "remembered from an earlier run"
            cut = "; cut off at the model's output limit" if reply.cut else ""
            return f"{document}:{ask.line} answered ({reply.model}, {note}{cut})"
    return ""


def _wrong(event: happened.WatchEvent) -> str:
    lmm = terminal.styled("lmm:", "red", err=True)
    match event:
        case happened.Heard(document, Failed(ask, error)):
            return f"{lmm} {document}:{ask.line}: {error}"
        case happened.Troubled(document, error):
            place = "" if error.where.startswith(str(document)) else f"{document}: "
            return f"{lmm} {place}{error}"
        case happened.Scanned(document, Outcome(side_file=Path() as side)):
            return f"{lmm} {document}: a reply found no place in the changed document; it is in {side}"
    return ""


def _prompt(ask: Ask) -> str:
    return f"{ask.line} {ask.prompt.spelling}: {' '.join(ask.prompt.text.split())}"


# -- on a terminal -------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """What a document's line shows."""

    name: str
    state: str = "waiting for a save"
    asking: dict[tuple[int, int], str] = field(default_factory=dict)
    characters: int = 0
    answered: int = 0
    remembered: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)

    def __str__(self) -> str:
        return f"{self.name}  {self._doing()}{self._done()}"

    def _doing(self) -> str:
        if not self.asking:
            return self.state
        more = f" and {len(self.asking) - 1} more" if len(self.asking) > 1 else ""
        arrived = f", {self.characters:,} characters so far" if self.characters else ""
        return f"asking {next(iter(self.asking.values()))}{more}{arrived}"

    def _done(self) -> str:
        parts = [f"{self.answered} answered"] if self.answered else []
        parts += [f"{self.remembered} remembered"] if self.remembered else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [usage_text(self.usage)] if self.usage != Usage() else []
        return f"  [{', '.join(parts)}]" if parts else ""

    def note(self, event: Event) -> None:
        """Take in what happens during the document's scan."""
        match event:
            case Waiting():
                self.state = "waiting for another lmm that works on it"
            case Asking(ask):
                self.asking[_key(ask)] = terminal.clipped(_prompt(ask), 40)
            case Piece(text=text):
                self.characters += len(text)
            case Again(ask, reason, wait):
                self.asking[_key(ask)] = f"{ask.line} again in {wait:.1f} s: {reason}"
            case Answered(ask, reply, source):
                self._end(ask)
                self.answered += source == "model"
                self.remembered += source == "journal"
                self.usage += reply.usage if source == "model" else Usage()
            case Failed(ask):
                self._end(ask)

    def _end(self, ask: Ask) -> None:
        self.asking.pop(_key(ask), None)
        if not self.asking:
            self.characters, self.state = 0, "saving"


class Board:
    """A line per document, drawn again when something happens; errors stay above."""

    def __init__(self, live: Live, clock: Callable[[], float] = time.monotonic) -> None:
        self.live, self.clock = live, clock
        self.rows: dict[Path, Row] = {}  # the one in which something happened last is the last one
        self.documents: set[Path] = set()
        self.drawn_at = float("-inf")

    def __call__(self, event: happened.WatchEvent) -> None:
        self._take(event)
        piece = isinstance(event, happened.Heard) and isinstance(event.event, Piece)
        if piece and self.clock() < self.drawn_at + _REDRAW:
            return
        self.drawn_at = self.clock()
        lasting = _said(event) if isinstance(event, happened.Polling) else _wrong(event)
        self.live.draw(self._lines(), above=f"{lasting}\n" if lasting else "")

    def _take(self, event: happened.WatchEvent) -> None:
        match event:
            case happened.Watching(documents):
                self.documents |= set(documents)
                for document in documents if len(documents) <= _ROWS_AT_FIRST else ():
                    self._row(document)
            case happened.Saved(document):
                self.documents.add(document)
                if document in self.rows:
                    self._row(document).state = "saved; waiting until it is quiet"
            case happened.Gone(document):
                self._row(document).state = "not there any more; waiting for it to come back"
            case happened.Troubled(document):
                self._row(document).state = "not scanned; save it to try again"
            case happened.Heard(document, inner):
                self._row(document).note(inner)
            case happened.Scanned(document, outcome) if outcome or document in self.rows:
                row = self._row(document)
                row.failed = len(outcome.failed) if outcome else 0
                row.state = "waiting for a save" + (" to try again" if row.failed else "")
                row.asking.clear()

    def _row(self, document: Path) -> Row:
        row = self.rows.pop(document, None) or Row(str(document))
        self.rows[document] = row
        return row

    def _lines(self) -> list[str]:
        room = max(1, self.live.size.lines - 3)
        latest = sorted(list(self.rows.items())[-room:])
        heading = f"watching {terminal.count(len(self.documents), 'document')}; Ctrl-C stops"
        return [heading, *(str(row) for _, row in latest)]


def _key(ask: Ask) -> tuple[int, int]:
    return ask.line, ask.prompt.start
