"""What all students together may use in a day, over restarts and several processes."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from lmm.messages import Usage
from lmm_education.web.database import Database

_WEIGHT = 0.2  # of the last answer in what the next is expected to use


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, in and out, and US dollars."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class Budget:
    """Counts what is used by the day of the server's clock.

    Before a question, what an answer is expected to use is counted in advance, so that many at once do not go over;
    when it is there, what it did use. An answer that nobody waited for keeps what was expected: the model was asked.
    `tokens` and `cost` are the limits, 0 for none; `expected` is what an answer uses, until some were given.
    """

    database: Database
    tokens: int
    cost: float
    expected: Spent
    now: Callable[[], dt.datetime] = dt.datetime.now
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self) -> Reservation | None:
        """Room for one answer; None if all is spent.

        Raises:
            FileReadError: it cannot be counted.
        """
        day, expected = self.now().date().isoformat(), self.expected
        with self.database.writing() as connection:
            row = connection.execute("select tokens, cost from spent where day = ?", (day,)).fetchone()
            spent = Spent(*row) if row else Spent()
            if (self.tokens and spent.tokens >= self.tokens) or (self.cost and spent.cost >= self.cost):
                return None
            connection.execute(
                "insert into spent values (?, ?, ?) on conflict do update set tokens = tokens + excluded.tokens, "
                "cost = cost + excluded.cost",
                (day, expected.tokens, expected.cost),
            )
        return Reservation(day, expected)

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Count what an answer did use in the place of what was expected.

        Raises:
            FileReadError: it cannot be counted.
        """
        used = Spent(usage.input_tokens + usage.output_tokens, usage.cost or 0.0)
        tokens, cost = used.tokens - reservation.expected.tokens, used.cost - reservation.expected.cost
        with self.database.writing() as connection:
            connection.execute(
                "update spent set tokens = max(0, tokens + ?), cost = max(0, cost + ?) where day = ?",
                (tokens, cost, reservation.day),
            )
        if used.tokens:  # else no model was asked
            with self._lock:
                self.expected = _between(self.expected, used)

    def spent(self) -> Spent:
        """What was used today, and what is expected of answers on their way."""
        with self.database.writing() as connection:
            day = self.now().date().isoformat()
            row = connection.execute("select tokens, cost from spent where day = ?", (day,)).fetchone()
        return Spent(*row) if row else Spent()

    def until_tomorrow(self) -> float:
        """Seconds until there is a new budget."""
        now = self.now()
        tomorrow = dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), now.tzinfo)
        return (tomorrow - now).total_seconds()


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was counted in advance, and for which day."""

    day: str
    expected: Spent


def _between(old: Spent, new: Spent) -> Spent:
    tokens = old.tokens + _WEIGHT * (new.tokens - old.tokens)
    return Spent(round(tokens), old.cost + _WEIGHT * (new.cost - old.cost))
