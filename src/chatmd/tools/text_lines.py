"""A text as lines that keep how they end, so that what nobody changed comes back byte for byte.

A line ends with LF or CRLF; any other character, such as a lone CR or a form feed, is part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO

from chatmd.errors import NotStorable
from lmm.errors import FileReadError

BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text: what each says, and how it ends (``\\n``, ``\\r\\n``, or nothing at the end of the file).

    >>> TextLines.of("a\\r\\nb")
    TextLines(texts=('a', 'b'), ends=('\\r\\n', ''), bom=False)
    """

    texts: tuple[str, ...]
    ends: tuple[str, ...]
    bom: bool = False

    @classmethod
    def of(cls, text: str) -> TextLines:
        """The lines of a text; an empty one has none."""
        body = text.removeprefix(BOM)
        pairs = [match.groups() for match in _LINE.finditer(body)]
        if pairs and pairs[-1] == ("", ""):  # what comes after the last line end
            pairs.pop()
        return cls(tuple(line for line, _ in pairs), tuple(end for _, end in pairs), body != text)

    @property
    def text(self) -> str:
        """The text again, exactly."""
        mark = BOM if self.bom else ""
        return mark + "".join(line + end for line, end in zip(self.texts, self.ends, strict=True))

    @property
    def newline(self) -> str:
        """How most lines end; LF, if none does.

        >>> TextLines.of("a\\r\\nb\\r\\nc\\n").newline
        '\\r\\n'
        """
        return "\r\n" if self.ends.count("\r\n") > self.ends.count("\n") else "\n"


def with_newline(text: str, newline: str) -> str:
    """A text whose lines all end with `newline`.

    >>> with_newline("a\\nb\\r\\n", "\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    return text.replace("\r\n", "\n").replace("\n", newline)


def decode_text(data: bytes | bytearray, name: str, *, first: int = 1, cut: bool = False) -> str:
    """The text of a file that is text: UTF-8 without NUL. `first` is the number of its first line.

    With `cut`, the last character may have been cut off, and is left out then.

    Raises:
        FileReadError: it is something else.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileReadError("this is UTF-16, not UTF-8", where=name, hint="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in data:
        raise FileReadError("this is no text file", where=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if cut and error.start >= len(data) - 3:
            return data[: error.start].decode("utf-8")
        line = first + data[: error.start].count(b"\n")
        raise FileReadError(
            f"this is no text file, or an old one: byte 0x{data[error.start]:02x} in line {line} is not UTF-8",
            where=name,
        ) from error


def encode_text(text: str, name: str) -> bytes:
    """The bytes of a text file.

    Raises:
        NotStorable: the text holds what no text file can.
    """
    if "\0" in text:
        raise NotStorable("a text file holds no NUL", where=name)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotStorable("the text holds half of a surrogate pair", where=name) from error


# -- A few lines of a file ------------------------------------------------------------------------------------


READ = 200_000_000
"""How many bytes of a file are looked at."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file, the first of them number `first` (from 0), of `total` in all.

    `exact` is False if the file is so large that the rest of it was not looked at; `cut` is True if the only line
    shown is not shown to its end; `crlf` if lines end with CRLF.
    """

    lines: tuple[str, ...]
    first: int
    total: int
    exact: bool = True
    cut: bool = False
    crlf: bool = False


def read_excerpt(file: BinaryIO, name: str, *, offset: int = 0, count: int | None = None, budget: int) -> Excerpt:
    """At most `count` lines after the first `offset`, in at most `budget` characters.

    >>> from io import BytesIO
    >>> read_excerpt(BytesIO(b"a\\nb\\nc"), "f", offset=1, count=1, budget=100).lines
    ('b',)

    Raises:
        FileReadError: what would be shown is no text.
    """
    data, room = file.read(READ), 4 * budget + 4  # no character has more bytes
    if b"\0" in data[:8192]:
        decode_text(data[:8192], name)  # which says what it is
    start = _line_start(data, offset)
    total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    lines, cut = _shown(data[start : start + room], start + room >= len(data), name, offset, count, budget)
    return Excerpt(lines.texts, offset, total, exact=len(data) < READ, cut=cut, crlf=lines.newline == "\r\n")


def _line_start(data: bytes, offset: int) -> int:
    """The index after so many lines; the end, if there are fewer."""
    at = 0
    for _ in range(offset):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


def _shown(taken: bytes, whole: bool, name: str, offset: int, count: int | None, budget: int) -> tuple[TextLines, bool]:
    """The lines that fit, and whether the last one is cut."""
    lines = TextLines.of(decode_text(taken, name, first=offset + 1, cut=not whole))
    complete = len(lines.texts) if whole else len(lines.texts) - 1
    size = fitting = 0
    for line in lines.texts[: complete if count is None else min(complete, count)]:
        size += len(line) + 1
        if size > budget:
            break
        fitting += 1
    if fitting or not lines.texts or count == 0:
        return TextLines(lines.texts[:fitting], lines.ends[:fitting]), False
    return TextLines((lines.texts[0][:budget],), lines.ends[:1]), True
