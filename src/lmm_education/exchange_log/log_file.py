"""The log on disk: opened for writing by servers, for reading by commands and the teacher's page.

Several processes may have it open. Whoever reads does not wait for those who write, and does not hold them up. What is
deleted is overwritten with zeros in the file, and gone from the write-ahead log; copies that were made of the file, and
what a disk keeps below the file system, are out of our reach.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log.exchanges import LONGEST_COMMENT, LoggedExchange, storable
from lmm_education.exchange_log.schema import (
    APPLICATION,
    COLUMNS,
    INSERT,
    MIGRATIONS,
    VERSION,
    LogFilter,
    exchange_of,
    row_of,
)

BUSY = 5.0  # seconds that we wait for another process that writes
_KEPT_DAYS = 2  # for so long, a student may change a reaction, and two questions can be seen to be of the same


class Deleted(NamedTuple):
    """How many exchanges were deleted. `gone`: nothing of them is left in the file; otherwise somebody was reading it,
    and they go with the next deletion."""

    exchanges: int
    gone: bool


class LogFile:
    """A log that is open for writing, in one thread; a context manager."""

    def __init__(self, file: Path, *, busy: float = BUSY) -> None:
        """Open it; a new one is made, which only its owner can read.

        Raises:
            LogError: it cannot be written, is none of ours, or of a later version.
        """
        self.file = file
        with told(file, "written"):
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = sqlite3.connect(file, timeout=busy, isolation_level=None)
        try:
            with told(file, "written"):
                self._prepare()
        except LogError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        _check(self._connection, self.file)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        migrate(self._connection, MIGRATIONS)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the second time does nothing."""
        self._connection.close()

    def add(self, exchanges: Iterable[tuple[LoggedExchange, str]]) -> None:
        """Add exchanges, each with whatever names its student (see `session_name`), all or none.

        Raises:
            LogError: they cannot be written; the log is as it was.
        """
        with told(self.file, "written"), self._writing():
            rows = []
            for exchange, student in exchanges:
                values = {name: getattr(exchange, name) for name in COLUMNS}
                values["session"] = session_name(self._key(exchange.time), student)
                rows.append(row_of(LoggedExchange(**values)))
            self._connection.executemany(INSERT, rows)

    def react(self, id: str, student: str, reaction: int, comment: str) -> bool:
        """Set reaction and comment of an exchange; false where it is not there, was another's, or is days old.

        Raises:
            LogError: it cannot be written.
        """
        with told(self.file, "written"), self._writing():
            found = self._connection.execute("SELECT time, session FROM exchanges WHERE id = ?", (id,)).fetchone()
            key = self._known_key(found[0]) if found else None
            if key is None or not secrets.compare_digest(session_name(key, student), found[1]):
                return False
            values = (reaction, storable(comment)[:LONGEST_COMMENT], id)
            self._connection.execute("UPDATE exchanges SET reaction = ?, comment = ? WHERE id = ?", values)
            return True

    def delete(self, *, before: float, now: float, compact: bool = False) -> Deleted:
        """Delete exchanges from before a time, and keys of days past. With `compact`, the file becomes smaller, where
        nobody else is working with it.

        Raises:
            LogError: it cannot be written.
        """
        with told(self.file, "written"):
            with self._writing():
                gone = self._connection.execute("DELETE FROM exchanges WHERE time < ?", (before,)).rowcount
                self._connection.execute("DELETE FROM days WHERE day <= ?", (_day(now, -_KEPT_DAYS),))
            if compact:
                with contextlib.suppress(sqlite3.OperationalError):
                    self._connection.execute("VACUUM")
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return Deleted(gone, not busy)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # some errors have ended the transaction already
                self._connection.execute("ROLLBACK")
            raise

    def _key(self, time: float) -> bytes:
        """The key of a day, made when it is first asked for."""
        values = (_day(time), secrets.token_bytes(16))
        self._connection.execute("INSERT OR IGNORE INTO days VALUES (?, ?)", values)
        key = self._known_key(time)
        assert key is not None
        return key

    def _known_key(self, time: float) -> bytes | None:
        found = self._connection.execute("SELECT key FROM days WHERE day = ?", (_day(time),)).fetchone()
        return bytes(found[0]) if found else None


def session_name(key: bytes, student: str) -> str:
    """A student's name in the log on the day of that key. When the key is gone, nobody can tell whose it was.

    >>> session_name(b"today", "ada") == session_name(b"today", "ada") != session_name(b"tomorrow", "ada")
    True
    """
    return hashlib.blake2b(student.encode("utf-8", "replace"), key=key, digest_size=8).hexdigest()


def read_log(file: Path, chosen: LogFilter = LogFilter(), *, answers: bool = True) -> list[LoggedExchange]:
    """The exchanges of a log, oldest first; without their answers where those are not needed.

    Raises:
        LogMissing: there is no such file.
        LogError: it cannot be read, is none of ours, or of a later version.
    """
    if not file.is_file():
        raise LogMissing("there is no log yet", where=str(file))
    with told(file, "read"), contextlib.closing(_reader(file)) as connection:
        _check(connection, file)
        if _version(connection) == 0:  # another process is making it
            return []
        connection.create_function("casefold", 1, str.casefold, deterministic=True)
        columns = [name if answers or name != "answer" else "'' AS answer" for name in COLUMNS]
        return [exchange_of(row) for row in connection.execute(*chosen.query(columns))]


def _reader(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY, isolation_level=None)


def migrate(connection: sqlite3.Connection, steps: Sequence[str]) -> None:
    """Take the steps that a file has not taken yet, all or none."""
    if _version(connection) >= len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[_version(connection) :]:  # asked again: another process may have taken them meanwhile
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Refuse a file that is another program's, or of a later version of ours."""
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION
    if not ours and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise LogError("this is another program's database", where=str(file), hint="name another file as 'log'")
    if _version(connection) > VERSION:
        raise LogError("the log was made by a later version", where=str(file), hint="upgrade lmmarkdown")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _day(time: float, further: int = 0) -> str:
    return (datetime.fromtimestamp(time, UTC) + timedelta(days=further)).date().isoformat()


@contextlib.contextmanager
def told(file: Path, what: str) -> Iterator[None]:
    """SQLite's errors and the system's, as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "another process holds it" if "locked" in str(error) else ""
        raise LogError(f"the log cannot be {what}: {error}", where=str(file), hint=hint) from error
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LogError(f"the log cannot be {what}: {reason}", where=str(file)) from error
