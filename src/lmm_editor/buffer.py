"""The text of a document open in an editor: updated by its changes, with positions as in the protocol."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from lsprotocol.types import (
    Position,
    PositionEncodingKind,
    Range,
    TextDocumentContentChangeEvent,
    TextDocumentContentChangePartial,
    TextEdit,
)

from lmm.disk.diff import hunks

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_UNITS = {PositionEncodingKind.Utf8: "utf-8", PositionEncodingKind.Utf16: "utf-16-le"}
Encoding = PositionEncodingKind | str | None


def split_lines(text: str) -> list[str]:
    """Split a text into lines as in the protocol: U+2028 does not end a line. The last one may be empty.

    >>> split_lines("a\\u2028b\\r\\nc\\n")
    ['a\\u2028b\\r\\n', 'c\\n', '']
    """
    if "\r" not in text:
        *lines, last = text.split("\n")
        return [*(line + "\n" for line in lines), last]
    lines = _LINES.findall(text)
    return lines if lines and not lines[-1].endswith(("\r", "\n")) else [*lines, ""]


class Buffer:
    """A document that is open in an editor.

    >>> buffer = Buffer("a 😀 b\\n", 1)
    >>> at = Range(buffer.position(4), buffer.position(5))
    >>> at.start.character
    5
    >>> buffer.change([TextDocumentContentChangePartial(range=at, text="c")], 2)
    >>> buffer.text, buffer.edits("a 😀 c d\\n")[0].new_text
    ('a 😀 c\\n', ' d')
    """

    def __init__(self, text: str, version: int, encoding: Encoding = PositionEncodingKind.Utf16) -> None:
        self.version, self._encoding = version, encoding
        self._lock = threading.Lock()  # other threads read it
        self._take(text)

    def _take(self, text: str) -> None:
        self._text: str | None = text
        self.lines = split_lines(text)
        self._starts: list[int] | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        with self._lock:
            if self._text is None:
                self._text = "".join(self.lines)
            return self._text

    def change(self, changes: Sequence[TextDocumentContentChangeEvent], version: int) -> None:
        """Apply the editor's changes, in order."""
        with self._lock:
            for change in changes:
                if isinstance(change, TextDocumentContentChangePartial):
                    self._replace(change.range, change.text)
                else:
                    self._take(change.text)
            self.version = version

    def _replace(self, at: Range, text: str) -> None:
        (first, start), (last, end) = self._place(at.start), self._place(at.end)
        between = self.lines[first][:start] + text + self.lines[last][end:]
        if "\r" in between:  # half of a line end may have been removed or added
            self._take("".join([*self.lines[:first], between, *self.lines[last + 1 :]]))
            return
        fresh = split_lines(between)
        if last + 1 < len(self.lines):
            fresh.pop()  # the line ended with a newline
        self.lines[first : last + 1] = fresh
        self._text = self._starts = None

    def _place(self, position: Position) -> tuple[int, int]:
        """Return line and character of a position; positions beyond an end are moved to it."""
        if position.line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        line = self.lines[position.line]
        length = len(line.rstrip("\r\n"))
        if line.isascii() or self._encoding == PositionEncodingKind.Utf32:
            return position.line, min(position.character, length)
        units = self._units(line[:length])
        return position.line, bisect_right(units, position.character) - 1

    def _units(self, line: str) -> list[int]:
        """Return the start of each character of a line, and the line's end, in the units of the editor."""
        codec = _UNITS[self._encoding or PositionEncodingKind.Utf16]  # type: ignore[index]
        size = 2 if codec == "utf-16-le" else 1
        return list(accumulate((len(c.encode(codec, "surrogatepass")) // size for c in line), initial=0))

    # -- positions ---------------------------------------------------------------------------------

    @property
    def starts(self) -> list[int]:
        """The offset of each line."""
        if self._starts is None:
            self._starts = list(accumulate(map(len, self.lines), initial=0))[:-1]
        return self._starts

    def offset(self, position: Position) -> int:
        """Convert a position to an offset in the text."""
        line, character = self._place(position)
        return self.starts[line] + character

    def position(self, offset: int) -> Position:
        """Convert an offset in the text to a position."""
        line = bisect_right(self.starts, offset) - 1
        return self.in_line(line, offset - self.starts[line])

    def in_line(self, line: int, character: int) -> Position:
        """Return the position of a character in a line, both from 0, limited to the end of the line."""
        line = min(line, len(self.lines) - 1)
        text = self.lines[line].rstrip("\r\n")
        character = min(max(character, 0), len(text))
        if text.isascii() or self._encoding == PositionEncodingKind.Utf32:
            return Position(line, character)
        return Position(line, self._units(text[:character])[-1])

    def whole_line(self, line: int, character: int = 0) -> Range:
        """Return the range of a line, from 0, starting at a character."""
        start = self.in_line(line, character)
        return Range(start, self.in_line(start.line, len(self.lines[start.line])))

    def edits(self, text: str) -> list[TextEdit]:
        """Return the edits that change the buffer to this text: minimal in lines, and within them in characters."""
        new = split_lines(text)
        found = []
        for first, last, begin, end in hunks(self.lines, new):
            start = self.starts[first] if first < len(self.lines) else len(self.text)
            old_part, new_part = "".join(self.lines[first:last]), "".join(new[begin:end])
            before = _common_prefix(old_part, new_part)
            after = _common_prefix(old_part[before:][::-1], new_part[before:][::-1])
            at = Range(self.position(start + before), self.position(start + len(old_part) - after))
            found.append(TextEdit(at, new_part[before : len(new_part) - after]))
        return found


def _common_prefix(one: str, two: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
