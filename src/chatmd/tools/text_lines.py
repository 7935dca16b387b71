"""Texts as lines with their line ends, so that unchanged lines are restored byte for byte.

A line ends with LF or CRLF; any other character, such as a lone CR or a form feed, is part of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO

from chatmd.errors import NotStorable
from lmm.disk.files import decode_document
from lmm.errors import FileReadError

BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text, each with its text and its end (``\\n``, ``\\r\\n``, or nothing at the end of the file).

    >>> TextLines.of("a\\r\\nb")
    TextLines(texts=('a', 'b'), ends=('\\r\\n', ''), bom=False)
    """

    texts: tuple[str, ...]
    ends: tuple[str, ...]
    bom: bool = False

    @classmethod
    def of(cls, text: str) -> TextLines:
        """Split a text into lines; an empty one has none."""
        body = text.removeprefix(BOM)
        pairs = [match.groups() for match in _LINE.finditer(body)]
        if pairs and pairs[-1] == ("", ""):  # after the last line end
            pairs.pop()
        return cls(tuple(line for line, _ in pairs), tuple(end for _, end in pairs), body != text)

    @property
    def text(self) -> str:
        """The exact text."""
        mark = BOM if self.bom else ""
        return mark + "".join(line + end for line, end in zip(self.texts, self.ends, strict=True))

    @property
    def newline(self) -> str:
        """The most frequent line end; LF if there is none.

        >>> TextLines.of("a\\r\\nb\\r\\nc\\n").newline
        '\\r\\n'
        """
        return "\r\n" if self.ends.count("\r\n") > self.ends.count("\n") else "\n"


def with_newline(text: str, newline: str) -> str:
    """Convert all line ends of a text to `newline`.

    >>> with_newline("a\\nb\\r\\n", "\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    return text.replace("\r\n", "\n").replace("\n", newline)


def decode_text(data: bytes, name: str) -> str:
    """Decode the bytes of a text file: UTF-8 without NUL.

    Raises:
        FileReadError: it is not a text file.
    """
    if b"\0" in data and data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise FileReadError("this is not a text file", where=name)
    return decode_document(data, name)


def whole_characters(data: bytes) -> bytes:
    """Remove an incomplete character at the end of UTF-8 data.

    >>> whole_characters("aü".encode()[:-1])
    b'a'
    """
    return data[: codecs.utf_8_decode(data, "surrogateescape", False)[1]]


def encode_text(text: str, name: str) -> bytes:
    """Encode a text for a text file.

    Raises:
        NotStorable: the text contains a NUL or half of a surrogate pair.
    """
    if "\0" in text:
        raise NotStorable("a text file cannot contain a NUL", where=name)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotStorable("the text contains half of a surrogate pair", where=name) from error


def are_numbered(lines: Sequence[str]) -> bool:
    """Return whether all lines begin with a number and a tab, as a model copies them from an excerpt."""
    return any(lines) and all(re.match(r"\s*\d+\t", line) for line in lines if line.strip())


# -- Excerpts of a file ---------------------------------------------------------------------------------------


READ = 200_000_000
"""The number of bytes that are read of a file."""
_NUMBER = 9  # characters of a line's number and the ends of line and number


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file with `total` lines.

    `exact` is False if the file is so large that the rest of it was not read; `cut` is True if the only line was cut
    off; `crlf` if lines end with CRLF.
    """

    lines: Sequence[str]
    total: int
    exact: bool = True
    cut: bool = False
    crlf: bool = False


def read_excerpt(file: BinaryIO, name: str, *, offset: int = 0, count: int | None = None, budget: int) -> Excerpt:
    """Read at most `count` lines after the first `offset`, in at most `budget` characters.

    >>> from io import BytesIO
    >>> read_excerpt(BytesIO(b"a\\nb\\nc"), "f", offset=1, count=1, budget=100).lines
    ('b',)

    Raises:
        FileReadError: the excerpt would not be text.
    """
    data, room = file.read(READ), 4 * budget + 4  # no character has more bytes
    if b"\0" in data[:8192]:
        decode_text(data[:8192], name)  # raises the error
    ends = (match.end() for match in re.finditer(b"\n", data))
    start = next(islice(ends, min(offset, len(data) + 1) - 1, None), len(data)) if offset else 0
    total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    taken = whole_characters(data[start : start + room])
    try:
        text = taken.decode("utf-8")
    except UnicodeDecodeError:
        text = decode_text(data[: start + room], name)  # raises the error with its place
    lines = TextLines.of(text)
    complete = lines.texts if start + room >= len(data) else lines.texts[:-1]
    shown, cut = fitting((complete or lines.texts)[:count], budget)
    crlf = replace(lines, ends=lines.ends[: len(shown)]).newline == "\r\n"
    return Excerpt(shown, total, exact=len(data) < READ, cut=cut, crlf=crlf)


def fitting(lines: Sequence[str], budget: int) -> tuple[Sequence[str], bool]:
    """Return the first lines that fit into `budget` characters; if none does, the beginning of the first, and True.

    With each line, its number takes room.

    >>> fitting(["one", "two", "three"], 25), fitting(["one", "two"], 2)
    ((['one', 'two'], False), (['on'], True))
    """
    size = count = 0
    for line in lines:
        size += len(line) + _NUMBER
        if size > budget:
            break
        count += 1
    return (lines[:count], False) if count or not lines else ([lines[0][:budget]], True)
