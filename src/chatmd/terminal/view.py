"""The look of a conversation: replies as Markdown by rich, calls, remarks, and what is at work.

This module uses no clock and no terminal: the time, in seconds, and the size are passed in.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import PurePath
from typing import ClassVar

from markdown_it.token import Token
from prompt_toolkit.data_structures import Size
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownContext, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from chatmd.call_texts import call_line, patch_in
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


class _Reply(Markdown):
    """Rich's Markdown that shows everything a model wrote: HTML, targets of links and pictures, long lines."""

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


class _Heading(Heading):
    """A heading that keeps its marks, and is aligned left."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(("#" * int(self.tag[1:]) + " ", "bold"), self.text)


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


class _Item(ListItem):
    """A list item that keeps the dot of its number."""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        mark, *rest = super().render_number(console, options, number, last_number)
        assert isinstance(mark, Segment)
        yield Segment(f"{mark.text[1:-1]}. ", mark.style)
        yield from rest


class _Table(TableElement):
    """A table that cuts nothing off: long words are wrapped, and in a narrow window, each cell has its own line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = self.header.row.cells if self.header and self.header.row else []
        if options.max_width < _NARROWEST * len(names):
            for row in self.body.rows if self.body else ():
                for name, cell in zip(names, row.cells, strict=False):
                    yield Text.assemble((name.content.plain, "bold"), (": ", "bold"), cell.content)
                yield ""
            return
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


_KINDS: dict[str, type[MarkdownElement]] = {
    "heading_open": _Heading, "fence": _Code, "code_block": _Code, "list_item_open": _Item, "table_open": _Table,
}  # fmt: skip
_Reply.elements = Markdown.elements | _KINDS


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. Blocks, and items of lists, are final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("Leaves\n\nThey are\n*gr")
    >>> text.final(40), text.rest(40, 10)
    (['Leaves'], ['', 'They are', '*gr'])
    """

    text: str = ""  # what is not final yet
    gap: bool = False  # whether a blank line belongs before it
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended

    def feed(self, piece: str) -> None:
        """Append a piece."""
        self.text += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self, width: int) -> list[str]:
        """Return the lines that have become final, each once."""
        whole = self.text.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        # A long block is parsed less often; otherwise it would take for ever.
        if whole - self._seen <= (len(self.text) // 30 if len(self.text) > _LONG else 0):
            return []
        self._seen = whole
        cut = _last_cut(Markdown(clean(self.text[:whole])).parsed)
        if cut is None:
            return []
        source = self.text.split("\n")
        lines = self._part("\n".join(source[: cut[0]]), width)
        self._begin("\n".join(source[cut[0] :]), gap=cut[1])
        return lines

    def rest(self, width: int, rows: int) -> list[str]:
        """Return the end of the text that is not final, as it was written."""
        lines = render(Text(clean(self.text[-width * (rows + 1) :])), width)
        return ["", *lines][-rows:] if self.gap and lines else lines[-rows:]

    def end(self, width: int) -> list[str]:
        """Return the lines of the rest, which is final now, and begin another text."""
        lines = self._part(self.text, width)
        self._begin("", gap=False)
        self.begun = False
        return lines

    def _part(self, source: str, width: int) -> list[str]:
        lines = markdown_lines(source, width)
        return ["", *lines] if self.gap and lines else lines

    def _begin(self, text: str, *, gap: bool) -> None:
        self.text, self.gap, self._seen = text, gap, text.rfind("\n") + 1


def _last_cut(tokens: Sequence[Token]) -> tuple[int, bool] | None:
    """Return the line where the last block or list item begins, if there is text before it.

    Also return whether a blank line belongs there.
    """
    begins = [(token.map[0], token.level == 0) for token in tokens if token.map
              and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))]  # fmt: skip
    if not begins or begins[0][0] == begins[-1][0]:
        return None
    line = begins[-1][0]
    return line, any(at == line and block for at, block in begins)


# -- The conversation: events become permanent lines, and changing lines at the bottom -------------------------


PROMPT = "› "
_THOUGHT_LINES = 2
_RESULT = 500  # characters of a result, of which the first that fit are shown
_SHORTEST = 0.05  # seconds; shorter times are not shown


_PATCH_LINES = 40  # of a patch, the rest is counted
_PATCH_STYLES = {"+": "green", "-": "red", "*": "bold"}


@dataclass(slots=True)
class _RunningCall:
    call: ToolCall
    began: float
    printed: str = ""  # the last line of its program


@dataclass(slots=True)
class ChatView:
    """The state of what is shown. `waiting` are the notes that the model has not received yet, oldest first."""

    size: Size = field(default=Size(rows=24, columns=80))
    waiting: list[str] = field(default_factory=list)
    turn: Usage = field(default_factory=Usage)
    _reply: Arriving = field(default_factory=Arriving)
    _thought: str = ""
    _asked: dict[tuple[str, ...], tuple[str, float]] = field(default_factory=dict)
    _calls: dict[tuple[tuple[str, ...], str], _RunningCall] = field(default_factory=dict)
    _began: float = 0.0
    _last: str = ""  # kind of the last lines: different kinds are separated by blank lines

    # -- permanent lines -------------------------------------------------------------------------------

    def happened(self, event: Event, place: Place, now: float) -> list[str]:
        """Return the lines to print for an event; the path of its place names the agents down to where it happened."""
        chain = place.path
        if isinstance(event, Asked):
            self._asked[chain] = (event.model, now)
            self._began = self._began or now
            return [] if chain else self._end_reply()
        if isinstance(event, ToolCall):
            self._calls[chain, event.id] = _RunningCall(event, now)
            return []
        if isinstance(event, ToolProgress):
            if (running := self._calls.get((chain, event.call))) is not None:
                running.printed = event.text.rstrip().rpartition("\n")[2]
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
        """Return a message of the user, followed by a remark."""
        words = Text.assemble((clean(text), style), (f" {more}" if more else "", "dim"))
        return self._print("said", self._hanging(Text(PROMPT, "bold cyan"), words), apart=True)

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

    def _of_turn(self, event: Event, now: float) -> list[str]:
        """Return the lines for an event that only the first agent reports."""
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
        """Return the lines of a complete reply that were not returned before."""
        if not self._reply.begun:  # it did not come in pieces
            self._reply.feed(text)
        return self._end_reply()

    def _again(self, event: Retrying, chain: tuple[str, ...]) -> list[str]:
        begun = self._reply.begun and not chain
        lines = [] if chain else self._end_reply()
        if begun and event.wait is not None:
            lines += self.note("The reply broke off here; the model is asked again.", "yellow")
        return lines + self.note(str(event), "yellow", chain)

    def _called(self, result: ToolResult, chain: tuple[str, ...]) -> list[str]:
        called = self._calls.pop((chain, result.call), None)
        text = call_line(called.call) if called else clean(result.name)
        mark = ("✗ ", "red") if result.failed else ("✓ ", "green")
        first = " ".join(clean(result.text[:_RESULT]).split()) or ("an image" if result.images else "")
        lines = self._call_line(mark, text, result.seconds, first, chain)
        return self._print("call", lines + (self._patched(called.call) if called and not result.failed else []))

    def _patched(self, call: ToolCall) -> list[str]:
        """Return what a call has changed, as the lines of its patch."""
        lines = patch_in(call)
        shown = [Text(f"  {line}", _PATCH_STYLES.get(line[0], "dim")) for line in lines[:_PATCH_LINES]]
        if (more := len(lines) - len(shown)) > 0:
            shown.append(Text(f"  … {more} more lines", "dim"))
        return [line for text in shown for line in self._clipped(text)]

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
        """Return words with `first` before their first line, and as much space before the others."""
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

    # -- changing lines --------------------------------------------------------------------------------

    def live(self, now: float) -> list[str]:
        """Return the lines at the bottom: text that arrives, calls and agents at work, waiting notes."""
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
        """Return a line for each running call, and each agent that is being asked."""
        rows = [(chain, one.began, call_line(one.call), clean(one.printed)) for (chain, _), one in self._calls.items()]
        rows += [(chain, began, clean(f"{model} …"), "") for chain, (model, began) in self._asked.items()
                 if chain or not self._reply.begun]  # fmt: skip
        rows = sorted(rows, key=itemgetter(0, 1))[: max(2, self.size.rows // 3)]
        mark = ("● ", "cyan")
        return [
            line for chain, began, text, printed in rows
            for line in self._call_line(mark, text, now - began, printed, chain)
        ]  # fmt: skip


def _indent(chain: tuple[str, ...]) -> Text:
    """Return the prefix of an event in an agent: its depth as spaces, and its name."""
    return Text.assemble("  " * len(chain), (f"{clean(PurePath(chain[-1]).stem)} ", "dim")) if chain else Text()
