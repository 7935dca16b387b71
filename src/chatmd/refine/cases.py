"""Files of cases: YAML, JSON or JSON lines; each case an input, and what the reply to it has to fulfil."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from chatmd.errors import InvalidCases
from lmm.errors import MetadataError, nearest
from lmm.markdown.yaml_core import compose, to_value
from lmm.messages import ToolCall, Usage
from lmm.models.structured import NoJson, read_json

PASS_MARK = 7.0
"""The score, from 0 to 10, from which a judged reply passes, if the case names none."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of one input: the last text, its `tokens`, all calls that were made, and what the run used.

    `error` tells why there is no text: a limit that was reached, a tool that could not be opened.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    tokens: int = 0
    usage: Usage = Usage()  # noqa: RUF009  # a frozen value
    error: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One demand: `kind` is a key of `CHECKS`, `value` what its reader made of it."""

    kind: str
    value: Any

    @property
    def words(self) -> str:
        """What is demanded, for people and models.

        >>> Check("contains", "Paris").words
        "must contain 'Paris'"
        """
        return CHECKS[self.kind].words.format(value=_shown(self.value))


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a judge goes by, in words, and the score that is needed."""

    text: str
    at_least: float = PASS_MARK


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check is fulfilled, and if not, why. `score` is a judge's, from 0 to 10."""

    check: Check
    passed: bool
    reason: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One row. `read` makes the values of a case's entry, each a check of its own, or raises ValueError.

    `fault` says what is wrong with an outcome; None where a model judges.
    """

    words: str
    read: Callable[[Any], list[Any]]
    fault: Callable[[Any, RunOutcome], str] | None


def verdict(check: Check, outcome: RunOutcome) -> CheckResult:
    """How an outcome fares, by a check that no model judges.

    >>> verdict(Check("contains", "Paris"), RunOutcome("Lyon")).reason
    "must contain 'Paris'; it is: Lyon"
    """
    fault = CHECKS[check.kind].fault
    if fault is None:
        raise ValueError(f"'{check.kind}' is for a model to judge")
    found = outcome.error or fault(check.value, outcome)
    return CheckResult(check, not found, f"{check.words}; {found}" if found else "")


def apply_score(check: Check, score: float, reason: str) -> CheckResult:
    """How an outcome fares by a judge's score."""
    passed = score >= check.value.at_least
    told = f"{check.words}; judged {score:g} of 10, {check.value.at_least:g} are needed: {reason}"
    return CheckResult(check, passed, "" if passed else told, score)


# -- reading -------------------------------------------------------------------------------------


def _texts(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, (str, int, float)) or str(one) == "":
            raise ValueError(f"must be a text, or a list of texts, not {one!r}")
    return [str(one) for one in values]


def _text(value: Any) -> list[Any]:
    if isinstance(value, list):
        raise ValueError("must be one text")
    return _texts(value)


def _patterns(value: Any) -> list[Any]:
    texts = _texts(value)
    for text in texts:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from error
    return texts


def _count(value: Any) -> list[Any]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number above 0")
    return [value]


def _schema(value: Any) -> list[Any]:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(value, dict):
        raise ValueError("must be a JSON schema, or the name of a file with one")
    try:
        validator_for(value).check_schema(value)
    except SchemaError as error:
        raise ValueError(f"is not a JSON schema: {error.message}") from error
    return [value]


def _all_criteria(value: Any) -> list[Any]:
    return [_criteria(one) for one in (value if isinstance(value, list) else [value])]


def _criteria(value: Any) -> Criteria:
    if isinstance(value, str) and value.strip():
        return Criteria(value.strip())
    if not isinstance(value, dict) or not isinstance(value.get("criteria"), str) or value.keys() - {
        "criteria", "at_least",
    }:  # fmt: skip
        raise ValueError("must be a text with criteria, or 'criteria' and 'at_least'")
    mark = value.get("at_least", PASS_MARK)
    if isinstance(mark, bool) or not isinstance(mark, (int, float)) or not 0 <= mark <= 10:
        raise ValueError("'at_least' must be a number from 0 to 10")
    return Criteria(value["criteria"].strip(), float(mark))


# -- testing -------------------------------------------------------------------------------------


def _is(outcome: RunOutcome) -> str:
    text = " ".join(outcome.text.split())
    return f"it is: {text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}" if text else "it is empty"


def _contains(text: str, outcome: RunOutcome) -> str:
    return "" if text in outcome.text else _is(outcome)


def _not_contains(text: str, outcome: RunOutcome) -> str:
    return "it does" if text in outcome.text else ""


def _regex(pattern: str, outcome: RunOutcome) -> str:
    return "" if re.search(pattern, outcome.text) else _is(outcome)


def _not_regex(pattern: str, outcome: RunOutcome) -> str:
    found = re.search(pattern, outcome.text)
    return f"it has '{found[0][:_SHOWN]}'" if found else ""


def _equals(text: str, outcome: RunOutcome) -> str:
    return "" if outcome.text.strip() == text.strip() else _is(outcome)


def _max_tokens(most: int, outcome: RunOutcome) -> str:
    return f"it has {outcome.tokens:,}" if outcome.tokens > most else ""


def _calls(name: str, outcome: RunOutcome) -> str:
    called = ", ".join(dict.fromkeys(call.name for call in outcome.calls)) or "nothing"
    return "" if any(call.name == name for call in outcome.calls) else f"it called {called}"


def _not_calls(name: str, outcome: RunOutcome) -> str:
    return "it did" if any(call.name == name for call in outcome.calls) else ""


def _json_schema(schema: dict[str, Any], outcome: RunOutcome) -> str:
    """The JSON in the reply fits, whatever text is around it; nothing is fetched to find that out."""
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    try:
        values = read_json(outcome.text)
    except NoJson as error:
        return str(error)
    validator = validator_for(schema)(schema, registry=EMPTY_REGISTRY)
    faults = [next(iter(validator.iter_errors(value)), None) for value in values]
    if any(fault is None for fault in faults):
        return ""
    fault = next(fault for fault in faults if fault is not None)
    return f"{fault.json_path}: {fault.message[: 2 * _SHOWN]}"


CHECKS: dict[str, CheckKind] = {
    "contains": CheckKind("must contain '{value}'", _texts, _contains),
    "not_contains": CheckKind("must not contain '{value}'", _texts, _not_contains),
    "regex": CheckKind("must fit the regular expression {value}", _patterns, _regex),
    "not_regex": CheckKind("must not fit the regular expression {value}", _patterns, _not_regex),
    "equals": CheckKind("must be '{value}'", _text, _equals),
    "json_schema": CheckKind("must contain JSON that fits {value}", _schema, _json_schema),
    "max_tokens": CheckKind("must have at most {value} tokens", _count, _max_tokens),
    "calls": CheckKind("must call the tool {value}", _texts, _calls),
    "not_calls": CheckKind("must not call the tool {value}", _texts, _not_calls),
    "judge": CheckKind("must meet these criteria: {value}", _all_criteria, None),
}


def _shown(value: Any) -> str:
    if isinstance(value, Criteria):
        return value.text
    return json.dumps(value, ensure_ascii=False)[:400] if isinstance(value, dict) else str(value)


_FIELDS = ("name", "input", "held_out")
Row = tuple[int, Any]


# -- A case and the forms of files ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """`held_out` says whether proposals may be made from this case; None leaves that to chance."""

    name: str
    input: str
    checks: tuple[Check, ...]
    held_out: bool | None = None

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
        case = _read_case(row, f"case {len(cases) + 1}", f"{name}:{line}", load)
        if any(other.name == case.name for other in cases):
            raise InvalidCases(f"there are two cases named '{case.name}'", where=f"{name}:{line}", hint="rename one")
        cases.append(case)
    if not cases:
        raise InvalidCases("there is no case in this file", where=name, hint="write: - input: …, and what to check")
    return tuple(cases)


def _read_case(row: Any, default: str, where: str, load: LoadSchema = _no_file) -> Case:
    """A case out of its row.

    Raises:
        InvalidCases: an unknown key, a value of the wrong kind, no input, or nothing to check.
    """
    if not isinstance(row, dict):
        raise InvalidCases("a case is a mapping with 'input'", where=where, hint="write: - input: …")
    for key in row:
        if key not in _FIELDS and key not in CHECKS:
            raise InvalidCases(f"unknown key '{key}'", where=where, hint=nearest(str(key), (*_FIELDS, *CHECKS)))
    given, name, held_out = row.get("input"), row.get("name", default), row.get("held_out")
    if not isinstance(given, (str, int, float)) or isinstance(given, bool) or not str(given).strip():
        raise InvalidCases("this case has no input", where=where, hint="write what the user says: input: …")
    if held_out is not None and not isinstance(held_out, bool):
        raise InvalidCases("'held_out' must be true or false", where=where, hint="leave it out to decide at random")
    if isinstance(row.get("json_schema"), str):
        row = row | {"json_schema": _loaded_schema(row["json_schema"], where, load)}
    checks = tuple(check for kind, value in row.items() if kind in CHECKS for check in _checks(kind, value, where))
    if not checks:
        raise InvalidCases("this case checks nothing", where=where, hint=f"add one of {', '.join(CHECKS)}")
    return Case(" ".join(str(name).split()) or default, str(given), checks, held_out)


def _checks(kind: str, value: Any, where: str) -> list[Check]:
    try:
        return [Check(kind, one) for one in CHECKS[kind].read(value)]
    except ValueError as error:
        raise InvalidCases(f"'{kind}' {error}", where=where, hint="see docs/refine.md") from error


def _loaded_schema(name: str, where: str, load: LoadSchema) -> Any:
    try:
        return load(name)
    except ValueError as error:
        raise InvalidCases(f"'json_schema' {error}", where=where, hint="use a file beside the cases") from error


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
