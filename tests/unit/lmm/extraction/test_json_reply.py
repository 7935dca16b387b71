"""Which JSON in a reply counts; tests/property has what holds for any reply."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from growth import is_linear

from lmm.models.structured import NoJson, read_json


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ('I take [1] to mean {x}: {"a": 1}', [[1], {"a": 1}]),
        ('{"a": {"b": 1}} and {"c": 2}', [{"a": {"b": 1}}, {"c": 2}]),
        ('First\n```json\n{"a": 1}\n```\nthen\n```json\n{"a": 2}\n```', [{"a": 1}, {"a": 2}]),
        ('```json\n{"a": "```"}\n```', [{"a": "```"}]),
        ('```json\r\n{"a": 1}\r\n```\r\n', [{"a": 1}]),
        ('{"a": NaN} {"a": 1}', [{"a": 1}]),
    ],
)
def test_values_in_their_order(reply: str, values: list[Any]) -> None:
    """Fences come before the rest; thoughts do not count."""
    assert read_json(reply) == values


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "there is no JSON in it"),
        ("Sorry, no.", "there is no JSON in it"),
        ('{"a": {"b": 1}, "c"', "the JSON breaks at line 1, column 20: Expecting ':' delimiter"),
        ('[{"a": 1},\n {"a": 2}', "the JSON breaks at line 2, column 10: Expecting ',' delimiter"),
        ("{'a': 1}", "the JSON breaks at line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"a": {"b": 1}, "c": NaN}', "a value that is not allowed"),
        ('{"a": {"b": 1}, "c": 1e999}', "a value that is not allowed"),
        ('{"a": "\\ud800"}', "a value that is not allowed"),
        ("[" * 100_000, "the JSON is nested too deep"),
    ],
)
def test_a_part_of_broken_json_is_not_taken_for_the_whole(reply: str, reason: str) -> None:
    """What breaks off, or holds what JSON does not allow, gives no value; the reason says where."""
    with pytest.raises(NoJson) as caught:
        read_json(reply)
    assert reason in str(caught.value)


@pytest.mark.parametrize("piece", ["{", "{ ", '["x ', '{"a": "b", ', "```a\nx\n", "a {b} [c] ", "```json\n"])
def test_a_long_reply_without_json_is_read_once(piece: str) -> None:
    """The time grows with the length, not with its square: the event loop waits for it."""

    def read(text: str) -> None:
        with suppress(NoJson):
            read_json(text)

    assert is_linear(read, piece)
