"""What the teacher's page tells: figures, groups of questions, sections, made from the log and the course."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.figures import (
    Bin,
    CourseSection,
    Figures,
    SectionUse,
    figures,
    over_time,
    section_uses,
)
from lmm_education.exchange_log.grouping import Group, Words, group_questions
from lmm_education.exchange_log.schema import LogFilter

RANGES = (7, 30, 180)
"""Days up to today that can be chosen at once."""
_LONGEST = 3660  # days
_MIDNIGHT = datetime.min.time()


@dataclass(frozen=True, slots=True)
class Range:
    """Days, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """How many."""
        return (self.last - self.first).days + 1

    def as_filter(self, zone: tzinfo | None) -> LogFilter:
        """The exchanges of these days; without a zone, where this machine is."""
        begin = datetime.combine(self.first, _MIDNIGHT, zone)
        end = datetime.combine(self.last + timedelta(days=1), _MIDNIGHT, zone)
        return LogFilter(since=begin.timestamp(), until=end.timestamp())


def chosen_range(first: str, last: str, today: date) -> Range:
    """The days asked for, in any order; the last month where nothing, or nothing that is a day, was asked for.

    >>> today = date(2026, 11, 21)
    >>> chosen_range("2026-11-03", "2026-11-01", today).days, chosen_range("", "x", today).days
    (3, 30)
    """
    try:
        one, other = sorted((date.fromisoformat(first), date.fromisoformat(last)))
    except ValueError:
        return Range(today - timedelta(days=RANGES[1] - 1), today)
    other = min(max(other, date(1971, 1, 1)), date(9000, 1, 1))
    return Range(max(one, other - timedelta(days=_LONGEST)), other)


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of one kind: how many, the latest text, and when that was."""

    kind: str
    times: int
    text: str
    last: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about some days."""

    range: Range
    total: Figures
    bins: Sequence[Bin]
    asked: Sequence[Group]
    unanswered: Sequence[Group]
    down: Sequence[LoggedExchange]
    failures: Sequence[Failures]
    uses: Sequence[SectionUse]


def make_report(
    exchanges: Sequence[LoggedExchange],
    down: Sequence[LoggedExchange],
    sections: Iterable[CourseSection],
    range: Range,
    words: Words,
    zone: tzinfo | None = None,
) -> Report:
    """The report on the exchanges of a range; `down` are those with thumbs down, with their answers."""
    missing = [e for e in exchanges if e.outcome == "not found" or (e.outcome == "answered" and not e.is_answered)]
    return Report(
        range,
        figures(exchanges),
        over_time(exchanges, range.first, range.last, zone),
        group_questions(exchanges, words),
        group_questions(missing, words),
        tuple(reversed(down)),
        _failures(exchanges),
        section_uses(exchanges, sections),
    )


def _failures(exchanges: Sequence[LoggedExchange]) -> list[Failures]:
    by_kind: dict[str, list[LoggedExchange]] = {}
    for exchange in exchanges:
        if exchange.outcome == "failed":
            by_kind.setdefault(exchange.error.partition(":")[0], []).append(exchange)
    found = [_latest(kind, held) for kind, held in by_kind.items()]
    return sorted(found, key=lambda failure: -failure.times)


def _latest(kind: str, exchanges: Sequence[LoggedExchange]) -> Failures:
    return Failures(kind, len(exchanges), exchanges[-1].error.partition(": ")[2], exchanges[-1].time)
