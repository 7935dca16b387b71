"""Files of cases: YAML, JSON or JSON lines; each case an input, and what the reply to it has to fulfil."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from chatmd.errors import InvalidCases
from chatmd.refine.checks import CHECKS, Check
from lmm.errors import MetadataError
from lmm.markdown.yaml_core import compose, to_value

_FIELDS = ("name", "input", "held_out")
Row = tuple[int, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """`held_out` says whether proposals may be made from this case; None leaves that to chance.

    `row` is the case as it was read, for the record.
    """

    name: str
    input: str
    checks: tuple[Check, ...]
    held_out: bool | None = None
    row: Mapping[str, Any] | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a model has to judge the reply."""
        return any(check.kind == "judge" for check in self.checks)


LoadSchema = Callable[[str], Any]
"""The JSON in the file that a case names as its schema; raises ValueError."""


def _no_file(name: str) -> Any:
    raise ValueError("must be a JSON schema here, not the name of a file")


def parse_cases(text: str, kind: str, *, name: str, load: LoadSchema = _no_file) -> tuple[Case, ...]:
    """The cases of a file's text; `kind` is a suffix of `READERS`, `name` stands for the file in messages.

    `load` reads the files with JSON schemas that cases name.

    Raises:
        InvalidCases: it is no such file, or a case cannot be used; the first one that cannot.

    >>> (case,) = parse_cases("- {input: How many?, contains: [4, four], judge: Is polite.}", ".yaml", name="c.yaml")
    >>> case.name, case.input, [check.kind for check in case.checks]
    ('case 1', 'How many?', ['contains', 'contains', 'judge'])
    """
    cases: list[Case] = []
    for line, row in READERS[kind](text.removeprefix("\ufeff"), name):
        case = read_case(row, f"case {len(cases) + 1}", f"{name}:{line}", load)
        if any(other.name == case.name for other in cases):
            raise InvalidCases(f"there are two cases named '{case.name}'", where=f"{name}:{line}", hint="rename one")
        cases.append(case)
    if not cases:
        raise InvalidCases("there is no case in this file", where=name, hint="write: - input: …, and what to check")
    return tuple(cases)


def read_case(row: Any, default: str, where: str, load: LoadSchema = _no_file) -> Case:
    """A case out of its row.

    Raises:
        InvalidCases: an unknown key, a value of the wrong kind, no input, or nothing to check.
    """
    if not isinstance(row, dict):
        raise InvalidCases("a case is a mapping with 'input'", where=where, hint="write: - input: …")
    for key in row:
        if key not in _FIELDS and key not in CHECKS:
            close = difflib.get_close_matches(str(key), (*_FIELDS, *CHECKS), n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join((*_FIELDS, *CHECKS))}"
            raise InvalidCases(f"unknown key '{key}'", where=where, hint=hint)
    given, name, held_out = row.get("input"), row.get("name", default), row.get("held_out")
    if not isinstance(given, (str, int, float)) or isinstance(given, bool) or not str(given).strip():
        raise InvalidCases("this case has no input", where=where, hint="write what the user says: input: …")
    if held_out is not None and not isinstance(held_out, bool):
        raise InvalidCases("'held_out' must be true or false", where=where, hint="leave it out to leave it to chance")
    if isinstance(row.get("json_schema"), str):
        row = row | {"json_schema": _loaded_schema(row["json_schema"], where, load)}
    checks = tuple(check for kind, value in row.items() if kind in CHECKS for check in _checks(kind, value, where))
    if not checks:
        raise InvalidCases("this case checks nothing", where=where, hint=f"add one of {', '.join(CHECKS)}")
    return Case(" ".join(str(name).split()) or default, str(given), checks, held_out, row)


def _checks(kind: str, value: Any, where: str) -> list[Check]:
    try:
        return [Check(kind, one) for one in CHECKS[kind].read(value)]
    except ValueError as error:
        raise InvalidCases(f"'{kind}' {error}", where=where, hint="see docs/refine.md") from error


def _loaded_schema(name: str, where: str, load: LoadSchema) -> Any:
    try:
        return load(name)
    except ValueError as error:
        raise InvalidCases(f"'json_schema' {error}", where=where, hint="name a file beside the cases") from error


def repeated(cases: tuple[Case, ...], times: int) -> tuple[Case, ...]:
    """Each case so many times, told apart by their names."""
    return tuple(
        replace(case, name=f"{case.name} #{n}") if n > 1 else case for case in cases for n in range(1, times + 1)
    )


# -- the forms of files --------------------------------------------------------------------------


def _jsonl(text: str, name: str) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, _loaded(line, f"{name}:{number}")


def _json(text: str, name: str) -> Iterator[Row]:
    value = _loaded(text, name)
    rows = value.get("cases") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise InvalidCases("a file of cases is a list of them", where=name, hint='write [{"input": "…"}]')
    yield from ((1, row) for row in rows)


def _loaded(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidCases(f"not JSON: {error}", where=where, hint="check brackets, commas and quotes") from error


def _yaml(text: str, name: str) -> Iterator[Row]:
    try:
        root = compose(text)
        if isinstance(root, yaml.MappingNode):
            root = next((value for key, value in root.value if key.value == "cases"), None)
        if not isinstance(root, yaml.SequenceNode):
            raise InvalidCases("a file of cases is a list of them", where=name, hint="write: - input: …")
        rows = [(node.start_mark.line + 1, to_value(node)) for node in root.value]
    except MetadataError as error:
        raise InvalidCases(f"not YAML: {error.message}", where=f"{name}:{error.line}", hint=error.hint) from error
    yield from rows


READERS: dict[str, Callable[[str, str], Iterator[Row]]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".jsonl": _jsonl,
    ".json": _json,
}
