"""The state that a course's server keeps between runs, outside the course's folder: secret key, logins, budget.

It is one database: ``serve/NAME/state.sqlite`` in the user's state folder, where NAME is made from the course's folder
and its name, or the one that ``[serve] database`` names. A course that was cloned from somebody's repository thus
contains neither passwords nor keys.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from limits import RateLimitItem
from limits.errors import ConfigurationError
from limits.storage import Storage, storage_from_string
from limits.strategies import MovingWindowRateLimiter
from sqlalchemy import BigInteger, Column, Connection, Double, Table, Text, delete, insert, select

from lmm.disk.files import state_folder
from lmm.errors import ConfigError
from lmm.messages import Usage
from lmm_education.config import ServeSettings
from lmm_education.database import TABLES, Database

_BYTES = 32
KEPT = Table("kept", TABLES, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
ENDED = Table("ended", TABLES, Column("id", Text, primary_key=True), Column("expires", BigInteger, nullable=False))
"""Sessions that were ended, and logins at another server that were used, before they expired."""
_SPENT = Table(
    "spent",
    TABLES,
    Column("day", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
)


def open_state(root: Path, course: str, settings: ServeSettings = ServeSettings()) -> Database:
    """Open the database of a course's server and create its secret key if there is none.

    Raises:
        ConfigError: its address is invalid, or it belongs to another course.
        FileReadError: it cannot be used.
    """
    digest = hashlib.sha256(os.fsencode(f"{root.resolve()}\0{course}")).hexdigest()[:12]
    place = state_folder() / "serve" / f"{root.resolve().name or 'course'}-{digest}"
    database = Database(settings.database or place / "state.sqlite")
    with ExitStack() as failing:
        failing.callback(database.close)
        with database.writing() as connection:
            known = dict(connection.execute(select(KEPT.c.name, KEPT.c.value)).tuples().all())
            if "key" not in known:
                key = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
                known = {"course": course, "key": key}
                connection.execute(insert(KEPT), [{"name": name, "value": value} for name, value in known.items()])
            elif known["course"] != course:
                message = f"this is the database of the course '{known['course']}'"
                raise ConfigError(message, where=database.where, hint="one database is for one course: choose another")
        failing.pop_all()
    return database


def secret_key(database: Database) -> bytes:
    """Return the course's secret key, with which cookies are signed.

    Raises:
        FileReadError: it cannot be read.
    """
    with database.reading() as connection:
        return base64.b64decode(connection.execute(select(KEPT.c.value).where(KEPT.c.name == "key")).scalar_one())


# -- rate limits -------------------------------------------------------------------------------------


def open_limiter(settings: ServeSettings) -> MovingWindowRateLimiter:
    """Return the limiter for questions and wrong passwords: in memory, unless ``[serve] limits`` names a server.

    Raises:
        ConfigError: the address is invalid, or a package that it needs is not installed.
    """
    try:
        storage = storage_from_string(settings.limits or "memory://", wrap_exceptions=True)
    except ConfigurationError as error:
        hint = 'such as "redis://127.0.0.1:6379" with pip install redis, or "memory://"'
        raise ConfigError(f"'limits' under [serve]: {error}", hint=hint) from error
    return MovingWindowRateLimiter(cast(Storage, storage))


def seconds_to_wait(limiter: MovingWindowRateLimiter, item: RateLimitItem, *names: str, count: bool = True) -> float:
    """Return 0 if something is allowed now, or the seconds until it is; with `count`, it is counted if allowed.

    Raises:
        StorageError: the server on which it is counted does not answer.
    """
    if (limiter.hit if count else limiter.test)(item, *names):
        return 0
    wait = limiter.get_window_stats(item, *names).reset_time - time.time()
    if wait > item.get_expiry():  # the clock was set back since: what was counted then would count for as long
        limiter.clear(item, *names)
        return seconds_to_wait(limiter, item, *names, count=count)
    return max(0.01, wait)


# -- the day's budget --------------------------------------------------------------------------------


_WEIGHT = 0.2  # of the last answer in the moving average of usage


@dataclass(frozen=True, slots=True)
class Spent:
    """Input and output tokens, and US dollars."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class Budget:
    """Counts usage per day of the server's clock against the daily limits.

    The expected usage of an answer is counted before it begins, so that many questions at once do not exceed the limit,
    and replaced by the actual usage afterwards. If nobody waits for the answer, the expected usage stays counted: the
    model was asked. `tokens` and `cost` are the limits, 0 for none; `expected` is the initial estimate for an answer.
    """

    database: Database
    tokens: int
    cost: float
    expected: Spent
    now: Callable[[], dt.datetime] = dt.datetime.now
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def today(self) -> str:
        """The current day."""
        return self.now().date().isoformat()

    def reserve(self) -> Reservation | None:
        """Reserve the expected usage of one answer; return None if the budget is used up.

        Raises:
            FileReadError: the usage cannot be counted.
        """
        day, expected = self.today, self.expected
        with self.database.writing("spent") as connection:
            spent = _spent(connection, day)
            if self.share(spent) >= 1:
                return None
            _spend(connection, day, expected)
        return Reservation(day, expected, spent)

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replace the expected usage of an answer by its actual usage.

        Raises:
            FileReadError: the usage cannot be counted.
        """
        used = Spent(usage.input_tokens + usage.output_tokens, usage.cost or 0.0)
        more = Spent(used.tokens - reservation.expected.tokens, used.cost - reservation.expected.cost)
        with self.database.writing("spent") as connection:
            _spend(connection, reservation.day, more)
        if used.tokens:  # otherwise no model was asked
            with self._lock:
                before = self.expected
                tokens = round(before.tokens + _WEIGHT * (used.tokens - before.tokens))
                self.expected = Spent(tokens, before.cost + _WEIGHT * (used.cost - before.cost))

    def spent(self) -> Spent:
        """Return today's usage, including the expected usage of answers in progress."""
        with self.database.reading() as connection:
            return _spent(connection, self.today)

    def share(self, spent: Spent) -> float:
        """Return the used share of the limit that is closer to being reached: 1.0 for all of it."""
        limits = ((spent.tokens, self.tokens), (spent.cost, self.cost))
        return max((used / limit for used, limit in limits if limit), default=0.0)

    def until_tomorrow(self) -> float:
        """Return the seconds until the next day's budget begins."""
        now = self.now()
        tomorrow = dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), now.tzinfo)
        return (tomorrow - now).total_seconds()


@dataclass(frozen=True, slots=True)
class Reservation:
    """Usage that was counted in advance, and for which day; `before` is what had been spent until then."""

    day: str
    expected: Spent
    before: Spent


def _spent(connection: Connection, day: str) -> Spent:
    row = connection.execute(select(_SPENT.c.tokens, _SPENT.c.cost).where(_SPENT.c.day == day)).first()
    return Spent(*row) if row else Spent()


def _spend(connection: Connection, day: str, more: Spent) -> None:
    before = _spent(connection, day)
    connection.execute(delete(_SPENT).where(_SPENT.c.day == day))
    now = {"tokens": max(0, before.tokens + more.tokens), "cost": max(0.0, before.cost + more.cost)}
    connection.execute(insert(_SPENT), {"day": day, **now})
