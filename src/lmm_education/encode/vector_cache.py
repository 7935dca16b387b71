"""Vectors that were made before, so that nothing is embedded twice: one SQLite file in the user's cache folder.

Several processes may use it at once. It is bounded: what would be too large begins anew. It never stands in the way:
where it cannot be read or written, the program goes on without it, and says so once, in the log of this module; a
damaged file is removed, and the next program begins a new one.

Connections are opened for each call (0.3 ms): they must not be shared between threads or be inherited by a
forked process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lmm.disk.files import cache_folder
from lmm_education.encode.embedders.text_encoder import Vector

LIMIT = 1 << 30  # bytes: 160,000 vectors of 1,536 numbers
_FILE = "vectors-2.sqlite3"  # another layout gets another number
_WAIT = 10.0  # seconds for another process's work
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)"
# Without pages that are free for new rows: the file itself does not shrink.
_SIZE = """SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class VectorCache:
    """Vectors by key, in `file`, of about `limit` bytes at most."""

    def __init__(self, file: Path | None = None, *, limit: int = LIMIT) -> None:
        self.file = file or cache_folder() / _FILE
        self.limit = limit
        self._is_off = False

    def get(self, keys: Sequence[str]) -> dict[str, Vector]:
        """The vectors that are known."""

        def read(connection: sqlite3.Connection) -> dict[str, Vector]:
            query = "SELECT vector FROM vectors WHERE key = ?"
            found = ((key, connection.execute(query, (key,)).fetchone()) for key in keys)
            return {key: array("f", row[0]) for key, row in found if row}

        return self._try(read, {})

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Remember vectors; on return they are in the file."""

        def write(connection: sqlite3.Connection) -> None:
            if connection.execute(_SIZE).fetchone()[0] > self.limit:
                connection.execute("DELETE FROM vectors")
            values = [(key, vector.tobytes()) for key, vector in vectors.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)

        self._try(write, None)

    def _try(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`work` on the file; if it cannot be used, `otherwise`, now and from now on."""
        if self._is_off:
            return otherwise
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))  # a vector tells something of its text
            opened = sqlite3.connect(self.file, timeout=_WAIT, isolation_level=None)
            with contextlib.closing(opened) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                return work(connection)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._is_off = True
            _log.warning("vectors are not cached: %s: %s", self.file, error)
            if not isinstance(error, (sqlite3.OperationalError, OSError)):  # it is damaged
                with contextlib.suppress(OSError):
                    self.file.unlink()
            return otherwise
