"""Plots as SVG, drawn by hand: bars over time and lines. Colours are classes of the style sheet; no script, no style.

A plot is as wide as a phone, so that its words can be read there. What it shows is said by its title; numbers are
told by a table beside it, which is the caller's.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


Number = Callable[[float], str]


def bars(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> str:
    """Bars, a stack for each label, the first series below.

    >>> drawn = bars("Questions", ["Mon", "Tue"], [Series("asked", [1, 3], "s0")], str)
    >>> drawn.count("<rect"), "Tue: asked 3" in drawn
    (2, True)
    """
    stacks = [[one.values[i] or 0.0 for one in series] for i in range(len(labels))]
    scale = _Scale.up_to(max(map(math.fsum, stacks), default=0.0))
    place = _width() / max(len(labels), 1)
    drawn = []
    for i, stack in enumerate(stacks):
        base, left = 0.0, _LEFT + place * (i + _GAP / 2)
        for one, value in zip(series, stack, strict=True):
            if value > 0:
                top, bottom = scale.y(base + value), scale.y(base)
                tip = _escaped(f"{labels[i]}: {one.name} {number(value)}")
                drawn.append(
                    f'<rect class="{one.style}" x="{_n(left)}" y="{_n(top)}" width="{_n(place * (1 - _GAP))}" '
                    f'height="{_n(bottom - top)}"><title>{tip}</title></rect>'
                )
            base += value
    return _svg(title, labels, scale, number, drawn)


def lines(title: str, labels: Sequence[str], series: Sequence[Series], number: Number) -> str:
    """A line for each series, with a point for each value; it is broken where there is none.

    >>> drawn = lines("Seconds", ["Mon", "Tue", "Wed"], [Series("median", [1, None, 3], "s0")], str)
    >>> drawn.count("<circle"), drawn.count("<polyline")
    (2, 0)
    """
    known = [value for one in series for value in one.values if value is not None]
    scale = _Scale.up_to(max(known, default=0.0))
    place = _width() / max(len(labels), 1)
    drawn = []
    for one in series:
        at = [(_LEFT + place * (i + 0.5), value) for i, value in enumerate(one.values)]
        for run in _runs(at):
            if len(run) > 1:
                points = " ".join(f"{_n(x)},{_n(scale.y(value))}" for x, value in run)
                drawn.append(f'<polyline class="{one.style}" points="{points}"/>')
        for label, (x, value) in zip(labels, at, strict=True):
            if value is not None:
                tip = _escaped(f"{label}: {one.name} {number(value)}")
                where = f'cx="{_n(x)}" cy="{_n(scale.y(value))}"'
                drawn.append(f'<circle class="{one.style}" {where} r="3"><title>{tip}</title></circle>')
    return _svg(title, labels, scale, number, drawn)


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The points without gaps between them."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, value in points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((x, value))
    return [run for run in runs if run]


# -- axes ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to heights; `ticks` are round numbers from 0 on."""

    ticks: tuple[float, ...]

    @staticmethod
    def up_to(highest: float) -> _Scale:
        step = round_step(highest / 4)
        return _Scale(tuple(step * i for i in range(max(1, math.ceil(highest / step - 1e-9)) + 1)))

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.ticks[-1]


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


def _svg(title: str, labels: Sequence[str], scale: _Scale, number: Number, drawn: Sequence[str]) -> str:
    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_escaped(title)}">']
    for tick in scale.ticks:
        y = _n(scale.y(tick))
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{y}" dy="0.35em">{_escaped(number(tick))}</text>')
    parts += drawn
    place, every = _width() / max(len(labels), 1), max(1, math.ceil(len(labels) / _MOST_LABELS))
    for i in range(0, len(labels), every):
        x = _n(_LEFT + place * (i + 0.5))
        parts.append(f'<text class="x" x="{x}" y="{HEIGHT - 8}">{_escaped(labels[i])}</text>')
    return "".join((*parts, "</svg>"))


def _width() -> float:
    return WIDTH - _LEFT - _RIGHT


def _n(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def _escaped(text: str) -> str:
    return html.escape("".join(char for char in text if char.isprintable()))
