"""The screen: permanent lines above, changing lines and the prompt at the bottom.

Permanent lines are written once and scroll away like any output, so that the terminal's own scroll-back, selection and
search work. Changing lines are part of the prompt, which prompt_toolkit draws.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter, WordCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from chatmd.errors import ChatmdError
from chatmd.runtime.rewind import mentions
from chatmd.terminal.view import PROMPT
from lmm.disk.files import state_folder
from lmm.errors import ConfigError, nearest
from lmm.terminal import clipped

# -- The commands and keys of the prompt, one row of a table each ----------------------------------------------


_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


class SlashCommand(NamedTuple):
    """A command; `argument` is its argument's name in the help, in brackets if it is optional."""

    name: str
    argument: str
    help: str


COMMANDS = (
    SlashCommand("help", "", "this list"),
    SlashCommand("tools", "", "the tools that the model is offered"),
    SlashCommand("cost", "", "tokens and money so far, and the limits"),
    SlashCommand("budget", "AMOUNT", "allow this much from now on: tokens (20000) or money (0.50$)"),
    SlashCommand("model", "NAME", "ask this model from now on, whatever the file says"),
    SlashCommand("retry", "", "ask for the last reply again"),
    SlashCommand("edit", "", "take back your last message, and change it"),
    SlashCommand("undo", "", "take back your last message and everything after it"),
    SlashCommand("fork", "[N]", "continue differently from your message N on, in a new file; without N, list them"),
    SlashCommand("compact", "", "replace the older part of the conversation with a summary"),
    SlashCommand("resume", "[FILE]", "switch to another conversation; without FILE, list the latest"),
    SlashCommand("quit", "", "leave; lmm run FILE continues from there"),
)

KEYS = (
    ("Enter", "sends; while the model works, it gets your note with the next result"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Ctrl-X Ctrl-E", "opens $EDITOR"),
    ("Up, Ctrl-R", "earlier messages that begin with this, or contain it; Right takes the one that is shown dimmed"),
    ("@name, Tab", "a file or picture of the conversation's folder, which is sent along"),
    ("!command", "runs it in a shell; what it prints is offered to your next message"),
    ("Ctrl-C", "cancels the turn; otherwise empties the line; twice leaves"),
    ("Ctrl-D", "leaves"),
)


def read_command(text: str) -> tuple[SlashCommand, str] | None:
    """Return the command in a line, with its argument; None if the line is a message, such as ``/etc/hosts?``.

    Raises:
        ConfigError: there is no such command, or its argument is missing or superfluous.

    >>> read_command("/budget 1$")[1], read_command(" /budget 1$"), read_command("/etc/hosts")
    ('1$', None, None)
    >>> read_command("/hlep")
    Traceback (most recent call last):
    lmm.errors.ConfigError: there is no command /hlep (did you mean '/help'?; ...)
    """
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), (found[2] or "").strip()
    command = next((row for row in COMMANDS if row.name == name), None)
    if command is None:
        hint = nearest(f"/{name}", [f"/{row.name}" for row in COMMANDS])
        raise ConfigError(
            f"there is no command /{found[1]}", hint=f"{hint}; to send it as a message, begin with a space"
        )
    if bool(argument) != bool(command.argument) and not (command.argument.startswith("[") and not argument):
        how = f"write: /{name} {command.argument}".rstrip()
        raise ConfigError(f"/{name} takes {'an' if command.argument else 'no'} argument", hint=how)
    return command, argument


def help_rows() -> list[tuple[str, str]]:
    """Return the keys and commands, each with its help."""
    rows = [(f"/{row.name} {row.argument}".rstrip(), row.help) for row in COMMANDS]
    return rows + list(KEYS)


# -- Completion at the prompt: commands after ``/``, files of the conversation's folder after ``@`` -----------


_FILE = re.compile(r'(?<!\S)@("?)([^\s"]*|(?<=")[^"\n]*)\Z')


def _is_command(text: str) -> bool:
    return text.startswith("/") and not text[1:].strip("abcdefghijklmnopqrstuvwxyz")


class PromptCompleter(Completer):
    """Completes the text before the cursor. Files that begin with a dot are offered once a dot is typed."""

    def __init__(self, folder: Path) -> None:
        names = {f"/{row.name}": row.help for row in COMMANDS}
        self.commands = WordCompleter(list(names), meta_dict=names, sentence=True)
        self.paths = PathCompleter(get_paths=lambda: [str(folder)])

    def fits(self, document: Document) -> bool:
        """Return whether a command or a file is being typed."""
        text = document.text_before_cursor
        return bool(_is_command(text) or _FILE.search(text))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the possible completions."""
        text = document.text_before_cursor
        if _is_command(text):
            yield from self.commands.get_completions(document, complete_event)
        elif found := _FILE.search(text):
            inside, _, stem = found[2].rpartition("/")
            for one in self.paths.get_completions(Document(found[2]), complete_event):
                name = f"{inside}/"[not inside :] + one.display_text
                if one.display_text.startswith(".") and not stem.startswith("."):
                    continue
                quoted = f'"{name}"' if " " in name and not name.endswith("/") else name
                yield Completion(quoted, -len(found[1] + found[2]), display=name)


# -- Key bindings of the prompt, besides those of line editing, which are Emacs' as in most shells -------------


def key_bindings(screen: Screen) -> KeyBindings:
    """Return the bindings of the keys in `KEYS`, except prompt_toolkit's own."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # and not in the search

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        # A terminal without bracketed paste sends pasted lines at once: only the last of them submits.
        if any(key.key not in (Keys.CPRResponse, Keys.Ignore) for key in event.key_processor.input_queue):
            event.current_buffer.insert_text("\n")
        else:
            screen.submit()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=typing)
    def _(event: KeyPressEvent) -> None:
        screen.user.interrupted()

    @keys.add("c-x", "c-e", filter=typing)
    def _(event: KeyPressEvent) -> None:
        screen.buffer.document = Document(screen.unfolded(screen.buffer.text))
        event.current_buffer.open_in_editor()

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(screen.pasted(event.data.replace("\r\n", "\n").replace("\r", "\n")))

    return keys


# -- Pasted text ------------------------------------------------------------------------------------------------

_FOLDED = 10  # a pasted text of more lines is shown as one line
_LONGEST = 20_000  # characters: a longer text was pasted


class TypedHistory(FileHistory):
    """Messages in a file that only its owner may read, except those that begin with a space.

    If the file cannot be read or written, there is no history, and the conversation continues.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the messages, newest first, each once."""
        with contextlib.suppress(OSError):
            return list(dict.fromkeys(super().load_history_strings()))
        return []

    def store_string(self, string: str) -> None:
        """Store a message."""
        if string.startswith(" ") or len(string) > _LONGEST:
            return
        with contextlib.suppress(OSError, ValueError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(0o600)
            super().store_string(string)


# -- Files and pictures sent with a message, named after ``@`` ---------------------------------------------------


_PUNCTUATION = ".,;:!?)]}'\""


def attached_files(text: str, folder: Path) -> tuple[str, ...]:
    """Return the files named in a text, relative to `folder`; a name without a file is just text.

    Raises:
        ChatmdError: one of them is outside of the folder.
    """
    folder = folder.resolve()
    found: dict[str, None] = {}
    for name in mentions(text):
        path = next((path for part in (name, name.rstrip(_PUNCTUATION)) if (path := _named_file(folder, part))), None)
        if path is None:
            continue
        if not path.resolve().is_relative_to(folder) or not path.is_relative_to(folder):
            raise ChatmdError(
                f"@{name} is outside of the folder of the conversation",
                hint=f"copy it to {folder}, or write it without @",
            )
        found[path.relative_to(folder).as_posix()] = None
    return tuple(found)


def _named_file(folder: Path, name: str) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return Path(*path.parts) if name and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


_MENU_ROWS = 6
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse dim"})
# "Synchronized output": a terminal that knows it shows nothing half drawn; others ignore it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class User(Protocol):
    """The receiver of what is typed, and the source of what is shown."""

    def live(self, now: float, size: Size) -> list[str]:
        """Return the changing lines."""

    def hint(self) -> str:
        """Return the remark in an empty prompt."""

    def status(self) -> str:
        """Return the line at the bottom."""

    def submitted(self, text: str, shown: str) -> bool:
        """Handle Enter; return whether `text`, which appeared as `shown`, goes into the history."""

    def interrupted(self) -> None:
        """Handle Ctrl-C."""


class Screen:
    """A prompt with completion and history. Call its methods only in the thread of its event loop."""

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user
        self.label, self.folder = PROMPT, folder
        self._whole: dict[str, str] = {}  # the texts that folded lines stand for
        self._kept: Document | None = None  # the draft that was put aside for a question
        self._pending: list[str] = []
        self.output = _Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        self.output.enable_cpr = False
        completer = PromptCompleter(folder)
        self.prompt = PromptSession[str | None](
            self._message, multiline=True, prompt_continuation="  ",
            placeholder=lambda: [("dim", "" if is_searching() else user.hint())],
            completer=completer,
            complete_while_typing=Condition(lambda: completer.fits(self.buffer.document)),
            reserve_space_for_menu=_MENU_ROWS, history=TypedHistory(state_folder() / "conversations.txt"),
            search_ignore_case=True, auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: [("", clipped(user.status(), self.size.columns))],
            style=_STYLE,
            enable_history_search=Condition(lambda: not completer.fits(self.buffer.document)),
            key_bindings=key_bindings(self), enable_suspend=True, tempfile_suffix=".md", erase_when_done=True,
            output=self.output,
        )  # fmt: skip
        self.prompt.app.ttimeoutlen = 0.1  # Esc alone does nothing here, so nobody waits for it
        self.prompt.app.min_redraw_interval = 0.03
        self.prompt.app.before_render += lambda app: self._flush()
        self.prompt.app.after_render += lambda app: self._shown()
        self.buffer = self.prompt.default_buffer

    # -- running -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the prompt until `close`, Ctrl-D, or the end of the terminal."""
        try:
            with contextlib.suppress(EOFError), patch_stdout(raw=True):
                while text := await self.prompt.prompt_async(
                    default=self.buffer.text, set_exception_handler=False, handle_sigint=False
                ):
                    self.user.submitted(self.unfolded(text), text)  # by another of Emacs' keys that accept a line
        finally:
            self._flush()
            self._shown()

    def close(self) -> None:
        """Remove the prompt, which ends `run`."""
        app = self.prompt.app
        if app.is_running and not app.is_done:
            app.exit()

    @property
    def size(self) -> Size:
        """The current size of the terminal."""
        size = self.output.get_size()
        return Size(rows=max(4, size.rows), columns=max(8, size.columns))

    def print(self, lines: list[str]) -> None:
        """Print permanent lines above the prompt; while an editor is open, they wait."""
        self._pending += lines
        if self.prompt.app.is_running:
            self.redraw()
        else:
            self._flush()
            self._shown()

    def _flush(self) -> None:
        """Write the waiting lines in place of the prompt, before it is drawn or after it is removed."""
        if not self._pending:
            return
        text, self._pending = "".join(f"{line}\r\n" for line in self._pending), []
        self.output.write_raw(_BEGIN)
        self.prompt.app.renderer.erase()
        self.output.write_raw(text)

    def _shown(self) -> None:
        self.output.write_raw(_END)
        self.output.flush()

    def redraw(self) -> None:
        """Draw the changing lines again."""
        self.prompt.app.invalidate()

    # -- the prompt --------------------------------------------------------------------------------------

    def pasted(self, text: str) -> str:
        """Return what appears in the prompt for a pasted text."""
        lines = text.rstrip("\n").count("\n") + 1
        return self.folded(text, f"pasted {lines} lines") if lines > _FOLDED else text

    def folded(self, text: str, name: str) -> str:
        """Return a line that stands for a text until the message is sent; deleting it removes the text."""
        more = (f"[{name}]", *(f"[{name}, {n}]" for n in range(2, 1000)))
        label = next(label for label in more if self._whole.get(label, text) == text)
        self._whole[label] = text
        return label

    def unfolded(self, text: str) -> str:
        """Return a text with its folded lines replaced by the texts that they stand for."""
        labels = "|".join(map(re.escape, self._whole))
        return re.sub(labels, lambda found: self._whole[found[0]], text) if labels else text

    def submit(self) -> None:
        """Pass what is typed to the user object."""
        shown = self.buffer.text
        text = self.unfolded(shown)
        self.buffer.reset()
        if self.user.submitted(text, shown) and text.strip():
            self.buffer.history.append_string(text)

    def draft(self, text: str) -> None:
        """Insert a text into the prompt, before what is there."""
        rest = self._kept.text if self._kept else self.buffer.text
        text = f"{text}\n\n{rest}" if rest.strip() else text
        if self._kept:
            self._kept = Document(text)
        else:
            self.buffer.document = Document(text)

    def ask(self, label: str) -> None:
        """Ask a question: the next line is its answer, and the text typed so far is put aside."""
        if self._kept is None:
            self._kept = self.buffer.document
            self.buffer.reset()
        self.label = f"{label} "
        self.redraw()

    def asked(self) -> None:
        """End a question, and restore the text that was put aside."""
        self.label = PROMPT
        if self._kept is not None:
            self.buffer.document, self._kept = self._kept, None
        self.redraw()

    def _message(self) -> StyleAndTextTuples:
        lines = self.user.live(time.monotonic(), self.size)
        above = to_formatted_text(ANSI("".join(f"{line}\n" for line in (*lines, ""))))
        return [*above, ("bold fg:ansicyan", self.label)]


class _Output(Vt100_Output):
    """Output that ignores errors once the terminal has gone."""

    def get_rows_below_cursor_position(self) -> int:
        """Return 1: the prompt is at the end of the output, and scrolling makes more rows."""
        return 1

    def flush(self) -> None:
        """Write the buffered output."""
        with contextlib.suppress(OSError):
            super().flush()
