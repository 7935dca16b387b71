"""The look of a conversation: replies as Markdown by rich, calls, remarks, and what is at work.

This module uses no clock and no terminal: the time, in seconds, and the size are passed in.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar

from markdown_it.token import Token
from prompt_toolkit.data_structures import Size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownContext, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from chatmd.call_texts import call_line, changed_lines
from chatmd.runtime import events
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
    ToolProgress,
    ToolResult,
    Usage,
    Waiting,
)
from lmm.terminal import usage_text, visible

# -- Texts of rich as lines for a terminal, with escape codes for their styles ---------------------------------


# Rich's own styles of code have a black background.
_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "none"})
_BLANK_END = re.compile(r"(?: |\x1b\[[\d;]*m)+$")
_STYLE_CODE = re.compile(r"\x1b\[[\d;]*m")


def clean(text: str) -> str:
    """Return `text` with control and misleading characters spelled out; a tab is four spaces, line ends stay.

    >>> clean("a\\x1b[31mb\\tc\\r\\nd")
    'a\\\\x1b[31mb    c\\nd'
    """
    return visible(text.replace("\t", "    "))


def render(part: RenderableType, width: int) -> list[str]:
    """Return the lines of `part`, without blanks at their ends, which would be copied, and wrap in narrower windows.

    >>> from rich.text import Text
    >>> render(Text.assemble("two ", ("words ", "bold")), 5)
    ['two', '\\x1b[1mwords\\x1b[0m']
    """
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=max(1, width), height=100,
                      theme=_THEME, highlight=False, legacy_windows=False)  # fmt: skip
    console.print(part, crop=False)
    lines = [
        _BLANK_END.sub(lambda end: "".join(_STYLE_CODE.findall(end[0])), line) if plain(line).strip() else ""
        for line in file.getvalue().split("\n")
    ]
    seen = [number for number, line in enumerate(lines) if line]
    return lines[seen[0] : seen[-1] + 1] if seen else []


def plain(line: str) -> str:
    """Return the text of a line without styles."""
    return _STYLE_CODE.sub("", line)


# -- Replies: rich renders each block of Markdown once it is complete ------------------------------------------


_MOST_COLUMNS = 100  # of prose: longer lines are hard to read
_NARROWEST = 8  # columns, of which a column of a table has six
_LONG = 2000  # characters


def markdown_lines(text: str, width: int) -> list[str]:
    """Render a text as Markdown; only lines of code may be wider than `width`.

    >>> markdown_lines("- green <b>\\n- flat", 20)
    ['\\x1b[1m • \\x1b[0mgreen <b>', '\\x1b[1m • \\x1b[0mflat']
    """
    return render(_Reply(text), min(width, _MOST_COLUMNS))


class _Code(CodeBlock):
    """Code without a background. Its lines are never wrapped, so that they can be copied, except inside of a list."""

    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.inside = len(context.stack) > 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).removesuffix("\n"))
        lines = Text("\n").join(Text.assemble("  ", line) for line in code.split())
        lines.no_wrap, lines.overflow = not self.inside, "fold" if self.inside else "ignore"
        yield lines


class _Table(TableElement):
    """A table that cuts nothing off: long words are wrapped, and in a narrow window, each cell has its own line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = self.header.row.cells if self.header and self.header.row else []
        if options.max_width < _NARROWEST * len(names):
            for row in self.body.rows if self.body else ():
                for name, cell in zip(names, row.cells, strict=False):
                    yield Text.assemble((f"{name.content.plain}: ", "bold"), cell.content)
                yield ""
            return
        for table in super().__rich_console__(console, options):
            for column in table.columns if isinstance(table, Table) else ():
                column.overflow = "fold"
            yield table


class _Reply(Markdown):
    """Rich's Markdown that shows everything a model wrote: HTML, targets of links and pictures, long lines."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {
        "fence": _Code, "code_block": _Code, "table_open": _Table,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__(clean(text), code_theme="ansi_light", hyperlinks=False)
        for token in self.parsed:
            if token.type == "html_block":  # rich drops HTML in silence
                token.type = "code_block"
            token.children = [_spelled_out(child) for child in token.children or () if child.markup != "autolink"]


def _spelled_out(token: Token) -> Token:
    if token.type == "image":  # rich puts pictures before the paragraph that they stand in
        token.type, token.tag, token.children = "text", "", None
        token.content = f"{token.content} ({token.attrs['src']})"
    elif token.type == "html_inline":
        token.type = "text"
    return token


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. A block is final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("Leaves\n\nThey are\n*gr")
    >>> text.final(), text.rest
    ('Leaves\n\n', 'They are\n*gr')
    """

    rest: str = ""  # what is not final yet
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended

    def feed(self, piece: str) -> None:
        """Append a piece."""
        self.rest += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self) -> str:
        """Return the blocks that have become final, each once."""
        whole = self.rest.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        # A long block is parsed less often; otherwise it would take for ever.
        if whole - self._seen <= (len(self.rest) // 30 if len(self.rest) > _LONG else 0):
            return ""
        blocks = [token.map[0] for token in Markdown(clean(self.rest[:whole])).parsed if token.map and not token.level]
        before = self.rest.split("\n")[: blocks[-1]] if blocks else ()
        return self._taken(sum(len(line) + 1 for line in before))

    def end(self) -> str:
        """Return the rest, which is final now, and begin another text."""
        self.begun = False
        return self._taken(len(self.rest))

    def _taken(self, size: int) -> str:
        final, self.rest = self.rest[:size], self.rest[size:]
        self._seen = self.rest.rfind("\n") + 1
        return final


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
    """The state of what is shown. `waiting` are the notes that the model has not received yet, oldest first."""

    size: Size = field(default=Size(rows=24, columns=80))
    waiting: list[str] = field(default_factory=list)
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
            return self._broken_off(event, chain) + self.note(str(event), "yellow", chain)
        return [] if chain else self._of_turn(event, now)

    def said(self, text: str, more: str = "", style: str = "bold") -> list[str]:
        """Return a message of the user, followed by a remark."""
        words = Text.assemble((clean(text), style), (f" {more}" if more else "", "dim"))
        return self._print("said", self._hanging(Text(PROMPT, "bold cyan"), words), apart=True)

    def replied(self, text: str) -> list[str]:
        """Return the lines of a complete reply that were not returned before."""
        return self._text(self._reply.end() if self._reply.begun else text)

    def note(self, text: str, style: str = "dim", chain: tuple[str, ...] = ()) -> list[str]:
        """Return a remark of ours; `chain` names the agent that it is about."""
        return self._print("note", self._hanging(_indent(chain), Text(clean(text), style)))

    def shown(self, what: RenderableType) -> list[str]:
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
        elif isinstance(event, events.Delivered):
            more = "(with the result above)" if event.with_result else ""
            self.waiting = [text for text in self.waiting if text not in event.texts]
            return [line for text in event.texts for line in self.said(text, more)]
        elif isinstance(event, events.RunStopped | events.YourTurn | Failed):
            return self._ended(event, now)
        return []

    def _broken_off(self, event: Retrying, chain: tuple[str, ...]) -> list[str]:
        if chain or not self._reply.begun:
            return []
        lines = self.replied("")
        return lines + self.note("The reply broke off here; the model is asked again.", "yellow")

    def _called(self, result: ToolResult, chain: tuple[str, ...]) -> list[str]:
        work = self._work.pop((chain, result.call), None)
        mark = ("✗ ", "red") if result.failed else ("✓ ", "green")
        first = " ".join(clean(result.text[:_RESULT]).split()) or ("an image" if result.images else "")
        name = work.text if work else clean(result.name)
        lines = [self._call_line(mark, name, result.seconds, first, chain)]
        changed = changed_lines(work.call) if work and work.call and not result.failed else []
        shown = [Text(f"  {line}", _PATCH_STYLES.get(line[0], "dim")) for line in changed[:_PATCH_LINES]]
        if (more := len(changed) - len(shown)) > 0:
            shown.append(Text(f"  … {more} more lines", "dim"))
        return self._print("call", lines + [self._clipped(text) for text in shown])

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

    def _ended(self, event: events.RunStopped | events.YourTurn | Failed, now: float) -> list[str]:
        self._work.clear()
        lines = self.replied("")
        if isinstance(event, events.RunStopped):
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
                 for text in self.waiting]  # fmt: skip
        return lines + work + [self._clipped(note) for note in notes]


def _indent(chain: tuple[str, ...]) -> Text:
    """Return the prefix of an event in an agent: its depth as spaces, and its name."""
    return Text.assemble("  " * len(chain), (f"{clean(PurePath(chain[-1]).stem)} ", "dim")) if chain else Text()
