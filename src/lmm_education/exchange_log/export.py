"""The log for other programs: CSV, JSON lines, and a question file for ``lmm eval``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from lmm.csv_table import csv_text
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource, exchange_as_values
from lmm_education.exchange_log.grouping import asked

_REACTIONS = {1: "up", -1: "down", 0: ""}


def as_values(exchange: LoggedExchange) -> dict[str, Any]:
    """As JSON holds it; the time is told in UTC.

    >>> values = as_values(LoggedExchange("1", 0.0, "Why?", reaction=-1))
    >>> values["time"], values["reaction"]
    ('1970-01-01T00:00:00+00:00', 'down')
    """
    time = datetime.fromtimestamp(exchange.time, UTC).isoformat(timespec="seconds")
    return exchange_as_values(exchange) | {"time": time, "reaction": _REACTIONS[exchange.reaction]}


def as_jsonl(exchanges: Iterable[LoggedExchange]) -> str:
    """A JSON object a line."""
    return "".join(json.dumps(as_values(exchange), ensure_ascii=False) + "\n" for exchange in exchanges)


def as_csv(exchanges: Iterable[LoggedExchange]) -> str:
    """A table for spreadsheets: sources as one text, and no cell that a spreadsheet would take for a formula."""
    names = LoggedExchange.__slots__
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
    counted = {"asked": len(exchanges), "up": up, "down": down}
    best = max(exchanges, key=lambda exchange: (exchange.reaction, exchange.is_answered, exchange.time))
    source = _first_cited(best) if best.reaction >= 0 else None
    if source is not None:
        section = {"section": list(source.headings)} if source.headings else {}
        return {"question": text, "document": source.file, **section, **counted}
    if best.outcome == "not found":
        return {"question": text, "document": "", **counted}
    return {"question": text, **counted}


def _first_cited(exchange: LoggedExchange) -> LoggedSource | None:
    return next((source for source in exchange.sources if source.cited), None)


WRITERS: dict[str, Callable[[Iterable[LoggedExchange]], str]] = {
    "csv": as_csv,
    "jsonl": as_jsonl,
    "questions": as_questions,
}
"""What a log can be exported as."""
