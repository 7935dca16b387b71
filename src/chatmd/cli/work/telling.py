"""What happens during a run, told on a terminal: what the model says on standard output, all else beside it."""

from __future__ import annotations

from typing import IO

from chatmd.runtime import events
from chatmd.runtime.events import RunEvent, RunResult
from chatmd.terminal.call_texts import call_line
from chatmd.tools.declared import plain
from lmm.cli import console
from lmm.cli.work.live import clipped
from lmm.cli.work.progress import usage_text

_WIDTH = 100


class Teller:
    """A listener that prints."""

    def __init__(self, out: IO[str], err: IO[str]) -> None:
        self.out, self.err = out, err
        self.in_line = False  # what the model says has not ended its line

    def __call__(self, event: RunEvent) -> None:
        if isinstance(event, events.Piece):
            self.in_line = not event.text.endswith("\n")
            console.say(console.printable(event.text), self.out)
        elif isinstance(event, events.Below):
            if isinstance(event.event, events.Calling):
                self._note(f"{'  ' * (len(event.chain) - 1)}→ {call_line(event.event.call)}")
        elif isinstance(event, events.Calling):
            self._note(f"→ {call_line(event.call)}")
        elif isinstance(event, events.Called):
            sign, first = "✗" if event.result.failed else "←", event.result.text.strip().partition("\n")[0]
            self._note(f"{sign} {event.result.name} ({event.seconds:.1f} s): {first}")
        elif isinstance(event, events.Again):
            self._note(f"{event.reason}; again in {event.wait:.1f} s", "yellow")
        elif isinstance(event, events.Notice):
            self._note(event.text, "yellow")
        elif isinstance(event, events.Stopped):
            self._note("cancelled", "yellow")
        elif isinstance(event, events.Replied):
            self._end_line()

    def end(self, result: RunResult) -> None:
        """What is told when all is done."""
        self._end_line()
        requests = console.count(result.turns, "request")
        used = f": {requests}, {usage_text(result.usage)}" if result.turns else ""
        next_ = "your turn" if result.turn_of == "user" else "lmm run goes on"
        self._note(f"{result.path}{used}; {next_}")

    def _note(self, text: str, style: str = "dim") -> None:
        self._end_line()
        console.say(console.style(clipped(plain(text), _WIDTH), style, self.err) + "\n", self.err)

    def _end_line(self) -> None:
        if self.in_line:
            console.say("\n", self.out)
        self.in_line = False
