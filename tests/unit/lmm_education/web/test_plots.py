"""Plots are well-formed, within their frame, and true to their numbers; no text breaks out."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st
from strategies import texts

from lmm_education.web.http import render
from lmm_education.web.teacher import HEIGHT, WIDTH, Plot, Series, bars, lines, round_step

SVG = st.floats(0, 1e9, allow_subnormal=False)
VALUES = st.lists(st.none() | SVG, min_size=1, max_size=40)


def drawing(plot: Plot) -> ElementTree.Element:
    """The elements of an SVG; there must be nothing in it that runs or loads."""
    root = ElementTree.fromstring(render("plot.html", plot=plot))
    assert {element.tag for element in root.iter()} <= {"svg", "line", "text", "rect", "circle", "polyline", "title"}
    names = {name for element in root.iter() for name in element.attrib}
    assert not any(name.startswith("on") or name in ("style", "href") for name in names)
    return root


def number(element: ElementTree.Element, name: str) -> float:
    """An attribute's value."""
    return float(element.attrib[name])


@given(st.lists(st.tuples(SVG, SVG), min_size=1, max_size=40), texts())
def test_bars(pairs: list[tuple[float, float]], name: str) -> None:
    """A stack is as high as the sum of its values, beside a scale that begins at 0."""
    series = [Series(name, [a for a, _ in pairs], "one"), Series("b", [b for _, b in pairs], "two")]
    root = drawing(bars(name, [name] * len(pairs), series, lambda value: f"{value:g}"))
    drawn = list(root.iter("rect"))
    for rect in drawn:
        assert 0 <= number(rect, "x") <= WIDTH
        assert 0 <= number(rect, "y") <= HEIGHT
        assert number(rect, "y") + number(rect, "height") <= HEIGHT
    heights: dict[str, float] = {}
    for rect in drawn:
        heights[rect.attrib["x"]] = heights.get(rect.attrib["x"], 0.0) + number(rect, "height")
    sums = [a + b for a, b in pairs if a + b > 0]
    highest = max(sums, default=0.0)
    for total, height in zip(sums, heights.values(), strict=True):
        assert height == pytest.approx(total / highest * max(heights.values()), abs=0.5)


def test_counts_have_no_halves_beside_them() -> None:
    """What is counted is a whole number; seconds and costs may be less."""
    assert [mark.text for mark in bars("Questions", ["Mon"], [Series("asked", [2], "s0")], str).ticks] == [
        "0.0",
        "1.0",
        "2.0",
    ]
    assert len(bars("Costs", ["Mon"], [Series("cost", [0.2], "s0")], str).ticks) == 5


@given(VALUES)
def test_lines(values: list[float | None]) -> None:
    """A point for each value, none where there is none; higher values stand higher."""
    plot = lines("Waits", [str(i) for i in range(len(values))], [Series("wait", values, "one")], str)
    points = list(drawing(plot).iter("circle"))
    known = [value for value in values if value is not None]
    assert len(points) == len(known)
    at = sorted(zip(known, (number(point, "cy") for point in points), strict=True))
    assert all(one[1] >= other[1] - 0.11 for one, other in pairwise(at))


@given(st.floats(1e-12, 1e12))
def test_steps_are_round(least: float) -> None:
    """1, 2 or 5 with zeros; not more than 2.5 times what is needed."""
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= least * 2.5 * (1 + 1e-6)
    assert f"{step:e}"[0] in "125"


def test_words_stay_words() -> None:
    """A label cannot close an element."""
    trick = "</title><script>alert(1)</script>"
    root = drawing(bars(trick, [trick], [Series(trick, [1.0], "one")], str))
    assert root.attrib["aria-label"] == trick
    assert root.attrib["role"] == "img"
