"""Vectors that were made before, so that nothing is embedded twice: one SQLite file in the user's cache folder.

Several processes may use it at once. It is bounded: what was not used for longest goes first. It never
stands in the way: where it cannot be read or written, the program goes on without it, and says so once, in the
log of this module; a damaged file is set aside, and the next program begins a new one.

Connections are opened for each call (0.3 ms): they must not be shared between threads or be inherited by a
forked process.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lmm.disk.files import cache_folder
from lmm_education.encode.embedders.text_encoder import Vector

LIMIT = 1 << 30  # bytes: 160,000 vectors of 1,536 numbers
_FILE = "vectors-1.sqlite3"  # another layout gets another number
_WAIT = 10.0  # seconds for another process's write
_TOUCH_AFTER = 3600.0  # seconds: so exactly is it known when a vector was last used
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, used REAL NOT NULL, vector BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used);
"""
_log = logging.getLogger(__name__)
T = TypeVar("T")


def key_of(*parts: str) -> bytes:
    """A digest of what a vector depends on: model, side, prefix, text.

    >>> key_of("a", "bc") == key_of("ab", "c")
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8) + data)
    return digest.digest()


class VectorCache:
    """Vectors by key, in `file`, of at most `limit` bytes; `now` is seconds since 1970."""

    def __init__(self, file: Path | None = None, *, limit: int = LIMIT, now: Callable[[], float] = time.time) -> None:
        self.file = file or cache_folder() / _FILE
        self.limit = limit
        self._now = now
        self._is_ready = False
        self._is_off = False

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """The vectors that are known."""
        return self._try(lambda connection: self._get(connection, keys), {})

    def put(self, vectors: Mapping[bytes, Vector]) -> None:
        """Remember vectors; on return they are in the file."""
        self._try(lambda connection: self._put(connection, vectors), None)

    def _get(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        found: dict[bytes, Vector] = {}
        old: list[bytes] = []
        limit = self._now() - _TOUCH_AFTER
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            for key, used, data in connection.execute(
                f"SELECT key, used, vector FROM vectors WHERE key IN ({marks})", some
            ):
                if len(data) % 4:
                    continue
                found[key] = array("f")
                found[key].frombytes(data)
                if used < limit:
                    old.append(key)
        if old:
            with _transaction(connection):
                now = self._now()
                connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", [(now, key) for key in old])
        return found

    def _put(self, connection: sqlite3.Connection, vectors: Mapping[bytes, Vector]) -> None:
        now = self._now()
        with _transaction(connection):
            connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                [(key, now, vector.tobytes()) for key, vector in vectors.items()],
            )
            while _bytes_in_use(connection) > self.limit:
                deleted = connection.execute(
                    "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used, rowid"
                    " LIMIT (SELECT count(*) / 10 + 1 FROM vectors))"
                ).rowcount
                if not deleted:
                    break

    def _try(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`work` on the file; if it cannot be used, `otherwise`, now and from now on."""
        if self._is_off:
            return otherwise
        try:
            self._make_ready()
            with contextlib.closing(self._connect()) as connection:
                return work(connection)
        except (sqlite3.Error, OSError) as error:
            self._is_off = True
            _log.warning("vectors are not cached: %s: %s", self.file, error)
            if not isinstance(error, (sqlite3.OperationalError, OSError)):
                self._set_aside()
            return otherwise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, timeout=_WAIT, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:  # it is damaged
            connection.close()
            raise
        return connection

    def _make_ready(self) -> None:
        """The file with its table; made by one process at a time, since the change to WAL does not wait."""
        if self._is_ready and self.file.exists():
            return
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock(), contextlib.closing(self._connect()) as connection:
            self.file.chmod(0o600)  # a vector tells something of its text
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLE)
        self._is_ready = True

    def _set_aside(self) -> None:
        """Rename a damaged file, so that the next process begins a new one."""
        with contextlib.suppress(OSError), self._lock():
            for ending in ("", "-wal", "-shm"):
                path = self.file.with_name(self.file.name + ending)
                if path.exists():
                    path.replace(path.with_name(f"damaged-{path.name}"))

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.file.with_suffix(".lock"), timeout=_WAIT, thread_local=False):
                yield
        except Timeout as error:
            raise OSError("another process holds its lock") from error


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _bytes_in_use(connection: sqlite3.Connection) -> int:
    """Without pages that are free for new rows: the file itself does not shrink."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return (pages - free) * size
