"""Characters to lines: words, spaces, sub- and superscript, bold and code, joined over line ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from lmm.importing.elements import MarkupElement, Node
from lmm.importing.pdf_page import Char, Style

_SPACE = 0.18  # of the size of the letters: narrower is kerning, wider is a space
_GAP = 0.9  # wider is a gap between columns
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "ft", "ﬆ": "st"})
_SMALL = 0.85


@dataclass(frozen=True, slots=True)
class Segment:
    """Characters side by side on one base line without a wide gap: a line of a column, or a cell of a row.

    `style` and `base` are those of most of its characters; `text` has spaces between words.
    """

    chars: tuple[Char, ...]
    style: Style
    base: float
    text: str

    @property
    def x0(self) -> float:
        """Left end."""
        return self.chars[0].x0

    @property
    def x1(self) -> float:
        """Right end."""
        return max(char.x1 for char in self.chars[-3:])

    @property
    def top(self) -> float:
        """Upper end of its letters."""
        return min(char.top for char in self.chars)

    @property
    def bottom(self) -> float:
        """Lower end of its letters."""
        return max(char.bottom for char in self.chars)


def segments_of(chars: Iterable[Char]) -> list[Segment]:
    """The segments of a page, from top to bottom and from left to right on a line."""
    found = [segment for row in _rows(chars) for segment in _split(row)]
    return sorted(found, key=lambda s: (round(s.base), s.x0))


def _rows(chars: Iterable[Char]) -> list[list[Char]]:
    """Characters on one base line, from left to right, with their sub- and superscripts."""
    rows: list[list[Char]] = []
    for char in sorted(chars, key=lambda c: (c.base, c.x0)):
        if rows and char.base - rows[-1][-1].base < 0.12 * char.style.size:
            rows[-1].append(char)
        else:
            rows.append([char])
    return [sorted(row, key=lambda c: c.x0) for row in _with_scripts(rows)]


def _with_scripts(rows: list[list[Char]]) -> list[list[Char]]:
    """Small letters that stand beside letters of a neighbouring row become a part of it."""
    for number, row in enumerate(rows):
        near = [other for other in rows[max(0, number - 3) : number + 4] if other is not row]
        for char in [char for char in row if any(_is_script(char, other) for other in near)]:
            host = next(other for other in near if _is_script(char, other))
            row.remove(char)
            host.append(char)
    return [row for row in rows if row]


def _is_script(char: Char, row: Sequence[Char]) -> bool:
    """Whether a character is a sub- or superscript in a row."""
    if (
        not row
        or char.style.size >= _SMALL * row[0].style.size
        or abs(char.base - row[0].base) > 0.6 * row[0].style.size
    ):
        return False
    reach = 0.3 * row[0].style.size
    return any(-reach < char.x0 - other.x1 < reach or -reach < other.x0 - char.x1 < reach for other in row)


def _split(row: Sequence[Char]) -> Iterator[Segment]:
    """A row at its wide gaps."""
    part: list[Char] = []
    for char in row:
        if part and char.x0 - part[-1].x1 > _GAP * max(char.style.size, part[-1].style.size):
            yield make_segment(part)
            part = []
        part.append(char)
    if part:
        yield make_segment(part)


def make_segment(chars: Sequence[Char]) -> Segment:
    """A segment of some characters, from left to right."""
    style = _main_style(chars)
    base = next(char.base for char in chars if char.style == style)
    return Segment(tuple(chars), style, base, "".join(_spaced(chars)))


def _main_style(chars: Sequence[Char]) -> Style:
    first = chars[0].style
    if all(char.style is first for char in chars):
        return first
    return Counter(char.style for char in chars).most_common(1)[0][0]


def _spaced(chars: Sequence[Char]) -> Iterator[str]:
    before: Char | None = None
    for char in chars:
        if before is not None and needs_space(before, char):
            yield " "
        yield char.text.translate(_LIGATURES)
        before = char


def needs_space(before: Char, char: Char) -> bool:
    """Whether there is a space between two neighbours on a line; in a typewriter font half a letter is none."""
    if char.spaced:
        return True
    size = max(before.style.size, char.style.size)
    wide = 0.35 if char.style.mono and before.style.mono else _SPACE
    return char.x0 - before.x1 > wide * size


# -- inline text -----------------------------------------------------------------------------------------


class Words:
    """The words of a document: they tell whether a hyphen at a line's end belongs to the word."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = (re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text) for text in texts)
        self._known = Counter(word.lower() for line in found for word in line[1:-1])  # others may be parts of words

    def join(self, before: str, after: str) -> str:
        """Two lines as one.

        >>> Words(["a well-known fact"]).join("is well-", "known for")
        'is well-known for'
        >>> Words([]).join("a depart-", "ment")
        'a department'
        """
        head = re.search(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-\u2010\xad\x02]\Z", before)
        tail = re.match(r"[^\W\d_]+", after)
        if head is None or tail is None or not after[0].islower():
            glue = "" if before.endswith(("-", "–", "—", "/")) or not before or before[-1].isspace() else " "
            return f"{before}{glue}{after}".replace("\x02", "-")
        whole, parted = (head[1] + tail[0]).lower(), f"{head[1]}-{tail[0]}".lower()
        keep = self._known[parted] > self._known[whole]
        if not self._known[whole] and self._known[head[1].lower()] and self._known[tail[0].lower()]:
            keep = True  # two words of their own
        return before[:-1] + "-" * keep + after


NO_WORDS = Words(())


def inline_nodes(lines: Sequence[Sequence[Char]], words: Words = NO_WORDS, *, plain: bool = False) -> tuple[Node, ...]:
    """Lines of characters as text with its formats, joined into one; `plain` leaves bold and slanted letters out."""
    runs: list[tuple[tuple[str, ...], str]] = []
    for line in lines:
        for number, (format, text) in enumerate(_runs(line, plain)):
            if not number and runs:
                joined = words.join(runs[-1][1], text)
                cut = len(joined) - len(text)
                runs[-1], text = (runs[-1][0], joined[:cut]), joined[cut:]
            if runs and runs[-1][0] == format:
                text = runs.pop()[1] + text
            runs.append((format, text))
    return tuple(_wrapped(format, text) for format, text in runs if text)


def _runs(line: Sequence[Char], plain: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """The pieces of one format of a line."""
    if not line:
        return
    main = _main_style(line)
    base = next(char.base for char in line if char.style == main)
    formats = [_format(char, main, base, plain) for char in line]
    at = 0
    for format, group in groupby(formats):
        size = len(list(group))
        part = line[at : at + size]
        if "em" in format and not re.search(r"[^\W\d_]{2}", "".join(char.text for char in part)):
            format = tuple(name for name in format if name != "em")  # a letter of a formula
        if at and needs_space(line[at - 1], part[0]):
            yield (), " "
        yield format, "".join(_spaced(part))
        at += size


def _format(char: Char, main: Style, base: float, plain: bool) -> tuple[str, ...]:
    style, formats = char.style, []
    if char.link:
        formats.append(f"a {char.link}")
    if style.size < _SMALL * main.size:
        rise = base - char.base
        if abs(rise) > 0.1 * main.size:
            formats.append("sup" if rise > 0 else "sub")
    if style.mono and not (plain and main.mono):
        formats.append("code")
    elif not plain:
        formats += [name for name, on in (("strong", style.bold), ("em", style.italic)) if on]
    return tuple(formats)


def _wrapped(format: tuple[str, ...], text: str) -> Node:
    node: Node = text
    for name in reversed(format):
        tag, _, target = name.partition(" ")
        node = MarkupElement(tag, {"href": target} if target else {}, (node,))
    return node


# -- code ------------------------------------------------------------------------------------------------


def code_lines(lines: Sequence[Sequence[Char]]) -> str:
    """Lines in a typewriter font as code: the place of each line's first letter gives back its indentation."""
    full = [[char for char in line if char.text.strip()] for line in lines]
    printed = [line for line in full if line]
    if not printed:
        return ""
    width = sorted(char.x1 - char.x0 for line in printed for char in line)[sum(map(len, printed)) // 2] or 1.0
    left = min(line[0].x0 for line in printed)
    size = printed[0][0].style.size
    step = min((b[0].base - a[0].base for a, b in pairwise(printed)), default=0.0)
    step = step if 1 < step < 1.8 * size else 1.25 * size
    written: list[str] = []
    last: float | None = None
    for line in printed:
        if last is not None and step:
            written += [""] * min(2, round((line[0].base - last) / step) - 1)
        written.append(_code_line(line, left, width))
        last = line[0].base
    return "\n".join(written)


def _code_line(line: Sequence[Char], left: float, width: float) -> str:
    text = ""
    for char in line:
        column = round((char.x0 - left) / width)
        text += " " * max(0, min(column, 200) - len(text)) + char.text
    return text
