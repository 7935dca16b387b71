"""A real pseudo-terminal with a program in it, and what somebody in front of it would see.

It understands what line-oriented programs send: moving the cursor, erasing, scrolling. What has scrolled away is kept,
as terminals keep it. Anything else that begins with ESC is an error, so that nothing is misunderstood in silence.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fakes.forked import python

# As from a window: a SIGHUP that the tests were started to ignore (nohup) would stay ignored.
_LAUNCH = """
import os, signal, sys
from lmm.cli.main import main
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.login_tty(0)
sys.exit(main())
"""
_SEQUENCE = re.compile(r"\x1b(?:\[(?P<mark>[?>]?)(?P<numbers>[0-9;]*)(?P<space> ?)(?P<kind>[A-Za-z])|(?P<other>[^\[]))")
_IGNORED = frozenset("mhlqt")  # styles, modes, the cursor's shape


class Display:
    """The characters on a screen, and above it what has scrolled away."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.gone: list[str] = []
        self.cells: list[list[str]] = [[]]
        self.x = self.y = 0
        self.bold = ""
        self._rest = ""

    def feed(self, text: str) -> None:
        """What the program writes."""
        text = self._rest + text
        self._rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    self._rest = text[at:]  # the rest of the sequence has not come yet
                    assert len(self._rest) < 50, f"not understood: {self._rest!r}"
                    return
                self._sequence(found)
                at = found.end()
            else:
                self._char(text[at])
                at += 1

    @property
    def lines(self) -> list[str]:
        """All lines, those that have scrolled away first, without white space at their ends."""
        return [*self.gone, *("".join(row).rstrip() for row in self.cells)]

    def _char(self, char: str) -> None:
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self.x = max(0, self.x - 1)
        elif char >= " ":
            self._put(char)

    def _put(self, char: str) -> None:
        if unicodedata.combining(char):
            row = self.cells[self.y]
            row[self.x - 1] += char
            return
        wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self.x + wide > self.columns:
            self.x = 0
            self._down()
        row = self.cells[self.y]
        row += [" "] * (self.x + wide - len(row))
        row[self.x : self.x + wide] = [char, ""][:wide]
        self.x += wide

    def _down(self) -> None:
        self.y += 1
        if self.y == len(self.cells):
            self.cells.append([])
        if len(self.cells) > self.rows:
            self.gone.append("".join(self.cells.pop(0)).rstrip())
            self.y -= 1

    def _sequence(self, found: re.Match[str]) -> None:
        kind, number = found["kind"], int((found["numbers"] or "0").split(";")[0] or 0)
        count = max(1, number)
        if kind == "A":
            self.y = max(0, self.y - count)
        elif kind == "B":
            self.y = min(len(self.cells) - 1, self.y + count)
        elif kind == "C":
            self.x = min(self.columns - 1, self.x + count)
        elif kind == "D":
            self.x = max(0, self.x - count)
        elif kind == "K":
            del self.cells[self.y][self.x :]
        elif kind == "J" and number == 0:
            del self.cells[self.y][self.x :]
            del self.cells[self.y + 1 :]
        else:
            assert kind in _IGNORED, f"not understood: {found[0]!r}"


class Terminal:
    """``lmm`` with `arguments` in a terminal of its own; a context manager, at whose end nothing is left."""

    def __init__(self, *arguments: str | Path, columns: int = 80, rows: int = 24, **environment: str) -> None:
        self.display = Display(columns, rows)
        self.raw = b""
        self.master, slave = pty.openpty()
        self._resize(columns, rows)
        env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        env |= {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""} | environment
        self.process = python("-c", _LAUNCH, *arguments, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    # -- what one does ---------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Press keys: ``\\r`` is Enter, ``\\x03`` Ctrl-C."""
        os.write(self.master, text.encode())

    def enter(self, text: str) -> None:
        """Type a line as people do: the text, then Enter."""
        self.type(text)
        if text:
            self.wait_for(text.splitlines()[-1][-20:])
        self.type("\r")

    def paste(self, text: str) -> None:
        """Paste, as terminals tell it."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size. Lines are not wrapped anew, as in xterm."""
        self.display.columns, self.display.rows = columns, rows
        self._resize(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the window."""
        if self.master >= 0:
            os.close(self.master)
        self.master = -1

    # -- what one sees ---------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Everything that can be seen or scrolled to."""
        return "\n".join(self.display.lines).rstrip()

    def wait_for(self, *texts: str, gone: Sequence[str] = (), timeout: float = 30.0) -> str:
        """Look until all of these texts are there, and none of those; what is seen then."""
        return self.wait_until(
            lambda seen: all(text in seen for text in texts) and not any(text in seen for text in gone),
            f"{texts}, without {gone}",
            timeout=timeout,
        )

    def wait_until(self, there: Callable[[str], bool], what: str = "something", *, timeout: float = 30.0) -> str:
        """Look until what is seen is as it should be."""
        end = time.monotonic() + timeout
        while not there(self.text):
            assert time.monotonic() < end, f"waited for {what}; there is:\n{self.text}"
            self._read(0.05)
        return self.text

    def wait_for_end(self, timeout: float = 30.0) -> int:
        """The program's exit code, once it has ended."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < end, f"still running:\n{self.text}"
            self._read(0.05)
        self._read(0.0)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        if self.master < 0:
            time.sleep(seconds)
            return
        while select.select([self.master], [], [], seconds)[0]:
            data = b""
            with contextlib.suppress(OSError):  # EIO: the program has ended
                data = os.read(self.master, 65536)
            if not data:
                time.sleep(seconds)
                return
            self.raw += data
            self.display.feed(data.decode("utf-8", "replace"))
            seconds = 0.0
