"""Plots, as the template ``plot.html`` draws them in SVG: bars over time and lines. Colours are classes of the style
sheet; no script, no style.

A plot is as wide as a phone, so that its words can be read there. What it shows is said by its title; numbers are
told by a table beside it, which is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

WIDTH, HEIGHT = 400, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 12, 28
_MOST_LABELS = 6
_GAP = 0.25  # of a bar's place


@dataclass(frozen=True, slots=True)
class Series:
    """Values, one for each label, None where there is none; `style` is the class of what is drawn."""

    name: str
    values: Sequence[float | None]
    style: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A bar, whose corner is at `x` and `y`, or a point."""

    style: str
    x: float
    y: float
    tip: str
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """Points with nothing missing between them."""

    style: str
    points: str


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A text at an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn, and where."""

    title: str
    ticks: Sequence[PlotMark]
    labels: Sequence[PlotMark]
    bars: Sequence[Shape] = ()
    points: Sequence[Shape] = ()
    lines: Sequence[Line] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT


Number = Callable[[float], str]


def bars(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> Plot:
    """Bars, a stack for each label, the first series below.

    >>> drawn = bars("Questions", ["Mon", "Tue"], [Series("asked", [1, 3], "s0")], str)
    >>> [bar.tip for bar in drawn.bars]
    ['Mon: asked 1', 'Tue: asked 3']
    """
    stacks = [[one.values[i] or 0.0 for one in series] for i in range(len(labels))]
    whole = all(float(value).is_integer() for stack in stacks for value in stack)
    scale = _Scale.up_to(max(map(math.fsum, stacks), default=0.0), least=float(whole))
    place = _width() / max(len(labels), 1)
    drawn = []
    for i, stack in enumerate(stacks):
        base, left = 0.0, _LEFT + place * (i + _GAP / 2)
        for one, value in zip(series, stack, strict=True):
            if value > 0:
                top, bottom = scale.y(base + value), scale.y(base)
                tip = _printable(f"{labels[i]}: {one.name} {number(value)}")
                width, height = _rounded(place * (1 - _GAP)), _rounded(bottom - top)
                drawn.append(
                    Shape(style=one.style, x=_rounded(left), y=_rounded(top), tip=tip, width=width, height=height)
                )
            base += value
    return Plot(_printable(title), scale.marks(number), _marks(labels), bars=drawn)


def lines(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> Plot:
    """A line for each series, with a point for each value; it is broken where there is none.

    >>> drawn = lines("Seconds", ["Mon", "Tue", "Wed"], [Series("median", [1, None, 3], "s0")], str)
    >>> len(drawn.points), len(drawn.lines)
    (2, 0)
    """
    known = [value for one in series for value in one.values if value is not None]
    scale = _Scale.up_to(max(known, default=0.0))
    place = _width() / max(len(labels), 1)
    points: list[Shape] = []
    joined: list[Line] = []
    for one in series:
        at = [_LEFT + place * (i + 0.5) for i in range(len(labels))]
        tips = [f"{label}: {one.name} " for label in labels]
        placed = zip(at, one.values, tips, strict=True)
        shapes = [
            None if value is None else _point(one.style, x, scale.y(value), tip + number(value))
            for x, value, tip in placed
        ]
        points += [shape for shape in shapes if shape]
        for there, run in groupby(shapes, key=lambda shape: shape is not None):
            held = [f"{shape.x},{shape.y}" for shape in run if shape]
            if there and len(held) > 1:
                joined.append(Line(one.style, " ".join(held)))
    return Plot(_printable(title), scale.marks(number), _marks(labels), points=points, lines=joined)


def _point(style: str, x: float, y: float, tip: str) -> Shape:
    return Shape(style, _rounded(x), _rounded(y), _printable(tip))


# -- axes ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to heights; `ticks` are round numbers from 0 on."""

    ticks: tuple[float, ...]

    @staticmethod
    def up_to(highest: float, least: float = 0.0) -> _Scale:
        step = max(round_step(highest / 4), least)
        return _Scale(tuple(step * i for i in range(max(1, math.ceil(highest / step - 1e-9)) + 1)))

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.ticks[-1]

    def marks(self, number: Number) -> list[PlotMark]:
        return [PlotMark(_rounded(self.y(tick)), _printable(number(tick))) for tick in self.ticks]


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


def _marks(labels: Sequence[str]) -> list[PlotMark]:
    place, every = _width() / max(len(labels), 1), max(1, math.ceil(len(labels) / _MOST_LABELS))
    chosen = range(0, len(labels), every)
    return [PlotMark(_rounded(_LEFT + place * (i + 0.5)), _printable(labels[i])) for i in chosen]


def _width() -> float:
    return WIDTH - _LEFT - _RIGHT


def _rounded(value: float) -> float:
    return round(value, 1)


def _printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable())
