"""Files of cases in YAML or JSON; each case has an input, and checks for the reply to it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chatmd.errors import InvalidCases
from lmm.disk.files import read_document
from lmm.errors import LmmError, MetadataError, nearest
from lmm.markdown.yaml_core import compose, to_value
from lmm.messages import ToolCall, Usage
from lmm.models.structured import Mismatch, NoJson, Schema, make_schema, valid_records

PASS_MARK = 7.0
"""The score, from 0 to 10, from which a judged reply passes."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of one input: the last text, its `tokens`, all calls, and the usage of the run.

    `error` is the reason if there is no text, such as a limit that was reached.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    tokens: int = 0
    usage: Usage = Usage()  # noqa: RUF009  # a frozen value
    error: str = ""

    def describe(self) -> str:
        """Describe the outcome in a few words.

        >>> RunOutcome("Paris, of  course", (ToolCall("c1", "look_up", "{}"),)).describe()
        'it is: Paris, of course; it called look_up'
        """
        text = " ".join(self.text.split())
        called = ", ".join(dict.fromkeys(call.name for call in self.calls))
        words = f"it is: {text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}" if text else "it is empty"
        return words + (f"; it called {called}" if called else "")


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a case: `kind` is a key of `CHECKS`, `value` its parsed argument."""

    kind: str
    value: Any

    @property
    def words(self) -> str:
        """The requirement in words, for people and models.

        >>> Check("contains", "Paris").words
        "must contain 'Paris'"
        """
        sent = json.dumps(self.value.sent, ensure_ascii=False)[:400] if isinstance(self.value, Schema) else self.value
        return CHECKS[self.kind].words.format(value=sent)

    def fault(self, outcome: RunOutcome) -> str:
        """Return why an outcome fails the check; empty if it passes. A judge's checks are not decided here.

        >>> Check("contains", "Paris").fault(RunOutcome("Lyon"))
        "must contain 'Paris'; it is: Lyon"
        """
        found = CHECKS[self.kind].fault(self.value, outcome)
        return f"{self.words}; {found}" if found else ""


@dataclass(frozen=True, slots=True)
class CheckKind:
    """A kind of check: `read` parses its argument, or raises ValueError; `fault` returns why an outcome fails."""

    words: str
    read: Callable[[Any], Any]
    fault: Callable[[Any, RunOutcome], str] = lambda value, outcome: ""


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise ValueError(f"must be a text, not {value!r}")
    return str(value)


def _pattern(value: Any) -> str:
    try:
        return re.compile(_text(value)).pattern
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number above 0")
    return value


def _schema(value: Any) -> Schema:
    if not isinstance(value, dict):
        raise ValueError("must be a JSON schema, or the name of a file with one")
    try:
        return make_schema(value)
    except LmmError as error:
        raise ValueError(error.message.replace("this is", "is", 1)) from error


def _misfit(schema: Schema, outcome: RunOutcome) -> str:
    """Return why the JSON in a reply, with or without text around it, does not fit a schema."""
    try:
        valid_records(outcome.text, schema)
    except NoJson as error:
        return str(error)
    except Mismatch as error:
        return str(error).removeprefix("- ").partition("\n")[0][: 4 * _SHOWN]
    return ""


Condition = Callable[[Any, RunOutcome], bool]


def _kinds(name: str, verb: str, read: Callable[[Any], Any], is_met: Condition) -> Iterator[tuple[str, CheckKind]]:
    """Iterate over a kind of check and its negation."""
    yield name, CheckKind(f"must {verb}", read, lambda one, came: "" if is_met(one, came) else came.describe())
    yield f"not_{name}", CheckKind(f"must not {verb}", read, lambda one, came: came.describe() * is_met(one, came))


CHECKS: dict[str, CheckKind] = {
    **dict(_kinds("contains", "contain '{value}'", _text, lambda text, came: text in came.text)),
    **dict(_kinds("regex", "fit the regular expression {value}", _pattern,
                  lambda pattern, came: re.search(pattern, came.text) is not None)),
    **dict(_kinds("equals", "be '{value}'", _text, lambda text, came: came.text.strip() == text.strip())),
    **dict(_kinds("calls", "call the tool {value}", _text,
                  lambda name, came: any(call.name == name for call in came.calls))),
    "json_schema": CheckKind("must contain JSON that fits {value}", _schema, _misfit),
    "max_tokens": CheckKind("must have at most {value} tokens", _count,
                            lambda most, came: f"it has {came.tokens:,}" if came.tokens > most else ""),
    "judge": CheckKind("must meet these criteria: {value}", _text),
}  # fmt: skip
_FIELDS = ("name", "input", *CHECKS)
SUFFIXES = (".yaml", ".yml", ".json")


# -- Read files of cases --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A case: a user message, and the checks of the reply."""

    name: str
    input: str
    checks: tuple[Check, ...]


def read_cases(path: Path) -> tuple[Case, ...]:
    """Read the cases in a file, and the schemas that they name, from files beside it.

    Raises:
        InvalidCases: it is not a file of cases, or a case is not valid.
        FileReadError: it cannot be read.
    """
    cases = dict[str, Case]()
    for line, row in _rows(path, read_document(path).removeprefix("\ufeff")):
        case = _case(row, f"case {len(cases) + 1}", f"{path}:{line}", path.parent)
        if case.name in cases:
            raise InvalidCases(f"there are two cases named '{case.name}'", where=f"{path}:{line}", hint="rename one")
        cases[case.name] = case
    if not cases:
        hint = "write: - input: …, and what to check"
        raise InvalidCases("there is no case in this file", where=str(path), hint=hint)
    return tuple(cases.values())


def _rows(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """Iterate over the cases as written, with their lines."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidCases("this is not a file of cases", where=str(path), hint=f"use {', '.join(SUFFIXES)}")
    try:
        root = json.loads(text) if path.suffix.lower() == ".json" else compose(text)
        if isinstance(root, yaml.SequenceNode):
            yield from [(node.start_mark.line + 1, to_value(node)) for node in root.value]
            return
    except (MetadataError, ValueError, RecursionError) as error:
        where = f"{path}:{getattr(error, 'line', getattr(error, 'lineno', 1))}"
        what = f"this cannot be read: {getattr(error, 'message', error)}"
        raise InvalidCases(what, where=where, hint="check brackets, commas and quotes") from error
    if not isinstance(root, list):
        raise InvalidCases("a file of cases is a list of them", where=str(path), hint="write: - input: …")
    yield from ((1, row) for row in root)


def _case(row: Any, default: str, where: str, folder: Path) -> Case:
    if not isinstance(row, dict):
        raise InvalidCases("a case is a mapping with 'input'", where=where, hint="write: - input: …")
    for key in row:
        if key not in _FIELDS:
            raise InvalidCases(f"unknown key '{key}'", where=where, hint=nearest(str(key), _FIELDS))
    if row.get("input") in (None, ""):
        raise InvalidCases("this case has no input", where=where, hint="write what the user says: input: …")
    checks, kind = list[Check](), "input"
    try:
        input = _text(row["input"])
        for kind in (key for key in row if key in CHECKS):
            values = row[kind] if isinstance(row[kind], list) else [row[kind]]
            if kind == "json_schema":
                values = [_loaded(value, folder) if isinstance(value, str) else value for value in values]
            checks += [Check(kind, CHECKS[kind].read(value)) for value in values]
    except ValueError as error:
        raise InvalidCases(f"'{kind}' {error}", where=where, hint="see docs/refine.md") from error
    if not checks:
        raise InvalidCases("this case checks nothing", where=where, hint=f"add one of {', '.join(CHECKS)}")
    return Case(" ".join(str(row.get("name", default)).split()) or default, input, tuple(checks))


def _loaded(name: str, folder: Path) -> Any:
    try:
        return json.loads(read_document(folder / name))
    except (LmmError, ValueError) as error:
        raise ValueError(f"names a file beside the cases that is not JSON: {error}") from error
