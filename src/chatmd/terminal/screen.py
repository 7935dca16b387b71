"""The screen: permanent lines above, changing lines and the prompt at the bottom.

Permanent lines are written once and scroll away like any output, so that the terminal's own scroll-back, selection and
search work. Changing lines are part of the prompt, which prompt_toolkit draws.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter, WordCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from chatmd.terminal.view import PROMPT
from lmm.disk.files import state_folder
from lmm.terminal import clipped

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

# -- Completion at the prompt: commands after ``/``, files of the conversation's folder after ``@`` -----------


_FILE = re.compile(r'(?<!\S)@("?)([^\s"]*|(?<=")[^"\n]*)\Z')


def _is_command(text: str) -> bool:
    return text.startswith("/") and not text[1:].strip("abcdefghijklmnopqrstuvwxyz")


class PromptCompleter(Completer):
    """Completes the text before the cursor. Files that begin with a dot are offered once a dot is typed."""

    def __init__(self, commands: Mapping[str, str], folder: Path) -> None:
        self.commands = WordCompleter(list(commands), meta_dict=commands, sentence=True)
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


# -- The history ------------------------------------------------------------------------------------------------

_LONGEST = 20_000  # characters: a longer text was pasted


def typed_history() -> History:
    """Return the messages of earlier conversations, in a file that only its owner may read.

    If the file cannot be written, there is no history, and the conversation continues.
    """
    path = state_folder() / "conversations.txt"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
    return FileHistory(str(path)) if os.access(path, os.R_OK | os.W_OK) else InMemoryHistory()


# -- The prompt -------------------------------------------------------------------------------------------------

_FOLDED = 10  # a pasted text of more lines is shown as one line
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

    def submitted(self, text: str) -> bool:
        """Handle Enter; return whether `text` goes into the history."""

    def interrupted(self) -> None:
        """Handle Ctrl-C."""


class Screen:
    """A prompt with completion of `commands` and files, and history. Call its methods only on its event loop."""

    def __init__(self, user: User, commands: Mapping[str, str], folder: Path) -> None:
        self.user, self.label = user, PROMPT
        self._folded: dict[str, str] = {}  # the texts that lines stand for
        self._draft: str | None = None  # the draft that was put aside for a question
        self._pending: list[str] = []
        self._editing: asyncio.Task[None] | None = None
        self.output = _Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        self.output.enable_cpr = False
        completer = PromptCompleter(commands, folder)
        completes = Condition(lambda: completer.fits(self.buffer.document))
        self.prompt = PromptSession[None](
            self._message, multiline=True, prompt_continuation="  ", completer=completer,
            placeholder=lambda: [("dim", "" if is_searching() else user.hint())],
            complete_while_typing=completes, enable_history_search=~completes, reserve_space_for_menu=6,
            history=typed_history(),
            search_ignore_case=True, auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: [("", clipped(user.status(), self.size.columns))], style=_STYLE,
            key_bindings=self._key_bindings(), enable_suspend=True, tempfile_suffix=".md", erase_when_done=True,
            refresh_interval=0.2, output=self.output,
        )  # fmt: skip
        app = self.prompt.app
        app.ttimeoutlen = 0.1  # Esc alone does nothing here, so nobody waits for it
        app.min_redraw_interval = 0.03
        app.before_render += lambda app: self._flush()
        app.after_render += lambda app: self._end_frame()
        self.buffer = self.prompt.default_buffer
        self.buffer.accept_handler = self._submit  # for the other keys of Emacs that accept a line

    async def run(self) -> None:
        """Show the prompt until `close`, Ctrl-D, or the end of the terminal."""
        try:
            with contextlib.suppress(EOFError), patch_stdout(raw=True):
                await self.prompt.prompt_async(
                    default=self.buffer.text, set_exception_handler=False, handle_sigint=False
                )
        finally:
            self.print([])

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

    @property
    def is_editing(self) -> bool:
        """Whether an editor is open, which has the keyboard."""
        return self._editing is not None and not self._editing.done()

    def print(self, lines: list[str]) -> None:
        """Print permanent lines above the prompt, and draw it again; while an editor is open, they wait.

        `prompt_toolkit.application.run_in_terminal` would give the keyboard back to the terminal for each of them, and
        keys that are typed meanwhile would be echoed into the lines.
        """
        self._pending += lines
        if self.prompt.app.is_running:
            self.prompt.app.invalidate()
        else:
            self._flush()
            self._end_frame()

    def _flush(self) -> None:
        """Write the waiting lines in place of the prompt, before it is drawn or after it is removed."""
        if self._pending:
            text, self._pending = "".join(f"{line}\r\n" for line in self._pending), []
            self.output.write_raw(_BEGIN)
            self.prompt.app.renderer.erase()
            self.output.write_raw(text)

    def _end_frame(self) -> None:
        self.output.write_raw(_END)
        self.output.flush()

    def _message(self) -> StyleAndTextTuples:
        lines = self.user.live(time.monotonic(), self.size)
        above = to_formatted_text(ANSI("".join(f"{line}\n" for line in (*lines, ""))))
        return [*above, ("bold fg:ansicyan", self.label)]

    # -- what is typed -----------------------------------------------------------------------------------

    def _key_bindings(self) -> KeyBindings:
        """Return the bindings of `KEYS`, except prompt_toolkit's own, which are Emacs' as in most shells."""
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)  # and not in the search

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            # A terminal without bracketed paste sends pasted lines at once: only the last of them submits.
            if any(key.key not in (Keys.CPRResponse, Keys.Ignore) for key in event.key_processor.input_queue):
                self.buffer.insert_text("\n")
            else:
                self._submit(self.buffer)

        @keys.add("escape", "enter", filter=typing)
        @keys.add("c-j", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self.buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self.user.interrupted()

        @keys.add("c-x", "c-e", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self.buffer.document = Document(self._unfolded(self.buffer.text))
            self._editing = self.buffer.open_in_editor()

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            lines = text.rstrip("\n").count("\n") + 1
            self.buffer.insert_text(self.folded(text, f"pasted {lines} lines") if lines > _FOLDED else text)

        return keys

    def folded(self, text: str, name: str) -> str:
        """Return a line that stands for a text until the message is sent; deleting it removes the text."""
        labels = (f"[{name}]", *(f"[{name}, {n}]" for n in range(2, 1000)))
        label = next(label for label in labels if self._folded.get(label, text) == text)
        self._folded[label] = text
        return label

    def refolded(self, text: str) -> str:
        """Return a text with its folded lines again."""
        for label, whole in self._folded.items():
            text = text.replace(whole, label)
        return text

    def _unfolded(self, text: str) -> str:
        """Return a text with its folded lines replaced by the texts that they stand for."""
        labels = "|".join(map(re.escape, self._folded))
        return re.sub(labels, lambda found: self._folded[found[0]], text) if labels else text

    def _submit(self, buffer: Buffer) -> bool:
        """Pass what is typed to the user object; return True, as the prompt has its next text."""
        text = self._unfolded(buffer.text)
        buffer.reset()
        if self.user.submitted(text) and text.strip() and not text.startswith(" ") and len(text) <= _LONGEST:
            buffer.history.append_string(text)
        return True

    def draft(self, text: str) -> None:
        """Insert a text into the prompt, before what is there."""
        rest = self.buffer.text if self._draft is None else self._draft
        text = f"{text}\n\n{rest}" if rest.strip() else text
        if self._draft is None:
            self.buffer.document = Document(text)
        else:
            self._draft = text

    def ask(self, label: str) -> None:
        """Ask a question: the next line is its answer, and the text typed so far is put aside; "" ends it."""
        if label and self._draft is None:
            self._draft = self.buffer.text
            self.buffer.reset()
        elif not label and self._draft is not None:
            self.buffer.document, self._draft = Document(self._draft), None
        self.label = label or PROMPT
        self.prompt.app.invalidate()


class _Output(Vt100_Output):
    """Output that ignores errors once the terminal has gone."""

    def get_rows_below_cursor_position(self) -> int:
        """Return 1: the prompt is at the end of the output, and scrolling makes more rows."""
        return 1

    def flush(self) -> None:
        """Write the buffered output."""
        with contextlib.suppress(OSError):
            super().flush()
