"""What was asked on the pages of `lmm serve`, and what came of it: as a value, as a row, and for other programs.

``application_id`` of the log's file says that it is ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    select,
)

from lmm.csv_table import csv_text
from lmm_education.material import distinct_titles
from lmm_education.payloads import plain

Outcome = Literal["answered", "not found", "refused", "failed", "left"]
"""``answered``; ``not found``: the course says nothing about it; ``refused``: it is not about the course, or the budget
was spent; ``failed``: see `error`; ``left``: the student stopped the answer or went away."""
AUTHOR = "author"
"""Where a question came from that the author had asked again: no student's."""
LONGEST_COMMENT = 2000  # characters


@dataclass(frozen=True, slots=True)
class LoggedSource:
    """A section of the course, by the id that opens it, and where it stands: one that the model was shown, or of which
    it was shown a passage, under `number`; `cited`: the answer cites it."""

    number: int
    section: str
    file: str
    headings: tuple[str, ...] = ()
    title: str = ""
    cited: bool = False

    @property
    def path(self) -> str:
        """The document's title, and the headings."""
        return " > ".join(distinct_titles(part for part in (self.title, *self.headings) if part)) or self.file


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """A question and what came of it.

    `time` is in seconds since 1970; `session` is a name for the student that means nothing, another one every day;
    `via` is where the question came from: ``page``, ``api`` or `AUTHOR`. `searched` is what was looked up: the
    question, rewritten where it follows others. `first_word` and `total` are in seconds; `first_word` is None where
    there was none. `cost` is in US dollars, None where the price is not known. `reaction` is 1 (good), -1 (bad) or 0.
    `cached`: the answer was given before, to the same question. `removed` are the numbers that it cited and that are
    no source's; `unverified` is what it quotes or says that its sources do not, a line each. `prompt` is what the
    model was sent; `here` the file and the headings of the section that the student had before him.
    """

    id: str
    time: float
    question: str
    session: str = ""
    via: str = "page"
    searched: str = ""
    answer: str = ""
    sources: tuple[LoggedSource, ...] = ()
    outcome: Outcome = "answered"
    model: str = ""
    first_word: float | None = None
    total: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    reaction: int = 0
    comment: str = ""
    error: str = ""
    cached: bool = False
    removed: str = ""
    unverified: str = ""
    prompt: str = ""
    here: str = ""

    @property
    def is_unpriced(self) -> bool:
        """Whether a model was asked whose price is not known.

        >>> LoggedExchange("1", 0.0, "Why?", input_tokens=9).is_unpriced, LoggedExchange("1", 0.0, "Why?").is_unpriced
        (True, False)
        """
        return self.cost is None and self.input_tokens + self.output_tokens > 0

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer from the course: one that cites something.

        >>> LoggedExchange("1", 0.0, "Why?").is_answered
        False
        """
        return self.outcome == "answered" and any(source.cited for source in self.sources)


def storable(text: str) -> str:
    """A text as UTF-8 can hold it: a request may have halves of surrogate pairs.

    >>> storable("green \\ud800"), storable("grün")
    ('green ?', 'grün')
    """
    return str(plain(text))


def asked(exchange: LoggedExchange) -> str:
    """The question so that it can be understood alone: as it was rewritten, if it was.

    >>> asked(LoggedExchange("1", 0.0, "And why?", searched="Why is a leaf green?"))
    'Why is a leaf green?'
    """
    return " ".join((exchange.searched or exchange.question).split())


# -- as a row --------------------------------------------------------------------------------------


APPLICATION = 0x4C4D4D31  # "LMM1"
LOG_TABLES = MetaData()
_KINDS = {"float": Double, "float | None": Double, "int": BigInteger, "bool": BigInteger}
EXCHANGES = Table(
    "exchanges",
    LOG_TABLES,
    *(
        Column(each.name, _KINDS.get(str(each.type), Text), primary_key=each.name == "id", nullable="None" in each.type)
        for each in fields(LoggedExchange)
    ),
    Column("cited", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""`cited` is how many sources the answer cites, `cached` 1 if it was given before."""
Index("exchanges_by_time", EXCHANGES.c.time)
DAYS = Table(
    "days",
    LOG_TABLES,
    Column("day", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""The keys of the last two days, of which the names of sessions are made."""
COLUMNS = tuple(name for name, _ in EXCHANGES.c.items() if name != "cited")


def row_of(exchange: LoggedExchange) -> dict[str, Any]:
    """The values of a row in `EXCHANGES`."""
    values = {name: getattr(exchange, name) for name in COLUMNS}
    values["sources"] = json.dumps(msgspec.to_builtins(exchange.sources))
    values |= {"cited": sum(source.cited for source in exchange.sources), "cached": int(exchange.cached)}
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}


def exchange_of(row: Mapping[str, Any]) -> LoggedExchange:
    """The exchange in a row.

    >>> exchange = LoggedExchange("1", 0.0, "Why?", cost=0.25, cached=True)
    >>> exchange_of(row_of(exchange)) == exchange
    True
    """
    values = {name: row[name] for name in COLUMNS}
    sources = msgspec.convert(json.loads(values["sources"]), tuple[LoggedSource, ...])
    return LoggedExchange(**values | {"sources": sources, "cached": bool(values["cached"])})


# -- what is asked for -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which exchanges are wanted: those for which all of it holds.

    `since` and `until` are seconds since 1970, `until` not included. `unanswered`: without an answer from the course,
    because nothing was found or the answer cites nothing. `unverified`: its sources do not say all of what it quotes or
    says. `reaction`: 1 or -1. `errors`: the answer failed. `contains`:
    in question, answer or comment, whatever the case. `latest`: so many, the latest.
    """

    since: float | None = None
    until: float | None = None
    unanswered: bool = False
    unverified: bool = False
    reaction: int | None = None
    errors: bool = False
    contains: str = ""
    latest: int | None = None

    def query(self, columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
        """What selects them, oldest first; `contains` is left to `has_text`, and `latest` with it.

        >>> print(LogFilter(since=5.0, reaction=-1).query([EXCHANGES.c.id]).whereclause)
        exchanges.time >= :time_1 AND exchanges.reaction = :reaction_1
        """
        where = [condition for condition, holds in self._conditions() if holds]
        if self.latest is not None and not self.contains:
            newest = select(EXCHANGES.c.id).where(*where).order_by(EXCHANGES.c.time.desc(), EXCHANGES.c.id.desc())
            where = [EXCHANGES.c.id.in_(newest.limit(self.latest))]
        return select(*columns).where(*where).order_by(EXCHANGES.c.time, EXCHANGES.c.id)

    def _conditions(self) -> tuple[tuple[ColumnElement[bool], bool], ...]:
        row = EXCHANGES.c
        uncited = (row.outcome == "answered") & (row.cited == 0)
        return (
            (row.time >= (self.since or 0.0), self.since is not None),
            (row.time < (self.until or 0.0), self.until is not None),
            ((row.outcome == "not found") | uncited, self.unanswered),
            (row.unverified != "", self.unverified),
            (row.reaction == self.reaction, self.reaction is not None),
            (row.outcome == "failed", self.errors),
        )

    def has_text(self, exchanges: Iterable[LoggedExchange]) -> list[LoggedExchange]:
        """Those of the exchanges that `query` found in which `contains` stands: databases fold cases differently."""
        if not self.contains:
            return list(exchanges)
        text = self.contains.casefold()
        found = [e for e in exchanges if text in f"{e.question}\n{e.answer}\n{e.comment}".casefold()]
        return found if self.latest is None else found[-self.latest :]


# -- for other programs ----------------------------------------------------------------------------


_REACTIONS = {1: "up", -1: "down", 0: ""}


def as_values(exchange: LoggedExchange) -> dict[str, Any]:
    """As JSON holds it; the time is told in UTC.

    >>> values = as_values(LoggedExchange("1", 0.0, "Why?", reaction=-1))
    >>> values["time"], values["reaction"]
    ('1970-01-01T00:00:00+00:00', 'down')
    """
    time = datetime.fromtimestamp(exchange.time, UTC).isoformat(timespec="seconds")
    values: dict[str, Any] = msgspec.to_builtins(exchange)
    return values | {"time": time, "reaction": _REACTIONS[exchange.reaction]}


def as_jsonl(exchanges: Iterable[LoggedExchange]) -> str:
    """A JSON object a line."""
    return "".join(json.dumps(as_values(exchange), ensure_ascii=False) + "\n" for exchange in exchanges)


def as_csv(exchanges: Iterable[LoggedExchange]) -> str:
    """A table for spreadsheets: sources as one text, no prompts, and no cell that one would take for a formula."""
    names = [name for name in LoggedExchange.__slots__ if name != "prompt"]
    rows = []
    for exchange in exchanges:
        cited = (f"{s.file}: {' > '.join(s.headings)}" for s in exchange.sources if s.cited)
        values = as_values(exchange) | {"sources": "; ".join(cited)}
        rows.append([values[name] for name in names])
    return csv_text(names, rows, newline="\r\n")


# -- for lmm eval ----------------------------------------------------------------------------------


def as_questions(exchanges: Iterable[LoggedExchange]) -> str:
    """A question file: every wording once, with the section that its answer cites first, to be checked.

    Where search found the section itself, measuring search by it flatters search; what students confirmed says so. An
    answer with thumbs down proposes no section; a question about which nothing was found has an empty document: the
    course does not answer it.

    >>> print(as_questions([LoggedExchange("1", 0.0, "Why?", outcome="not found")]), end="")
    {"question": "Why?", "document": "", "asked": 1, "up": 0, "down": 0}
    """
    by_text: dict[str, list[LoggedExchange]] = {}
    for exchange in exchanges:
        by_text.setdefault(asked(exchange), []).append(exchange)
    rows = (_question(text, held) for text, held in by_text.items())
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _question(text: str, exchanges: Sequence[LoggedExchange]) -> dict[str, Any]:
    up, down = (sum(exchange.reaction == sign for exchange in exchanges) for sign in (1, -1))
    counted = {"asked": sum(exchange.via != AUTHOR for exchange in exchanges), "up": up, "down": down}
    best = max(exchanges, key=lambda exchange: (exchange.reaction, exchange.is_answered, exchange.time))
    source = next((each for each in best.sources if each.cited), None) if best.reaction >= 0 else None
    if source is not None:
        section = {"section": list(source.headings)} if source.headings else {}
        return {"question": text, "document": source.file, **section, **counted}
    if best.outcome == "not found":
        return {"question": text, "document": "", **counted}
    return {"question": text, **counted}


WRITERS: dict[str, Callable[[Iterable[LoggedExchange]], str]] = {
    "csv": as_csv,
    "jsonl": as_jsonl,
    "questions": as_questions,
}
"""What a log can be exported as."""
