"""Exchanges, the questions to `lmm serve` and their outcomes, as values, as database rows, and in export formats.

``application_id`` marks the log's file as ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from lmm.csv_table import csv_text
from lmm_education.material import distinct_titles
from lmm_education.payloads import plain

Outcome = Literal["answered", "not found", "refused", "failed", "left"]
"""``answered``; ``not found``: the course does not answer it; ``refused``: it is not about the course, or the budget
was used up; ``failed``: see `error`; ``left``: the student stopped the answer or left the page."""
AUTHOR = "author"
"""The origin of questions that the author repeated, rather than a student."""
LONGEST_COMMENT = 2000  # characters


@dataclass(frozen=True, slots=True)
class LoggedSource:
    """A section that the model was shown, whole or in part, under `number`: its id, its place, whether it is cited."""

    number: int
    section: str
    file: str
    headings: tuple[str, ...] = ()
    title: str = ""
    cited: bool = False

    @property
    def path(self) -> str:
        """The document's title and the headings."""
        return " > ".join(distinct_titles(part for part in (self.title, *self.headings) if part)) or self.file


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """A question and its outcome.

    `time` is in seconds since 1970; `session` is a meaningless name for the student, which changes every day; `via` is
    the origin of the question: ``page``, ``api`` or `AUTHOR`. `searched` is what was looked up: the question, rewritten
    if it follows others. `first_word` and `total` are in seconds; `first_word` is None if there was none. `cost` is in
    US dollars, None if the price is unknown. `reaction` is 1 (good), -1 (bad) or 0. `cached`: the answer had been given
    before to the same question. `unverified` are quotations and sentences that its sources do not support, and
    citations of sources that there are not, one per line. `prompt` is what the model was sent; `here` the file and the
    headings of the section that the student had open.
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
    unverified: str = ""
    prompt: str = ""
    here: str = ""

    @property
    def is_unpriced(self) -> bool:
        """Whether a model was asked whose price is unknown.

        >>> LoggedExchange("1", 0.0, "Why?", input_tokens=9).is_unpriced, LoggedExchange("1", 0.0, "Why?").is_unpriced
        (True, False)
        """
        return self.cost is None and self.input_tokens + self.output_tokens > 0

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer from the course, that is, one that cites a source.

        >>> LoggedExchange("1", 0.0, "Why?").is_answered
        False
        """
        return self.outcome == "answered" and any(source.cited for source in self.sources)


def storable(text: str) -> str:
    """Return a text that UTF-8 can encode: a request may contain lone surrogates.

    >>> storable("green \\ud800"), storable("grün")
    ('green ?', 'grün')
    """
    return str(plain(text))


def asked(exchange: LoggedExchange) -> str:
    """Return the question in a form that can be understood by itself: the rewritten one, if there is one.

    >>> asked(LoggedExchange("1", 0.0, "And why?", searched="Why is a leaf green?"))
    'Why is a leaf green?'
    """
    return " ".join((exchange.searched or exchange.question).split())


# -- database rows ---------------------------------------------------------------------------------


APPLICATION = 0x4C4D4D31  # "LMM1"
LOG_TABLES = sa.MetaData()
_KINDS = {"float": sa.Double, "float | None": sa.Double, "int": sa.BigInteger, "bool": sa.BigInteger}
EXCHANGES = sa.Table(
    "exchanges",
    LOG_TABLES,
    *(
        sa.Column(
            each.name, _KINDS.get(str(each.type), sa.Text), primary_key=each.name == "id", nullable="None" in each.type
        )
        for each in fields(LoggedExchange)
    ),
    sa.Column("cited", sa.BigInteger, nullable=False),
    sa.Column("removed", sa.Text, nullable=False, default=""),  # logs of earlier versions have it
    sqlite_with_rowid=False,
)
"""`cited` is the number of sources that the answer cites, `cached` is 1 for a repeated answer."""
sa.Index("exchanges_by_time", EXCHANGES.c.time)
DAYS = sa.Table(
    "days",
    LOG_TABLES,
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("key", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""The keys of the last two days, from which the names of sessions are made."""
COLUMNS = tuple(name for name, _ in EXCHANGES.c.items() if name not in ("cited", "removed"))


def row_of(exchange: LoggedExchange) -> dict[str, Any]:
    """Return the values of a row in `EXCHANGES`."""
    values = {name: getattr(exchange, name) for name in COLUMNS}
    values["sources"] = json.dumps(msgspec.to_builtins(exchange.sources))
    values |= {"cited": sum(source.cited for source in exchange.sources), "cached": int(exchange.cached)}
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}


def exchange_of(row: Mapping[str, Any]) -> LoggedExchange:
    """Return the exchange in a row.

    >>> exchange = LoggedExchange("1", 0.0, "Why?", cost=0.25, cached=True)
    >>> exchange_of(row_of(exchange)) == exchange
    True
    """
    values = {name: row[name] for name in COLUMNS}
    sources = msgspec.convert(json.loads(values["sources"]), tuple[LoggedSource, ...])
    return LoggedExchange(**values | {"sources": sources, "cached": bool(values["cached"])})


# -- filters ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions for exchanges, all of which must hold.

    `since` and `until` are seconds since 1970, `until` excluded. `unanswered`: without an answer from the course,
    because nothing was found or the answer cites nothing. `unverified`: its sources do not support all that it quotes
    or says. `reaction`: 1 or -1. `errors`: the answer failed. `contains`: in question, answer or comment, ignoring
    case. `latest`: only the latest so many.
    """

    since: float | None = None
    until: float | None = None
    unanswered: bool = False
    unverified: bool = False
    reaction: int | None = None
    errors: bool = False
    contains: str = ""
    latest: int | None = None

    def query(self, columns: Sequence[sa.ColumnElement[Any]]) -> sa.Select[Any]:
        """Return the query for them, oldest first; `contains`, and `latest` with it, are left to `has_text`.

        >>> print(LogFilter(since=5.0, reaction=-1).query([EXCHANGES.c.id]).whereclause)
        exchanges.time >= :time_1 AND exchanges.reaction = :reaction_1
        """
        row = EXCHANGES.c
        uncited = (row.outcome == "answered") & (row.cited == 0)
        conditions = (
            (row.time >= (self.since or 0.0), self.since is not None),
            (row.time < (self.until or 0.0), self.until is not None),
            ((row.outcome == "not found") | uncited, self.unanswered),
            (row.unverified != "", self.unverified),
            (row.reaction == self.reaction, self.reaction is not None),
            (row.outcome == "failed", self.errors),
        )
        where = [condition for condition, holds in conditions if holds]
        if self.latest is not None and not self.contains:
            newest = sa.select(EXCHANGES.c.id).where(*where).order_by(EXCHANGES.c.time.desc(), EXCHANGES.c.id.desc())
            where = [EXCHANGES.c.id.in_(newest.limit(self.latest))]
        return sa.select(*columns).where(*where).order_by(EXCHANGES.c.time, EXCHANGES.c.id)

    def has_text(self, exchanges: Iterable[LoggedExchange]) -> list[LoggedExchange]:
        """Return the exchanges with the text `contains`; the query cannot do it, as databases fold case differently."""
        if not self.contains:
            return list(exchanges)
        text = self.contains.casefold()
        found = [e for e in exchanges if text in f"{e.question}\n{e.answer}\n{e.comment}".casefold()]
        return found if self.latest is None else found[-self.latest :]


# -- export ----------------------------------------------------------------------------------------


_REACTIONS = {1: "up", -1: "down", 0: ""}


def as_values(exchange: LoggedExchange) -> dict[str, Any]:
    """Return plain values; the time is in UTC.

    >>> values = as_values(LoggedExchange("1", 0.0, "Why?", reaction=-1))
    >>> values["time"], values["reaction"]
    ('1970-01-01T00:00:00+00:00', 'down')
    """
    time = datetime.fromtimestamp(exchange.time, UTC).isoformat(timespec="seconds")
    values: dict[str, Any] = msgspec.to_builtins(exchange)
    return values | {"time": time, "reaction": _REACTIONS[exchange.reaction]}


def as_jsonl(exchanges: Iterable[LoggedExchange]) -> str:
    """Return one JSON object per line."""
    return "".join(json.dumps(as_values(exchange), ensure_ascii=False) + "\n" for exchange in exchanges)


def as_csv(exchanges: Iterable[LoggedExchange]) -> str:
    """Return CSV for spreadsheets: sources as one text, no prompts, and no cell that could be taken for a formula."""
    names = [name for name in LoggedExchange.__slots__ if name != "prompt"]
    rows = []
    for exchange in exchanges:
        cited = (f"{s.file}: {' > '.join(s.headings)}" for s in exchange.sources if s.cited)
        values = as_values(exchange) | {"sources": "; ".join(cited)}
        rows.append([values[name] for name in names])
    return csv_text(names, rows, newline="\r\n")


# -- question files --------------------------------------------------------------------------------


def as_questions(exchanges: Iterable[LoggedExchange]) -> str:
    """Return a question file with every wording once, and the section that its answer cites first, to be checked.

    Since search itself found the section, such questions overestimate search; confirmed answers are marked. An answer
    with thumbs down proposes no section; a question for which nothing was found has an empty document: the course does
    not answer it.

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
"""The export formats of a log."""
