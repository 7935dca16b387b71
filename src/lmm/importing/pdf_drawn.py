"""Signs that a PDF draws: a short line with texts above and below becomes a fraction ``a/b``, in the line around it; a
dot before a line becomes a bullet, and one with a number in it the number of an item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from lmm.importing.pdf_layout import needs_space
from lmm.importing.pdf_page import Char, PdfPage, Rule

_MOST_DOTS = 60  # on a page: more are those of a diagram
_LONGEST, _SHORTEST = 200.0, 6.0  # points: of fractions, and of lines that are not only those of fractions
_MOST = 3_000  # lines of a page
_ROW, _MOST_LETTERS = 8.0, 200  # the height of the bands of a page in which letters are looked for, and of how many
_AXIS = 0.25  # fraction of the font size: the height of the line above the base line
_SIMPLE = re.compile(r"\d+(?:[.,]\d+)?|[^\W\d_]")  # no brackets are needed around it


def with_bullets(page: PdfPage) -> PdfPage:
    """Return a page with a bullet or a number for each dot that is drawn before a line."""
    chars = list(page.chars)
    for x0, top, x1, bottom in page.dots if len(page.dots) <= _MOST_DOTS and not page.tags else ():
        inside = [char for char in chars if x0 < (char.x0 + char.x1) / 2 < x1 and top < char.base < bottom + 1]
        middle = (top + bottom) / 2
        row = [char for char in chars if 0 < char.base - middle < 0.7 * char.style.size and char not in inside]
        first = min((char for char in row if char.x0 >= x1 - 1), key=lambda char: char.x0, default=None)
        is_begun = first and any(x0 - 3 * first.style.size < char.x1 <= x0 + 1 for char in row)
        if first is None or is_begun or first.x0 - x1 > 2 * first.style.size:
            continue
        label = "".join(char.text for char in inside)
        if not label or label.isdigit():
            chars = [char for char in chars if char not in inside]
            sign, at = f"{label}." if label else "•", chars.index(first)
            step = (x1 - x0) / len(sign)
            chars[at : at + 1] = [
                *(first._replace(text=letter, x0=x0 + i * step, x1=x0 + (i + 1) * step, spaced=False)
                  for i, letter in enumerate(sign)),
                first._replace(spaced=True),
            ]  # fmt: skip
    return replace(page, chars=tuple(chars))


def with_fractions(page: PdfPage) -> PdfPage:
    """Return a page whose fractions stand in their lines, ``1/2`` or ``(x+1)/(2y)``; those within others, too."""
    bands: dict[int, list[Char]] = {}
    for char in page.chars:
        bands.setdefault(int(char.base // _ROW), []).append(char)
    rules = [rule for rule in page.rules if rule.horizontal][:_MOST]
    replaced: dict[Char, list[Char]] = {}
    for rule in sorted(rules, key=lambda rule: rule.x1 - rule.x0):
        if rule.x1 - rule.x0 < _LONGEST and (parts := _parts(rule, bands)):
            written = list(_written(rule, *parts, _beside(rule, bands)))
            for char in (char for part in parts for char in part):
                bands[int(char.base // _ROW)].remove(char)
            for char in written:
                bands.setdefault(int(char.base // _ROW), []).append(char)
            replaced |= {char: [] for part in parts for char in part}
            replaced[parts[0][0]] = written
    others = tuple(rule for rule in page.rules if max(rule.x1 - rule.x0, rule.y1 - rule.y0) > _SHORTEST)
    return replace(page, chars=tuple(_in_place(page.chars, replaced)), rules=others)


def _in_place(chars: Sequence[Char], replaced: Mapping[Char, Sequence[Char]]) -> Iterator[Char]:
    for char in chars:
        if char in replaced:
            yield from _in_place(replaced[char], replaced)
        else:
            yield char


def _near(rule: Rule, bands: Mapping[int, list[Char]], beside: float = 0.0) -> Iterator[Char]:
    """Iterate over the letters above, below and, up to a distance, beside a line."""
    for band in range(int(rule.y0 // _ROW) - 4, int(rule.y0 // _ROW) + 5):
        for char in bands.get(band, [])[:_MOST_LETTERS]:
            if rule.x0 - 1 - beside <= (char.x0 + char.x1) / 2 <= rule.x1 + 1 + beside:
                yield char


def _parts(rule: Rule, bands: Mapping[int, list[Char]]) -> tuple[list[Char], list[Char]] | None:
    """Return the letters of the numerator and the denominator, or None if the line is that of a table, or below a
    word."""
    near = [char for char in _near(rule, bands) if char.text.strip()]
    above = [char for char in near if 0.08 * char.style.size < rule.y0 - char.base < 0.8 * char.style.size]
    below = [char for char in near if 0.5 * char.style.size < char.base - rule.y0 < 1.3 * char.style.size]
    if not above or not below:
        return None
    size = max(char.style.size for char in above)
    base = max(char.base for char in above if char.style.size == size)
    above = [char for char in near if -0.65 * size < char.base - base < 0.35 * size and char.base < rule.y0]
    its = max(char.style.size for char in below)
    under, size = min(char.base for char in below if char.style.size == its), max(size, its)
    below = [char for char in near if -0.65 * size < char.base - under < 0.35 * size and char.base > rule.y0 + 1]
    parts = sorted(above, key=lambda char: char.x0), sorted(below, key=lambda char: char.x0)
    widths = [part[-1].x1 - part[0].x0 for part in parts]
    shifts = [abs(part[0].x0 + part[-1].x1 - rule.x0 - rule.x1) / 2 for part in parts]
    is_fitting = abs(rule.x1 - rule.x0 - max(widths)) < 0.4 * size + 2 and max(shifts) < 0.2 * size + 1
    # A line below a word is near to it, and far from the next line of text.
    is_between = (under - rule.y0) - (rule.y0 - base) < 0.85 * size and under - base < 1.6 * size
    inside = {*above, *below}
    are_alone = all(char in inside or min(abs(char.base - base), abs(char.base - under)) > 0.1 * size
                    for char in _near(rule, bands, 0.5 * size))  # fmt: skip
    return parts if is_fitting and is_between and are_alone else None


def _beside(rule: Rule, bands: Mapping[int, list[Char]]) -> Char | None:
    """Return the letter that is next to a fraction on its base line, or None."""
    there = [
        char
        for char in _near(rule, bands, 30)
        if abs(char.base - rule.y0 - _AXIS * char.style.size) < 0.15 * char.style.size
    ]
    return min(there, key=lambda char: max(rule.x0 - char.x1, char.x0 - rule.x1), default=None)


def _written(rule: Rule, above: list[Char], below: list[Char], beside: Char | None) -> Iterator[Char]:
    """Iterate over the letters of a fraction on the base line of the letter beside it, if there is one."""
    size = max(char.style.size for char in above)
    style = beside.style if beside else next(char.style for char in above if char.style.size == size)
    base = beside.base if beside else rule.y0 + _AXIS * size
    letters = list[Char]()
    for part in (above, below):
        main = max(char.style.size for char in part)
        own = next(char.base for char in part if char.style.size == main)
        moved = [char._replace(base=base + char.base - own, style=style if char.style.size == main else char.style,
                               spaced=char is not before and needs_space(before, char))
                 for before, char in pairwise([part[0], *part])]  # fmt: skip
        is_simple = _SIMPLE.fullmatch("".join(char.text for char in part))
        sign = moved[0]._replace(base=base, style=style, spaced=False)
        brackets = ([], []) if is_simple else ([sign._replace(text="(")], [sign._replace(text=")")])
        letters += [sign._replace(text="/")] * bool(letters) + brackets[0] + moved + brackets[1]
    step = (rule.x1 - rule.x0) / len(letters)
    for at, char in enumerate(letters):
        yield char._replace(x0=rule.x0 + at * step, x1=rule.x0 + (at + 1) * step)
