"""Markdown on a terminal: each block is shown by rich once it is complete.

This module knows no clock and no size: the width is passed in.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownContext, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from lmm.terminal import visible

# -- Texts of rich as lines for a terminal, with escape codes for their styles ---------------------------------


# Rich's own styles of code have a black background.
_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "none"})
_BLANK_END = re.compile(r"(?: |\x1b\[[\d;]*m)+$")
_STYLE_CODE = re.compile(r"\x1b\[[\d;]*m")


def clean(text: str) -> str:
    """Return `text` with control and misleading characters spelled out; a tab is four spaces, line ends stay.

    >>> clean("a\\x1b[31mb\\tc\\r\\nd")
    'a\\\\x1b[31mb    c\\nd'
    """
    return visible(text.replace("\t", "    "))


def render(part: RenderableType, width: int) -> list[str]:
    """Return the lines of `part`, without blanks at their ends, which would be copied, and wrap in narrower windows.

    >>> from rich.text import Text
    >>> render(Text.assemble("two ", ("words ", "bold")), 5)
    ['two', '\\x1b[1mwords\\x1b[0m']
    """
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=max(1, width), height=100,
                      theme=_THEME, highlight=False, legacy_windows=False)  # fmt: skip
    console.print(part, crop=False)
    lines = [
        _BLANK_END.sub(lambda end: "".join(_STYLE_CODE.findall(end[0])), line) if plain(line).strip() else ""
        for line in file.getvalue().split("\n")
    ]
    seen = [number for number, line in enumerate(lines) if line]
    return lines[seen[0] : seen[-1] + 1] if seen else []


def plain(line: str) -> str:
    """Return the text of a line without styles."""
    return _STYLE_CODE.sub("", line)


# -- Replies: rich renders each block of Markdown once it is complete ------------------------------------------


_MOST_COLUMNS = 100  # of prose: longer lines are hard to read
_NARROWEST = 8  # columns, of which a column of a table has six
_LONG = 2000  # characters


def markdown_lines(text: str, width: int) -> list[str]:
    """Render a text as Markdown; only lines of code may be wider than `width`.

    >>> markdown_lines("- green <b>\\n- flat", 20)
    ['\\x1b[1m • \\x1b[0mgreen <b>', '\\x1b[1m • \\x1b[0mflat']
    """
    return render(_Reply(text), min(width, _MOST_COLUMNS))


class _Code(CodeBlock):
    """Code without a background. Its lines are never wrapped, so that they can be copied, except inside of a list."""

    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.inside = len(context.stack) > 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).removesuffix("\n"))
        lines = Text("\n").join(Text.assemble("  ", line) for line in code.split())
        lines.no_wrap, lines.overflow = not self.inside, "fold" if self.inside else "ignore"
        yield lines


class _Table(TableElement):
    """A table that cuts nothing off: long words are wrapped, and in a narrow window, each cell has its own line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = self.header.row.cells if self.header and self.header.row else []
        if options.max_width < _NARROWEST * len(names):
            for row in self.body.rows if self.body else ():
                for name, cell in zip(names, row.cells, strict=False):
                    yield Text.assemble((f"{name.content.plain}: ", "bold"), cell.content)
                yield ""
            return
        for table in super().__rich_console__(console, options):
            for column in table.columns if isinstance(table, Table) else ():
                column.overflow = "fold"
            yield table


class _Reply(Markdown):
    """Rich's Markdown that shows everything a model wrote: HTML, targets of links and pictures, long lines."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {
        "fence": _Code, "code_block": _Code, "table_open": _Table,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__(clean(text), code_theme="ansi_light", hyperlinks=False)
        for token in self.parsed:
            if token.type == "html_block":  # rich drops HTML in silence
                token.type = "code_block"
            token.children = [_spelled_out(child) for child in token.children or () if child.markup != "autolink"]


def _spelled_out(token: Token) -> Token:
    if token.type == "image":  # rich puts pictures before the paragraph that they stand in
        token.type, token.tag, token.children = "text", "", None
        token.content = f"{token.content} ({token.attrs['src']})"
    elif token.type == "html_inline":
        token.type = "text"
    return token


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. A block is final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("Leaves\n\nThey are\n*gr")
    >>> text.final(), text.rest
    ('Leaves\n\n', 'They are\n*gr')
    """

    rest: str = ""  # what is not final yet
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended

    def feed(self, piece: str) -> None:
        """Append a piece."""
        self.rest += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self) -> str:
        """Return the blocks that have become final, each once."""
        whole = self.rest.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        # A long block is parsed less often; otherwise it would take for ever.
        if whole - self._seen <= (len(self.rest) // 30 if len(self.rest) > _LONG else 0):
            return ""
        blocks = [token.map[0] for token in Markdown(clean(self.rest[:whole])).parsed if token.map and not token.level]
        before = self.rest.split("\n")[: blocks[-1]] if blocks else ()
        return self._taken(sum(len(line) + 1 for line in before))

    def end(self) -> str:
        """Return the rest, which is final now, and begin another text."""
        self.begun = False
        return self._taken(len(self.rest))

    def _taken(self, size: int) -> str:
        final, self.rest = self.rest[:size], self.rest[size:]
        self._seen = self.rest.rfind("\n") + 1
        return final
