"""The look of a conversation: replies as Markdown by rich, calls, remarks, and what is at work.

`ChatView` uses no clock and no terminal: the time, in seconds, and the size are passed in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath

from prompt_toolkit.data_structures import Size
from rich.console import RenderableType
from rich.text import Text

from chatmd.call_texts import call_line, changed_lines
from chatmd.compaction.compact import content_text, is_summary
from chatmd.language.agent import MessageItem, interpret
from chatmd.language.syntax import parse
from chatmd.language.transcript import answer_of
from lmm.disk import trust
from lmm.disk.files import read_document
from lmm.errors import LmmError, Place
from lmm.messages import (
    Asked,
    Delivered,
    Event,
    Failed,
    Notice,
    ReasoningDelta,
    Reply,
    Retrying,
    RunStopped,
    TextDelta,
    ToolCall,
    ToolProgress,
    ToolResult,
    Usage,
    Waiting,
    YourTurn,
)
from lmm.terminal import clipped, path_text, usage_text
from lmm.terminal_markdown import Arriving, clean, markdown_lines, render

# -- The conversation: events become permanent lines, and changing lines at the bottom -------------------------


PROMPT = "› "
_THOUGHT_LINES = 2
_RESULT = 500  # characters of a result, of which the first that fit are shown
_SHORTEST = 0.05  # seconds; shorter times are not shown
_PATCH_LINES = 40  # of a patch, the rest is counted
_PATCH_STYLES = {"+": "green", "-": "red", "*": "bold"}


@dataclass(slots=True)
class _Work:
    """A request or a call at work; `printed` is the last line of its program."""

    text: str
    began: float
    call: ToolCall | None = None
    printed: str = ""


@dataclass(slots=True)
class ChatView:
    """The state of what is shown. `pending_notes` are those that the model has not received yet, oldest first."""

    size: Size = field(default=Size(rows=24, columns=80))
    pending_notes: list[str] = field(default_factory=list)
    turn: Usage = field(default_factory=Usage)
    _reply: Arriving = field(default_factory=Arriving)
    _thought: str = ""
    _work: dict[tuple[tuple[str, ...], str], _Work] = field(default_factory=dict)  # by agent, and call or ""
    _began: float = 0.0
    _last: str = ""  # kind of the last lines: different kinds are separated by blank lines

    # -- permanent lines -------------------------------------------------------------------------------

    def happened(self, event: Event, place: Place, now: float) -> list[str]:
        """Return the lines to print for an event; the path of its place names the agents down to where it happened."""
        chain = place.path
        if isinstance(event, Asked):
            self._work[chain, ""] = _Work(clean(f"{event.model} …"), now)
            self._began = self._began or now
        elif isinstance(event, ToolCall):
            self._work[chain, event.id] = _Work(call_line(event), now, event)
        elif isinstance(event, ToolProgress) and (chain, event.call) in self._work:
            self._work[chain, event.call].printed = clean(event.text.rstrip().rpartition("\n")[2])
        elif isinstance(event, ToolResult):
            return self._called(event, chain)
        elif isinstance(event, Reply):
            self._work.pop((chain, ""), None)
            self.turn += event.usage
        elif isinstance(event, Notice | Waiting):
            return self.note(event.text if isinstance(event, Notice) else event.reason, "yellow", chain)
        elif isinstance(event, Retrying):
            lines = list[str]()
            if not chain and self._reply.begun:
                lines = self.replied("") + self.note("The reply broke off here; the model is asked again.", "yellow")
            return lines + self.note(str(event), "yellow", chain)
        return [] if chain else self._of_turn(event, now)

    def user_message(self, text: str, more: str = "", style: str = "bold") -> list[str]:
        """Return a message of the user, followed by a remark."""
        words = Text.assemble((clean(text), style), (f" {more}" if more else "", "dim"))
        return self._print("said", self._hanging(Text(PROMPT, "bold cyan"), words), apart=True)

    def replied(self, text: str) -> list[str]:
        """Return the lines of a complete reply that were not returned before."""
        return self._text(self._reply.end() if self._reply.begun else text)

    def note(self, text: str, style: str = "dim", chain: tuple[str, ...] = ()) -> list[str]:
        """Return a remark of ours; `chain` names the agent that it is about."""
        return self._print("note", self._hanging(_indent(chain), Text(clean(text), style)))

    def block(self, what: RenderableType) -> list[str]:
        """Return a question or a table, between blank lines."""
        return self._print("shown", render(what, self.size.columns), apart=True)

    def begin_turn(self, now: float) -> None:
        """Reset usage and time at the beginning of a turn."""
        self.turn, self._began = Usage(), now

    def _print(self, kind: str, lines: Sequence[str], *, apart: bool = False) -> list[str]:
        if not lines:
            return []
        gap = self._last and (apart or kind != self._last)
        self._last = kind
        return ["", *lines] if gap else list(lines)

    def _text(self, text: str) -> list[str]:
        self._thought = ""
        return self._print("text", markdown_lines(text, self.size.columns), apart=True)

    def _of_turn(self, event: Event, now: float) -> list[str]:
        """Return the lines for an event of the first agent."""
        if isinstance(event, TextDelta):
            self._reply.feed(event.text)
            return self._text(self._reply.final())
        if isinstance(event, ReasoningDelta):
            self._thought += event.text
        elif isinstance(event, Reply):
            return self.replied(event.text)
        elif isinstance(event, Delivered):
            more = "(with the result above)" if event.with_result else ""
            self.pending_notes = [text for text in self.pending_notes if text not in event.texts]
            return [line for text in event.texts for line in self.user_message(text, more)]
        elif isinstance(event, RunStopped | YourTurn | Failed):
            return self._ended(event, now)
        return []

    def _called(self, result: ToolResult, chain: tuple[str, ...]) -> list[str]:
        work = self._work.pop((chain, result.call), None)
        mark = ("✗ ", "red") if result.failed else ("✓ ", "green")
        first = " ".join(clean(result.text[:_RESULT]).split()) or ("an image" if result.images else "")
        name = work.text if work else clean(result.name)
        lines = [self._call_line(mark, name, result.seconds, first, chain)]
        changed = changed_lines(work.call) if work and work.call and not result.failed else []
        patch = [Text(f"  {line}", _PATCH_STYLES.get(line[0], "dim")) for line in changed[:_PATCH_LINES]]
        if (more := len(changed) - len(patch)) > 0:
            patch.append(Text(f"  … {more} more lines", "dim"))
        return self._print("call", lines + [self._clipped(text) for text in patch])

    def _call_line(self, mark: tuple[str, str], text: str, seconds: float, result: str, chain: tuple[str, ...]) -> str:
        before = Text.assemble(_indent(chain), mark)
        took = f" {seconds:.1f} s" if seconds >= _SHORTEST else ""
        free = max(8, self.size.columns - before.cell_len - len(took))
        short = Text(text)
        short.truncate(max(8, free * 3 // 5) if result else free, overflow="ellipsis")
        return self._clipped(Text.assemble(before, short, (took + (f": {result}" if result else ""), "dim")))

    def _clipped(self, line: Text) -> str:
        line.truncate(self.size.columns, overflow="ellipsis")
        return "".join(render(line, self.size.columns))

    def _hanging(self, first: Text, words: Text) -> list[str]:
        """Return words with `first` before their first line, and as much space before the others."""
        marked = "".join(render(first, self.size.columns)) + " " * bool(first)
        lines = render(words, self.size.columns - first.cell_len)
        return [f"{' ' * first.cell_len if at else marked}{line}" if line else "" for at, line in enumerate(lines)]

    def _ended(self, event: RunStopped | YourTurn | Failed, now: float) -> list[str]:
        self._work.clear()
        lines = self.replied("")
        if isinstance(event, RunStopped):
            return lines + self.note("cancelled", "yellow")
        if isinstance(event, Failed):
            return lines + self.note(str(event.error), "red")
        if self.turn.requests:
            lines += self.note(f"{now - self._began:.0f} s · {usage_text(self.turn)}")
        self.begin_turn(0.0)
        return lines

    # -- changing lines --------------------------------------------------------------------------------

    def live(self, now: float) -> list[str]:
        """Return the lines at the bottom: text that arrives, calls and agents at work, waiting notes."""
        columns, rows = self.size.columns, max(3, self.size.rows // 2)
        if self._thought:
            lines = render(Text(clean(self._thought).strip(), "dim italic"), columns)[-_THOUGHT_LINES:]
        else:
            lines = render(Text(clean(self._reply.rest[-columns * rows :]).strip("\n")), columns)[-rows:]
        work = [
            self._call_line(("● ", "cyan"), one.text, now - one.began, one.printed, chain)
            for (chain, call), one in sorted(self._work.items(), key=lambda item: (item[0][0], item[1].began))
            if chain or call or not self._reply.begun
        ][: max(2, self.size.rows // 3)]
        if (lines or work) and self._last and not (self._last == "call" and not lines):
            lines.insert(0, "")
        if len(lines) > 1 and work:
            lines.append("")
        notes = [Text.assemble((PROMPT, "dim"), (" ".join(clean(text).split()), "dim italic"), (" (waits)", "dim"))
                 for text in self.pending_notes]  # fmt: skip
        return lines + work + [self._clipped(note) for note in notes]


def _indent(chain: tuple[str, ...]) -> Text:
    """Return the prefix of an event in an agent: its depth as spaces, and its name."""
    return Text.assemble("  " * len(chain), (f"{clean(PurePath(chain[-1]).stem)} ", "dim")) if chain else Text()


# -- The list of conversations: the file, cost and last exchange of each ---------------------------------------


_STORE = "conversations.json"
_MOST = 15


def exchange_in(transcript: str) -> tuple[str, str]:
    """Return the last exchange of a conversation: the user's message and the model's reply.

    >>> exchange_in("<user>Why?</user><assistant>Because.</assistant><user>\\n</user>")
    ('Why?', 'Because.')
    """
    items = interpret(parse(transcript))[0].items
    users = (one for one in reversed(items) if isinstance(one, MessageItem) and one.role == "user")
    last = next((one for one in users if not one.is_blank and not is_summary(one)), MessageItem("user"))
    return content_text(last.content, {}).strip(), answer_of(items).strip()


def used_for(path: Path) -> Usage:
    """Return the usage of the conversation in a file so far."""
    with suppress(LookupError, ValueError, TypeError):
        return Usage(*json.loads(trust.remembered(_STORE)[str(path.resolve())]))
    return Usage()


def remember(path: Path, usage: Usage) -> None:
    """Store the usage of a conversation so far, which puts it on the list; errors of writing are ignored."""
    with suppress(LmmError, OSError):
        record = json.dumps([usage.input_tokens, usage.output_tokens, usage.cost, usage.requests])
        trust.remember(_STORE, str(path.resolve()), record)


def latest() -> list[Path]:
    """Return the files of the latest conversations, the one that was changed last first."""
    found = [path for name in trust.remembered(_STORE) if (path := Path(name)).is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:_MOST]


def described(path: Path, width: int) -> tuple[str, str]:
    """Describe a conversation in two lines: file, time and cost; the last exchange, cut to `width` columns."""
    relative = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    cost = used_for(path).cost
    head = f"{path_text(relative)}  {datetime.fromtimestamp(path.stat().st_mtime):%d %b %Y, %H:%M}"
    with suppress(LmmError):
        last = " → ".join(exchange_in(read_document(path)))
        return head + (f"  ${cost:.4f}" if cost else ""), clipped(last, width)
    return head, ""
