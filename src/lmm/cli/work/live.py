"""Lines at the foot of a terminal that are drawn again when they change; what is said stays above them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from lmm import terminal


class Live:
    """Draws lines on standard output, a terminal. No line is wider than the terminal, nor are they more than it has."""

    def __init__(self) -> None:
        self.drawn = 0
        self.size = shutil.get_terminal_size()

    def draw(self, lines: Sequence[str], *, above: str = "") -> None:
        """Show these lines in place of those before; `above` is written once, and stays."""
        size = shutil.get_terminal_size()
        # After a resize nobody knows how many rows the old lines take now: they are left standing.
        back = terminal.upwards(self.drawn) if size == self.size else ""
        shown = [terminal.clipped(line, size.columns - 1) for line in lines[: size.lines - 1]]
        self.size, self.drawn = size, len(shown)
        terminal.say(f"{back}{terminal.ERASE_BELOW}{above}" + "".join(line + "\n" for line in shown), end="")
