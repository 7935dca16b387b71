"""Arabic and Hebrew in PDF pages: a page is mirrored, so that its text reads from left to right like any other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from lmm.importing.pdf_page import Char, PdfPage


def in_reading_order(page: PdfPage) -> PdfPage:
    """Return a page whose letters stand from left to right in the order in which they are read, by their places.

    The order of the letters in the file does not count: programs write words backwards, or lines from left to right.
    """
    letters = [char for char in page.chars if char.text.strip()]
    count = sum(map(_is_right_to_left, letters))
    if not count:
        return page
    mirrored = 2 * count > sum(char.text.isalpha() for char in letters)
    width = page.width if mirrored else 0.0
    chars = [_mirrored(char, width) if mirrored else char for char in page.chars]
    rows = groupby(sorted(chars, key=lambda char: (round(char.base), char.x0)), key=lambda char: round(char.base))
    chars = [char for _, row in rows for char in _turned(list(row), back=mirrored)]
    if not mirrored:
        return replace(page, chars=tuple(chars))
    rules = tuple(replace(rule, x0=width - rule.x1, x1=width - rule.x0) for rule in page.rules)
    pictures = tuple(replace(each, x0=width - each.x1, x1=width - each.x0) for each in page.pictures)
    return replace(page, chars=tuple(chars), rules=rules, pictures=pictures)


def _is_right_to_left(char: Char) -> bool:
    return unicodedata.bidirectional(char.text[:1]) in ("R", "AL")


def _is_left_to_right(char: Char) -> bool:
    return unicodedata.bidirectional(char.text[:1]) in ("L", "EN", "AN")


def _mirrored(char: Char, width: float) -> Char:
    """Return a character at its place in a mirror, with the letters for which a shape of Arabic stands."""
    text = unicodedata.normalize("NFKC", char.text) if "\ufb1d" <= char.text[:1] <= "\ufefc" else char.text
    spaced = char.spaced and not _is_right_to_left(char)  # before another letter of the word
    return char._replace(text=text, x0=width - char.x1, x1=width - char.x0, spaced=spaced)


def _turned(row: list[Char], *, back: bool) -> Iterable[Char]:
    """Iterate over the characters of a row, those of the other direction turned around where they stand."""
    is_other = _is_left_to_right if back else _is_right_to_left
    others = [at for at, char in enumerate(row) if is_other(char)]
    runs: list[tuple[int, int]] = []
    for at in others:
        joins = bool(runs) and not any(
            _is_left_to_right(char) or _is_right_to_left(char) for char in row[runs[-1][1] : at]
        )
        runs = [*runs[:-1], (runs[-1][0], at + 1)] if joins else [*runs, (at, at + 1)]
    for start, end in runs:
        both = row[start].x0 + max(char.x1 for char in row[start:end])
        turned = [_mirrored(char, both) for char in row[start:end]]
        row[start:end] = sorted(turned, key=lambda char: char.x0)
    return row
