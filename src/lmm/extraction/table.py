"""Records as rows: JSON lines, CSV or Parquet, written whole or not at all."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lmm.csv_table import csv_text
from lmm.disk.files import check_writable, replace, shown
from lmm.errors import ConfigError
from lmm.extraction.records import Record

PLACE = ("file", "line", "headings")
Row = dict[str, Any]


def check_output(path: Path) -> None:
    """Fail before a model is paid if records cannot be written there.

    Raises:
        ConfigError: the kind of file is not known, its folder is missing, or the package for it is.
        FileWriteError: it may not be written.
    """
    if path.suffix not in WRITERS:
        raise ConfigError(f"no kind of table is called '{path.suffix}'", where=str(path), hint=f"use {_KINDS}")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        hint = "pip install 'lmmarkdown[parquet]', or write .csv or .jsonl"
        raise ConfigError("Parquet files need a package that is not installed", where=str(path), hint=hint)
    if not path.resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    check_writable(path)


def save_records(path: Path, records: Iterable[Record[Any]], fields: Sequence[str]) -> None:
    """Replace a file by a table of the records; its suffix says which kind. `fields` come first, in their order.

    Raises:
        FileWriteError: it cannot be written; what was there is still there.
    """
    rows = [row_of(record) for record in records]
    named = [*PLACE, *(_column(name) for name in fields), *(name for row in rows for name in row)]
    replace(path, WRITERS[path.suffix](list(dict.fromkeys(named)), rows))


def row_of(record: Record[Any]) -> Row:
    """Where a record came from, and its fields, as JSON values; what is no object is the field ``value``.

    A field that is called as a part of the place gets an underscore.

    >>> row_of(Record("a.md", 3, ("A", "B"), {"line": "one"}))
    {'file': 'a.md', 'line': 3, 'headings': ['A', 'B'], 'line_': 'one'}
    """
    from pydantic_core import to_jsonable_python

    value = to_jsonable_python(record.value, by_alias=False)
    fields = value if isinstance(value, dict) else {"value": value}
    place = {"file": shown(record.file), "line": record.line, "headings": list(record.headings)}
    return place | {_column(name): field for name, field in fields.items()}


def json_line(record: Record[Any]) -> str:
    """A record as a line of JSON."""
    return json.dumps(row_of(record), ensure_ascii=False) + "\n"


def _column(name: str) -> str:
    return f"{name}_" if name.rstrip("_") in PLACE else name


# -- kinds of table --------------------------------------------------------------------------------


def _jsonl(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    cells = [row | {"headings": " > ".join(row["headings"])} for row in rows]
    return csv_text(columns, [[row.get(name) for name in columns] for row in cells]).encode()


def _parquet(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    def write(table: Any) -> bytes:
        out = io.BytesIO()
        parquet.write_table(table, out)
        return out.getvalue()

    def array(name: str) -> Any:
        values = [row.get(name) for row in rows]
        try:
            found = pyarrow.array(values)
            write(pyarrow.table({name: found}))
        except (pyarrow.ArrowException, OverflowError):  # of several kinds, or empty objects: as JSON text
            return pyarrow.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in values])
        return found

    return write(pyarrow.table({name: array(name) for name in columns}))


WRITERS: dict[str, Callable[[Sequence[str], Sequence[Row]], bytes]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
_KINDS = ", ".join(WRITERS)
