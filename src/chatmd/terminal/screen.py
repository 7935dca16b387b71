"""The terminal: lines that stay above, lines that change and the prompt at the foot.

What stays is written once and scrolls away as any output does, so that the terminal's own scroll-back, selection and
search work. What changes is drawn by prompt_toolkit, which writes only what differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
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

from chatmd.terminal.styled import COLOURS, Line, StyledSpan, ansi, clipped
from chatmd.terminal.view import PROMPT, ScreenSize
from lmm.disk.files import replace, state_folder
from lmm.errors import ConfigError, LmmError

# -- What can be done at the prompt besides speaking: one row of a table each ---------------------------------


_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


class SlashCommand(NamedTuple):
    """A command; `argument` is how it is called in the help."""

    name: str
    argument: str
    help: str


COMMANDS = (
    SlashCommand("help", "", "this list"),
    SlashCommand("tools", "", "the tools that the model is offered"),
    SlashCommand("cost", "", "tokens and money so far, and the limits"),
    SlashCommand("budget", "AMOUNT", "allow so many tokens (20000) or so much money (0.50$) from now on"),
    SlashCommand("edit", "", "take back your last message, and change it"),
    SlashCommand("undo", "", "take back your last message, and what followed it"),
    SlashCommand("compact", "", "replace the older part of the conversation by a summary"),
    SlashCommand("quit", "", "leave; lmm run FILE goes on from there"),
)

KEYS = (
    ("Enter", "sends; while the model is at work, it gets your note with the next result"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Ctrl-X Ctrl-E", "opens $EDITOR"),
    ("Up, Ctrl-R", "earlier messages"),
    ("@name, Tab", "a file, which is sent along"),
    ("Ctrl-C", "cancels what the model does; else empties the line; twice leaves"),
    ("Ctrl-D", "leaves"),
)


def read_command(text: str) -> tuple[SlashCommand, str] | None:
    """The command that a line calls, with its argument; None if it is a message, as ``/etc/hosts?`` is.

    Raises:
        ConfigError: there is no such command, or something is wrong with its argument.

    >>> read_command("/budget 1$")[1], read_command(" /budget 1$"), read_command("/etc/hosts")
    ('1$', None, None)
    >>> read_command("/hlep")
    Traceback (most recent call last):
    lmm.errors.ConfigError: there is no command /hlep (did you mean /help? to say it, begin with a space)
    """
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), (found[2] or "").strip()
    command = next((row for row in COMMANDS if row.name == name), None)
    if command is None:
        close = get_close_matches(name, [row.name for row in COMMANDS], n=1)
        hint = f"did you mean /{close[0]}?" if close else "/help lists them;"
        raise ConfigError(f"there is no command /{found[1]}", hint=f"{hint} to say it, begin with a space")
    if bool(argument) != bool(command.argument):
        how = f"write: /{name} {command.argument}".rstrip()
        raise ConfigError(f"/{name} takes {'an' if command.argument else 'no'} argument", hint=how)
    return command, argument


def help_rows() -> list[tuple[str, str]]:
    """Keys and commands, each with what it does."""
    rows = [(f"/{row.name} {row.argument}".rstrip(), row.help) for row in COMMANDS]
    return rows + list(KEYS)


# -- Completion at the prompt: commands after ``/``, files of the conversation's folder after ``@`` -----------


_TYPED_COMMAND = re.compile(r"/[a-z]*")
_FILE = re.compile(r'(?<!\S)@("?)([^\s"]*|(?<=")[^"\n]*)\Z')
_MOST_FILES = 50


class PromptCompleter(Completer):
    """Completes what stands before the cursor. Files that begin with a dot are shown once a dot is typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What could be meant."""
        text = document.text_before_cursor
        if _TYPED_COMMAND.fullmatch(text):
            for row in COMMANDS:
                if f"/{row.name}".startswith(text):
                    yield Completion(f"/{row.name}", -len(text), display_meta=row.help)
        elif found := _FILE.search(text):
            for name in self._files(found[2]):
                quoted = f'"{name}"' if " " in name and not name.endswith("/") else name
                yield Completion(quoted, -len(found[1] + found[2]), display=name)

    def _files(self, begin: str) -> list[str]:
        """Files and folders whose path begins so, relative to the folder; folders end in ``/``."""
        inside, _, stem = begin.rpartition("/")
        folder = self.folder / inside
        try:
            if not folder.resolve().is_relative_to(self.folder):
                return []
            with os.scandir(folder) as entries:
                found = [(entry.name, entry.is_dir()) for entry in entries if _fits(entry.name, stem)]
        except OSError:
            return []
        before = f"{inside}/" if inside else ""
        return [f"{before}{name}{'/' if is_folder else ''}" for name, is_folder in sorted(found)[:_MOST_FILES]]


def _fits(name: str, stem: str) -> bool:
    return name.lower().startswith(stem.lower()) and (stem.startswith(".") or not name.startswith("."))


# -- Keys of the prompt, besides those of line editing, which are Emacs' as in most shells --------------------


def key_bindings(prompt: Screen) -> KeyBindings:
    """The keys that `KEYS` explains."""
    keys = KeyBindings()
    typing = has_focus(prompt.buffer)
    empty = Condition(lambda: not prompt.buffer.text)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        # A terminal that does not mark what is pasted sends its lines at once: none of them but the last is sent.
        if any(key.key not in (Keys.CPRResponse, Keys.Ignore) for key in event.key_processor.input_queue):
            prompt.buffer.insert_text("\n")
        else:
            prompt.submit()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        prompt.buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        if event.app.current_buffer is prompt.buffer:
            prompt.interrupt()
        else:  # the search
            event.app.layout.focus(prompt.buffer)

    @keys.add("c-d", filter=typing & empty)
    def _(event: KeyPressEvent) -> None:
        prompt.leave()

    @keys.add("c-x", "c-e", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(prompt.edit())

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


_MOST_KEPT = 2000  # messages
_LONGEST = 20_000  # characters: what is longer was pasted


def history_path() -> Path:
    """Where it is kept."""
    return state_folder() / "conversations.jsonl"


class TypedHistory(History):
    """One JSON string a line, oldest first; only its owner may read it. What begins with a space is not kept.

    A history that cannot be read or written is none: the conversation goes on.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def load_history_strings(self) -> Iterable[str]:
        """Newest first, each once."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(lines) > 2 * _MOST_KEPT:
            lines = lines[-_MOST_KEPT:]
            with contextlib.suppress(LmmError):
                replace(self.path, "".join(f"{line}\n" for line in lines))
        texts = [text for line in reversed(lines) if (text := _read(line))]
        return list(dict.fromkeys(texts))

    def store_string(self, string: str) -> None:
        """Keep a message; several conversations may do so at once."""
        if string.startswith(" ") or len(string) > _LONGEST:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, f"{json.dumps(string, ensure_ascii=False)}\n".encode())
            finally:
                os.close(file)


def _read(line: str) -> str:
    try:
        text = json.loads(line)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""


_TICK = 0.2  # seconds between two drawings while something is at work
_GATHER = 0.02  # seconds in which lines are gathered, to be written at once
_MENU_ROWS = 6
# "Synchronized output": a terminal that knows it shows nothing half drawn; others ignore it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class User(Protocol):
    """Who is told what is typed, and says what is shown."""

    def live(self, now: float, size: ScreenSize) -> list[Line]:
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
    def size(self) -> ScreenSize:
        """Of the terminal, now."""
        size = self.output.get_size()
        return ScreenSize(max(8, size.columns), max(4, size.rows))

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
        return [fragment for line in lines for fragment in (("", "\n"), *_fragments(line))][1:]

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [("bold fg:ansicyan", self.label)]

    def _hint(self) -> StyleAndTextTuples:
        return _fragments(clipped((StyledSpan(f"  {self.user.hint()}", "dim"),), self.size.columns))


def _fragments(line: Line) -> StyleAndTextTuples:
    return [(_style(span.style), span.text) for span in line]


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
