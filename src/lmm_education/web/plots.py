"""Plots, as the template ``plot.html`` draws them in SVG: bars over time and lines. Colours are classes of the style
sheet; no script, no style.

A plot is as wide as a phone, so that its words can be read there. What it shows is said by its title; numbers are
told by a table beside it, which is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

WIDTH, HEIGHT = 400, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 12, 28
_MOST_LABELS = 6
_GAP = 0.25  # of a bar's place
Number = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """Values, one for each label, None where there is none; `style` is the class of what is drawn."""

    name: str
    values: Sequence[float | None]
    style: str


class Shape(NamedTuple):
    """A bar, whose corner is at `x` and `y`, or a point."""

    style: str
    x: float
    y: float
    tip: str
    width: float = 0.0
    height: float = 0.0


class PlotMark(NamedTuple):
    """A text at an axis."""

    at: float
    text: str


class Plot:
    """What is drawn, and where. Lines are points with nothing missing between them; ticks are round numbers."""

    width, height, left, right = WIDTH, HEIGHT, _LEFT, WIDTH - _RIGHT

    def __init__(self, title: str, labels: Sequence[str], highest: float, number: Number, least: float = 0.0) -> None:
        step = max(round_step(highest / 4), least)
        steps = [step * i for i in range(max(1, math.ceil(highest / step - 1e-9)) + 1)]
        self.title, self._highest = _printable(title), steps[-1]
        self.place, every = (self.right - _LEFT) / max(len(labels), 1), max(1, math.ceil(len(labels) / _MOST_LABELS))
        self.ticks = [PlotMark(self.y(each), _printable(number(each))) for each in steps]
        self.labels = [PlotMark(self.x(i), _printable(labels[i])) for i in range(0, len(labels), every)]
        self.bars: list[Shape] = []
        self.points: list[Shape] = []
        self.lines: list[tuple[str, str]] = []

    def x(self, label: int, part: float = 0.5) -> float:
        """Where the place of a label is, or a part of it."""
        return round(_LEFT + self.place * (label + part), 1)

    def y(self, value: float) -> float:
        """How high a value stands."""
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self._highest, 1)


def bars(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> Plot:
    """Bars, a stack for each label, the first series below.

    >>> drawn = bars("Questions", ["Mon", "Tue"], [Series("asked", [1, 3], "s0")], str)
    >>> [bar.tip for bar in drawn.bars]
    ['Mon: asked 1', 'Tue: asked 3']
    """
    stacks = [[one.values[i] or 0.0 for one in series] for i in range(len(labels))]
    whole = all(float(value).is_integer() for stack in stacks for value in stack)
    plot = Plot(title, labels, max(map(math.fsum, stacks), default=0.0), number, least=float(whole))
    for i, stack in enumerate(stacks):
        ends = [plot.y(end) for end in accumulate(stack, initial=0.0)]
        for one, value, base, top in zip(series, stack, ends, ends[1:], strict=False):
            if value > 0:
                tip, width = f"{labels[i]}: {one.name} {number(value)}", round(plot.place * (1 - _GAP), 1)
                shape = Shape(one.style, plot.x(i, _GAP / 2), top, _printable(tip), width, round(base - top, 1))
                plot.bars.append(shape)
    return plot


def lines(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> Plot:
    """A line for each series, with a point for each value; it is broken where there is none.

    >>> drawn = lines("Seconds", ["Mon", "Tue", "Wed"], [Series("median", [1, None, 3], "s0")], str)
    >>> len(drawn.points), len(drawn.lines)
    (2, 0)
    """
    known = [value for one in series for value in one.values if value is not None]
    plot = Plot(title, labels, max(known, default=0.0), number)
    for one in series:
        shapes = [
            None if value is None
            else Shape(one.style, plot.x(i), plot.y(value), _printable(f"{labels[i]}: {one.name} {number(value)}"))
            for i, value in enumerate(one.values)
        ]  # fmt: skip
        plot.points += filter(None, shapes)
        for _, run in groupby(shapes, key=bool):
            held = [f"{shape.x},{shape.y}" for shape in run if shape]
            if len(held) > 1:
                plot.lines.append((one.style, " ".join(held)))
    return plot


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, … (or 0.1, 0.2, …) that is not below `least`; 1 for nothing.

    >>> round_step(3), round_step(0.15), round_step(51), round_step(0)
    (5.0, 0.2, 100.0, 1.0)
    """
    if least <= 0:
        return 1.0
    exponent = math.floor(math.log10(least))
    for factor in (1, 2, 5, 10, 20):
        step = float(f"{factor}e{exponent}")
        if step >= least * (1 - 1e-9):
            return step
    raise AssertionError(least)


def _printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable())
