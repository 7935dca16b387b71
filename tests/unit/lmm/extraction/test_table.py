"""Records as rows, in every kind of table."""

from __future__ import annotations

import csv
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from lmm.errors import ConfigError, FileWriteError
from lmm.extraction import Record, check_output, json_lines, row_of, save_records


class Colour(str, Enum):  # noqa: UP042  # the kind that does not print as its value
    """A text that does not print as itself."""

    GREEN = "green"


class Leaf(BaseModel):
    """A record of every kind of value."""

    colour: Colour = Colour.GREEN
    veins: list[int] = [1, 2]
    size: dict[str, float] = {"length": 1.5}
    note: str | None = None
    odd: str = 'a "quoted", long\nnote'
    alive: bool = True


RECORDS: list[Record[Any]] = [
    Record("a.md", 3, ("A", "B"), Leaf()),
    Record("b.md", 1, (), {"colour": "red", "more": 1}),
]
FIELDS = tuple(Leaf.model_fields)


def test_json_lines(tmp_path: Path) -> None:
    """A line per record, each with its own fields."""
    path = tmp_path / "out.jsonl"
    save_records(path, RECORDS, FIELDS)
    first, second = map(json.loads, path.read_text().splitlines())
    checked: dict[str, Any] = {"lines": {}, "unfound": []}
    assert first == {"file": "a.md", "line": 3, "headings": ["A", "B"], **Leaf().model_dump(mode="json")} | checked
    assert second == {"file": "b.md", "line": 1, "headings": [], "colour": "red", "more": 1} | checked
    assert path.read_text() == json_lines(map(row_of, RECORDS))


def test_csv(tmp_path: Path) -> None:
    """The schema's columns first; text as it is, nested values as JSON, nothing for null and what is missing."""
    path = tmp_path / "out.csv"
    save_records(path, RECORDS, FIELDS)
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert list(first) == ["file", "line", "headings", *FIELDS, "more", "lines", "unfound"]
    assert first == {
        "file": "a.md", "line": "3", "headings": "A > B", "colour": "green", "veins": "[1, 2]",
        "size": '{"length": 1.5}', "note": "", "odd": 'a "quoted", long\nnote', "alive": "true", "more": "",
        "lines": "", "unfound": "",
    }  # fmt: skip
    assert (second["headings"], second["colour"], second["veins"], second["more"]) == ("", "red", "", "1")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_table_without_records_has_its_columns(tmp_path: Path, suffix: str) -> None:
    """So that the next program finds them."""
    path = tmp_path / f"out{suffix}"
    save_records(path, [], ("a",))
    if suffix == ".csv":
        assert path.read_text() == "file,line,headings,a,lines,unfound\n"
    assert path.exists()


def test_fields_cannot_hide_the_place() -> None:
    """A field called as a part of the place gets an underscore, also if that makes it another's name."""
    row = row_of(Record("a.md", 3, (), {"file": 1, "file_": 2, "headings": 3}))
    assert row == {"file": "a.md", "line": 3, "headings": [], "file_": 1, "file__": 2, "headings_": 3} | {
        "lines": {}, "unfound": []
    }  # fmt: skip


@pytest.mark.parametrize("value", ["text", 3, None, [1], Colour.GREEN])
def test_what_is_no_object_is_the_field_value(value: Any) -> None:
    """Also values of a list schema may be plain."""
    assert row_of(Record("", 1, (), value))["value"] == value


@pytest.mark.parametrize("name", ["out.xlsx", "out", "no/such/out.csv"])
def test_an_output_that_cannot_be_written_is_refused_early(tmp_path: Path, name: str) -> None:
    """An unknown kind, a missing folder."""
    with pytest.raises(ConfigError):
        check_output(tmp_path / name)


def test_a_read_only_output_is_refused_early(tmp_path: Path) -> None:
    """Before a model is paid."""
    path = tmp_path / "out.csv"
    path.touch(0o444)
    with pytest.raises(FileWriteError, match="read-only"):
        check_output(path)
