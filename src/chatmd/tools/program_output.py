"""What a program printed, as a model can read it: no escapes, bounded, its beginning and its end."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Mapping

_LONG_LINE = 4096  # characters; a longer one is passed on in pieces
_MUCH = 1_000_000  # characters; what comes after them is made readable only if it is shown
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links
    r"|[ -/]*[0-~])"  # others, of two or three characters
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# Control characters, and bytes that are not UTF-8, as the error handler "surrogateescape" gives them.
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


def readable(text: str) -> str:
    """Text of a terminal as it would look there: escapes do nothing, of a line that is written anew the last counts.

    Other control characters, and bytes that were no text, are spelled out. Takes linear time, whatever comes.

    >>> readable("\\x1b[31mred\\x1b[0m 10%\\r100%\\r\\nb\\x08bell\\x07")
    '100%\\nbell\\\\x07'
    """
    if _UNREADABLE.search(text) is None:
        return text
    text = _ESCAPE.sub("", text)
    if "\x08" in text:
        text = _struck_over(text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _UNREADABLE.sub(lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", text)


def _struck_over(text: str) -> str:
    """Backspaces done: each takes away the character before it, as far as the line begins."""
    left: list[str] = []
    for char in text:
        if char != "\x08":
            left.append(char)
        elif left and left[-1] != "\n":
            left.pop()
    return "".join(left)


class Stream:
    """One stream of a program's output, of which no more than the beginning and the end are kept.

    Bytes that are not UTF-8 are spelled ``\\xff``. Memory stays within a few times `limit`, whatever comes.

    >>> stream = Stream(limit=20)
    >>> for piece in (b"one\\ntwo\\n", b"three\\n" * 1000, b"fo\\xc3", b"\\xbcr\\n"):
    ...     stream.add(piece)
    >>> stream.end()
    >>> print(stream.text(20), end="")
    one
    two
    [… 6,000 characters in 1,000 lines left out …]
    foür
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.length, self.size = limit, 0, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
        self._line = ""  # a line whose end has not come yet: an escape may be cut in two
        self._head, self._tail = "", deque[str]()
        self._tail_length = self._newlines = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        text = self._line + self._decoder.decode(data)
        end = text.rfind("\n") + 1
        self._line = text[end:]
        if len(self._line) > _LONG_LINE:  # a progress bar may never end its line
            self._line = self._line[self._line.rstrip("\r").rfind("\r") + 1 :]
        if len(self._line) > _LONG_LINE:
            end, self._line = len(text), ""
        self._keep(text[:end])

    def end(self) -> None:
        """Nothing more will come."""
        text = self._line + self._decoder.decode(b"", final=True)
        self._line = ""
        self._keep(text)
        self._tail = deque(map(readable, self._tail))

    def _keep(self, text: str) -> None:
        if self.length < _MUCH:
            text = readable(text)
        self.length += len(text)
        self._newlines += text.count("\n")
        missing = self.limit - len(self._head)
        if missing > 0:
            self._head += text[:missing]
            text = text[missing:]
        if not text:
            return
        self._tail.append(text)
        self._tail_length += len(text)
        while self._tail_length - len(self._tail[0]) >= self.limit:
            self._tail_length -= len(self._tail.popleft())

    def text(self, limit: int) -> str:
        """All of it, or at most `limit` characters from the beginning and the end, if possible whole lines.

        `limit` is not more than that of the stream.
        """
        kept = self._head + "".join(self._tail)
        if self.length <= limit:
            return kept
        half = limit // 2
        head, tail = self._head[:half], kept[len(kept) - (limit - half) :]
        head = head[: head.rfind("\n") + 1] if "\n" in head[half // 2 :] else head
        tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: half // 2] else tail
        lines = self._newlines - head.count("\n") - tail.count("\n")
        left = f"{self.length - len(head) - len(tail):,} characters" + (f" in {lines:,} lines" if lines > 1 else "")
        return f"{head}{'' if head.endswith(chr(10)) or not head else chr(10)}[… {left} left out …]\n{tail}"


def report(ending: str, streams: Mapping[str, Stream], limit: int) -> str:
    """How a program ended, and what it printed, within about `limit` characters; streams by their names.

    >>> out, err = Stream(100), Stream(100)
    >>> out.add(b"1 file\\n"); out.end(); err.end()
    >>> report("exit code 0", {"stdout": out, "stderr": err}, 100)
    'exit code 0\\n\\nstdout:\\n1 file\\n'
    >>> report("exit code 1", {"stdout": err, "stderr": err}, 100)
    'exit code 1, no output'
    """
    filled = {name: stream for name, stream in streams.items() if stream.length}
    if not filled:
        return f"{ending}, no output"
    parts = [ending + "\n"]
    for name, stream in filled.items():
        others = sum(other.length for other in filled.values() if other is not stream)
        text = stream.text(max(limit // len(filled), limit - others))
        parts.append(f"{name}:\n{text}" + ("" if text.endswith("\n") else "\n"))
    return "\n".join(parts)
