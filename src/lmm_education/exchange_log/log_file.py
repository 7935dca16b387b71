"""The log on disk: opened for writing by servers, for reading by commands and the teacher's page.

Several processes may have it open. Whoever reads does not wait for those who write, and does not hold them up. What is
deleted is overwritten with zeros in the file, and gone from the write-ahead log; copies that were made of the file, and
what a disk keeps below the file system, are out of our reach. A server writes in a thread, so that no answer waits for
the disk, and no failure of the log is one of the answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log.exchanges import (
    APPLICATION,
    COLUMNS,
    INSERT,
    LONGEST_COMMENT,
    MIGRATIONS,
    VERSION,
    LogFilter,
    LoggedExchange,
    exchange_of,
    row_of,
    storable,
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


# -- in a thread -----------------------------------------------------------------------------------


DAY = 24 * 3600.0
_TIDY = 3600.0  # seconds between two looks for what is too old
_BUSY = 2.0  # seconds that we wait for another process that writes: a student may be waiting for us
_AGAIN = 5.0  # seconds after which what could not be written is tried again
_MOST_WAITING = 2000  # exchanges that wait for the log to be writable again
logger = logging.getLogger("lmm.serve")


@dataclass(frozen=True, slots=True)
class _Reaction:
    id: str
    student: str
    reaction: int
    comment: str
    done: Future[bool]


_Work = tuple[LoggedExchange, str] | _Reaction | None


class LogWriter:
    """Writes exchanges and reactions into a log, and deletes what is older than `days`; threads may share it.

    While the log cannot be written, exchanges wait and are tried again; beyond some thousand, the oldest are given up.
    That is told once, and once again when it is over. `lost` counts those given up, `failures` the tries that failed;
    `is_failing`: the last did.
    """

    def __init__(
        self,
        file: Path,
        *,
        days: int,
        clock: Callable[[], float] = time.time,
        again: float = _AGAIN,
        busy: float = _BUSY,
    ) -> None:
        self.file, self.days = file, days
        self.lost = self.failures = 0
        self._clock, self._again, self._busy = clock, again, busy
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._waiting: deque[tuple[LoggedExchange, str]] = deque()
        self._open: LogFile | None = None
        self.is_failing = False
        self._tidied = float("-inf")
        self._thread = threading.Thread(target=self._run, name="lmm-log", daemon=True)
        self._thread.start()

    def add(self, exchange: LoggedExchange, student: str) -> None:
        """Log an exchange of that student, soon."""
        self._work.put((exchange, student))

    def react(self, id: str, student: str, reaction: int, comment: str) -> Future[bool]:
        """Set a reaction: whether there is such an exchange of that student; raises `LogError` if it cannot be kept."""
        done: Future[bool] = Future()
        self._work.put(_Reaction(id, student, reaction, comment, done))
        return done

    def close(self) -> None:
        """Write what waits, and end; the second time does nothing."""
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()

    # -- in the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        self._try(self._tidy)
        ended = False
        while not ended:
            reactions, ended = self._take()
            written = self._try(self._write)
            for reaction in reactions:
                self._try(self._react if written else self._refuse, reaction)
            if written:
                self._try(self._tidy)
        self.lost += len(self._waiting)
        self._close()

    def _take(self) -> tuple[list[_Reaction], bool]:
        """Wait for something to do, and take all there is: exchanges to those that wait."""
        reactions: list[_Reaction] = []
        work = self._next(self._again if self._waiting else _TIDY)
        while not isinstance(work, queue.Empty):
            if work is None:
                return reactions, True
            if isinstance(work, _Reaction):
                reactions.append(work)
            else:
                self._waiting.append(work)
            work = self._next(0)
        return reactions, False

    def _next(self, timeout: float) -> _Work | queue.Empty:
        try:
            return self._work.get(timeout=timeout) if timeout else self._work.get_nowait()
        except queue.Empty as empty:
            return empty

    def _try(self, action: Callable[..., None], *values: object) -> bool:
        """Do something with the log; what fails is counted, and told the first time."""
        try:
            action(*values)
        except LogError as error:
            self.failures += 1
            if not self.is_failing:
                logger.error("%s; answers go on, and what was asked is written when that is mended", error)
            self.is_failing = True
            self._close()
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self.lost += 1
            return False
        if self.is_failing:
            self.is_failing = False
            logger.warning("the log is written again; lost: %d exchanges", self.lost)
        return True

    def _write(self) -> None:
        if self._waiting:
            self._log.add(self._waiting)
            self._waiting.clear()

    def _react(self, reaction: _Reaction) -> None:
        try:
            kept = self._log.react(reaction.id, reaction.student, reaction.reaction, reaction.comment)
        except LogError as error:
            reaction.done.set_exception(error)
            raise
        reaction.done.set_result(kept)

    def _refuse(self, reaction: _Reaction) -> None:
        """The log could not be written just now: nobody waits for another try."""
        error = LogError("the log cannot be written", where=str(self.file))
        reaction.done.set_exception(error)
        raise error

    def _tidy(self) -> None:
        now = self._clock()
        if now - self._tidied >= _TIDY:
            self._log.delete(before=now - self.days * DAY, now=now)
            self._tidied = now

    @property
    def _log(self) -> LogFile:
        if self._open is None:
            self._open = LogFile(self.file, busy=self._busy)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
