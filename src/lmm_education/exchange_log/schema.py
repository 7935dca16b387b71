"""The tables of the log, their versions, and how an exchange becomes a row and comes back.

``user_version`` of the file counts the steps of `MIGRATIONS` that were taken; ``application_id`` says that it is ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmm_education.exchange_log.exchanges import LoggedExchange, source_as_values, source_of, storable

APPLICATION = 0x4C4D4D31  # "LMM1"
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE exchanges (
        id TEXT PRIMARY KEY,
        time REAL NOT NULL,
        session TEXT NOT NULL,
        via TEXT NOT NULL,
        question TEXT NOT NULL,
        searched TEXT NOT NULL,
        answer TEXT NOT NULL,
        sources TEXT NOT NULL,
        outcome TEXT NOT NULL,
        cited INTEGER NOT NULL,
        model TEXT NOT NULL,
        first_word REAL,
        total REAL NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cost REAL,
        reaction INTEGER NOT NULL,
        comment TEXT NOT NULL,
        error TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX exchanges_by_time ON exchanges (time);
    CREATE TABLE days (day TEXT PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID;
    """,
)
"""Each step takes a file from the version before to the next. `cited` is how many sources the answer cites; `days` has
the keys of the last two days, of which the names of sessions are made."""
VERSION = len(MIGRATIONS)
COLUMNS = (
    "id", "time", "session", "via", "question", "searched", "answer", "sources", "outcome", "model", "first_word",
    "total", "input_tokens", "output_tokens", "cost", "reaction", "comment", "error",
)  # fmt: skip
_PLACES = ", ".join("?" * (len(COLUMNS) + 1))
INSERT = f"INSERT OR REPLACE INTO exchanges ({', '.join(COLUMNS)}, cited) VALUES ({_PLACES})"


def row_of(exchange: LoggedExchange) -> tuple[Any, ...]:
    """The values of `INSERT`."""
    values = {name: getattr(exchange, name) for name in COLUMNS}
    values["sources"] = json.dumps([source_as_values(source) for source in exchange.sources])
    row = (storable(value) if isinstance(value, str) else value for value in values.values())
    return (*row, sum(source.cited for source in exchange.sources))


def exchange_of(row: Sequence[Any]) -> LoggedExchange:
    """The exchange in a row with the columns `COLUMNS`.

    >>> exchange = LoggedExchange("1", 0.0, "Why?", cost=0.25)
    >>> exchange_of(row_of(exchange)[:-1]) == exchange
    True
    """
    values = dict(zip(COLUMNS, row, strict=True))
    return LoggedExchange(**values | {"sources": tuple(source_of(each) for each in json.loads(values["sources"]))})


# -- what is asked for -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which exchanges are wanted: those for which all of it holds.

    `since` and `until` are seconds since 1970, `until` not included. `unanswered`: without an answer from the course,
    because nothing was found or the answer cites nothing. `reaction`: 1 or -1. `errors`: the answer failed. `contains`:
    in question, answer or comment, whatever the case. `latest`: so many, the latest.
    """

    since: float | None = None
    until: float | None = None
    unanswered: bool = False
    reaction: int | None = None
    errors: bool = False
    contains: str = ""
    latest: int | None = None

    def query(self, columns: Sequence[str] = COLUMNS) -> tuple[str, list[Any]]:
        """The SQL, oldest first, and its values. Connections must know ``casefold``.

        >>> sql, values = LogFilter(since=5.0, reaction=-1).query()
        >>> sql.partition(" WHERE ")[2], values
        ('time >= ? AND reaction = ? ORDER BY time, id', [5.0, -1])
        """
        where = [(condition, values) for condition, values, holds in self._conditions() if holds]
        sql = f"SELECT {', '.join(columns)} FROM exchanges"
        if where:
            sql += f" WHERE {' AND '.join(condition for condition, _ in where)}"
        found = [value for _, values in where for value in values]
        if self.latest is not None:
            newest = f"{sql} ORDER BY time DESC, id DESC LIMIT ?".replace(f"SELECT {', '.join(columns)}", "SELECT id")
            sql = f"SELECT {', '.join(columns)} FROM exchanges WHERE id IN ({newest})"
            found.append(self.latest)
        return f"{sql} ORDER BY time, id", found

    def _conditions(self) -> tuple[tuple[str, tuple[Any, ...], bool], ...]:
        text = self.contains.casefold()
        return (
            ("time >= ?", (self.since,), self.since is not None),
            ("time < ?", (self.until,), self.until is not None),
            ("(outcome = 'not found' OR (outcome = 'answered' AND cited = 0))", (), self.unanswered),
            ("reaction = ?", (self.reaction,), self.reaction is not None),
            ("outcome = 'failed'", (), self.errors),
            ("instr(casefold(question || char(10) || answer || char(10) || comment), ?)", (text,), bool(text)),
        )
