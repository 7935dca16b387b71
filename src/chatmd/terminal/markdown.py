"""Markdown as lines for a terminal.

A part that comes later never changes the lines of a part before it (whether a list is loose is said by each of its
gaps, not by the list): so what has been shown while a text arrives can stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from chatmd.terminal.styled import Line, StyledSpan, clean, columns, indented, plain, trimmed, wrapped

# -- Code with its words in colours ---------------------------------------------------------------------------


# Pygments' token types, the first that fits counts. Few colours: code is there to be read.
_STYLES = (
    ("Comment", "dim italic"),
    ("Keyword", "magenta"),
    ("Literal.String.Doc", "dim italic"),
    ("Literal.String", "green"),
    ("Literal.Number", "cyan"),
    ("Name.Function", "blue"),
    ("Name.Class", "blue bold"),
    ("Name.Decorator", "cyan"),
    ("Name.Builtin", "cyan"),
    ("Name.Exception", "cyan"),
    ("Name.Tag", "blue"),
    ("Name.Attribute", "cyan"),
    ("Generic.Deleted", "red"),
    ("Generic.Inserted", "green"),
    ("Generic.Heading", "bold"),
    ("Generic.Subheading", "cyan"),
)


def code_lines(code: str, language: str = "") -> list[Line]:
    """The lines of a piece of code, however long; in colours, if the language is known.

    >>> code_lines("x = 1  # one", "python")[0][-1]
    StyledSpan(text='# one', style='dim italic')
    >>> code_lines("a\\n\\nb")
    [(StyledSpan(text='a', style=''),), (), (StyledSpan(text='b', style=''),)]
    """
    lines: list[list[StyledSpan]] = [[]]
    for style, text in _pieces(code, language):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(StyledSpan(part, style))
    return [tuple(line) for line in lines]


def _pieces(code: str, language: str) -> list[tuple[str, str]]:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if not language:
        return [("", code)]
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [("", code)]
    return [(_style(str(kind).removeprefix("Token.")), text) for kind, text in lexer.get_tokens(code)]


def _style(kind: str) -> str:
    return next((style for prefix, style in _STYLES if f"{kind}.".startswith(f"{prefix}.")), "")


# -- Tables that fit: columns as wide as they can be, cells in several lines; where it is too narrow, a cell a line


_LEAST = 6  # columns; narrower ones cannot be read
_BETWEEN = StyledSpan(" │ ", "dim")

Row = Sequence[Line]


def table_lines(header: Row, rows: Sequence[Row], aligned: Sequence[str], width: int) -> list[Line]:
    """A table of at most `width` columns; `aligned` says left, right or center for each.

    >>> cell = lambda text: (StyledSpan(text),)
    >>> for line in table_lines([cell("a"), cell("n")], [[cell("leaf"), cell("10")]], ["left", "right"], 20):
    ...     print(plain(line))
    a    │  n
    ─────┼───
    leaf │ 10
    """
    header = [tuple(StyledSpan(span.text, f"bold {span.style}".strip()) for span in cell) for cell in header]
    wanted = [max(columns(plain(row[n])) for row in (header, *rows) if n < len(row)) for n in range(len(header))]
    widths = _fitting(wanted, width - len(_BETWEEN.text) * (len(header) - 1))
    if not widths:
        return _stacked(header, rows, width)
    rule = StyledSpan("─┼─".join("─" * size for size in widths), "dim")
    lines = [*_row(header, widths, aligned), (rule,)]
    for row in rows:
        lines += _row(row, widths, aligned)
    return lines


def _fitting(wanted: Sequence[int], width: int) -> list[int]:
    """Widths that together take at most `width`; those that need little get it. Empty, if it is too narrow.

    >>> _fitting([3, 30, 20], 33), _fitting([30, 30], 8)
    ([3, 15, 15], [])
    """
    widths, left = [0] * len(wanted), width
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, column in enumerate(order):
        widths[column] = min(max(1, wanted[column]), left // (len(order) - done))
        left -= widths[column]
    narrow = any(size < min(want, _LEAST) for size, want in zip(widths, wanted, strict=True))
    return [] if narrow else widths


def _row(row: Row, widths: Sequence[int], aligned: Sequence[str]) -> list[Line]:
    cells = [wrapped(row[n] if n < len(row) else (), size) for n, size in enumerate(widths)]
    lines: list[Line] = []
    for number in range(max(map(len, cells), default=0)):
        line: Line = ()
        for n, (cell, size) in enumerate(zip(cells, widths, strict=True)):
            text = cell[number] if number < len(cell) else ()
            line += (_BETWEEN,) * (n > 0) + _padded(text, size, aligned[n], last=n == len(widths) - 1)
        lines.append(line)
    return lines


def _padded(line: Line, width: int, aligned: str, *, last: bool) -> Line:
    free = width - columns(plain(line))
    before = {"right": free, "center": free // 2}.get(aligned, 0)
    after = 0 if last else free - before  # nothing at the end: it would be copied, and wrap when a window shrinks
    return (StyledSpan(" " * before),) * (before > 0) + line + (StyledSpan(" " * after),) * (after > 0)


def _stacked(header: Row, rows: Sequence[Row], width: int) -> list[Line]:
    """One cell a line, a blank line between rows."""
    lines: list[Line] = []
    for number, row in enumerate(rows):
        lines += [()] * (number > 0)
        for name, cell in zip(header, row, strict=False):
            lines += indented(wrapped((*name, StyledSpan(": ", "bold"), *cell), width - 2), (), (StyledSpan("  "),))
    return lines


_BULLETS = ("•", "◦", "▪")
_MOST_COLUMNS = 100  # of prose: longer lines are hard to read
_DEEPEST = 20


@lru_cache(1)
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])


def top_nodes(text: str) -> list[SyntaxTreeNode]:
    """The blocks of a text, each with the lines that it takes (`map`)."""
    return SyntaxTreeNode(_markdown().parse(text)).children


def first_number(node: SyntaxTreeNode) -> int:
    """The number of a list's first item."""
    return int(node.attrs.get("start", 1))


def markdown_lines(text: str, width: int, number: int | None = None) -> list[Line]:
    """A text, rendered; only lines of code may be wider than `width`.

    If the text is the rest of a list, `number` is that of its first item.

    >>> for line in markdown_lines("# Leaves\\n- *green*\\n- flat", 20):
    ...     print(plain(line))
    # Leaves
    <BLANKLINE>
    • green
    • flat
    """
    nodes = top_nodes(text)
    if number is not None and nodes and nodes[0].type == "ordered_list" and nodes[0].nester_tokens:
        nodes[0].nester_tokens.opening.attrs["start"] = number
    lines = _Page(text.split("\n")).blocks(nodes, min(width, _MOST_COLUMNS), apart=True)
    return [trimmed(line) for line in lines]


class _Page:
    """The source of a text, and how each kind of block in it looks."""

    def __init__(self, source: Sequence[str]) -> None:
        self.source = source
        self.depth = 0  # of lists
        self.looks: dict[str, Callable[[SyntaxTreeNode, int], list[Line]]] = {
            "paragraph": self._paragraph,
            "heading": self._heading,
            "fence": self._code,
            "code_block": self._code,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "blockquote": self._quote,
            "table": self._table,
            "hr": lambda node, width: [(StyledSpan("─" * min(width, 24), "dim"),)],
            "html_block": lambda node, width: wrapped((StyledSpan(node.content.rstrip("\n"), "dim"),), width),
        }

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, apart: bool) -> list[Line]:
        """Blocks below each other; `apart` puts a blank line between them even where the source has none."""
        lines: list[Line] = []
        for number, node in enumerate(nodes):
            if number and (apart or self.gap_before(node)):
                lines.append(())
            look = self.looks.get(node.type)
            lines += look(node, max(1, width)) if look else wrapped((StyledSpan(node.content),), width)
        return lines

    def gap_before(self, node: SyntaxTreeNode) -> bool:
        """Whether a blank line stands before a block."""
        start = node.map[0] if node.map else 0
        return start > 0 and not self.source[start - 1].strip(" >\t")

    def _paragraph(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        return wrapped(inline(node.children), width)

    def _heading(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        style = "bold underline" if node.tag == "h1" else "bold"
        marks = "#" * int(node.tag[1:]) + " "
        return indented(wrapped(inline(node.children, style), width - len(marks)), (StyledSpan(marks, "bold"),),
                        (StyledSpan(" " * len(marks)),))  # fmt: skip

    def _code(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        language = node.info.split()[0] if node.info.strip() else ""
        indent = (StyledSpan("  "),)
        return [indent + line if line else () for line in code_lines(node.content.removesuffix("\n"), language)]

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        lines: list[Line] = []
        begin = first_number(node)
        for number, item in enumerate(node.children):
            if number and self.gap_before(item):
                lines.append(())
            bullet = _BULLETS[min(self.depth, len(_BULLETS) - 1)]
            mark = f"{begin + number}. " if node.type == "ordered_list" else f"{bullet} "
            self.depth += 1
            inside = self.blocks(item.children, width - len(mark), apart=False) or [()]
            self.depth -= 1
            lines += indented(inside, (StyledSpan(mark, "cyan"),), (StyledSpan(" " * len(mark)),))
        return lines

    def _quote(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        bar = (StyledSpan("│ ", "dim"),)
        return indented(self.blocks(node.children, width - 2, apart=False), bar, bar)

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        rows = [row for part in node.children for row in part.children]
        cells = [[inline(cell.children) for cell in row.children] for row in rows]
        aligned = [str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in rows[0].children]
        return table_lines(cells[0], cells[1:], aligned, width)


def inline(nodes: Sequence[SyntaxTreeNode], style: str = "") -> Line:
    """The text inside of a block."""
    return tuple(span for node in nodes for span in _INLINE.get(node.type, _text)(node, style))


def _text(node: SyntaxTreeNode, style: str) -> Line:
    return (StyledSpan(node.content, style),)


def _styled(more: str, node: SyntaxTreeNode, style: str) -> Line:
    return inline(node.children, f"{style} {more}".strip())


def _link(node: SyntaxTreeNode, style: str) -> Line:
    target = str(node.attrs.get("href", node.attrs.get("src", "")))
    text = inline(node.children, f"{style} underline".strip())
    same = plain(text) in (target, target.removeprefix("mailto:"))
    # Where a link leads must be seen: its text may say something else.
    return text if same or not target else (*text, StyledSpan(f" ({target})", "dim"))


_INLINE: dict[str, Callable[[SyntaxTreeNode, str], Line]] = {
    "inline": lambda node, style: inline(node.children, style),
    "text": _text,
    "strong": partial(_styled, "bold"),
    "em": partial(_styled, "italic"),
    "s": partial(_styled, "strike"),
    "code_inline": lambda node, style: (StyledSpan(node.content, f"{style} cyan".strip()),),
    "link": _link,
    "image": _link,
    "softbreak": lambda node, style: (StyledSpan(" ", style),),
    "hardbreak": lambda node, style: (StyledSpan("\n", style),),
    "html_inline": lambda node, style: (StyledSpan(node.content, f"{style} dim".strip()),),
}


# -- Markdown that arrives piece by piece: what of it is final and can be printed, and what may still change


_LONG = 2000  # characters
_LISTS = ("bullet_list", "ordered_list")


class _Cut(NamedTuple):
    """A line where a text can be parted, whether a blank line belongs there, and the number of the item that begins."""

    line: int
    gap: bool
    number: int | None = None


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. Blocks, and items of lists, are final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("# Leaves\n\nThey are\ngr")
    >>> text.final(40), text.rest(40)
    ([(StyledSpan(text='# ', style='bold'), StyledSpan(text='Leaves', style='bold underline'))], [(), (StyledSpan(text='They are gr', style=''),)])
    """  # noqa: E501

    text: str = ""  # what is not final yet
    gap: bool = False  # whether a blank line belongs before it
    number: int | None = None  # of the item that it begins with
    shown: int = 0  # so many of its lines have been printed: it is longer than the screen
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended
    _measured: int = 0  # how long it was when its lines were counted
    _cache: tuple[tuple[str, int, int | None], list[Line]] = field(default=(("", 0, None), []))

    def feed(self, piece: str) -> None:
        """More of it."""
        self.text += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self, width: int, room: int = 1000) -> list[Line]:
        """The lines that have become final, each once; at most about `room` lines are left to `rest`."""
        lines: list[Line] = []
        whole = self.text.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        if whole - self._seen > self._step:
            self._seen = whole
            source = self.text.split("\n")
            if (cut := _last_cut(top_nodes(clean(self.text[:whole])), source, self.number)) is not None:
                lines += self._part("\n".join(source[: cut.line]), width)
                self._begin("\n".join(source[cut.line :]), cut.gap, cut.number)
        if len(self.text) - self._measured > max(width, self._step):
            self._measured = len(self.text)
            lines += self._overflow(width, room)
        return lines

    def rest(self, width: int) -> list[Line]:
        """What else there is to be seen, as it looks now, or looked a moment ago."""
        source = self._cache[0][0]
        recent = self.text.startswith(source) and len(self.text) - len(source) <= self._step
        return self._part(source if recent else self.text, width)

    @property
    def _step(self) -> int:
        """So many characters may come before a text is looked at again: else a long block would take for ever."""
        return len(self.text) // 30 if len(self.text) > _LONG else 0

    def end(self, width: int) -> list[Line]:
        """The rest, which is final now; then begins another text."""
        lines = self._part(self.text, width)
        self._begin("", False)
        self.begun = False
        return lines

    def _begin(self, text: str, gap: bool, number: int | None = None) -> None:
        self.text, self.gap, self.number, self.shown, self._seen = text, gap, number, 0, text.rfind("\n") + 1
        self._measured = 0

    def _part(self, source: str, width: int) -> list[Line]:
        key = (source, width, self.number)
        if self._cache[0] != key:
            self._cache = (key, markdown_lines(clean(source), width, self.number))
        lines = self._cache[1][self.shown :]
        return [(), *lines] if self.gap and lines and not self.shown else lines

    def _overflow(self, width: int, room: int) -> list[Line]:
        """Lines of a block that is longer than the screen: those that will hardly change."""
        lines = self._part(self.text, width)
        if len(lines) <= room:
            return []
        nodes = top_nodes(clean(self.text))
        if nodes[-1].type == "table":  # its columns may become wider: it is printed when it ends
            return []
        if len(nodes) == 1 and (start := _open_fence(nodes[0])) is not None:
            return self._code_so_far(start, width)
        keep = max(2, room // 2)
        ready = lines[: len(lines) - keep]
        self.shown += len(ready) - (1 if self.gap and not self.shown else 0)
        return ready

    def _code_so_far(self, start: int, width: int) -> list[Line]:
        """The complete lines of code; what follows goes on as a block of its own."""
        fence, *code = self.text.split("\n")[start:]
        lines = self._part("\n".join((fence, *code[:-1])), width)
        self._begin(f"{fence}\n{code[-1]}", False)
        return lines


def _open_fence(node: SyntaxTreeNode) -> int | None:
    """The line where a block of code begins that has not ended."""
    if node.type != "fence" or node.map is None:
        return None
    return node.map[0] if node.map[1] - node.map[0] == node.content.count("\n") + 1 else None


def _last_cut(nodes: list[SyntaxTreeNode], source: Sequence[str], number: int | None) -> _Cut | None:
    """Where the last block begins, or the last item of a list, if something stands before it."""
    if not nodes or nodes[-1].map is None:
        return None
    last = nodes[-1]
    if last.type in _LISTS and len(last.children) > 1 and (place := last.children[-1].map):
        first = number if number is not None and len(nodes) == 1 else first_number(last)
        return _Cut(place[0], not source[place[0] - 1].strip(), first + len(last.children) - 1)
    return _Cut(nodes[-1].map[0], gap=True) if len(nodes) > 1 else None
