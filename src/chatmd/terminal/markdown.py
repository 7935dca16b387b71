"""Replies in the terminal: rich renders each block of Markdown once it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownContext, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from chatmd.terminal.styled import clean, render

_MOST_COLUMNS = 100  # of prose: longer lines are hard to read
_NARROWEST = 8  # columns, of which a column of a table has six
_LONG = 2000  # characters


def markdown_lines(text: str, width: int) -> list[str]:
    """A text, rendered; only lines of code may be wider than `width`.

    >>> markdown_lines("- green <b>\\n- flat", 20)
    ['\\x1b[1m • \\x1b[0mgreen <b>', '\\x1b[1m • \\x1b[0mflat']
    """
    return render(_Reply(text), min(width, _MOST_COLUMNS))


class _Reply(Markdown):
    """Rich's Markdown with everything that a model wrote in it: HTML, targets of links and pictures, long lines."""

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


class _Heading(Heading):
    """A heading that keeps its marks, and begins at the left."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(("#" * int(self.tag[1:]) + " ", "bold"), self.text)


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


class _Item(ListItem):
    """An item that keeps the dot of its number."""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        mark, *rest = super().render_number(console, options, number, last_number)
        assert isinstance(mark, Segment)
        yield Segment(f"{mark.text[1:-1]}. ", mark.style)
        yield from rest


class _Table(TableElement):
    """A table of which nothing is cut off: long words are wrapped, and where it is too narrow, each cell has a line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = self.header.row.cells if self.header and self.header.row else []
        if options.max_width < _NARROWEST * len(names):
            for row in self.body.rows if self.body else ():
                for name, cell in zip(names, row.cells, strict=False):
                    yield Text.assemble((name.content.plain, "bold"), (": ", "bold"), cell.content)
                yield ""
            return
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


_KINDS: dict[str, type[MarkdownElement]] = {
    "heading_open": _Heading, "fence": _Code, "code_block": _Code, "list_item_open": _Item, "table_open": _Table,
}  # fmt: skip
_Reply.elements = Markdown.elements | _KINDS


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. Blocks, and items of lists, are final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("Leaves\n\nThey are\n*gr")
    >>> text.final(40), text.rest(40, 10)
    (['Leaves'], ['', 'They are', '*gr'])
    """

    text: str = ""  # what is not final yet
    gap: bool = False  # whether a blank line belongs before it
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended

    def feed(self, piece: str) -> None:
        """More of it."""
        self.text += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self, width: int) -> list[str]:
        """The lines that have become final, each once."""
        whole = self.text.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        # A long block is looked at more rarely: else it would take for ever.
        if whole - self._seen <= (len(self.text) // 30 if len(self.text) > _LONG else 0):
            return []
        self._seen = whole
        cut = _last_cut(Markdown(clean(self.text[:whole])).parsed)
        if cut is None:
            return []
        source = self.text.split("\n")
        lines = self._part("\n".join(source[: cut[0]]), width)
        self._begin("\n".join(source[cut[0] :]), gap=cut[1])
        return lines

    def rest(self, width: int, rows: int) -> list[str]:
        """The end of what else there is, as it was written."""
        lines = render(Text(clean(self.text[-width * (rows + 1) :])), width)
        return ["", *lines][-rows:] if self.gap and lines else lines[-rows:]

    def end(self, width: int) -> list[str]:
        """The rest, which is final now; then begins another text."""
        lines = self._part(self.text, width)
        self._begin("", gap=False)
        self.begun = False
        return lines

    def _part(self, source: str, width: int) -> list[str]:
        lines = markdown_lines(source, width)
        return ["", *lines] if self.gap and lines else lines

    def _begin(self, text: str, *, gap: bool) -> None:
        self.text, self.gap, self._seen = text, gap, text.rfind("\n") + 1


def _last_cut(tokens: Sequence[Token]) -> tuple[int, bool] | None:
    """The line where the last block begins, or the last item of a list, if something stands before it.

    With it, whether a blank line belongs there.
    """
    begins = [(token.map[0], token.level == 0) for token in tokens if token.map
              and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))]  # fmt: skip
    if not begins or begins[0][0] == begins[-1][0]:
        return None
    line = begins[-1][0]
    return line, any(at == line and block for at, block in begins)
