"""The order in which a page is read: from top to bottom, and column by column where it has columns of text."""

from __future__ import annotations

from collections.abc import Sequence

from lmm.importing.pdf_lines import Segment

# Where gutters are looked for, as parts of the page's width: halves first, then thirds.
_PLACES = (0.5, 0.48, 0.52, 0.35, 0.65, 0.33, 0.67, 0.4, 0.6, 0.45, 0.55)
_FEWEST = 6  # lines in a column


def columns_in_order(lines: Sequence[Segment], width: float) -> list[list[Segment]]:
    """The lines of a page of this width, parted into what is read one after the other.

    A line from edge to edge parts the page: what stands above it is read first, in both columns.
    """
    gutter = _gutter(lines, width)
    if gutter is None:
        return [list(lines)]
    parts: list[list[Segment]] = []
    wide: list[Segment] = []
    left: list[Segment] = []
    right: list[Segment] = []
    for line in lines:
        if line.x0 < gutter < line.x1:
            if left or right:
                parts += [wide, *columns_in_order(left, width), *columns_in_order(right, width)]
                wide, left, right = [], [], []
            wide.append(line)
        else:
            (left if line.x1 <= gutter else right).append(line)
    parts += [wide, *columns_in_order(left, width), *columns_in_order(right, width)]
    return [part for part in parts if part]


def _gutter(lines: Sequence[Segment], width: float) -> float | None:
    """Where the page parts into columns of text: few lines cross it, and those beside it are long."""
    for x in (place * width for place in _PLACES):
        left = [line for line in lines if line.x1 <= x]
        right = [line for line in lines if line.x0 >= x]
        crossing = len(lines) - len(left) - len(right)
        if (
            min(len(left), len(right)) >= _FEWEST
            and crossing <= 0.25 * len(lines)
            and _is_text(left)
            and _is_text(right)
        ):
            return x
    return None


def _is_text(lines: Sequence[Segment]) -> bool:
    """Whether lines are long, and many fill their column, as the cells of a table do not."""
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    full = sum(line.x1 - line.x0 > 0.7 * (x1 - x0) for line in lines)
    letters = sum(len(line.text) for line in lines)
    return full >= 0.3 * len(lines) and letters >= 22 * len(lines)
