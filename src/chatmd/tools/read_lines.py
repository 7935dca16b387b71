"""A few lines of a file of any size: read in pieces, never more in memory than is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from chatmd.tools.text_lines import Lines, decode_text

_PIECE = 1 << 20
SCANNED = 2_000_000_000
"""How many bytes are looked at in order to count lines."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file, the first of them number `first` (from 0), of `total` in all.

    `exact` is False if the file is so large that the rest of it was not counted; `cut` is True if the only line
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
    taken, newlines, scanned, last = bytearray(), 0, 0, b"\n"
    room = 4 * budget + 4  # no character has more bytes
    for piece in _pieces(file):
        if not scanned and b"\0" in piece[:8192]:
            decode_text(piece[:8192], name)  # which says what it is
        start = _after_newline(piece, offset - newlines)
        if start is not None:
            taken += piece[start : start + room - len(taken)]
        newlines += piece.count(b"\n")
        scanned, last = scanned + len(piece), piece[-1:]
        if scanned >= SCANNED:
            break
    total = newlines + (last != b"\n")
    lines, cut = _shown(taken, len(taken) < room, name, offset, count, budget)
    return Excerpt(lines.texts, offset, total, scanned < SCANNED, cut, lines.newline == "\r\n")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _after_newline(piece: bytes, number: int) -> int | None:
    """The index after the newline of that number (from 1); 0 if it came before; None if it is not in this piece."""
    if number <= 0:
        return 0
    if piece.count(b"\n") < number:
        return None
    at = -1
    for _ in range(number):
        at = piece.index(b"\n", at + 1)
    return at + 1


def _shown(
    taken: bytes | bytearray, whole: bool, name: str, offset: int, count: int | None, budget: int
) -> tuple[Lines, bool]:
    """The lines that fit, and whether the last one is cut."""
    lines = Lines.of(decode_text(taken, name, first=offset + 1, cut=not whole))
    complete = len(lines.texts) if whole else len(lines.texts) - 1
    size = fitting = 0
    for line in lines.texts[: complete if count is None else min(complete, count)]:
        size += len(line) + 1
        if size > budget:
            break
        fitting += 1
    if fitting or not lines.texts or count == 0:
        return Lines(lines.texts[:fitting], lines.ends[:fitting]), False
    return Lines((lines.texts[0][:budget],), lines.ends[:1]), True
