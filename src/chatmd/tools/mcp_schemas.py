"""JSON schemas of MCP tools as language models accept them.

Servers may describe arguments by any JSON schema; providers take less. What a provider would not understand is
left out: the server itself checks what it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chatmd.errors import ChatmdError

Schema = Mapping[str, Any]
# At the top, providers want an object, and nothing that combines schemas.
_COMBINE = ("oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 40
_DROPPED = object()
# Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LIST = (*_BRANCHES, "prefixItems")
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")


def accepted(schema: Schema) -> dict[str, Any]:
    """The schema of a tool's arguments: of type object, with properties, and with references into itself only.

    >>> accepted({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})
    {'type': 'object', 'properties': {}}
    >>> accepted({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]})
    {'type': 'object', 'properties': {'a': {}, 'b': {}}}
    """
    whole = _local(schema)
    properties: dict[str, Any] = {}
    for branch in _branches(whole, whole):
        properties |= branch.get("properties") or {}
    top = {key: value for key, value in whole.items() if key not in (*_COMBINE, "$schema", "$id", "$ref")}
    return top | {"type": "object", "properties": properties | (top.get("properties") or {})}


def strict(schema: Schema) -> dict[str, Any]:
    """An `accepted` schema as strict modes want it: all properties required, no others; optional ones may be null.

    Raises:
        ChatmdError: there are objects in it whose properties are not listed.

    >>> strict({"type": "object", "properties": {"a": {"type": "string"}}})["properties"]["a"]
    {'anyOf': [{'type': 'string'}, {'type': 'null'}]}
    """
    made: dict[str, Any] = _strict(schema, schema, "")
    return made


def without_nulls(value: Any, schema: Schema) -> Any:
    """Arguments that fit `strict` of a schema, as they fit the schema: nulls that stand for nothing are left out.

    >>> without_nulls({"a": None, "b": 1}, {"properties": {"a": {"type": "string"}, "b": {}}})
    {'b': 1}
    """
    return _without_nulls(value, [schema], schema)


# -- the parts ------------------------------------------------------------------------------------


def _local(schema: Any, depth: int = 0) -> Any:
    """A copy without references that lead elsewhere, which nobody shall fetch, and without what is no schema."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {}
    parts = ((key, _local_part(key, value, depth + 1)) for key, value in schema.items())
    return {key: value for key, value in parts if value is not _DROPPED}


def _local_part(key: str, value: Any, depth: int) -> Any:
    if key in _NAMED:
        return {name: _local(each, depth) for name, each in value.items()} if isinstance(value, Mapping) else _DROPPED
    if key in _LIST:
        return [_local(each, depth) for each in value] if isinstance(value, list) else _DROPPED
    if key in _ONE:
        return _local(value, depth) if isinstance(value, Mapping | bool) else _DROPPED
    if key in ("required", "enum"):
        return value if isinstance(value, list) else _DROPPED
    leads_out = key in ("$dynamicRef", "$recursiveRef") or (key == "$ref" and not str(value).startswith("#"))
    return _DROPPED if leads_out else value


def _branches(schema: Any, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The schemas that a value may be described by: itself, what it refers to, and each alternative."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    yield schema
    for key in _BRANCHES:
        for branch in schema.get(key) or ():
            yield from _branches(branch, root, depth + 1)
    if "$ref" in schema:
        yield from _branches(_referred(str(schema["$ref"]), root), root, depth + 1)


def _referred(reference: str, root: Schema) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _strict(schema: Any, root: Schema, at: str) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made = {key: value for key, value in schema.items() if key not in ("default", "$schema")}
    for key in _LIST:
        if isinstance(schema.get(key), list):
            made[key] = [_strict(each, root, at) for each in schema[key]]
    for key in ("$defs", "definitions"):
        if isinstance(schema.get(key), Mapping):
            made[key] = {name: _strict(each, root, f"{at}/{name}") for name, each in schema[key].items()}
    if "items" in schema:
        made["items"] = _strict(schema["items"], root, f"{at}/items")
    if schema.get("type") == "object" or "properties" in schema:
        made |= _strict_object(schema, root, at)
    return made


def _strict_object(schema: Schema, root: Schema, at: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    if schema.get("additionalProperties") or (at and not properties):
        raise ChatmdError(f"the object at '{at or '/'}' may have any properties, which strict modes do not allow",
                          hint="leave out 'strict', or this tool by includes")  # fmt: skip
    required = schema.get("required") or ()
    made = {}
    for name, each in properties.items():
        inner = _strict(each, root, f"{at}/{name}")
        made[name] = inner if name in required or _may_be_null(each, root) else {"anyOf": [inner, {"type": "null"}]}
    return {"type": "object", "properties": made, "required": list(made), "additionalProperties": False}


def _may_be_null(schema: Any, root: Schema) -> bool:
    for branch in _branches(schema, root):
        kinds = branch.get("type")
        if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
            return True
        if None in (branch.get("enum") or ()) or ("const" in branch and branch["const"] is None):
            return True
    return False


def _without_nulls(value: Any, schemas: Sequence[Any], root: Schema) -> Any:
    found = [branch for schema in schemas for branch in _branches(schema, root)]
    if isinstance(value, list):
        items = [branch["items"] for branch in found if "items" in branch]
        return [_without_nulls(each, items, root) for each in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for name, each in value.items():
        having = [branch for branch in found if name in (branch.get("properties") or {})]
        inner = [branch["properties"][name] for branch in having]
        optional = having and not any(name in (branch.get("required") or ()) for branch in having)
        if each is None and optional and not any(_may_be_null(schema, root) for schema in inner):
            continue
        kept[name] = _without_nulls(each, inner, root)
    return kept
