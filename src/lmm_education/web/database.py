"""The SQLite file of a course's server: what was spent each day."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lmm.errors import FileReadError

_PATIENCE = 10.0  # seconds for other processes that write
_TABLES = "create table if not exists spent (day text primary key, tokens integer not null, cost real not null) strict"


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
