"""Files of cases: how they are read, errors for invalid ones, and the outcome of each check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatmd.errors import InvalidCases
from chatmd.refine.cases import CHECKS, Case, Check, RunOutcome, read_cases
from lmm.errors import LmmError
from lmm.messages import ToolCall

YAML = """
- name: france
  input: Capital of France?
  contains: [Paris, "on the Seine", 🌳]
  max_tokens: 20
- input: |
    Two
    lines
  equals: yes
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read the cases of a text, in a file of that kind."""

    def read(text: str, kind: str = ".yaml") -> tuple[Case, ...]:
        (path := tmp_path / f"c{kind}").write_text(text)
        return read_cases(path)

    return read


def test_the_forms_agree(read: Any) -> None:
    """YAML and JSON."""
    cases = read(YAML)
    assert [case.name for case in cases] == ["france", "case 2"]
    assert cases[1].input == "Two\nlines\n"
    assert cases[1].checks[0].value == "yes"  # YAML 1.2: a word is a word
    rows = [{"name": "france", "input": "Capital of France?", "contains": ["Paris", "on the Seine", "🌳"],
             "max_tokens": 20}, {"input": "Two\nlines\n", "equals": "yes"}]  # fmt: skip
    assert read("\ufeff" + json.dumps(rows, indent="\t"), ".json") == cases


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", ".yaml", "a file of cases is a list"),
        ("[]", ".json", "there is no case"),
        ("{}", ".json", "a file of cases is a list"),
        ("- input: a\n", ".txt", "this is not a file of cases"),
        ("- input: a\n  equal: b\n", ".yaml", "yaml:1: unknown key 'equal' .did you mean 'equals'"),
        ("- {input: a, equals: b}\n- input: a\n", ".yaml", "yaml:2: this case checks nothing"),
        ("- equals: b\n", ".yaml", "yaml:1: this case has no input"),
        ("- {input: [a], equals: b}\n", ".yaml", "yaml:1: 'input' must be a text, not \\['a'\\]"),
        ("- {input: a, json_schema: {type: text}}\n", ".yaml", "'json_schema' is not a JSON schema: .*'text' is"),
        ("- just text\n", ".yaml", "yaml:1: a case is a mapping"),
        ("- {input: a, regex: '('}\n", ".yaml", "yaml:1: 'regex' is not a regular expression"),
        ("- {name: a, input: a, equals: b}\n- {name: a, input: a, equals: b}\n", ".yaml", "yaml:2: there are two"),
        ("- {input: a, json_schema: s.json}\n", ".yaml", "'json_schema' names a file"),
        ('[\n{"input": "a"\n', ".json", "json:3: this cannot be read: Expecting"),
        ("- [\n", ".yaml", "yaml:2: this cannot be read"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(read: Any, text: str, kind: str, message: str) -> None:
    with pytest.raises(InvalidCases, match=message):
        read(text, kind)


CALLED = (ToolCall("c1", "read_file", "{}"),)
SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("kind", "value", "passes", "fails", "reason"),
    [
        ("contains", "Paris", RunOutcome("It is Paris."), RunOutcome("paris"), "it is: paris"),
        ("not_contains", "sorry", RunOutcome("Paris"), RunOutcome("I am sorry"), "it is: I am sorry"),
        ("regex", r"(?m)^\d+$", RunOutcome("so:\n42\n"), RunOutcome("42 or so"), "it is: 42 or so"),
        ("not_regex", r"\d", RunOutcome("none"), RunOutcome("a 1"), "it is: a 1"),
        ("equals", 42, RunOutcome(" 42\n"), RunOutcome("42!"), "it is: 42!"),
        ("max_tokens", 5, RunOutcome("a", tokens=5), RunOutcome("a", tokens=6), "it has 6"),
        ("calls", "read_file", RunOutcome("", CALLED), RunOutcome(""), "it is empty"),
        ("not_calls", "read_file", RunOutcome(""), RunOutcome("", CALLED), "it called read_file"),
        (
            "json_schema",
            SCHEMA,
            RunOutcome('```json\n{"city": "Rome"}\n```'),
            RunOutcome('{"city": 1}'),
            "$.city: 1 is not",
        ),
        ("json_schema", SCHEMA, RunOutcome('{"city": "Rome"}'), RunOutcome("Rome"), "there is no JSON"),
    ],
)
def test_checks(kind: str, value: Any, passes: RunOutcome, fails: RunOutcome, reason: str) -> None:
    """Every check passes the right outcomes, and gives a reason for the others."""
    check = Check(kind, CHECKS[kind].read(value))
    assert check.fault(passes) == ""
    assert check.fault(fails).startswith(check.words)
    assert reason in check.fault(fails)


def test_a_list_passes_in_the_form_that_is_told() -> None:
    """The proposer's schema has the list under a key, as it is sent to models; a bare list passes, too."""
    check = Check("json_schema", CHECKS["json_schema"].read({"type": "array", "items": {"type": "string"}}))
    assert '"records": {"type": "array"' in check.words
    assert check.fault(RunOutcome('{"records": ["Rome"]}')) == ""
    assert check.fault(RunOutcome('["Rome"]')) == ""
    assert "$[0]: 1 is not" in check.fault(RunOutcome('{"records": [1]}'))


def test_a_schema_fetches_nothing() -> None:
    """A reference to another schema is an error of the schema, not a request."""
    check = Check("json_schema", CHECKS["json_schema"].read({"$ref": "http://127.0.0.1:9/schema.json"}))
    with pytest.raises(LmmError, match="refers to something that is not in it"):
        check.fault(RunOutcome("{}"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("contains", True), ("contains", ""), ("regex", "("), ("equals", ["a"]), ("max_tokens", 0), ("calls", {}),
        ("max_tokens", "many"), ("json_schema", {"type": 5}), ("json_schema", []), ("judge", ""), ("judge", {"at": 3}),
    ],
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"must|is no"):
        CHECKS[kind].read(value)
