"""What a conversation looks like: events become lines that stay, and lines at the foot that change.

It knows no clock and no terminal: the time, in seconds, and the size are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import PurePath
from typing import NamedTuple

from prompt_toolkit.data_structures import Size
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from chatmd.runtime import events
from chatmd.terminal.call_texts import call_line
from chatmd.terminal.markdown import Arriving
from chatmd.terminal.styled import clean, render
from lmm.errors import Place
from lmm.messages import (
    Asked,
    Event,
    Failed,
    Notice,
    ReasoningDelta,
    Reply,
    Retrying,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    Waiting,
)
from lmm.terminal import usage_text

PROMPT = "› "
_THOUGHT_LINES = 2
_RESULT = 500  # characters of which the first that fit are shown
_SHORTEST = 0.05  # seconds; what is faster took no time


class _Call(NamedTuple):
    text: str
    began: float
    chain: tuple[str, ...]


@dataclass(slots=True)
class ChatView:
    """What is shown. `waiting` are notes that the model has not got yet, oldest first."""

    size: Size = field(default=Size(rows=24, columns=80))
    waiting: list[str] = field(default_factory=list)
    turn: Usage = field(default_factory=Usage)
    _reply: Arriving = field(default_factory=Arriving)
    _thought: str = ""
    _asked: dict[tuple[str, ...], tuple[str, float]] = field(default_factory=dict)
    _calls: dict[tuple[tuple[str, ...], str], _Call] = field(default_factory=dict)
    _began: float = 0.0
    _last: str = ""  # kind of what was printed last: kinds are parted by blank lines

    # -- what stays ------------------------------------------------------------------------------------

    def happened(self, event: Event, place: Place, now: float) -> list[str]:
        """Lines to print for an event; in the path of its place are the agents below, down to where it happened."""
        chain = place.path
        if isinstance(event, Asked):
            self._asked[chain] = (event.model, now)
            self._began = self._began or now
            return [] if chain else self._end_reply()
        if isinstance(event, ToolCall):
            self._calls[chain, event.id] = _Call(call_line(event), now, chain)
            return []
        if isinstance(event, ToolResult):
            return self._called(event, chain)
        if isinstance(event, Reply):
            self._asked.pop(chain, None)
            self.turn += event.usage
            return [] if chain else self.replied(event.text)
        if isinstance(event, Notice | Waiting):
            return self.note(event.text if isinstance(event, Notice) else event.reason, "yellow", chain)
        if isinstance(event, Retrying):
            return self._again(event, chain)
        return [] if chain else self._of_turn(event, now)

    def said(self, text: str, more: str = "", style: str = "bold") -> list[str]:
        """What the user says, with a remark behind it."""
        words = Text.assemble((clean(text), style), (f" {more}" if more else "", "dim"))
        return self._print("said", self._hanging(Text(PROMPT, "bold cyan"), words), apart=True)

    def note(self, text: str, style: str = "dim", chain: tuple[str, ...] = ()) -> list[str]:
        """A remark of ours, about an agent below."""
        return self._print("note", self._hanging(_indent(chain), Text(clean(text), style)))

    def shown(self, what: RenderableType) -> list[str]:
        """A question or a table, between blank lines."""
        return self._print("shown", render(what, self.size.columns), apart=True)

    def begin_turn(self, now: float) -> None:
        """The user has said something."""
        self.turn, self._began = Usage(), now

    def _print(self, kind: str, lines: Sequence[str], *, apart: bool = False) -> list[str]:
        if not lines:
            return []
        gap = self._last and (apart or kind != self._last)
        self._last = kind
        return ["", *lines] if gap else list(lines)

    def _of_turn(self, event: Event, now: float) -> list[str]:
        """What only the first agent tells."""
        if isinstance(event, TextDelta):
            self._thought = ""
            self._reply.feed(event.text)
            return self._print("text", self._reply.final(self.size.columns))
        if isinstance(event, ReasoningDelta):
            self._thought += event.text
        elif isinstance(event, events.Delivered):
            return self._delivered(event)
        elif isinstance(event, events.RunStopped | events.YourTurn | Failed):
            return self._ended(event, now)
        return []

    def _end_reply(self) -> list[str]:
        self._thought = ""
        lines = self._print("text", self._reply.end(self.size.columns))
        if self._last == "text":
            self._last = "reply"
        return lines

    def replied(self, text: str) -> list[str]:
        """A reply that is complete."""
        if not self._reply.begun:  # it did not come in pieces
            self._reply.feed(text)
        return self._end_reply()

    def _again(self, event: Retrying, chain: tuple[str, ...]) -> list[str]:
        begun = self._reply.begun and not chain
        lines = [] if chain else self._end_reply()
        if begun:
            lines += self.note("The reply broke off here; the model is asked again.", "yellow")
        return lines + self.note(f"{event.reason}; again in {event.wait:.1f} s", "yellow", chain)

    def _called(self, result: ToolResult, chain: tuple[str, ...]) -> list[str]:
        call = self._calls.pop((chain, result.call), None)
        mark = ("✗ ", "red") if result.failed else ("✓ ", "green")
        text = call.text if call else clean(result.name)
        first = " ".join(clean(result.text[:_RESULT]).split()) or ("an image" if result.images else "")
        return self._print("call", self._call_line(mark, text, result.seconds, first, chain))

    def _call_line(
        self, mark: tuple[str, str], text: str, seconds: float, result: str, chain: tuple[str, ...]
    ) -> list[str]:
        before = Text.assemble(_indent(chain), mark)
        took = f" {seconds:.1f} s" if seconds >= _SHORTEST else ""
        free = max(8, self.size.columns - before.cell_len - len(took))
        short = Text(text)
        short.truncate(max(8, free * 3 // 5) if result else free, overflow="ellipsis")
        rest = Text(took + (f": {result}" if result else ""), "dim")
        return self._clipped(Text.assemble(before, short, rest))

    def _clipped(self, line: Text) -> list[str]:
        line.truncate(self.size.columns, overflow="ellipsis")
        return render(line, self.size.columns)

    def _hanging(self, first: Text, words: Text) -> list[str]:
        """Words, with something before their first line, and as much space before the others."""
        if not first:
            return render(words, self.size.columns)
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(first, words)
        return render(grid, self.size.columns)

    def _delivered(self, event: events.Delivered) -> list[str]:
        lines: list[str] = []
        for text in event.texts:
            if text in self.waiting:
                self.waiting.remove(text)
            lines += self.said(text, "(with the result above)" if event.with_result else "")
        return lines

    def _ended(self, event: events.RunStopped | events.YourTurn | Failed, now: float) -> list[str]:
        self._asked.clear()
        self._calls.clear()
        lines = self._end_reply()
        if isinstance(event, events.RunStopped):
            return lines + self.note("cancelled", "yellow")
        if isinstance(event, Failed):
            return lines + self.note(str(event.error), "red")
        if self.turn.requests:
            lines += self.note(f"{now - self._began:.0f} s · {usage_text(self.turn)}")
        self.turn, self._began = Usage(), 0.0
        return lines

    # -- what changes ----------------------------------------------------------------------------------

    def live(self, now: float) -> list[str]:
        """The lines at the foot: what arrives, what is at work, what waits."""
        if self._thought:
            lines = render(Text(clean(self._thought).strip(), "dim italic"), self.size.columns)[-_THOUGHT_LINES:]
        else:
            lines = self._reply.rest(self.size.columns, max(3, self.size.rows // 2))
        work = self._at_work(now)
        if lines and self._last and self._last != "text":
            lines.insert(0, "")
        elif not lines and work and self._last not in ("", "call"):
            work.insert(0, "")
        notes = [line for text in self.waiting for line in self._clipped(
            Text.assemble((PROMPT, "dim"), (" ".join(clean(text).split()), "dim italic"), (" (waits)", "dim"))
        )]  # fmt: skip
        return lines + ([""] if lines and work else []) + work + notes

    def _at_work(self, now: float) -> list[str]:
        """A line for each call that runs, and each agent that is asked."""
        rows = [(call.chain, call.began, call.text) for call in self._calls.values()]
        rows += [(chain, began, clean(f"{model} …")) for chain, (model, began) in self._asked.items()
                 if chain or not self._reply.begun]  # fmt: skip
        rows = sorted(rows, key=itemgetter(0, 1))[: max(2, self.size.rows // 3)]
        mark = ("● ", "cyan")
        return [line for chain, began, text in rows for line in self._call_line(mark, text, now - began, "", chain)]


def _indent(chain: tuple[str, ...]) -> Text:
    """What stands before something that happened in an agent: how deep it is, and its name."""
    return Text.assemble("  " * len(chain), (f"{clean(PurePath(chain[-1]).stem)} ", "dim")) if chain else Text()
