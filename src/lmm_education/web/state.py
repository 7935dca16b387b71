"""What the server of a course keeps between its runs, outside of the course's folder: its key, logins, what was spent.

It is one database: ``serve/NAME/state.sqlite`` in the user's state folder, where NAME stands for the course's folder
and its name, or what ``[serve] database`` names. A course that came with somebody's repository brings neither passwords
nor keys.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

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
"""Sessions that were ended before their time."""
_SPENT = Table(
    "spent",
    TABLES,
    Column("day", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
)


def state_place(root: Path, course: str) -> Path:
    """The folder in which the server of the course `course` in the folder `root` keeps its own."""
    digest = hashlib.sha256(os.fsencode(f"{root.resolve()}\0{course}")).hexdigest()[:12]
    return state_folder() / "serve" / f"{root.resolve().name or 'course'}-{digest}"


def open_state(root: Path, course: str, settings: ServeSettings = ServeSettings()) -> Database:
    """The database of a course's server, with its secret key.

    Raises:
        ConfigError: its address is none, or it is another course's.
        FileReadError: it cannot be used.
    """
    database = Database(settings.database or state_place(root, course) / "state.sqlite")
    with ExitStack() as failing:
        failing.callback(database.close)
        with database.writing() as connection:
            known = dict(connection.execute(select(KEPT.c.name, KEPT.c.value)).tuples().all())
            if "key" not in known:
                key = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
                known = {"course": course, "key": key}
                connection.execute(insert(KEPT), [{"name": name, "value": value} for name, value in known.items()])
            elif known["course"] != course:
                told = f"this is the database of the course '{known['course']}'"
                raise ConfigError(told, where=database.where, hint="one database is for one course: choose another")
        failing.pop_all()
    return database


def secret_key(database: Database) -> bytes:
    """The course's secret key, with which cookies are signed.

    Raises:
        FileReadError: it cannot be read.
    """
    with database.reading() as connection:
        return base64.b64decode(connection.execute(select(KEPT.c.value).where(KEPT.c.name == "key")).scalar_one())


# -- what is limited ---------------------------------------------------------------------------------


def open_limiter(settings: ServeSettings) -> MovingWindowRateLimiter:
    """What counts questions and wrong passwords: in this process, unless ``[serve] limits`` says where.

    Raises:
        ConfigError: its address is none, or what it needs is not installed.
    """
    try:
        storage = storage_from_string(settings.limits or "memory://", wrap_exceptions=True)
    except ConfigurationError as error:
        hint = 'such as "redis://127.0.0.1:6379" with pip install redis, or "memory://"'
        raise ConfigError(f"'limits' under [serve]: {error}", hint=hint) from error
    return MovingWindowRateLimiter(cast(Storage, storage))


# -- the day's budget --------------------------------------------------------------------------------


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

    @property
    def today(self) -> str:
        """The day that is counted now."""
        return self.now().date().isoformat()

    def reserve(self) -> Reservation | None:
        """Room for one answer; None if all is spent.

        Raises:
            FileReadError: it cannot be counted.
        """
        day, expected = self.today, self.expected
        with self.database.writing("spent") as connection:
            spent = _spent(connection, day)
            if self.share(spent) >= 1:
                return None
            _spend(connection, day, expected)
        return Reservation(day, expected, spent)

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Count what an answer did use in the place of what was expected.

        Raises:
            FileReadError: it cannot be counted.
        """
        used = Spent(usage.input_tokens + usage.output_tokens, usage.cost or 0.0)
        more = Spent(used.tokens - reservation.expected.tokens, used.cost - reservation.expected.cost)
        with self.database.writing("spent") as connection:
            _spend(connection, reservation.day, more)
        if used.tokens:  # else no model was asked
            with self._lock:
                self.expected = _between(self.expected, used)

    def spent(self) -> Spent:
        """What was used today, and what is expected of answers on their way."""
        with self.database.reading() as connection:
            return _spent(connection, self.today)

    def share(self, spent: Spent) -> float:
        """How much of the limits that is, of the one that is nearer: 1.0 for all."""
        limits = ((spent.tokens, self.tokens), (spent.cost, self.cost))
        return max((used / limit for used, limit in limits if limit), default=0.0)

    def until_tomorrow(self) -> float:
        """Seconds until there is a new budget."""
        now = self.now()
        tomorrow = dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), now.tzinfo)
        return (tomorrow - now).total_seconds()


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was counted in advance, and for which day; `before` was spent until then."""

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


def _between(old: Spent, new: Spent) -> Spent:
    tokens = old.tokens + _WEIGHT * (new.tokens - old.tokens)
    return Spent(round(tokens), old.cost + _WEIGHT * (new.cost - old.cost))
