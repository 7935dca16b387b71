"""What the server of a course keeps between its runs, outside of the course's folder: its key, logins, what was spent.

It is one database: ``serve/NAME/state.sqlite`` in the user's state folder, where NAME stands for the course's folder
and its name, or what ``[serve] database`` names. A course that came with somebody's repository brings neither passwords
nor keys.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import logging
import os
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from limits.errors import ConfigurationError
from limits.storage import MovingWindowSupport, Storage, storage_from_string
from sqlalchemy import BigInteger, Column, Connection, Double, Index, Integer, Table, Text, delete, insert, select

from lmm.disk.files import state_folder
from lmm.errors import ConfigError, FileReadError
from lmm.messages import Usage
from lmm.powers import require
from lmm_education.config import ServeSettings
from lmm_education.database import TABLES, Database

logger = logging.getLogger("lmm.serve")
_BYTES = 32
KEPT = Table("kept", TABLES, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
LOGINS = Table(
    "logins",
    TABLES,
    *(Column(name, Text, primary_key=True) for name in ("who", "kind", "name")),
    Column("hash", Text, nullable=False),
    Column("questions_per_minute", Integer),
)
"""``who`` is let in: students or the teacher; ``kind`` is password, user or key."""
ENDED = Table("ended", TABLES, Column("id", Text, primary_key=True), Column("expires", BigInteger, nullable=False))
"""Sessions that were ended before their time."""
_SPENT = Table(
    "spent",
    TABLES,
    Column("day", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
)
_COUNTED = Table("counted", TABLES, Column("name", Text, nullable=False), Column("at", Double, nullable=False))
Index("by_name", _COUNTED.c.name, _COUNTED.c.at)


def state_place(root: Path, course: str) -> Path:
    """The folder in which the server of the course `course` in the folder `root` keeps its own."""
    digest = hashlib.sha256(os.fsencode(f"{root.resolve()}\0{course}")).hexdigest()[:12]
    return state_folder() / "serve" / f"{root.resolve().name or 'course'}-{digest}"


def open_state(root: Path, course: str, settings: ServeSettings = ServeSettings()) -> Database:
    """The database of a course's server; what earlier versions kept in files is moved into it.

    Raises:
        Untrusted: its address is a stranger's.
        ConfigError: its address is none, or it is another course's.
        FileReadError: it cannot be used, or what is moved into it cannot be read.
    """
    folder = state_place(root, course)
    if settings.database:
        require(settings.powers, "serve.database")
    database = Database(settings.database or folder / "state.sqlite")
    with ExitStack() as failing:
        failing.callback(database.close)
        if old := _moved_into(database, course, folder):
            for each in old:
                each.rename(each.with_name(f"{each.name}.moved"))
            logger.warning("what the server kept in %s is in %s now; *.moved can be removed", folder, database.where)
        failing.pop_all()
    return database


def _moved_into(database: Database, course: str, folder: Path) -> list[Path]:
    """Begin a new database with what was kept before; the files that it was in."""
    file = folder / "state.sqlite"
    with database.writing() as connection:
        known = dict(connection.execute(select(KEPT.c.name, KEPT.c.value)).tuples().all())
        if known.setdefault("course", course) != course:
            hint = "one database is for one course: name another"
            raise ConfigError(
                f"this is the database of the course '{known['course']}'", where=database.where, hint=hint
            )
        if "key" in known:
            return []
        own = database.file is None and file.exists()  # of the same course, before it had a server's database
        rows = _all_rows(file) if own else _old_rows(folder)
        key = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
        rows["kept"] = [{"name": "course", "value": course}, *(rows.get("kept") or [{"name": "key", "value": key}])]
        for table in TABLES.sorted_tables:
            if rows.get(table.name):
                connection.execute(insert(table), rows[table.name])
    return [file] if own else [folder / name for name in _OLD if (folder / name).exists()]


def secret_key(database: Database) -> bytes:
    """The course's secret key, with which cookies are signed.

    Raises:
        FileReadError: it cannot be read.
    """
    with database.reading() as connection:
        return base64.b64decode(connection.execute(select(KEPT.c.value).where(KEPT.c.name == "key")).scalar_one())


# -- what earlier versions kept in files -------------------------------------------------------------


_OLD = ("key", "logins.json", "teacher.json", "ended", "teacher-ended", "spent.sqlite")


def _all_rows(file: Path) -> dict[str, list[dict[str, Any]]]:
    """What a course's own file has, which goes into a server's database."""
    source = Database(file)
    with source.reading() as connection:
        rows = {t.name: [dict(row) for row in connection.execute(select(t)).mappings()] for t in TABLES.sorted_tables}
    source.close()
    rows["kept"] = [row for row in rows["kept"] if row["name"] != "course"]
    return rows


def _old_rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    try:
        if (key := folder / "key").exists():
            rows["kept"] = [{"name": "key", "value": base64.b64encode(key.read_bytes()).decode()}]
        rows["logins"] = [
            {"who": who, **row}
            for who, file in (("students", folder / "logins.json"), ("teacher", folder / "teacher.json"))
            if file.exists()
            for row in _old_logins(json.loads(file.read_text(encoding="utf-8")))
        ]
        files = [file for name in ("ended", "teacher-ended") if (file := folder / name).exists()]
        ended = dict(line.split() for file in files for line in file.read_text(encoding="ascii").splitlines())
        rows["ended"] = [{"id": id, "expires": int(expires)} for id, expires in ended.items()]
        if (spent := folder / "spent.sqlite").exists():
            with closing(sqlite3.connect(spent)) as connection:
                found = connection.execute("select day, tokens, cost from spent").fetchall()
            rows["spent"] = [dict(zip(("day", "tokens", "cost"), row, strict=True)) for row in found]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, sqlite3.Error) as error:
        hint = "restore it, or remove it and set the passwords anew"
        raise FileReadError(f"what the server kept cannot be read: {error}", where=str(folder), hint=hint) from error
    return rows


def _old_logins(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    password = [("password", "", values["password"], None)] if values["password"] else []
    users = [("user", name, kept, None) for name, kept in values["users"].items()]
    keys = [("key", name, key["hash"], key["questions_per_minute"]) for name, key in values["keys"].items()]
    names = ("kind", "name", "hash", "questions_per_minute")
    return [dict(zip(names, row, strict=True)) for row in (*password, *users, *keys)]


# -- what is limited ---------------------------------------------------------------------------------


_FORGOTTEN = 3600  # seconds after which nothing counts that is limited


def open_counts(database: Database, settings: ServeSettings) -> Storage:
    """Where questions and wrong passwords are counted: in the database, unless ``[serve] limits`` says where.

    Raises:
        Untrusted: its address is a stranger's.
        ConfigError: its address is none, or what it needs is not installed.
    """
    if not settings.limits:
        return Windows(database)
    require(settings.powers, "serve.limits")
    try:
        return cast(Storage, storage_from_string(settings.limits, wrap_exceptions=True))
    except ConfigurationError as error:
        hint = 'such as "redis://127.0.0.1:6379" with pip install redis, or "memory://"'
        raise ConfigError(f"'limits' under [serve]: {error}", hint=hint) from error


class Windows(Storage, MovingWindowSupport):
    """What `limits` counts, in the database: all processes of a course agree, and a restart forgets nothing."""

    STORAGE_SCHEME = ["lmm"]  # noqa: RUF012

    def __init__(self, database: Database) -> None:
        super().__init__("lmm:")
        self._database = database

    @property
    def base_exceptions(self) -> type[Exception]:
        return FileReadError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count something so many times, unless that is more than may be in so many seconds."""
        with self._database.writing("counted") as connection:
            held = _held(connection, key, expiry)
            if len(held) + amount > limit:
                return False
            connection.execute(delete(_COUNTED).where(_COUNTED.c.at < time.time() - _FORGOTTEN))
            connection.execute(insert(_COUNTED), [{"name": key, "at": time.time()}] * amount)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the first that counts was counted, and how many there are."""
        with self._database.reading() as connection:
            held = _held(connection, key, expiry)
        return (held[0] if held else time.time()), len(held)

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count without a limit; how many there are."""
        self.acquire_entry(key, sys.maxsize, expiry, amount)
        return self.get_moving_window(key, sys.maxsize, expiry)[1]

    def get(self, key: str) -> int:
        """How many there are."""
        return self.get_moving_window(key, sys.maxsize, _FORGOTTEN)[1]

    def get_expiry(self, key: str) -> float:
        """When nothing will count any more."""
        return self.get_moving_window(key, sys.maxsize, _FORGOTTEN)[0] + _FORGOTTEN

    def check(self) -> bool:
        """Whether it can be used."""
        with self._database.reading():
            return True

    def reset(self) -> int:
        """Forget everything."""
        with self._database.writing("counted") as connection:
            gone: int = connection.execute(delete(_COUNTED)).rowcount
            return gone

    def clear(self, key: str) -> None:
        """Forget one name."""
        with self._database.writing("counted") as connection:
            connection.execute(delete(_COUNTED).where(_COUNTED.c.name == key))


def _held(connection: Connection, key: str, expiry: int) -> list[float]:
    """When a name was counted in the last seconds."""
    at = _COUNTED.c.at
    found = connection.execute(select(at).where(_COUNTED.c.name == key, at > time.time() - expiry).order_by(at))
    return list(found.scalars())


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
            if (self.tokens and spent.tokens >= self.tokens) or (self.cost and spent.cost >= self.cost):
                return None
            _spend(connection, day, expected)
        return Reservation(day, expected)

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
