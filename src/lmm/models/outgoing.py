"""Make a request such that its provider takes it: a refusal would meet every later request of the conversation as well.

Transcripts move between models: ids of calls that another provider made, names that a model invented, arguments that
are no JSON, empty texts, and messages that follow one another on the same side, are all refused by somebody.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from lmm.messages import ChatRequest, Message, ToolCall, ToolDefinition, ToolResult, encodable, message_parts

ANY_ID = r"[\w.:-]{1,40}"
SAFE_ID = r"[A-Za-z0-9_-]{1,40}"
NINE = r"[A-Za-z0-9]{9}"
"""Forms of call ids: OpenAI's limit; Anthropic's characters as well; Mistral's, which all providers take."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLANK = {"user": "(empty)", "assistant": "(no answer)", "tool": "(no output)"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request in a form that its provider takes.

    `names` are the tools' own names by those that are sent; `left_out` are tools that cannot be offered, with reasons.
    """

    request: ChatRequest
    names: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def fit_request(request: ChatRequest, *, ids: str = SAFE_ID, without: Iterable[str] = ()) -> Outgoing:
    """Return the request as it can be sent. `ids` is the form of call ids; the tools `without` are not offered.

    >>> call = Message("assistant", "", calls=(ToolCall("call.1:a", "read file", "{"),))
    >>> sent = fit_request(ChatRequest((Message("user", "Go"), Message("user", "on"), call))).request.messages
    >>> sent[0].text, sent[1].calls[0].name, sent[1].calls[0].arguments
    ('Go\\n\\non', 'read_file', '{"invalid_json": "{"}')
    """
    tools, names, left_out = list[ToolDefinition](), dict[str, str](), dict[str, str]()
    for tool in request.tools:
        sent = _wire_name(tool.name)
        sent = sent if sent not in names else f"{sent[:55]}_{_short(tool.name)[:8]}"
        try:
            parameters = fit_schema(tool.parameters)
        except (ValueError, RecursionError) as error:
            left_out[tool.name] = str(error)
            continue
        if tool.name not in set(without):
            names[sent] = tool.name
            tools.append(replace(tool, name=sent, parameters=parameters))
    known = {own: sent for sent, own in names.items()}
    messages = tuple(_fitted(_joined(request.messages), ids, known))
    return Outgoing(replace(request, messages=messages, tools=tuple(tools)), names, left_out)


def schema_key(request: ChatRequest) -> str:
    """Return what identifies the schema of a request, as far as a server refuses it; the empty string without one."""
    return "" if request.schema is None else f"schema {_short(json.dumps(request.schema))}"


def _wire_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:64] or "tool"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:9]


def _joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Join messages that follow one another on the same side, and leave out empty instructions."""
    sides = (replace(one, role="system") if one.role == "developer" else one for one in messages)
    kept = (one for one in sides if one.role != "system" or _text(one).strip())
    for role, side in groupby(kept, key=attrgetter("role")):
        first, *others = several = list(side)
        pictures = any(not isinstance(part, str) for one in several for part in one.content)
        yield (
            first
            if not others
            else Message(
                role,
                "" if pictures else "\n\n".join(filter(None, map(_text, several))),
                content=tuple(part for one in several for part in message_parts(one)) if pictures else (),
                calls=tuple(call for one in several for call in one.calls),
                results=tuple(result for one in several for result in one.results),
                reasoning=tuple(thought for one in several for thought in one.reasoning),
                item=next((one.item for one in several if one.item), ""),
            )
        )


def _text(message: Message) -> str:
    return "".join(part for part in message_parts(message) if isinstance(part, str))


def _fitted(messages: Iterable[Message], ids: str, names: Mapping[str, str]) -> Iterator[Message]:
    """Map ids, names and empty texts of one conversation; an id that occurs again is another call's."""
    sent, taken = dict[str, str](), set[str]()

    def call_of(call: ToolCall) -> ToolCall:
        fits = re.fullmatch(ids, call.id, re.ASCII) and call.id not in taken
        sent[call.id] = new = call.id if fits else _short(f"{call.id}#{len(taken)}")
        taken.add(new)
        return replace(
            call, id=new, name=names.get(call.name) or _wire_name(call.name), arguments=_object(call.arguments)
        )

    def result_of(result: ToolResult) -> ToolResult:
        name = names.get(result.name) or (result.name and _wire_name(result.name))
        text = result.text if result.text.strip() or result.images else _BLANK["tool"]
        return replace(result, call=sent.get(result.call, result.call), name=name, text=text)

    for message in messages:
        calls, results = tuple(map(call_of, message.calls)), tuple(map(result_of, message.results))
        if calls or results or any(p.strip() if isinstance(p, str) else p for p in message_parts(message)):
            yield replace(message, calls=calls, results=results)
        else:
            yield replace(message, text=_BLANK[message.role], content=())


def _object(arguments: str) -> str:
    """Return arguments that are a JSON object; servers parse those of earlier calls."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return arguments or "{}" if isinstance(value, dict) else json.dumps({"invalid_json": encodable(arguments)})


# -- schemas ---------------------------------------------------------------------------------------

_NESTED = {"properties", "$defs", "definitions", "patternProperties"}
_LISTS = {"anyOf", "oneOf", "allOf", "prefixItems"}
_SHAPES: list[tuple[str, type, str]] = [
    *((key, Mapping, "an object") for key in sorted(_NESTED)),
    *((key, list, "a list") for key in sorted({"required", "enum", *_LISTS})),
]
_KEYS_OF_STRICT = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref"}


def fit_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's JSON schema with what providers insist on; what it allows stays the same.

    Raises:
        ValueError: it is no schema; the message names the field.

    >>> fit_schema({"properties": {"paths": {"type": "array"}}, "required": None})
    {'properties': {'paths': {'type': 'array', 'items': {}}}, 'type': 'object'}
    """
    fitted = _fit(schema, "parameters")
    fitted.pop("$schema", None)
    kinds = fitted.get("type")
    if kinds not in (None, "object") and not (isinstance(kinds, list) and "object" in kinds):
        raise ValueError(f"its parameters are of type {json.dumps(kinds)}, not an object")
    fitted["type"] = "object"
    fitted.setdefault("properties", {})
    if isinstance(required := fitted.get("required"), list):
        fitted["required"] = [name for name in required if name in fitted["properties"]]
    return fitted


def _fit(schema: Any, path: str) -> dict[str, Any]:
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise ValueError(f"{path} is {json.dumps(schema, default=str)[:40]}, not a schema")
    fitted = {key: value for key, value in schema.items() if value is not None or key in ("default", "const")}
    if isinstance(fitted.get("items"), list | tuple):  # of an earlier draft
        fitted["prefixItems"] = fitted.pop("items")
    for key, kind, name in _SHAPES:
        if key in fitted and not isinstance(fitted[key], kind):
            raise ValueError(f"{path}.{key} is not {name}")
    for key in _NESTED & fitted.keys():
        fitted[key] = {name: _fit(part, f"{path}.{name}") for name, part in fitted[key].items()}
    for key in _LISTS & fitted.keys():
        fitted[key] = [_fit(part, f"{path}.{key}") for part in fitted[key]]
    kinds = fitted.get("type")
    if "items" in fitted:
        fitted["items"] = _fit(fitted["items"] or {}, f"{path}.items")
    elif "array" in (kinds if isinstance(kinds, list) else [kinds]):
        fitted["items"] = {}
    return fitted


def is_strict(schema: Any) -> bool:
    """Return whether OpenAI can hold a model to a schema: every object is closed, with all its fields required.

    >>> is_strict({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
    True
    """
    if not isinstance(schema, Mapping):
        return False
    if schema.keys() - _KEYS_OF_STRICT - {"$defs", "description", "title"}:
        return False
    if schema.get("type") == "object" or "properties" in schema:
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(schema.get("properties", ())):
            return False
    inside = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    typed = bool(schema.keys() & {"type", "enum", "const", "anyOf", "$ref"})
    return typed and all(map(is_strict, (*inside, *([schema["items"]] if "items" in schema else ()))))
