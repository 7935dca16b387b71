"""Every check passes what it should, and says why if it does not."""

from __future__ import annotations

from typing import Any

import pytest

from chatmd.refine.cases import CHECKS, Check, Criteria, RunOutcome, apply_score, verdict
from lmm.messages import ToolCall

CALLED = (ToolCall("c1", "read_file", "{}"),)
SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("kind", "value", "passes", "fails", "reason"),
    [
        ("contains", "Paris", RunOutcome("It is Paris."), RunOutcome("paris"), "it is: paris"),
        ("not_contains", "sorry", RunOutcome("Paris"), RunOutcome("I am sorry"), "it does"),
        ("regex", r"(?m)^\d+$", RunOutcome("so:\n42\n"), RunOutcome("42 or so"), "it is: 42 or so"),
        ("not_regex", r"\d", RunOutcome("none"), RunOutcome("a 1"), "it has '1'"),
        ("equals", "42", RunOutcome(" 42\n"), RunOutcome("42!"), "it is: 42!"),
        ("max_tokens", 5, RunOutcome("a", tokens=5), RunOutcome("a", tokens=6), "it has 6"),
        ("calls", "read_file", RunOutcome("", CALLED), RunOutcome(""), "it called nothing"),
        ("not_calls", "read_file", RunOutcome(""), RunOutcome("", CALLED), "it did"),
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
    (check,) = [Check(kind, one) for one in CHECKS[kind].read(value)]
    assert verdict(check, passes).passed
    assert verdict(check, passes).reason == ""
    found = verdict(check, fails)
    assert not found.passed
    assert reason in found.reason
    assert check.words in found.reason


@pytest.mark.parametrize("kind", [kind for kind in CHECKS if kind != "judge"])
def test_a_run_that_failed_fails_every_check(kind: str) -> None:
    """Even those that an empty reply would pass."""
    values = {"max_tokens": 5, "json_schema": {}}
    check = Check(kind, values.get(kind, "x"))
    assert verdict(check, RunOutcome("", error="it took longer than 3 s")).reason.endswith("it took longer than 3 s")


def test_the_judge_has_a_mark() -> None:
    (check,) = [Check("judge", one) for one in CHECKS["judge"].read({"criteria": "Polite.", "at_least": 5})]
    assert check.value == Criteria("Polite.", 5.0)
    assert apply_score(check, 5.0, "fine").passed
    assert "judged 4.5 of 10, 5 are needed: curt" in apply_score(check, 4.5, "curt").reason


def test_a_schema_fetches_nothing() -> None:
    """A reference to another schema is an error of the schema, not a request."""
    with pytest.raises(Exception, match="Unresolvable"):
        verdict(Check("json_schema", {"$ref": "http://127.0.0.1:9/schema.json"}), RunOutcome("{}"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("contains", True), ("contains", [""]), ("regex", "("), ("equals", ["a", "b"]), ("max_tokens", 0),
        ("max_tokens", "many"), ("json_schema", {"type": 5}), ("json_schema", []), ("judge", ""), ("judge", {"at": 3}),
        ("judge", {"criteria": "x", "at_least": 11}), ("calls", {}),
    ],
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"must|is no"):
        CHECKS[kind].read(value)
