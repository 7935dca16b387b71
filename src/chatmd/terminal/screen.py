"""The terminal: lines that stay above, lines that change and the prompt at the foot.

What stays is written once and scrolls away as any output does, so that the terminal's own scroll-back, selection and
search work. What changes is drawn by prompt_toolkit, which writes only what differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.widgets import SearchToolbar

from chatmd.terminal.completing import PromptCompleter
from chatmd.terminal.keys import key_bindings
from chatmd.terminal.styled import COLOURS, Line, Span, ansi, clipped
from chatmd.terminal.typed_history import TypedHistory, history_path
from chatmd.terminal.view import PROMPT, Size

_TICK = 0.2  # seconds between two drawings while something is at work
_GATHER = 0.02  # seconds in which lines are gathered, to be written at once
_MENU_ROWS = 6
# "Synchronized output": a terminal that knows it shows nothing half drawn; others ignore it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class User(Protocol):
    """Who is told what is typed, and says what is shown."""

    def live(self, now: float, size: Size) -> list[Line]:
        """The lines that change."""
        ...

    def hint(self) -> str:
        """A remark below the prompt."""
        ...

    def at_work(self) -> bool:
        """Whether time is to be shown going by."""
        ...

    def submitted(self, text: str) -> bool:
        """Enter was pressed; whether the text is to be found in the history."""
        ...

    def interrupted(self) -> None:
        """Ctrl-C was pressed."""
        ...

    def left(self) -> None:
        """Ctrl-D was pressed on an empty line."""
        ...


class Screen:
    """A prompt with completion and history. All methods are for the thread of its event loop."""

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user
        self.colour = not os.environ.get("NO_COLOR")
        self.label = PROMPT
        self._kept: Document | None = None  # the draft that a question has put aside
        self._pending: list[Line] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._in_editor = False
        self.buffer = Buffer(
            completer=PromptCompleter(folder), complete_while_typing=True, history=TypedHistory(history_path()),
            multiline=True, tempfile_suffix=".md",
        )  # fmt: skip
        self.output = cast(_Output, _Output.from_pty(sys.stdout, term=os.environ.get("TERM")))
        self.app = _Application(
            layout=self._layout(),
            key_bindings=key_bindings(self),
            erase_when_done=True,
            color_depth=None if self.colour else ColorDepth.DEPTH_1_BIT,
            output=self.output,
            input=create_input(sys.stdin),
            min_redraw_interval=0.03,
        )
        self.app.ttimeoutlen = 0.1  # Esc alone does nothing here that somebody waits for

    # -- running -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the prompt until `close`, or until the terminal is gone."""
        ticking = asyncio.create_task(self._tick())
        try:
            with contextlib.suppress(EOFError):
                await self.app.run_async(set_exception_handler=False, handle_sigint=False)
        finally:
            ticking.cancel()
            self._flush()

    def close(self) -> None:
        """Take the prompt away."""
        self._flush()
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if self.user.at_work():
                self.app.invalidate()

    @property
    def size(self) -> Size:
        """Of the terminal, now."""
        size = self.output.get_size()
        return Size(max(8, size.columns), max(4, size.rows))

    # -- what stays --------------------------------------------------------------------------------------

    def print(self, lines: list[Line]) -> None:
        """Lines that stay, above the prompt."""
        self._pending += lines
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_GATHER, self._flush)

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing = None
        if self._in_editor or not self._pending:
            return
        text = "".join(f"{ansi(line, colour=self.colour)}\r\n" for line in self._pending)
        self._pending = []
        with self.output.held():
            if self.app.is_running:
                self.app.renderer.erase()
            self.output.write_raw(text)
            self.app._redraw()

    def redraw(self) -> None:
        """Something that changes has changed."""
        self.app.invalidate()

    # -- the prompt --------------------------------------------------------------------------------------

    def submit(self) -> None:
        """Hand over what is typed."""
        text = self.buffer.text
        self.buffer.reset()
        if self.user.submitted(text) and text.strip():
            self.buffer.history.append_string(text)
        self.redraw()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.user.interrupted()
        self.redraw()

    def leave(self) -> None:
        """Ctrl-D."""
        self.user.left()

    def draft(self, text: str) -> None:
        """Put a text into the prompt, before what is there."""
        rest = self._kept.text if self._kept else self.buffer.text
        text = f"{text}\n\n{rest}" if rest.strip() else text
        if self._kept:
            self._kept = Document(text)
        else:
            self.buffer.document = Document(text)

    def ask(self, label: str) -> None:
        """Let the next line be the answer to a question; what is typed so far is put aside."""
        if self._kept is None:
            self._kept = self.buffer.document
            self.buffer.reset()
        self.label = f"{label} "
        self.redraw()

    def asked(self) -> None:
        """The question is answered, or void."""
        self.label = PROMPT
        if self._kept is not None:
            self.buffer.document, self._kept = self._kept, None
        self.redraw()

    async def edit(self) -> None:
        """Open what is typed in the user's editor; what happens meanwhile is shown afterwards."""
        if self._in_editor:
            return
        self._in_editor = True
        try:
            await self.buffer.open_in_editor()
        finally:
            self._in_editor = False
            self._flush()
            self.redraw()

    # -- the layout --------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        search = SearchToolbar(ignore_case=True)
        live = FormattedTextControl(self._live)
        typed = BufferControl(self.buffer, search_buffer_control=search.control)
        window = Window(
            typed, get_line_prefix=self._prefix, wrap_lines=True, dont_extend_height=True, height=self._rows
        )
        hint = Window(FormattedTextControl(self._hint), height=1)
        rows = HSplit(
            [
                ConditionalContainer(Window(live, dont_extend_height=True), Condition(lambda: bool(self._live()))),
                Window(height=1),
                window,
                search,
                ConditionalContainer(hint, Condition(lambda: bool(self.user.hint())) & ~has_completions),
                ConditionalContainer(Window(height=_MENU_ROWS), has_completions),
            ],
            align=VerticalAlign.TOP,
        )
        menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
        return Layout(FloatContainer(rows, [menu]), focused_element=typed)

    def _rows(self) -> Dimension:
        return Dimension(min=1, max=max(1, self.size.rows // 3))

    def _live(self) -> StyleAndTextTuples:
        lines = self.user.live(time.monotonic(), self.size)
        return [fragment for number, line in enumerate(lines) for fragment in self._fragments(line, number > 0)]

    def _fragments(self, line: Line, not_first: bool) -> StyleAndTextTuples:
        fragments: StyleAndTextTuples = [("", "\n")] if not_first else []
        fragments += [(_style(span.style), span.text) for span in line]
        return fragments

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [("bold fg:ansicyan", self.label)]

    def _hint(self) -> StyleAndTextTuples:
        return self._fragments(clipped((Span(f"  {self.user.hint()}", "dim"),), self.size.columns), False)


def _style(names: str) -> str:
    """A style as prompt_toolkit spells it.

    >>> _style("bold cyan")
    'bold fg:ansicyan'
    """
    return " ".join(f"fg:ansi{name}" if name in COLOURS else name for name in names.split())


class _Application(Application[None]):
    """Finds its first row again when the window gets narrower."""

    def _on_resize(self) -> None:
        renderer, columns = self.renderer, self.output.get_size().columns
        before = renderer.last_rendered_screen
        # Most terminals wrap what is on the screen anew: rows above the cursor become several. Xterm cuts them off.
        if before is not None and columns < before.width and not os.environ.get("XTERM_VERSION"):
            x, y = renderer._cursor_pos
            widths = (max(before.data_buffer[row], default=0) + 1 for row in range(y))
            renderer._cursor_pos = Point(x % columns, sum(-(-width // columns) for width in widths) + x // columns)
        super()._on_resize()


class _Output(Vt100_Output):
    """Writes several things as one; a terminal that is gone is written to no more."""

    _held = False
    _gone = False

    @property
    def responds_to_cpr(self) -> bool:
        """The prompt stands where the output ends: there is no need to ask for that place."""
        return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Write everything at the end, in one piece."""
        self._held = True
        self.write_raw(_BEGIN)
        try:
            yield
        finally:
            self._held = False
            self.write_raw(_END)
            self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        if self._held:
            return
        try:
            super().flush()
        except OSError:
            self._gone = True
