"""Schemas of MCP tools, converted for providers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from chatmd.tools.mcp import accept_schema

TEXT = {"type": "string"}

anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "allOf", "$ref", "$defs", "required", "enum", "x", "not"]
            ),
            inner,
            max_size=4,
        ),
    ),
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "oneOf", "$ref", "$defs", "not"]), anything))
def test_whatever_a_server_says_comes_out_as_an_object(schema: dict[str, Any]) -> None:
    """Even an invalid schema becomes an object, without references to other documents."""
    try:
        made = accept_schema(schema)
    except (AttributeError, TypeError) as error:
        pytest.fail(f"raised {error!r}")
    assert made["type"] == "object"
    assert isinstance(made["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & set(made)


def test_references_outside_are_dropped_and_those_inside_kept() -> None:
    """A server's schema must not cause a request."""
    schema = {
        "properties": {"a": {"$ref": "http://127.0.0.1/s"}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "object", "properties": {"c": TEXT}}},
    }
    made = accept_schema(schema)
    assert made["properties"] == {"a": {}, "b": {"$ref": "#/$defs/b"}}
