"""The database of what a course's server keeps: a SQLite file, or PostgreSQL where several machines serve the course.

Modules above declare their tables in `TABLES`. Transactions are short, and any thread and any process may have one; a
process that is killed leaves nothing half done. One database is for one course.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, MetaData, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from lmm.errors import ConfigError, FileReadError

TABLES = MetaData()
PATIENCE = 10.0  # seconds for others that write, and for a server that does not answer
_HINTS = {
    "locked": "another process holds it",
    "full": "free some space",
    "readonly": "name another folder: export LMM_STATE_DIR=…",
    "unable to open": "name another folder: export LMM_STATE_DIR=…",
}


class Database:
    """A SQLite file, which only its owner can read and which is made with its folder, or the address of a server."""

    def __init__(self, place: Path | str, *, patience: float = PATIENCE) -> None:
        """Nothing is opened yet.

        Raises:
            ConfigError: the address is none, or its driver is not installed.
        """
        self.file = place if isinstance(place, Path) else None
        # Prepared statements do not survive a pooler such as PgBouncer.
        remote = {"connect_timeout": int(patience), "prepare_threshold": None}
        try:
            url = make_url(f"sqlite:///{place}" if self.file else str(place))
            if not self.file and url.get_backend_name() != "postgresql":
                raise ArgumentError
            given = {"timeout": patience} if self.file else remote
            self._engine = create_engine(url, connect_args=given, pool_pre_ping=not self.file)
        except ImportError as error:
            hint = "pip install 'lmmarkdown[web,postgres]'"
            raise ConfigError(f"{error.name} is not installed", where="[serve] database", hint=hint) from error
        except (ArgumentError, NoSuchModuleError) as error:
            hint = 'such as "postgresql+psycopg://lmm@db.example.org/botany"'
            raise ConfigError("this is no address of PostgreSQL", where="[serve] database", hint=hint) from error
        self.where = str(self.file or url.render_as_string(hide_password=True))
        self._ready, self._making = False, threading.Lock()
        if self.file:
            event.listen(self._engine, "connect", _prepare)
            event.listen(self._engine, "begin", _begin)

    def close(self) -> None:
        """Close its connections; it can be used again."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of everything, and holds nobody up.

        Raises:
            FileReadError: the database cannot be used.
        """
        with self._told():
            self._make()
            with self._engine.begin() as connection:
                yield connection

    @contextmanager
    def writing(self, what: str = "state") -> Iterator[Connection]:
        """A transaction that no other about `what` comes between; it is on the disk when it ends without an error.

        Raises:
            FileReadError: the database cannot be used; it is as it was.
        """
        with self._told():
            self._make()
            with self._writing(what) as connection:
                yield connection

    @contextmanager
    def _writing(self, what: str) -> Iterator[Connection]:
        with self._engine.execution_options(writes=True).begin() as connection:
            if not self.file:
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:what))"), {"what": what})
            yield connection

    def _make(self) -> None:
        """Make file and tables, once; of processes that begin at once, one makes them."""
        with self._making:
            if self._ready:
                return
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))
            with self._writing("tables") as connection:
                TABLES.create_all(connection)
            self._ready = True

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()[0]
            hint = next((hint for word, hint in _HINTS.items() if word in said), "")
            raise FileReadError(f"cannot be used: {said}", where=self.where, hint=hint) from error
        except OSError as error:
            hint = "name another folder: export LMM_STATE_DIR=…"
            raise FileReadError(f"cannot be used: {error.strerror}", where=self.where, hint=hint) from error


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in ("journal_mode = wal", "synchronous = normal", "secure_delete = on"):
        connection.execute(f"pragma {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("begin immediate" if writes else "begin")
