"""Tables on a page without structure: from drawn lines, or from cells that stand in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lmm.importing.elements import MarkupElement, element
from lmm.importing.pdf_lines import Segment, Words, inline_nodes, segments_of
from lmm.importing.pdf_page import Char, PdfPage, Rule

_NEAR = 3.0
_MAX_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Region:
    """A table and the place it takes on the page."""

    x0: float
    top: float
    x1: float
    bottom: float
    table: MarkupElement

    def holds(self, char: Char) -> bool:
        """Whether a character stands in it."""
        middle = (char.x0 + char.x1) / 2
        return self.x0 - 1 <= middle <= self.x1 + 1 and self.top - 1 <= (char.top + char.bottom) / 2 <= self.bottom + 1


def tables_of(page: PdfPage, words: Words) -> list[Region]:
    """The tables of a page: those with a grid of lines, then those between rules, as books set them."""
    found = list(_grids(page, words))
    inside = [char for char in page.chars if not any(region.holds(char) for region in found)]
    return found + list(_ruled(page, inside, found, words))


# -- grids -----------------------------------------------------------------------------------------------


def _grids(page: PdfPage, words: Words) -> Iterable[Region]:
    for rules in _connected(page.rules):
        xs = _positions(rule.x0 for rule in rules if not rule.horizontal)
        ys = _positions(rule.y0 for rule in rules if rule.horizontal)
        if len(xs) < 2 or len(ys) < 3 or len(xs) + len(ys) < 6 or len(xs) > _MAX_COLUMNS:
            continue
        cells: dict[tuple[int, int], list[Char]] = {}
        for char in page.chars:
            column, row = _between(xs, (char.x0 + char.x1) / 2), _between(ys, (char.top + char.bottom) / 2)
            if column is not None and row is not None:
                cells.setdefault((row, column), []).append(char)
        if len({row for row, _ in cells}) < 2 or len({column for _, column in cells}) < 2:
            continue
        rows = [
            [_cell(segments_of(cells.get((r, c), [])), words) for c in range(len(xs) - 1)] for r in range(len(ys) - 1)
        ]
        yield Region(xs[0], ys[0], xs[-1], ys[-1], _table(rows, head=_is_head(cells, len(xs) - 1)))


def _connected(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Lines that touch or cross each other."""
    groups: list[list[Rule]] = []
    for rule in rules[:3_000]:
        touching = [group for group in groups if any(_touch(rule, other) for other in group)]
        merged = [rule, *(other for group in touching for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append(merged)
    return groups


def _touch(a: Rule, b: Rule) -> bool:
    return (
        a.x0 - _NEAR <= b.x1 and b.x0 - _NEAR <= a.x1 and a.y0 - _NEAR <= b.y1 and b.y0 - _NEAR <= a.y1
    )  # fmt: skip


def _positions(values: Iterable[float]) -> list[float]:
    """Different positions, those that nearly coincide as one."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _NEAR:
            found.append(value)
    return found


def _between(positions: Sequence[float], value: float) -> int | None:
    return next((i for i, (a, b) in enumerate(pairwise(positions)) if a <= value < b), None)


def _is_head(cells: dict[tuple[int, int], list[Char]], columns: int) -> bool:
    """Whether the first row is set bold, as no other is."""

    def bold(row: int) -> bool:
        chars = [char for column in range(columns) for char in cells.get((row, column), ())]
        return bool(chars) and all(char.style.bold for char in chars)

    return bold(0) and not bold(1)


# -- columns between rules -------------------------------------------------------------------------------


def _ruled(page: PdfPage, chars: Sequence[Char], found: Sequence[Region], words: Words) -> Iterable[Region]:
    """Tables between horizontal rules of one width: at the top, below the header, and at the bottom."""
    rules = sorted((r for r in page.rules if r.horizontal and r.x1 - r.x0 > 40), key=lambda r: (r.y0, r.x0))
    used: set[int] = set()
    for number, first in enumerate(rules):
        if number in used or any(region.top - 2 <= first.y0 <= region.bottom + 2 for region in found):
            continue
        same = [i for i in range(number + 1, len(rules)) if abs(rules[i].x0 - first.x0) < _NEAR
                and abs(rules[i].x1 - first.x1) < _NEAR]  # fmt: skip
        if not same:
            continue
        last = rules[same[min(1, len(same) - 1)] if len(same) < 3 else same[-1]]
        inner = [
            c for c in chars if first.y0 < (c.top + c.bottom) / 2 < last.y0 and first.x0 - 2 <= c.x0 <= first.x1 + 2
        ]
        middle = rules[same[0]].y0 if len(same) > 1 else None
        table = aligned_table(segments_of(inner), words, head_above=middle)
        if table is not None:
            used |= {number, *same}
            yield Region(first.x0, first.y0, first.x1, last.y0, table)


def aligned_table(
    segments: Sequence[Segment], words: Words, *, head_above: float | None = None
) -> MarkupElement | None:
    """A table of segments that stand in columns, or None if they don't; rows end above `head_above` are the header."""
    columns = columns_of(segments)
    if not 2 <= len(columns) <= _MAX_COLUMNS:
        return None
    rows: list[tuple[float, list[list[Segment]]]] = []
    for segment in segments:
        column = next(i for i, (x0, x1) in enumerate(columns) if x0 <= segment.x0 and segment.x1 <= x1)
        if not rows or segment.base - rows[-1][0] > 0.5 * segment.style.size:
            rows.append((segment.base, [[] for _ in columns]))
        rows[-1][1][column].append(segment)
    rows = _with_continued(rows)
    if len(rows) < 2 or sum(sum(1 for cell in row if cell) >= 2 for _, row in rows) < max(2, 0.6 * len(rows)):
        return None
    heads = sum(1 for base, _ in rows if head_above is not None and base < head_above)
    cells = [[_cell(cell, words) for cell in row] for _, row in rows]
    if heads != 1:
        heads = int(
            all(s.style.bold for c in rows[0][1] for s in c) and not all(s.style.bold for c in rows[1][1] for s in c)
        )
    return _table(cells, head=bool(heads))


def columns_of(segments: Sequence[Segment]) -> list[tuple[float, float]]:
    """The columns that segments stand in: stretches of the page between which there is nothing."""
    columns: list[tuple[float, float]] = []
    for segment in sorted(segments, key=lambda s: s.x0):
        if columns and segment.x0 < columns[-1][1] + 1:
            columns[-1] = (columns[-1][0], max(columns[-1][1], segment.x1))
        else:
            columns.append((segment.x0, segment.x1))
    return columns


def _with_continued(rows: Sequence[tuple[float, list[list[Segment]]]]) -> list[tuple[float, list[list[Segment]]]]:
    """Rows with the second lines of their cells: a row whose first cell is empty goes on with the one before."""
    steps = sorted(b[0] - a[0] for a, b in pairwise(rows))
    usual = steps[0] if steps else 0.0
    merged: list[tuple[float, list[list[Segment]]]] = []
    last = 0.0
    for base, cells in rows:
        if merged and not cells[0] and base - last < 1.3 * usual and sum(map(bool, cells)) < len(cells) - 1:
            merged[-1] = (merged[-1][0], [old + new for old, new in zip(merged[-1][1], cells, strict=True)])
        else:
            merged.append((base, cells))
        last = base
    return merged


# -- cells -----------------------------------------------------------------------------------------------


def _cell(segments: Sequence[Segment], words: Words) -> MarkupElement:
    return element("td", *inline_nodes([segment.chars for segment in segments], words))


def _table(rows: Sequence[Sequence[MarkupElement]], *, head: bool) -> MarkupElement:
    lines = [element("tr", *(_plain(cell) if head and number == 0 else cell for cell in row))
             for number, row in enumerate(rows)]  # fmt: skip
    return element("table", *lines)


def _plain(cell: MarkupElement) -> MarkupElement:
    """A header cell: bold by its place."""
    children = (child for node in cell.children for child in (node.children if not isinstance(node, str) and
                node.tag == "strong" else (node,)))  # fmt: skip
    return MarkupElement("th", {}, tuple(children))
