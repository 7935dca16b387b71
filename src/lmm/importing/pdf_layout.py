"""Untagged PDF pages, such as those of LaTeX: recognising headings, paragraphs, lists, code and tables by layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

from lmm.importing.elements import MarkupElement, element
from lmm.importing.imported import IMAGE
from lmm.importing.pdf_lines import (
    Look,
    Segment,
    Words,
    code_lines,
    heading_level,
    inline_nodes,
    make_segment,
    rows_of,
    segments_of,
    without_contents,
    without_running,
)
from lmm.importing.pdf_page import Char, PdfPage, Rule

_MARKER = re.compile(
    r"(?P<bullet>[•◦▪‣●○■□–*·\uf0b7\uf0a7\uf0d8\u2013-]\s|[•◦▪‣●○■\uf0b7\uf0a7\uf0d8])|\(?(?:\d{1,3}|[a-z]|[ivx]{2,4})[.)]\s"
)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_SENTENCE_END = (".", "!", "?", ":", ";", "”", '"', ")")


# -- a page ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A block that is being assembled from lines."""

    kind: str
    lines: list[Segment]
    level: int = 0
    marker: str = ""


def elements_of_layout(page: PdfPage, look: Look) -> list[MarkupElement]:
    """Return the blocks of a page in reading order: columns from left to right, each from top to bottom."""
    regions = tables_of(page, look.words)
    segments = look.lines.get(page.number) or ()
    if regions:
        segments = segments_of(char for char in page.chars if not any(region.holds(char) for region in regions))
    lines = without_running(page, rows_of(segments), look)
    blocks: list[MarkupElement] = []
    for each in page.pictures:
        image = element("p", element("img", src=f"{IMAGE}{each.number}"))
        regions.append(Region(each.x0, each.top, each.x1, each.bottom, image))
    placed = sorted(regions, key=lambda each: each.top)
    for column in columns_in_order(lines, page.width):
        blocks += _with_placed(column, placed, page, look)
    return blocks + [each.block for each in placed]


def _with_placed(lines: Sequence[Segment], placed: list[Region], page: PdfPage, look: Look) -> list[MarkupElement]:
    """Return the blocks of a column with its tables and pictures, which are removed from `placed`."""
    if not lines:
        return []
    x0, x1 = min(line.x0 for line in lines) - 20, max(line.x1 for line in lines) + 20
    blocks: list[MarkupElement] = []
    rest = list(lines)
    for each in [each for each in placed if x0 <= (each.x0 + each.x1) / 2 <= x1]:
        placed.remove(each)
        above = [line for line in rest if line.base <= each.top + 2]
        rest = [line for line in rest if line.base > each.top + 2]
        blocks += [*_blocks(above, page, look), each.block]
    return [*blocks, *_blocks(rest, page, look)]


def _blocks(lines: Sequence[Segment], page: PdfPage, look: Look) -> Iterator[MarkupElement]:
    """Iterate over the blocks formed by lines; consecutive items form a list."""
    drafts = _drafts(_merged_rows(lines, page, look), page, look)
    for kind, run in groupby(drafts, lambda draft: draft.kind if isinstance(draft, _Draft) else ""):
        if kind == "item":
            yield _list([draft for draft in run if isinstance(draft, _Draft)], look)
        else:
            yield from (draft if isinstance(draft, MarkupElement) else _block(draft, look) for draft in run)


def _merged_rows(lines: Sequence[Segment], page: PdfPage, look: Look) -> list[Segment | MarkupElement]:
    """Merge segments side by side into tables, or into one line if they are not a table.

    Columns of code are a program's output, not a table.
    """
    rows = without_contents(rows_of(lines), look)
    merged: list[Segment | MarkupElement] = []
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and _is_table_row(rows[end], page, look):
            end += 1
        block = [segment for row in rows[at:end] for segment in row]
        table = aligned_table(block, look.words) if end - at >= 3 and len(columns_of(block)) >= 2 else None
        if table is not None:
            merged.append(table)
            at = end
            continue
        merged.append(_joined(rows[at]))
        at += 1
    return merged


def _joined(row: Sequence[Segment]) -> Segment:
    return make_segment([char for segment in row for char in segment.chars])


def _is_table_row(row: Sequence[Segment], page: PdfPage, look: Look) -> bool:
    marker = _MARKER.match(f"{row[0].text} ")
    is_item = marker is not None and (len(row) == 2 or not marker["bullet"])
    if len(row) < 2 or is_item or all(map(_is_code, row)):
        return False
    return not (re.match(r"[\dA-Z.]+\Z", row[0].text) and heading_level(_joined(row), page, look))


# -- blocks ----------------------------------------------------------------------------------------------


def _drafts(lines: Sequence[Segment | MarkupElement], page: PdfPage, look: Look) -> list[_Draft | MarkupElement]:
    """Assemble lines into blocks."""
    segments = [line for line in lines if isinstance(line, Segment)]
    right = max((line.x1 for line in segments), default=0.0)
    leading = _leading(segments, look.body)
    found: list[_Draft | MarkupElement] = []
    for line in lines:
        if isinstance(line, MarkupElement):
            found.append(line)
            continue
        kind, level, marker = _kind(line, page, look)
        last = found[-1] if found else None
        if isinstance(last, _Draft) and _goes_on(last, line, kind, level, leading, right):
            last.lines.append(line)
        else:
            found.append(_Draft(kind, [line], level, marker))
    return found


def _kind(line: Segment, page: PdfPage, look: Look) -> tuple[str, int, str]:
    """Return the kind of block that a line begins or continues, a heading's level, and an item's marker."""
    text = line.text.strip()
    level = heading_level(line, page, look)
    if level and line.text:
        return "heading", level, ""
    if _is_code(line):
        return "code", 0, ""
    marker = _MARKER.match(text)
    return ("item", 0, marker[0].strip()) if marker else ("text", 0, "")


def _is_code(line: Segment) -> bool:
    return sum(char.style.mono for char in line.chars) > 0.8 * len(line.chars)


def _goes_on(draft: _Draft, line: Segment, kind: str, level: int, leading: float, right: float) -> bool:
    last = draft.lines[-1]
    step = line.base - last.base
    if step <= 0 or step > 1.9 * max(leading, line.style.size):
        return kind == draft.kind == "code" and 0 < step < 4 * leading
    if draft.kind == "heading" or kind == "heading":
        same = kind == draft.kind and level == draft.level and line.style == last.style
        return same and len(draft.lines) < 3 and step < 1.6 * line.style.size
    full = last.x1 > right - 0.1 * (right - last.x0)
    if kind == "code" and draft.kind in ("text", "item"):  # the end of a sentence, or code of its own
        return step < 1.15 * leading and full and line.x0 < last.x0 + 2
    if draft.kind == "code" or kind == "code":
        return kind == draft.kind
    if kind == "item":  # a dash at the beginning of a line may be within a sentence
        return line.text[0] in "–-*·" and full and step < 1.35 * leading and abs(line.x0 - last.x0) < 2
    if step > 1.35 * leading:
        return False
    if draft.kind == "item":
        return line.x0 > draft.lines[0].x0 + 2
    indented = line.x0 > last.x0 + 0.8 * line.style.size and line.x0 > draft.lines[0].x0 + 0.8 * line.style.size
    short = last.x1 < right - 0.15 * (right - last.x0)
    return not (last.text.rstrip().endswith(_SENTENCE_END) and (short or indented))


def _leading(lines: Sequence[Segment], body: float) -> float:
    """Return the usual distance between neighbouring lines."""
    steps = Counter(round(b.base - a.base) for a, b in pairwise(lines) if 0.8 * body < b.base - a.base < 2.2 * body)
    return float(steps.most_common(1)[0][0]) if steps else 1.2 * body


def _block(draft: _Draft, look: Look) -> MarkupElement:
    lines = [line.chars for line in draft.lines]
    if draft.kind == "heading":
        return element(f"h{draft.level}", *inline_nodes(lines, look.words, plain=True))
    if draft.kind == "code":
        return element("pre", code_lines(lines))
    return element("p", *inline_nodes(lines, look.words))


def _list(items: Sequence[_Draft], look: Look) -> MarkupElement:
    """Return a list; items further right form nested lists."""
    left = items[0].lines[0].x0 + 6
    tag, attributes = _numbering(items[0].marker)
    children: list[MarkupElement] = []
    at = 0
    while at < len(items):
        end = at + 1
        while end < len(items) and items[end].lines[0].x0 > left:
            end += 1
        inner = [_list(items[at + 1 : end], look)] if end > at + 1 else []
        first, *others = (line.chars for line in items[at].lines)
        text = inline_nodes([first[len(items[at].marker) :], *others], look.words)
        children.append(element("li", *text, *inner))
        at = end
    return MarkupElement(tag, attributes, tuple(children))


def _numbering(marker: str) -> tuple[str, dict[str, str]]:
    """Return the tag and the attributes of a list whose first item has a marker.

    >>> _numbering("3."), _numbering("b)"), _numbering("ii."), _numbering("–")
    (('ol', {'start': '3'}), ('ol', {'start': '2', 'type': 'a'}), ('ol', {'start': '2', 'type': 'i'}), ('ul', {}))
    """
    name = marker.strip("().")
    if name.isdigit():
        return "ol", {"start": name}
    if name in _ROMAN and name not in ("v", "x"):
        return "ol", {"start": str(_ROMAN.index(name) + 1), "type": "i"}
    if "a" <= name <= "z":
        return "ol", {"start": str(ord(name) - 96), "type": "a"}
    return "ul", {}


# -- tables ----------------------------------------------------------------------------------------
# By drawn lines, or by cells aligned in columns.

_NEAR = 3.0
_MAX_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Region:
    """A table or a picture, and its area on the page."""

    x0: float
    top: float
    x1: float
    bottom: float
    block: MarkupElement

    def holds(self, char: Char) -> bool:
        """Return whether a character is inside the area."""
        middle = (char.x0 + char.x1) / 2
        return self.x0 - 1 <= middle <= self.x1 + 1 and self.top - 1 <= (char.top + char.bottom) / 2 <= self.bottom + 1


def tables_of(page: PdfPage, words: Words) -> list[Region]:
    """Return the tables of a page: those with a grid of lines, then those between rules, as in books."""
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
    """Group lines that touch or cross each other."""

    def touch(a: Rule, b: Rule) -> bool:
        beside = a.x0 - _NEAR <= b.x1 and b.x0 - _NEAR <= a.x1
        return beside and a.y0 - _NEAR <= b.y1 and b.y0 - _NEAR <= a.y1

    groups: list[list[Rule]] = []
    for rule in rules[:3_000]:
        touching = [group for group in groups if any(touch(rule, other) for other in group)]
        merged = [rule, *(other for group in touching for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append(merged)
    return groups


def _positions(values: Iterable[float]) -> list[float]:
    """Return the distinct positions, treating those that nearly coincide as one."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _NEAR:
            found.append(value)
    return found


def _between(positions: Sequence[float], value: float) -> int | None:
    return next((i for i, (a, b) in enumerate(pairwise(positions)) if a <= value < b), None)


def _is_head(cells: dict[tuple[int, int], list[Char]], columns: int) -> bool:
    """Return whether the first row is bold, and the second is not."""

    def bold(row: int) -> bool:
        chars = [char for column in range(columns) for char in cells.get((row, column), ())]
        return bool(chars) and all(char.style.bold for char in chars)

    return bold(0) and not bold(1)


# -- columns between rules -------------------------------------------------------------------------------


def _ruled(page: PdfPage, chars: Sequence[Char], found: Sequence[Region], words: Words) -> Iterable[Region]:
    """Iterate over tables between horizontal rules of equal width: at the top, below the header, and at the bottom."""
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
    """Return a table of segments aligned in columns, None if they are not; rows above `head_above` are the header."""
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
    bold, below = (all(segment.style.bold for cell in row for segment in cell) for _, row in rows[:2])
    return _table(cells, head=heads == 1 or (bold and not below))


def columns_of(segments: Sequence[Segment]) -> list[tuple[float, float]]:
    """Return the columns of segments: horizontal ranges of the page separated by empty space."""
    columns: list[tuple[float, float]] = []
    for segment in sorted(segments, key=lambda s: s.x0):
        if columns and segment.x0 < columns[-1][1] + 1:
            columns[-1] = (columns[-1][0], max(columns[-1][1], segment.x1))
        else:
            columns.append((segment.x0, segment.x1))
    return columns


def _with_continued(rows: Sequence[tuple[float, list[list[Segment]]]]) -> list[tuple[float, list[list[Segment]]]]:
    """Merge further lines of cells into their rows: a row with an empty first cell continues the one before."""
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
    def header(cell: MarkupElement) -> MarkupElement:  # already bold as a header
        parts = ((node.children if isinstance(node, MarkupElement) and node.tag == "strong" else (node,))
                 for node in cell.children)  # fmt: skip
        return MarkupElement("th", {}, tuple(chain.from_iterable(parts)))

    lines = [element("tr", *row) for row in rows]
    if head:
        lines[0] = element("tr", *map(header, rows[0]))
    return element("table", *lines)


# -- reading order ---------------------------------------------------------------------------------

# Positions where gutters are looked for, as fractions of the page's width: halves first, then thirds.
_PLACES = (0.5, 0.48, 0.52, 0.35, 0.65, 0.33, 0.67, 0.4, 0.6, 0.45, 0.55)
_FEWEST = 6  # minimum number of lines in a column


def columns_in_order(lines: Sequence[Segment], width: float) -> list[list[Segment]]:
    """Split the lines of a page of this width into groups, in reading order.

    A line across both columns divides the page: both columns above it are read first.
    """
    gutter = _gutter(lines, width)
    if gutter is None:
        return [list(lines)]
    bands: list[tuple[list[Segment], list[Segment], list[Segment]]] = [([], [], [])]
    for line in lines:
        wide, left, right = bands[-1]
        if not line.x0 < gutter < line.x1:
            (left if line.x1 <= gutter else right).append(line)
        elif left or right:
            bands.append(([line], [], []))
        else:
            wide.append(line)
    parts = ((wide, *columns_in_order(left, width), *columns_in_order(right, width)) for wide, left, right in bands)
    return [part for band in parts for part in band if part]


def _gutter(lines: Sequence[Segment], width: float) -> float | None:
    """Return the position that divides the page into columns: few lines cross it, and those beside it are long."""
    for x in (place * width for place in _PLACES):
        left = [line for line in lines if line.x1 <= x]
        right = [line for line in lines if line.x0 >= x]
        crossing = len(lines) - len(left) - len(right)
        if min(len(left), len(right)) < _FEWEST or crossing > 0.25 * len(lines):
            continue
        if _is_text(left) and _is_text(right) and max(len(_prose(left)), len(_prose(right))) >= _FEWEST:
            return x
    return None


def _is_text(lines: Sequence[Segment]) -> bool:
    """Return whether lines are long, and many fill their column, unlike cells of a table; lines of code need not."""
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    prose = _prose(lines)
    full = sum(line.x1 - line.x0 > 0.7 * (x1 - x0) for line in prose)
    letters = sum(len(line.text) for line in prose)
    return full >= 0.3 * len(prose) and letters >= 22 * len(prose)


def _prose(lines: Sequence[Segment]) -> list[Segment]:
    return [line for line in lines if not _is_code(line)]
