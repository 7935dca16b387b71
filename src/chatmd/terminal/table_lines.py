"""Tables that fit: columns as wide as they can be, cells in several lines; where it is too narrow, a cell a line."""

from __future__ import annotations

from collections.abc import Sequence

from chatmd.terminal.styled import Line, Span, columns, indented, plain, wrapped

_LEAST = 6  # columns; narrower ones cannot be read
_BETWEEN = Span(" │ ", "dim")

Row = Sequence[Line]


def table_lines(header: Row, rows: Sequence[Row], aligned: Sequence[str], width: int) -> list[Line]:
    """A table of at most `width` columns; `aligned` says left, right or center for each.

    >>> cell = lambda text: (Span(text),)
    >>> for line in table_lines([cell("a"), cell("n")], [[cell("leaf"), cell("10")]], ["left", "right"], 20):
    ...     print(plain(line))
    a    │  n
    ─────┼───
    leaf │ 10
    """
    header = [tuple(Span(span.text, f"bold {span.style}".strip()) for span in cell) for cell in header]
    wanted = [max(columns(plain(row[n])) for row in (header, *rows) if n < len(row)) for n in range(len(header))]
    widths = _fitting(wanted, width - len(_BETWEEN.text) * (len(header) - 1))
    if not widths:
        return _stacked(header, rows, width)
    rule = Span("─┼─".join("─" * size for size in widths), "dim")
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
    return (Span(" " * before),) * (before > 0) + line + (Span(" " * after),) * (after > 0)


def _stacked(header: Row, rows: Sequence[Row], width: int) -> list[Line]:
    """One cell a line, a blank line between rows."""
    lines: list[Line] = []
    for number, row in enumerate(rows):
        lines += [()] * (number > 0)
        for name, cell in zip(header, row, strict=False):
            lines += indented(wrapped((*name, Span(": ", "bold"), *cell), width - 2), (), (Span("  "),))
    return lines
