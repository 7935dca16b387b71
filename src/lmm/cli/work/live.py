"""Lines at the foot of a terminal that are drawn again when they change; what is said stays above them."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from typing import IO

from lmm.cli import console


class Live:
    """Draws lines on `out`, which is a terminal. No line is wider than the terminal, nor are they more than it has."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out
        self.drawn = 0
        self.size = shutil.get_terminal_size()

    def draw(self, lines: Sequence[str], *, above: str = "") -> None:
        """Show these lines in place of those before; `above` is written once, and stays."""
        size = shutil.get_terminal_size()
        # After a resize nobody knows how many rows the old lines take now: they are left standing.
        back = f"\x1b[{self.drawn}F" if self.drawn and size == self.size else ""
        shown = [clipped(line, size.columns - 1) for line in lines[: size.lines - 1]]
        self.size, self.drawn = size, len(shown)
        console.say(f"{back}\x1b[J{above}" + "".join(line + "\n" for line in shown), self.out)


def clipped(text: str, width: int) -> str:
    """`text` on one line, cut to so many columns; what a terminal would act upon becomes a space.

    >>> clipped("a residual", 20), clipped("a residual", 5), clipped("日本語", 5), clipped("a\\nb", 9)
    ('a residual', 'a re…', '日本…', 'a b')
    """
    text = "".join(char if char.isprintable() else " " for char in text)
    if columns(text) <= width:
        return text
    used, kept = 1, ""  # the ellipsis
    for char in text:
        used += _columns(char)
        if used > width:
            break
        kept += char
    return kept + "…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> columns("añb"), columns("日本")
    (3, 4)
    """
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
