"""The log of exchanges, written by servers, read by commands and the teacher's page: a file that the teacher names, or
a table in the database if several machines serve a course.

Several processes may have it open. Readers and writers do not block each other. What is deleted is overwritten with
zeros in the file and removed from the write-ahead log; copies of the file, and what a disk keeps below the file system,
are beyond our control. A server writes in a thread, so that no answer waits for the disk or fails with the log.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from lmm.disk.folder import configured
from lmm.errors import FileReadError
from lmm_education.config import ServeSettings
from lmm_education.database import Database
from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log import exchanges

T = TypeVar("T")
BUSY = 5.0  # seconds to wait for another process that writes
_KEPT_DAYS = 2  # during which a student may change a reaction, and questions of the same student are recognizable


class Deleted(NamedTuple):
    """The number of deleted exchanges. `gone`: nothing of them is left in the file; otherwise another process was
    reading it, and they are erased with the next deletion."""

    exchanges: int
    gone: bool


class LogFile:
    """A log open for writing by one thread at a time: a SQLite file, or in a server's database; a context manager."""

    def __init__(self, file: Path | str, *, busy: float = BUSY) -> None:
        """Open the log; a new file is created such that only its owner can read it.

        Raises:
            LogError: it cannot be written, or belongs to another program.
        """
        self.file = file
        if isinstance(file, Path) and file.exists():  # check that it is a log before changing anything
            with _reading(file, "written", busy):
                pass
        self._database = Database(file, patience=busy, make=_make)
        try:
            with self._writing():
                pass
        except LogError:
            self.close()
            raise

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the log; a second call has no effect."""
        self._database.close()

    def add(self, new: Iterable[tuple[exchanges.LoggedExchange, str]]) -> None:
        """Add exchanges, each with an identifier of its student (see `session_name`), all or none.

        Raises:
            LogError: they cannot be written; the log is unchanged.
        """
        with self._writing() as connection:
            keys: dict[str, bytes] = {}
            rows = {}
            for exchange, student in new:
                day = _day(exchange.time)
                keys[day] = keys.get(day) or _key(connection, day)
                rows[exchange.id] = exchanges.row_of(exchange) | {"session": session_name(keys[day], student)}
            self._insert(connection, rows)

    def _insert(self, connection: sa.Connection, rows: Mapping[str, dict[str, Any]]) -> None:
        if not isinstance(self.file, Path):  # PostgreSQL's texts have no NUL
            rows = {id: {k: v.replace("\0", "\ufffd") if isinstance(v, str) else v for k, v in row.items()}
                    for id, row in rows.items()}  # fmt: skip
        if rows:
            connection.execute(sa.delete(exchanges.EXCHANGES).where(exchanges.EXCHANGES.c.id.in_(rows)))
            connection.execute(sa.insert(exchanges.EXCHANGES), list(rows.values()))

    def react(self, id: str, student: str, reaction: int, comment: str) -> bool:
        """Set reaction and comment of an exchange; return False if it is missing, another student's, or days old.

        Raises:
            LogError: it cannot be written.
        """
        with self._writing() as connection:
            row = exchanges.EXCHANGES.c
            found = connection.execute(sa.select(row.time, row.session).where(row.id == id)).first()
            key = _known_key(connection, _day(found.time)) if found else None
            if found is None or key is None or not secrets.compare_digest(session_name(key, student), found.session):
                return False
            values = {
                "reaction": reaction,
                "comment": exchanges.storable(comment).replace("\0", "\ufffd")[: exchanges.LONGEST_COMMENT],
            }
            connection.execute(sa.update(exchanges.EXCHANGES).where(row.id == id).values(**values))
            return True

    def delete(self, *, before: float, now: float, compact: bool = False) -> Deleted:
        """Delete exchanges from before a time, and keys of past days. With `compact`, the file is also shrunk, if no
        other process uses it.

        Raises:
            LogError: it cannot be written.
        """
        with self._writing() as connection:
            gone: int = connection.execute(
                sa.delete(exchanges.EXCHANGES).where(exchanges.EXCHANGES.c.time < before)
            ).rowcount
            connection.execute(sa.delete(exchanges.DAYS).where(exchanges.DAYS.c.day <= _day(now, -_KEPT_DAYS)))
        if not isinstance(self.file, Path):
            return Deleted(gone, True)
        with _as_log_errors(self.file, "written"), self._database.maintaining() as connection:
            if compact:
                with contextlib.suppress(DBAPIError):
                    connection.exec_driver_sql("VACUUM")
            busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one()
            return Deleted(gone, not busy)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with _as_log_errors(self.file, "written"), self._database.writing("log") as connection:
            yield connection


def _key(connection: sa.Connection, day: str) -> bytes:
    """Return the key of a day, created on first use."""
    key = _known_key(connection, day)
    if key is None:
        key = secrets.token_bytes(16)
        connection.execute(sa.insert(exchanges.DAYS), {"day": day, "key": key})
    return key


def _known_key(connection: sa.Connection, day: str) -> bytes | None:
    found = connection.execute(sa.select(exchanges.DAYS.c.key).where(exchanges.DAYS.c.day == day)).scalar()
    return None if found is None else bytes(found)


def session_name(key: bytes, student: str) -> str:
    """Return a student's name in the log on the day of that key. Without the key, it cannot be linked to the student.

    >>> session_name(b"today", "ada") == session_name(b"today", "ada") != session_name(b"tomorrow", "ada")
    True
    """
    return hashlib.blake2b(student.encode("utf-8", "replace"), key=key, digest_size=8).hexdigest()


def read_log(
    file: Path | str, chosen: exchanges.LogFilter = exchanges.LogFilter(), *, answers: bool = True
) -> list[exchanges.LoggedExchange]:
    """Return the exchanges of a log, oldest first; with `answers` false, without answers and prompts.

    Raises:
        LogMissing: there is no such file.
        LogError: it cannot be read, or belongs to another program.
    """
    if isinstance(file, Path) and not file.is_file():
        raise LogMissing("there is no log yet", where=str(file))
    with _reading(file, "read") as connection:
        if isinstance(file, Path) and not _is_made(connection):  # another process is creating it
            return []
        left_out = () if answers else ("answer", "prompt")
        columns = [
            sa.literal("").label(name) if name in left_out else exchanges.EXCHANGES.c[name]
            for name in exchanges.COLUMNS
        ]
        return chosen.has_text(
            exchanges.exchange_of(row._asdict()) for row in connection.execute(chosen.query(columns))
        )


@contextlib.contextmanager
def _reading(file: Path | str, what: str, busy: float = BUSY) -> Iterator[sa.Connection]:
    """Open a log for reading only."""
    with _as_log_errors(file, what), _reader(file, busy).reading() as connection:
        if isinstance(file, Path):
            _check(connection, file)
        yield connection


@functools.lru_cache(16)
def _reader(file: Path | str, busy: float) -> Database:
    """Return a database without connections; cached, since compiling its statements takes as long as ten reads."""
    return Database(file, patience=busy, make=None if isinstance(file, Path) else _make, pooled=False)


def _make(connection: sa.Connection) -> None:
    exchanges.LOG_TABLES.create_all(connection)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {exchanges.APPLICATION}")


def _check(connection: sa.Connection, file: Path) -> None:
    """Raise `LogError` if the file belongs to another program."""
    if not _is_made(connection) and connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar():
        raise LogError("this is the database of another program", where=str(file), hint="choose another file as 'log'")


def _is_made(connection: sa.Connection) -> bool:
    return connection.exec_driver_sql("PRAGMA application_id").scalar() == exchanges.APPLICATION


def _day(time: float, further: int = 0) -> str:
    return (datetime.fromtimestamp(time, UTC) + timedelta(days=further)).date().isoformat()


@contextlib.contextmanager
def _as_log_errors(file: Path | str, what: str) -> Iterator[None]:
    """Turn errors of the database into `LogError`."""
    try:
        yield
    except FileReadError as error:
        said = error.message.partition(": ")[2]
        raise LogError(f"the log cannot be {what}: {said}", where=str(error.where), hint=error.hint) from error


# -- writing in a thread ---------------------------------------------------------------------------


def log_place(settings: ServeSettings, root: Path) -> Path | str:
    """Return where the log of a course is, if one is kept."""
    return settings.database or configured(root, settings.log)


DAY = 24 * 3600.0
_TIDY = 3600.0  # seconds between deletions of old exchanges
_BUSY = 2.0  # seconds to wait for another process that writes: a student may be waiting
_AGAIN = 5.0  # seconds until a failed write is repeated
_MOST_WAITING = 2000  # exchanges that wait until the log can be written again
logger = logging.getLogger("lmm.serve")


class LogWriter:
    """Writes exchanges and reactions into a log, and deletes what is older than `days`; thread-safe.

    While the log cannot be written, exchanges wait and are tried again; beyond some thousand, the oldest are dropped.
    This is reported once, and again when it is over. `lost` counts dropped exchanges, `failures` failed attempts;
    `is_failing`: the last attempt failed.
    """

    def __init__(
        self,
        file: Path | str,
        *,
        days: int,
        clock: Callable[[], float] = time.time,
        again: float = _AGAIN,
        busy: float = _BUSY,
    ) -> None:
        self.file, self.days = file, days
        self.lost = self.failures = 0
        self._clock, self._again, self._busy = clock, again, busy
        self._waiting: deque[tuple[exchanges.LoggedExchange, str]] = deque()
        self._open: LogFile | None = None
        self.is_failing = self._closed = False
        self._tidied = float("-inf")
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lmm-log", daemon=True)
        self._thread.start()

    def add(self, exchange: exchanges.LoggedExchange, student: str) -> None:
        """Log an exchange of that student soon."""
        self._waiting.append((exchange, student))
        self._wake.set()

    def react(self, id: str, student: str, reaction: int, comment: str) -> bool:
        """Set a reaction; return whether the student has such an exchange.

        Raises:
            LogError: the log cannot be written.
        """
        return self._write(lambda log: log.react(id, student, reaction, comment))

    def close(self) -> None:
        """Write what is waiting, and stop; a second call has no effect."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closed
            with contextlib.suppress(LogError):
                self._write(self._tidy)
            if not is_last:
                self._wake.wait(self._again if self._waiting else _TIDY)
                self._wake.clear()
        self.lost, self._waiting = self.lost + len(self._waiting), deque()
        self._release()

    def _write(self, action: Callable[[LogFile], T]) -> T:
        """Write what is waiting, then run an action on the log; failures are counted, and reported the first time."""
        with self._lock:
            try:
                self._open = self._open or LogFile(self.file, busy=self._busy)
                if waiting := list(self._waiting):
                    self._open.add(waiting)
                for _ in waiting:
                    self._waiting.popleft()
                result = action(self._open)
            except LogError as error:
                self.failures += 1
                if not self.is_failing:
                    logger.error("%s; answers continue, and the exchanges are written when the log works again", error)
                self.is_failing = True
                self._release()
                while len(self._waiting) > _MOST_WAITING:
                    self._waiting.popleft()
                    self.lost += 1
                raise
            if self.is_failing:
                self.is_failing = False
                logger.warning("the log can be written again; lost: %d exchanges", self.lost)
            return result

    def _tidy(self, log: LogFile) -> None:
        now = self._clock()
        if now - self._tidied >= _TIDY:
            log.delete(before=now - self.days * DAY, now=now)
            self._tidied = now

    def _release(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
