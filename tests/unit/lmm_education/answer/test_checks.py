"""Sentences written by hand over real passages: what the checks catch, and what they mark wrongly."""

from __future__ import annotations

import pytest

from benchmarks.checks import failing
from benchmarks.documents import SHARED

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="the passages lie beside the project")
LEAST = {
    "units": 0.9,
    "formulas": 0.85,
    "source": 0.95,
    "negation": 0.65,
    "numbers": 0.85,
    "names": 1.0,
    "quotation": 1.0,
}


def test_planted_errors_are_caught() -> None:
    found = failing("planted.txt")
    assert found.keys() == LEAST.keys()
    for kind, rows in found.items():
        assert sum(bool(marks) for _, marks in rows) >= LEAST[kind] * len(rows), kind


def test_hard_true_sentences_pass() -> None:
    rows = [row for rows in failing("true.txt").values() for row in rows]
    assert sum(bool(marks) for _, marks in rows) <= 0.04 * len(rows)
