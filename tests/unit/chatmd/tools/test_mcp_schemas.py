"""Schemas of MCP tools: what providers get, and that what a strict model writes still fits the server's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema.validators import Draft202012Validator

from chatmd.errors import ChatmdError
from chatmd.tools.mcp import accepted, strict, without_nulls

TEXT = {"type": "string"}
NULL = {"anyOf": [TEXT, {"type": "null"}]}
leaves = st.sampled_from([TEXT, {"type": "integer"}, NULL, {"type": ["string", "null"]}, {"enum": ["a", None]}])


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of objects, some of whose properties are required."""

    @st.composite
    def made(draw: st.DrawFn) -> dict[str, Any]:
        properties = draw(st.dictionaries(st.sampled_from("abcd"), inner, min_size=1))
        required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
        return {"type": "object", "properties": properties, "required": required}

    return made()


schemas = objects(
    st.recursive(leaves, lambda inner: st.one_of(objects(inner), inner.map(lambda s: {"type": "array", "items": s})))
)


def values(draw: st.DrawFn, schema: Any) -> Any:
    """What a model might write for a strict schema."""
    if "anyOf" in schema:
        return values(draw, draw(st.sampled_from(schema["anyOf"])))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema["type"] if isinstance(schema["type"], str) else draw(st.sampled_from(schema["type"]))
    if kind == "object":
        return {name: values(draw, each) for name, each in schema["properties"].items()}
    if kind == "array":
        return [values(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
    return {"string": "x", "integer": 3, "null": None}[kind]


@given(st.data(), schemas)
def test_what_fits_the_strict_schema_fits_the_server(data: st.DataObject, schema: dict[str, Any]) -> None:
    """Nulls that stand for "left out" are left out, at any depth; those that the server knows stay."""
    given_schema = accepted(schema)
    shown = strict(given_schema)
    value = data.draw(st.composite(values)(shown))
    assert Draft202012Validator(shown).is_valid(value)
    assert Draft202012Validator(given_schema).is_valid(without_nulls(value, given_schema))


def nodes(schema: Any) -> list[Any]:
    found = [schema] if isinstance(schema, dict) else []
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return found + [node for each in inner for node in nodes(each)]


@given(schemas)
def test_strict_schemas_are_as_providers_want_them(schema: dict[str, Any]) -> None:
    """Every object lists all its properties as required, and allows no others."""
    for node in nodes(strict(accepted(schema))):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])


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
    """A server may send nonsense: the model is still told of an object, and nothing outside is referred to."""
    try:
        made = accepted(schema)
    except (AttributeError, TypeError) as error:
        pytest.fail(f"raised {error!r}")
    assert made["type"] == "object"
    assert isinstance(made["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & set(made)


def test_references_outside_are_dropped_and_those_inside_kept() -> None:
    """Nobody shall fetch anything because a server's schema says so."""
    schema = {
        "properties": {"a": {"$ref": "http://127.0.0.1/s"}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "object", "properties": {"c": TEXT}}},
    }
    made = accepted(schema)
    assert made["properties"] == {"a": {}, "b": {"$ref": "#/$defs/b"}}
    assert without_nulls({"b": {"c": None}}, made) == {"b": {}}


@pytest.mark.parametrize("inner", [{"type": "object"}, {"type": "object", "additionalProperties": TEXT}])
def test_an_object_of_any_properties_cannot_be_strict(inner: dict[str, Any]) -> None:
    """That is said, with where it is; nothing else is put in its place."""
    with pytest.raises(ChatmdError, match="'/filters'"):
        strict(accepted({"properties": {"filters": inner}}))


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    """As trees do."""
    tree = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": TEXT}, "type": "object"}
    assert without_nulls({"children": [{"name": None}]}, accepted(tree)) == {"children": [{}]}
