"""Figures equal what a plain look at every exchange says."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

from hypothesis import given, strategies as st
from unit.lmm_education.exchange_log.logs import logs

from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.figures import (
    Figures,
    bin_name,
    day_of,
    figures,
    over_time,
    quantile,
    section_uses,
)

DAYS = st.dates(date(1971, 1, 1), date(2090, 1, 1))


def counted(exchanges: list[LoggedExchange]) -> dict[str, int]:
    """Counts, one by one."""
    found = dict.fromkeys(("answered", "uncited", "not_found", "refused", "failed", "left", "up", "down"), 0)
    for exchange in exchanges:
        cites = any(source.cited for source in exchange.sources)
        name = exchange.outcome.replace(" ", "_")
        found["uncited" if name == "answered" and not cites else name] += 1
        if exchange.reaction:
            found["up" if exchange.reaction > 0 else "down"] += 1
    return found


@given(logs())
def test_counts(held: list[LoggedExchange]) -> None:
    """What became of questions adds up to all of them."""
    made, expected = figures(held), counted(held)
    assert {name: getattr(made, name) for name in expected} == expected
    became = (made.answered, made.uncited, made.not_found, made.refused, made.failed, made.left)
    assert sum(became) == made.questions == len(held)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 1))
def test_quantiles(values: list[float], share: float) -> None:
    """The smallest value that at least this share does not exceed; it is one of them."""
    values.sort()
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert all(sum(v <= smaller for v in values) < share * len(values) for smaller in values if smaller < found)


@given(logs(), DAYS, st.integers(0, 900), st.integers(-12, 12))
def test_over_time_nothing_is_lost(held: list[LoggedExchange], first: date, more: int, hours: int) -> None:
    """Every question of the range is in one bin, no other is; the bins follow each other without a gap."""
    zone, last = timezone(timedelta(hours=hours)), first + timedelta(days=more)
    middle = datetime(first.year, first.month, first.day, tzinfo=zone) + timedelta(days=more / 2)
    held = [*held, LoggedExchange("inside", middle.timestamp(), "Why?")]
    inside = [e for e in held if first <= datetime.fromtimestamp(e.time, zone).date() <= last]
    bins = over_time(held, first, last, zone)
    assert sum(each.questions for each in bins.values()) == len(inside) >= 1
    begins = list(bins)
    assert begins == sorted(set(begins))
    longest = {"day": 1, "week": 7, "month": 31}[bin_name(more + 1)]
    assert all((b - a).days <= longest for a, b in pairwise(begins))
    assert begins[0] <= first
    assert (last - begins[-1]).days < longest


def test_a_day_is_the_teachers() -> None:
    """What was asked at 23:30 in London was asked tomorrow in Vienna."""
    late = datetime(2026, 11, 20, 23, 30, tzinfo=UTC).timestamp()
    assert day_of(late, UTC).day == 20
    assert day_of(late, timezone(timedelta(hours=1))).day == 21


def test_of_nothing() -> None:
    """There is nothing to measure."""
    assert figures([]) == Figures()
    assert all(each == Figures() for each in over_time([], date(2026, 1, 1), date(2026, 1, 9), UTC).values())


@given(logs())
def test_sections(held: list[LoggedExchange]) -> None:
    """Counted once an exchange, by file and headings; all sections of the course are there, none else."""
    course = [LoggedSource(0, f"{f}{h}", f, h) for f in ("a.md", "b.md") for h in ((), ("A",), ("A", "B"))]
    uses = section_uses(held, course)
    assert sorted(use.section.section for use in uses) == sorted(section.section for section in course)
    for use in uses:
        key = (use.section.file, use.section.headings)
        assert use.offered == sum(any((s.file, s.headings) == key for s in e.sources) for e in held)
        assert use.cited == sum(any((s.file, s.headings) == key and s.cited for s in e.sources) for e in held)
    assert [use.cited for use in uses] == sorted((use.cited for use in uses), reverse=True)
