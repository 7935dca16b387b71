"""The database of a course's server: a SQLite file, or PostgreSQL if several machines serve the course.

Modules that use it declare their tables in `TABLES`. Transactions are short and may run in any thread or process; a
process that is killed leaves no partial changes. Each course has its own database.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, MetaData, NullPool, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, TimeoutError

from lmm.errors import ConfigError, FileReadError
from lmm.extras import install_command

TABLES = MetaData()
PATIENCE = 10.0  # seconds to wait for other writers, and for a server to respond
_PAUSE = 0.01  # seconds
_AWAY, _AGAIN = 8.0, 0.2  # seconds to wait for a server that was there before, and between two attempts
_HINTS = {
    "locked": "another process is using it",
    "full": "free some space",
    "readonly": "name another folder: export LMM_STATE_DIR=…",
    "unable to open": "name another folder: export LMM_STATE_DIR=…",
}


class Database:
    """A SQLite file, readable by its owner only and created with its folder, or the address of a server."""

    def __init__(
        self,
        place: Path | str,
        *,
        patience: float = PATIENCE,
        make: Callable[[Connection], None] | None = TABLES.create_all,
        pooled: bool = True,
    ) -> None:
        """Prepare access without opening anything. `make` creates the tables; without it, the file must exist, and is
        only read. Unless `pooled`, connections are closed after use.

        Raises:
            ConfigError: the address is invalid, or its driver is not installed.
        """
        self.file = place if isinstance(place, Path) else None
        # Prepared statements do not survive a pooler such as PgBouncer.
        remote = {"connect_timeout": int(patience), "prepare_threshold": None}
        try:
            read_only = (
                f"{place.resolve().as_uri()}?mode=ro&uri=true" if isinstance(place, Path) and not make else place
            )
            url = make_url(f"sqlite:///{read_only}" if self.file else str(place))
            if not self.file and url.get_backend_name() != "postgresql":
                raise ArgumentError
            given = {"timeout": patience} if self.file else remote
            kept = {"pool_pre_ping": not self.file} if make and pooled else {"poolclass": NullPool}
            self._engine = create_engine(url, connect_args=given, **kept)
        except ImportError as error:
            missing, hint = f"{error.name} is not installed", install_command("web,postgres")
            raise ConfigError(missing, where="[serve] database", hint=hint) from error
        except (ArgumentError, NoSuchModuleError) as error:
            hint = 'such as "postgresql+psycopg://lmm@db.example.org/botany"'
            raise ConfigError("this is not an address of PostgreSQL", where="[serve] database", hint=hint) from error
        self.where = str(self.file or url.render_as_string(hide_password=True))
        self._make_tables, self._making, self._was_there = make, threading.Lock(), False
        if self.file:
            prepare = functools.partial(_prepare, patience=patience) if make else _prepare_to_read
            event.listen(self._engine, "connect", lambda connection, _: prepare(connection))
            event.listen(self._engine, "begin", _begin)

    def close(self) -> None:
        """Close all connections; new ones can be opened."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads one consistent state and blocks nobody.

        Raises:
            FileReadError: the database cannot be used.
        """
        with self._as_file_errors():
            self._make()
            with self._connected() as connection, connection.begin():
                yield connection

    @contextmanager
    def writing(self, what: str = "state") -> Iterator[Connection]:
        """Open a transaction that excludes others with the same `what`; it is committed if the block raises no error.

        Raises:
            FileReadError: the database cannot be used; it is unchanged.
        """
        with self._as_file_errors():
            self._make()
            with self._writing(what) as connection:
                yield connection

    @contextmanager
    def _writing(self, what: str) -> Iterator[Connection]:
        with self._connected(writes=True) as connection, connection.begin():
            if not self.file:
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:what))"), {"what": what})
            yield connection

    def _connected(self, **options: bool) -> Connection:
        """Open a connection; a server that was there before is waited for: it may be starting again."""
        end = time.monotonic() + (_AWAY if self._was_there else 0.0)
        while True:
            try:
                connection = self._engine.execution_options(**options).connect()
            except DBAPIError:
                if time.monotonic() >= end:
                    raise
                time.sleep(_AGAIN)
            else:
                self._was_there = not self.file
                return connection

    @contextmanager
    def maintaining(self) -> Iterator[Connection]:
        """Open a connection without a transaction, for what SQLite does outside of one.

        Raises:
            FileReadError: the database cannot be used.
        """
        with self._as_file_errors(), self._engine.execution_options(bare=True).connect() as connection:
            yield connection

    def _make(self) -> None:
        """Create file and tables once; if several processes start together, one of them does it."""
        with self._making:
            if self._make_tables is None:
                return
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))
            with self._writing("tables") as connection:
                self._make_tables(connection)
            self._make_tables = None

    @contextmanager
    def _as_file_errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, TimeoutError, sqlite3.Error) as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()[0]
            hint = next((hint for word, hint in _HINTS.items() if word in said), "")
            raise FileReadError(f"cannot be used: {said}", where=self.where, hint=hint) from error
        except OSError as error:
            hint = "name another folder: export LMM_STATE_DIR=…"
            raise FileReadError(f"cannot be used: {error.strerror}", where=self.where, hint=hint) from error


def _prepare(connection: sqlite3.Connection, patience: float) -> None:
    _prepare_to_read(connection)
    # SQLite's busy timeout does not apply here: of two processes that create a file, one gets "locked" immediately.
    end = time.monotonic() + patience
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
    for pragma in ("synchronous = normal", "secure_delete = on"):
        connection.execute(f"pragma {pragma}")


def _prepare_to_read(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None  # transactions begin where we say so


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("bare"):
        connection.exec_driver_sql("begin immediate" if options.get("writes") else "begin")
