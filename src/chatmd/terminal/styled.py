"""Texts of rich as lines for a terminal, with the codes of their styles in them."""

from __future__ import annotations

import io
import re

from rich.console import Console, RenderableType
from rich.theme import Theme

from lmm.terminal import visible

# Rich's own styles of code have a black background.
_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "none"})
_BLANK_END = re.compile(r"(?: |\x1b\[[\d;]*m)+$")
_CODE = re.compile(r"\x1b\[[\d;]*m")


def clean(text: str) -> str:
    """`text` without the power to move the cursor or to mislead; a tab is four spaces, the end of a line stays.

    >>> clean("a\\x1b[31mb\\tc\\r\\nd")
    'a\\\\x1b[31mb    c\\nd'
    """
    return visible(text.replace("\t", "    "))


def render(part: RenderableType, width: int) -> list[str]:
    """The lines of `part`; none ends in blanks, which would be copied, and wrap where a window gets narrower.

    >>> from rich.text import Text
    >>> render(Text.assemble("two ", ("words ", "bold")), 5)
    ['two', '\\x1b[1mwords\\x1b[0m']
    """
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=max(1, width), height=100,
                      theme=_THEME, highlight=False, legacy_windows=False)  # fmt: skip
    console.print(part, crop=False)
    lines = [
        _BLANK_END.sub(lambda end: "".join(_CODE.findall(end[0])), line) if plain(line).strip() else ""
        for line in file.getvalue().split("\n")
    ]
    seen = [number for number, line in enumerate(lines) if line]
    return lines[seen[0] : seen[-1] + 1] if seen else []


def plain(line: str) -> str:
    """The text of a line."""
    return _CODE.sub("", line)
