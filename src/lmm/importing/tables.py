"""Tables: rows of cells, with what spans several of them, as markdown's pipe tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lmm.errors import FileReadError
from lmm.importing import escape
from lmm.importing.elements import HEADINGS, MarkupElement, Node, find, has_blocks, text_of
from lmm.importing.to_inline import InlinePlace, inline

_MAX_CELLS = 1_000_000
_MAX_LETTERS = 20_000_000  # of a table in which cells are repeated
_MAX_SPAN = 200
_ALIGNMENTS = {"left": ":--", "right": "--:", "center": ":-:"}
Grid = list[list[MarkupElement]]


def is_layout(table: MarkupElement) -> bool:
    """Whether a table only places things on a page: it says so, has one cell, or holds tables or headings."""
    if table.get("role") in ("presentation", "none"):
        return True
    cells = [cell for row in rows_of(table) for cell in cells_of(row)]
    inner = (child for cell in cells for child in cell.elements)
    return len(cells) <= 1 or any(next(find(child, "table", *HEADINGS), None) for child in inner)


def rows_of(table: MarkupElement) -> Iterator[MarkupElement]:
    """The rows of a table, without those of tables inside it; the foot comes last wherever it stands."""
    parts = sorted(table.elements, key=lambda part: {"thead": 0, "tfoot": 2}.get(part.tag, 1))
    for part in parts:
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in part.elements if row.tag == "tr")


def cells_of(row: MarkupElement) -> Iterator[MarkupElement]:
    """The cells of a row."""
    return (cell for cell in row.elements if cell.tag in ("td", "th"))


def caption_of(table: MarkupElement) -> MarkupElement | None:
    """A table's caption."""
    return next((part for part in table.elements if part.tag == "caption"), None)


def write_table(table: MarkupElement, place: InlinePlace) -> str:
    """A table as a pipe table; what spans several cells is repeated in each, so that every row says all of it.

    >>> from lmm.importing.elements import element as e
    >>> head, row = e("tr", e("th", "A"), e("th", "B")), e("tr", e("td", "1|2", colspan="2"))
    >>> print(write_table(e("table", head, row), InlinePlace()))
    | A | B |
    | --- | --- |
    | 1\\|2 | 1\\|2 |
    """
    grid, heads = _grid(table)
    width = max(map(len, grid), default=0)
    if not width:
        return ""
    here = InlinePlace(line_break="<br>", cell=True, targets=place.targets)
    cells = {id(cell): cell for row in grid for cell in row}
    written = {place: _cell(cell.children, here) for place, cell in cells.items()}
    texts = [[written[id(cell)] for cell in row] + [""] * (width - len(row)) for row in grid]
    if sum(len(text) for row in texts for text in row) > _MAX_LETTERS:
        raise FileReadError(f"a table has more than {_MAX_LETTERS:,} letters", hint="the file is damaged")
    header = [_stacked(column) for column in zip(*texts[:heads], strict=True)] if heads else [""] * width
    marks = [_alignment([row[column] for row in grid if column < len(row)]) for column in range(width)]
    lines = [_line(header), _line(marks), *map(_line, texts[heads:])]
    caption = caption_of(table)
    title = inline(caption.children, InlinePlace(line_break=" ", targets=place.targets)) if caption else ""
    return "\n".join(lines) + (f"\n\nTable: {title}" if title else "")


def _grid(table: MarkupElement) -> tuple[Grid, int]:
    """Cells by row and column, and how many of the rows are headers.

    Raises:
        FileReadError: there are more cells than any table has.
    """
    grid: Grid = []
    hanging: dict[int, tuple[int, MarkupElement]] = {}  # column: rows that a cell still reaches into
    heads, count = 0, 0
    rows = list(rows_of(table))
    in_head = sum(1 for part in table.elements if part.tag == "thead" for row in part.elements if row.tag == "tr")
    for number, row in enumerate(rows):
        line: list[MarkupElement] = []
        cells = list(cells_of(row))
        for cell in cells:
            _fill(line, hanging)
            down = min(_span(cell, "rowspan") or len(rows), len(rows) - number)
            for _ in range(max(1, _span(cell, "colspan"))):
                if down > 1:
                    hanging[len(line)] = (down - 1, cell)
                line.append(cell)
        _fill(line, hanging)
        count += len(line)
        if count > _MAX_CELLS:
            raise FileReadError(f"a table has more than {_MAX_CELLS:,} cells", hint="the file is damaged")
        if line:
            grid.append(line)
            if number < in_head or (number == heads == 0 and all(cell.tag == "th" for cell in cells)):
                heads += 1
    return grid, min(heads, len(grid))


def _fill(line: list[MarkupElement], hanging: dict[int, tuple[int, MarkupElement]]) -> None:
    """Cells from the rows above that reach into this one."""
    while len(line) in hanging:
        rows, cell = hanging.pop(len(line))
        if rows > 1:
            hanging[len(line)] = (rows - 1, cell)
        line.append(cell)


def _span(cell: MarkupElement, name: str) -> int:
    digits = re.match(r"\s*(\d{1,6})", cell.get(name))
    return min(int(digits[1]), _MAX_SPAN) if digits else 1


def _cell(nodes: Sequence[Node], place: InlinePlace) -> str:
    """What is in a cell on one line: paragraphs and items are parted by ``<br>``."""
    parts: list[str] = []
    run: list[Node] = []
    for node in nodes:
        if has_blocks(node) and isinstance(node, MarkupElement):
            parts += [inline(run, place), _block(node, place)]
            run = []
        else:
            run.append(node)
    parts.append(inline(run, place))
    return place.line_break.join(part for part in parts if part)


def _block(node: MarkupElement, place: InlinePlace) -> str:
    if node.tag == "pre":
        lines = escape.plain(text_of(node)).strip("\n").split("\n")
        return place.line_break.join(filter(None, map(escape.code_span, lines)))
    text = _cell(node.children, place)
    return f"• {text}" if node.tag == "li" and text else text


def _stacked(column: Sequence[str]) -> str:
    """Several header rows as one."""
    return " – ".join(dict.fromkeys(text for text in column if text))


def _alignment(column: Sequence[MarkupElement]) -> str:
    found = {_align(cell) for cell in column}
    return _ALIGNMENTS.get(found.pop(), "---") if len(found) == 1 else "---"


def _align(cell: MarkupElement) -> str:
    styled = re.search(r"text-align\s*:\s*(\w+)", cell.get("style"))
    return (styled[1] if styled else cell.get("align")).lower()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
