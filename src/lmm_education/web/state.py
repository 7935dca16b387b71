"""What the server of a course keeps between its runs, outside of the course's folder: its key, logins, what was spent.

The folder is ``serve/NAME`` in the user's state folder, where NAME stands for the course's folder and its name. A
course that came with somebody's repository brings neither passwords nor keys.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from limits.storage import MovingWindowSupport, Storage

from lmm.disk.files import state_folder
from lmm.errors import FileReadError, FileWriteError
from lmm.messages import Usage

_BYTES = 32


@dataclass(frozen=True, slots=True)
class ServeState:
    """The folder of one course's server; it is made when something is first kept in it."""

    folder: Path

    @property
    def logins(self) -> Path:
        """Hashed passwords and keys."""
        return self.folder / "logins.json"

    @property
    def database(self) -> Path:
        """What was spent."""
        return self.folder / "spent.sqlite"

    @property
    def ended(self) -> Path:
        """Sessions that were ended before their time."""
        return self.folder / "ended"

    @property
    def teacher(self) -> Path:
        """The teacher's hashed password."""
        return self.folder / "teacher.json"

    @property
    def teacher_ended(self) -> Path:
        """Sessions of the teacher that were ended before their time."""
        return self.folder / "teacher-ended"

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises:
            FileWriteError: it cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    def key(self) -> bytes:
        """The course's secret key, made when it is first asked for; of two processes, one makes it.

        Raises:
            FileReadError: it cannot be read, or is damaged.
            FileWriteError: it cannot be written.
        """
        file = self.folder / "key"
        if not file.exists():
            self.make()
            _write_once(file, secrets.token_bytes(_BYTES))
        try:
            key = file.read_bytes()
        except OSError as error:
            raise FileReadError(f"cannot be read: {error.strerror}", where=str(file)) from error
        if len(key) != _BYTES:
            raise FileReadError("this is no key", where=str(file), hint="remove it: all browsers become strangers")
        return key


def serve_state(root: Path, course: str) -> ServeState:
    """Where the server of the course `course` in the folder `root` keeps its own."""
    digest = hashlib.sha256(os.fsencode(f"{root.resolve()}\0{course}")).hexdigest()[:12]
    return ServeState(state_folder() / "serve" / f"{root.resolve().name or 'course'}-{digest}")


def _write_once(file: Path, data: bytes) -> None:
    """Write a whole file that only its owner reads, unless there is one."""
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, file)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> FileWriteError:
    hint = "name another folder: export LMM_STATE_DIR=…"
    return FileWriteError(f"cannot be written: {error.strerror}", where=str(path), hint=hint)


# -- the database ------------------------------------------------------------------------------------


_FORGOTTEN = 3600  # seconds after which nothing counts that is limited
_PATIENCE = 10.0  # seconds for other processes that write
_TABLES = """
create table if not exists spent (day text primary key, tokens integer not null, cost real not null) strict;
create table if not exists counted (name text not null, at real not null) strict;
create index if not exists by_name on counted (name, at);
"""


@dataclass(frozen=True, slots=True)
class Database:
    """Short transactions, each on a connection of its own: any thread, any process."""

    file: Path

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that nobody else's comes between; written to the disk when it ends without an error.

        Raises:
            FileReadError: the file cannot be opened, read or written.
        """
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with closing(sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.executescript("pragma journal_mode = wal; pragma synchronous = normal;" + _TABLES)
                connection.execute("begin immediate")
                try:
                    yield connection
                except BaseException:
                    connection.execute("rollback")
                    raise
                connection.execute("commit")
        except (sqlite3.Error, OSError) as error:
            raise FileReadError(f"cannot be used: {error}", where=str(self.file)) from error


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
        with self._database.writing() as connection:
            held = _held(connection, key, expiry)
            if len(held) + amount > limit:
                return False
            connection.executemany("insert into counted values (?, ?)", [(key, time.time())] * amount)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the first that counts was counted, and how many there are."""
        with self._database.writing() as connection:
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
        with self._database.writing():
            return True

    def reset(self) -> int:
        """Forget everything."""
        with self._database.writing() as connection:
            return connection.execute("delete from counted").rowcount

    def clear(self, key: str) -> None:
        """Forget one name."""
        with self._database.writing() as connection:
            connection.execute("delete from counted where name = ?", (key,))


def _held(connection: sqlite3.Connection, key: str, expiry: int) -> list[float]:
    """When a name was counted in the last seconds; what is long over is deleted."""
    now = time.time()
    connection.execute("delete from counted where at < ?", (now - _FORGOTTEN,))
    rows = connection.execute("select at from counted where name = ? and at > ? order by at", (key, now - expiry))
    return [at for (at,) in rows]


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
            row = connection.execute("select tokens, cost from spent where day = ?", (self.today,)).fetchone()
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
