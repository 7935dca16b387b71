"""Markdown as a card of Anki shows it: HTML, with formulas for MathJax, which Anki brings."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# Code first, so that dollar signs in it are no formulas.
_PARTS = re.compile(
    r"(?P<code>^[ \t]*(?P<fence>```+|~~~+).*?^[ \t]*(?P=fence)[`~]*[ \t]*$"
    r"|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?<!\\)\$\$(?P<display>.+?)\$\$(?:[ \t]*\{#[^}\n]*\})?"
    r"|\\\[(?P<bracket>.+?)\\\]|\\\((?P<round>.+?)\\\)"
    r"|(?<![\\$])\$(?P<inline>[^\s$](?:(?:\\.|[^$\\])*?[^\s\\])?)\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)
_IMAGE = re.compile(r'(<img src=")([^"]+)(")')
_CHUNK = re.compile(r"^([ \t]*(?:```+|~~~+))[ \t]*\{(\w+)[^}\n]*\}[ \t]*$", re.MULTILINE)
_HOLE = "\ue000{}\ue001"  # private characters, which stand for a formula while markdown is read


def to_html(markdown: str, *, picture: Callable[[str], str] = lambda path: path) -> str:
    """A text as HTML. HTML in it is shown, not interpreted; `picture` gives the name under which a picture is kept.

    >>> to_html("The slope $\\\\beta < 1$ is *small*.")
    '<p>The slope \\\\(\\\\beta &lt; 1\\\\) is <em>small</em>.</p>'
    """
    formulas: list[str] = []

    def hold(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        display = match["display"] or match["bracket"]
        marks = r"\[{}\]" if display else r"\({}\)"
        formulas.append(marks.format(html.escape(display or match["round"] or match["inline"], quote=False)))
        return _HOLE.format(len(formulas) - 1)

    source = _PARTS.sub(hold, _CHUNK.sub(r"\1\2", markdown.replace("\ue000", "").replace("\ue001", "")))
    rendered = str(_parser().render(source)).strip()
    rendered = re.sub(_HOLE.format(r"(\d+)"), lambda match: formulas[int(match[1])], rendered)
    return _IMAGE.sub(lambda match: match[1] + html.escape(picture(html.unescape(match[2]))) + match[3], rendered)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
