"""What happens during a run, told on a terminal: what the model says on standard output, all else beside it."""

from __future__ import annotations

from pathlib import Path

from chatmd.runtime import events
from chatmd.runtime.events import RunResult
from chatmd.terminal.call_texts import call_line
from lmm import terminal
from lmm.errors import Place
from lmm.messages import Asked, Event, Notice, Reply, Retrying, TextDelta, ToolCall, ToolResult, Usage
from lmm.terminal import usage_text

_WIDTH = 100


class Teller:
    """A listener that prints. Into a file or a pipe, a reply goes when it is complete: nothing can be taken back."""

    def __init__(self) -> None:
        self.in_line = False  # what the model says has not ended its line
        self.live = terminal.is_terminal()
        self.waiting: list[str] = []  # pieces that are not printed yet

    def __call__(self, event: Event, place: Place) -> None:
        """Tell of an event."""
        if place.path:
            self._tell_note(event, "  " * len(place.path))
        elif isinstance(event, TextDelta):
            self._piece(event.text)
        elif isinstance(event, Reply):
            self._print("".join(self.waiting))
            self.waiting.clear()
            self.end_line()
        else:
            if isinstance(event, Asked | Retrying):
                self.waiting.clear()
            self._tell_note(event)

    def _tell_note(self, event: Event, indent: str = "") -> None:
        """Tell of an event beside what the model says; `indent` stands before what agents below do."""
        if isinstance(event, ToolCall):
            self._note(f"{indent}→ {call_line(event)}")
        elif isinstance(event, ToolResult):
            sign, first = "✗" if event.failed else "←", event.text.strip().partition("\n")[0]
            self._note(f"{indent}{sign} {event.name} ({event.seconds:.1f} s): {first}")
        elif isinstance(event, Retrying):
            self._note(f"{indent}{event.reason}; again in {event.wait:.1f} s", "yellow")
        elif isinstance(event, Notice):
            self._note(f"{indent}{event.text}", "yellow")
        elif isinstance(event, events.Stopped):
            self._note("cancelled", "yellow")

    def _piece(self, text: str) -> None:
        if self.live:
            self._print(text)
        else:
            self.waiting.append(text)

    def _print(self, text: str) -> None:
        if text:
            self.in_line = not text.endswith("\n")
            terminal.say(text, end="")

    def interrupted(self, path: Path, turns: int, usage: Usage) -> None:
        """What is told when the user ended the run."""
        self.end_line()
        used = f" ({terminal.count(turns, 'request')}, {usage_text(usage)})" if turns else ""
        text = f"lmm: cancelled{used}; what was said and done so far is in {path}, and lmm run goes on from there"
        terminal.say(text, err=True)

    def end(self, result: RunResult) -> None:
        """What is told when all is done."""
        self.end_line()
        requests = terminal.count(result.turns, "request")
        used = f": {requests}, {usage_text(result.usage)}" if result.turns else ""
        next_ = "your turn" if result.turn_of == "user" else "lmm run goes on"
        self._note(f"{result.path}{used}; {next_}")

    def _note(self, text: str, style: str = "dim") -> None:
        self.end_line()
        terminal.say(
            terminal.styled(terminal.clipped(terminal.visible(text, line=True), _WIDTH), style, err=True), err=True
        )

    def end_line(self) -> None:
        """End the line that the model's words stand in, if there is one."""
        if self.in_line:
            terminal.say()
        self.in_line = False
