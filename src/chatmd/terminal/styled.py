"""Text with styles, as lines that fit a terminal. A style is names of `CODES` with spaces between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wcwidth import wcwidth

from lmm.terminal import visible

# Only what every palette, light or dark, can show: no white, no black, no background.
CODES = {
    "bold": "1", "dim": "2", "italic": "3", "underline": "4", "strike": "9",
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip
COLOURS = frozenset({"red", "green", "yellow", "blue", "magenta", "cyan"})

_NOT_AT_START = frozenset("、。，．：；！？）」』】〉》〕］｝ー…")


class StyledSpan(NamedTuple):
    """A piece of one line."""

    text: str
    style: str = ""


Line = tuple[StyledSpan, ...]


def clean(text: str) -> str:
    """`text` without the power to move the cursor or to mislead; a tab is four spaces, the end of a line stays.

    >>> clean("a\\x1b[31mb\\tc\\r\\nd")
    'a\\\\x1b[31mb    c\\nd'
    """
    return visible(text.replace("\t", "    "))


def columns(text: str) -> int:
    """How many columns a text takes.

    >>> columns("añb"), columns("日本"), columns("e\\u0301")
    (3, 4, 1)
    """
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    return 1 if " " <= char <= "~" else max(0, wcwidth(char))


def plain(line: Iterable[StyledSpan]) -> str:
    """The text of a line."""
    return "".join(span.text for span in line)


def ansi(line: Iterable[StyledSpan], *, colour: bool = True) -> str:
    """A line as a terminal takes it; without `colour`, other styles stay.

    >>> ansi((StyledSpan("a "), StyledSpan("b", "bold cyan"))), ansi((StyledSpan("b", "bold cyan"),), colour=False)
    ('a \\x1b[1;36mb\\x1b[0m', '\\x1b[1mb\\x1b[0m')
    """
    return "".join(_coded(span, colour) for span in line)


def _coded(span: StyledSpan, colour: bool) -> str:
    names = [name for name in span.style.split() if colour or name not in COLOURS]
    return f"\x1b[{';'.join(CODES[name] for name in names)}m{span.text}\x1b[0m" if names else span.text


def clipped(line: Iterable[StyledSpan], width: int) -> Line:
    """A line cut to so many columns.

    >>> clipped((StyledSpan("a residual"),), 5)
    (StyledSpan(text='a re', style=''), StyledSpan(text='…', style=''))
    """
    line = tuple(line)
    if columns(plain(line)) <= width:
        return line
    first = folded(line, max(1, width - 1))[0]
    return (*(first if columns(plain(first)) < width else ()), StyledSpan("…", line[-1].style))


def folded(line: Iterable[StyledSpan], width: int) -> list[Line]:
    """A line cut into lines of so many columns, wherever that is.

    >>> [plain(part) for part in folded((StyledSpan("日本x"),), 3)]
    ['日', '本x']
    """
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for char, style in _chars(line):
        if used + _columns(char) > width and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append((char, style))
        used += _columns(char)
    return [_joined(chars) for chars in lines]


def wrapped(spans: Iterable[StyledSpan], width: int) -> list[Line]:
    r"""Text in lines of at most so many columns, parted at spaces and between wide characters; ``\n`` ends a line.

    >>> [plain(line) for line in wrapped((StyledSpan("two "), StyledSpan("words\n日本", "bold")), 6)]
    ['two', 'words', '日本']
    """
    width = max(1, width)
    lines: list[list[tuple[str, str]]] = []
    line: list[tuple[str, str]] = []
    used, breaks = 0, 0  # `breaks`: where the line may be parted, at best
    for char, style in _chars(spans):
        size = _columns(char)
        if char == "\n" or (char == " " and used + 1 > width):
            lines.append(line)
            line, used, breaks = [], 0, 0
            continue
        if size == 2 and char not in _NOT_AT_START:
            breaks = len(line)
        while used + size > width and line:
            at = breaks or len(line)
            lines.append(line[:at])
            line = line[at:]
            used, breaks = sum(_columns(c) for c, _ in line), 0
        line.append((char, style))
        used += size
        if char == " " or (size == 2 and char not in _NOT_AT_START):
            breaks = len(line)
    return [_joined(_stripped(chars)) for chars in (*lines, line)]


def trimmed(line: Line) -> Line:
    """A line without white space at its end: it would be copied, and wrap where a window gets narrower.

    >>> trimmed((StyledSpan("a "), StyledSpan("  ", "dim")))
    (StyledSpan(text='a', style=''),)
    """
    while line and not line[-1].text.strip():
        line = line[:-1]
    return (*line[:-1], StyledSpan(line[-1].text.rstrip(), line[-1].style)) if line else ()


def indented(lines: Sequence[Line], first: Line, rest: Line) -> list[Line]:
    """Lines with something before them."""
    return [(first if number == 0 else rest) + line for number, line in enumerate(lines)]


def _chars(spans: Iterable[StyledSpan]) -> Iterator[tuple[str, str]]:
    for span in spans:
        for char in span.text:
            yield char, span.style


def _stripped(chars: list[tuple[str, str]]) -> list[tuple[str, str]]:
    end = len(chars)
    while end and chars[end - 1][0] == " ":
        end -= 1
    return chars[:end]


def _joined(chars: Iterable[tuple[str, str]]) -> Line:
    spans: list[StyledSpan] = []
    for char, style in chars:
        if spans and spans[-1].style == style:
            spans[-1] = StyledSpan(spans[-1].text + char, style)
        else:
            spans.append(StyledSpan(char, style))
    return tuple(spans)
