"""Structured output: schemas of data, finding JSON in a reply, and asking again if it is invalid.

A schema is a Pydantic model, any other type that Pydantic knows, or a JSON schema. Pydantic and jsonschema take a
tenth of a second each to import, and are imported when one is used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import GenericAlias
from typing import Any

from lmm.disk.files import read_document
from lmm.errors import ConfigError, LmmError, NoValidReply, nearest
from lmm.markdown.spans import spans
from lmm.messages import ChatRequest, Message, object_schema
from lmm.models.port import Ask, Flow
from lmm.user_code import importable_from, load_python

RECORDS = "records"  # the key that wraps data other than objects: servers only accept schemas of objects
_AT_THE_TOP = ("$schema", "$defs", "definitions")
_OTHER_REFERENCE = re.compile(r'"\$ref": "#(?!/\$defs/|/definitions/)')  # it would lead elsewhere from inside
_MOST_ERRORS = 10
# Where an object or array may begin; ' and words occur when models write Python or JavaScript instead of JSON.
_OPENING = re.compile(r"""\{\s*(?:["'}]|\w+\s*:)|\[\s*["'\[{\]\-\dtfn]""")
_MOST_BROKEN = 1000  # a reply with more of these is not searched for JSON: each takes time linear in its length


class Mismatch(ValueError):
    """An invalid value; the message lists where and why, one fault a line, in words for a model."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema that data has to fit.

    `sent` is the JSON schema that the model gets, always of an object; `wrapped` is whether the requested data is
    in it under ``records``; `many`, whether that is a list of records; `fields` are the names in a record;
    `validate` turns JSON into the value, or raises `Mismatch`. If it `may_lack`, null is no record.
    """

    sent: Mapping[str, Any]
    wrapped: bool
    many: bool
    fields: tuple[str, ...]
    validate: Callable[[Any], Any]
    may_lack: bool = False

    @property
    def optional(self) -> Schema:
        """This schema for a text that may contain no such data; a list may be empty anyway.

        >>> schema = make_schema({"type": "object", "required": ["name"]}).optional
        >>> schema.records({"records": None}), schema.records({"records": {"name": "Oak"}}), schema.records(None)
        ([], [{'name': 'Oak'}], [])
        """
        if self.many or self.may_lack or _OTHER_REFERENCE.search(self.text):
            return self
        above = {key: self.sent[key] for key in _AT_THE_TOP if key in self.sent}
        inside = {key: value for key, value in self.sent.items() if key not in _AT_THE_TOP}
        inside = self.sent["properties"][RECORDS] if self.wrapped else inside
        sent = object_schema([RECORDS], **{RECORDS: {"anyOf": [inside, {"type": "null"}]}}) | above
        return replace(self, sent=sent, wrapped=True, may_lack=True)

    @property
    def text(self) -> str:
        """Return the sent schema as text for the prompt."""
        return json.dumps(self.sent, indent=2, ensure_ascii=False)

    def records(self, value: Any) -> list[Any]:
        """Validate a JSON value and return its records.

        Raises:
            Mismatch: it is not valid.
        """
        if self.wrapped and isinstance(value, dict) and value.keys() == {RECORDS}:
            value = value[RECORDS]
        if value is None and self.may_lack:
            return []
        valid = self.validate(value)
        return list(getattr(valid, "root", valid)) if self.many else [valid]


def make_schema(source: Any, *, where: str = "") -> Schema:
    """Make a schema from a JSON schema (a mapping) or a type: a Pydantic model, a dataclass, ``list[Model]``, ….

    Raises:
        ConfigError: it is neither.

    >>> make_schema({"type": "object", "properties": {"name": {"type": "string"}}}).records({"name": "Oak"})
    [{'name': 'Oak'}]
    """
    return _from_json_schema(source, where) if isinstance(source, Mapping) else _from_type(source, where)


def object_of(**properties: Mapping[str, Any]) -> Schema:
    """Make the schema of an object with exactly these keys, each given by its JSON schema.

    >>> object_of(good={"type": "boolean"}).records({"good": True})
    [{'good': True}]
    """
    return _object_of(json.dumps(properties))


@functools.lru_cache(maxsize=64)  # it compiles the schema
def _object_of(properties: str) -> Schema:
    return make_schema(object_schema(json.loads(properties), **json.loads(properties)))


def load_schema(name: str) -> Schema:
    """Load the schema that ``module:Model``, ``path/to/file.py:Model``, ``…:list[Model]`` or a JSON schema file names.

    Raises:
        ConfigError, FileReadError: there is no such file, module or name, or it is no schema.
    """
    if name.endswith(".json"):
        try:
            return make_schema(json.loads(read_document(Path(name))), where=name)
        except json.JSONDecodeError as error:
            raise ConfigError(f"this is not JSON: {error.msg}", where=f"{name}:{error.lineno}:{error.colno}") from error
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ConfigError(
            f"'{name}' is not the name of a schema",
            hint="give a Pydantic model (module:Model or file.py:Model) or a JSON schema file (schema.json)",
        )
    try:
        if place.endswith(".py"):
            module = load_python(Path(place))
        else:
            importable_from(Path.cwd())
            module = importlib.import_module(place)
    except LmmError:
        raise
    except ModuleNotFoundError as error:
        hint = "install it, or run this in its folder; for a file, write file.py:Model"
        raise ConfigError(f"there is no module '{error.name}'", where=name, hint=hint) from error
    except Exception as error:
        raise ConfigError(f"this module does not run: {type(error).__name__}: {error}", where=name) from error
    many = attribute.startswith("list[") and attribute.endswith("]")
    attribute = attribute[5:-1] if many else attribute
    try:
        found = functools.reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        hint = nearest(attribute, sorted(own))
        raise ConfigError(f"there is no '{attribute}' in {place}", where=name, hint=hint) from error
    return make_schema(GenericAlias(list, (found,)) if many else found, where=name)


# -- Pydantic --------------------------------------------------------------------------------------


def _from_type(source: Any, where: str) -> Schema:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

    if inspect.isroutine(source):  # Pydantic would call it
        raise ConfigError("a function is not a data type", where=where, hint="give a Pydantic model")
    try:
        adapter: TypeAdapter[Any] = source if isinstance(source, TypeAdapter) else TypeAdapter(source)
        shown = adapter.json_schema()
        named = adapter.json_schema(by_alias=False)
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"this is not a data type: {reason}", where=where, hint="give a Pydantic model") from error

    def validate(value: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))  # read as JSON, a date may be a string in strict models too
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            raise _mismatch((fault["loc"], fault["msg"], fault["input"]) for fault in faults) from error

    return _schema(shown, named, validate)


# -- JSON schema -----------------------------------------------------------------------------------


def _from_json_schema(source: Mapping[str, Any], where: str) -> Schema:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    schema = dict(source)
    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"this is not a JSON schema: {error.json_path}: {error.message}", where=where) from error
    # With a registry of its own, a validator fetches nothing from the network.
    validator = kind(schema, registry=EMPTY_REGISTRY, format_checker=kind.FORMAT_CHECKER)

    def validate(value: Any) -> Any:
        try:
            faults = sorted(validator.iter_errors(value), key=lambda fault: list(map(str, fault.absolute_path)))
        except Unresolvable as error:
            raise ConfigError(f"the JSON schema refers to something that is not in it: {error}", where=where) from error
        if faults:
            raise _mismatch((fault.absolute_path, fault.message, None) for fault in faults)
        return value

    return _schema(schema, schema, validate)


# -- both ------------------------------------------------------------------------------------------


def _schema(source: Mapping[str, Any], named: Mapping[str, Any], validate: Callable[[Any], Any]) -> Schema:
    """Make a schema; the names of a record's fields are those of all alternatives in `named`, in its order."""
    whole = _follow_reference(named, named)
    record = _follow_reference(whole.get("items", {}), named) if whole.get("type") == "array" else whole
    kinds = [record, *(record.get("anyOf") or record.get("oneOf") or record.get("allOf") or [])]
    names = [name for kind in kinds for name in _follow_reference(kind, named).get("properties", {})]
    resolved = _follow_reference(source, source)
    is_object = resolved.get("type") == "object" or "properties" in resolved
    many = resolved.get("type") == "array"
    if not is_object:  # wrap it in an object; definitions that it refers to stay at the top
        inside = {key: value for key, value in source.items() if key not in _AT_THE_TOP}
        above = {key: source[key] for key in _AT_THE_TOP if key in source}
        source = object_schema([RECORDS], **{RECORDS: inside}) | above
    return Schema(source, not is_object, many, tuple(dict.fromkeys(names)), validate)


def _mismatch(faults: Iterable[tuple[Iterable[Any], str, Any]]) -> Mismatch:
    """Make the error that lists where and why a value is invalid, with short values: a model corrects what it sees.

    >>> str(_mismatch([(("phases", 2, "name"), "is too short", "")]))
    "- $.phases[2].name: is too short, not ''"
    """
    lines = []
    for steps, message, value in faults:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        shown = f", not {value!r}" if isinstance(value, (str, int, float)) and len(repr(value)) < 80 else ""
        lines.append(f"- ${path}: {message}{shown}")
    more = [f"- and {len(lines) - _MOST_ERRORS} more"] if len(lines) > _MOST_ERRORS else []
    return Mismatch("\n".join([*lines[:_MOST_ERRORS], *more]))


def _follow_reference(part: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of a schema, or what it refers to within the schema."""
    reference = part.get("$ref") if isinstance(part, Mapping) else None
    if isinstance(reference, str) and reference.startswith("#/"):
        steps = reference[2:].split("/")
        part = functools.reduce(lambda inner, step: inner.get(step, {}), steps, schema)
    return part if isinstance(part, Mapping) else {}


# -- in a reply ------------------------------------------------------------------------------------


class NoJson(ValueError):
    """A reply without JSON; the message says where it breaks, in words for a model."""


def read_json(reply: str) -> list[Any]:
    """Return the JSON values in a reply, likeliest first: the whole reply or code fences, else objects and arrays.

    Values inside another value, or inside JSON that breaks off, are not returned separately.

    Raises:
        NoJson: there is none.

    >>> read_json('Here it is: {"name": "Oak"}. Anything else?')
    [{'name': 'Oak'}]
    """
    whole = [reply, *(span.text for span in spans(reply) if span.kind == "code_block")]
    if values := [value for piece in whole for value in _parsed(piece.strip())]:
        return values
    values, reason = _embedded(reply)
    if not values:
        raise NoJson(reason)
    return values


def _parsed(text: str) -> list[Any]:
    """Return the value, in a list, if `text` is JSON and nothing else."""
    try:
        return [_check_json(json.loads(text))]
    except (ValueError, RecursionError):
        return []


def _embedded(text: str) -> tuple[list[Any], str]:
    """Return the outermost objects and arrays in a text, in order, and the error of the first invalid one."""
    decoder, at, values, reasons = json.JSONDecoder(), 0, list[Any](), list[str]()
    while (opening := _OPENING.search(text, at)) and len(reasons) < _MOST_BROKEN:
        try:
            value, at = decoder.raw_decode(text, opening.start())
            values.append(_check_json(value))
        except json.JSONDecodeError as error:
            at = max(error.pos, opening.start() + 1)  # up to there it was JSON, so its inside is skipped
            reasons.append(f"the JSON breaks at line {error.lineno}, column {error.colno}: {error.msg}")
        except ValueError as error:
            at = max(at, opening.start() + 1)
            reasons.append(f"the JSON has a value that is not allowed: {error}")
        except RecursionError:
            reasons.append("the JSON is nested too deep")
            break
    return values, (reasons or ["there is no JSON in it"])[0]


def _check_json(value: Any) -> Any:
    """Return `value`; raise if it contains what Python's reader allows, but JSON or UTF-8 do not: NaN, a surrogate."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return value


# -- asking ----------------------------------------------------------------------------------------

_SHOWN = "Reply with JSON only, without a comment or a code fence, that is valid by this JSON schema:"
_AGAIN = "This reply is not valid:\n\n{}\n\nReply with the corrected JSON only.".format


def structured(
    ask: Ask, schema: Schema, *, tier: str = "", retries: int = 2, again: Callable[[str], str] = _AGAIN
) -> Flow[list[Any]]:
    """Ask for data that fits a schema, and return the valid records of the first reply that has any.

    The schema goes to the server and, unless the prompt contains it, into the prompt: a model constrained by a
    grammar still has to know what is wanted, and a server may refuse the schema. An invalid reply is sent back up to
    `retries` times, with the message that `again` makes of the error. If all replies in the journal are invalid, the
    model is asked anew. `tier` is for the hint where a reply was cut off.

    Raises:
        NoValidReply: no reply was valid, or one was cut off.
    """
    first = with_schema(ask.request, schema)
    request, fresh, new = first, False, False
    while True:
        for _ in range(1 + retries):
            reply = yield replace(ask, request=request, again=ask.again or fresh)
            new |= not reply.remembered
            try:
                return valid_records(reply.text, schema)
            except (NoJson, Mismatch) as error:
                problem = str(error)
            if reply.cut:
                break
            exchange = (Message("assistant", reply.text), Message("user", again(problem)))
            request = replace(request, messages=(*request.messages, *exchange))
        if (new or fresh) and reply.cut:
            hint = f"set a larger max_tokens {f'under [{tier}]' if tier else 'for this model'} in config.toml"
            cut = "the reply was cut off at the model's output limit"
            raise NoValidReply(cut, hint=f"{hint}, or give it a shorter text")
        if new or fresh:
            replies, apart = f" in {1 + retries} attempts; the last one" if retries else "", " \n"["\n" in problem]
            raise NoValidReply(f"no valid reply{replies}:{apart}{problem}")
        request, fresh = first, True


def shown_schema(schema: Schema) -> str:
    """Return the text that shows a schema to a model."""
    return f"{_SHOWN}\n\n{schema.text}"


def with_schema(request: ChatRequest, schema: Schema) -> ChatRequest:
    """Return the request with the schema, also shown in its last message, unless one of them contains it."""
    *earlier, last = request.messages
    if not any(schema.text in message.text for message in request.messages):
        last = replace(last, text=f"{last.text}\n\n{shown_schema(schema)}")
    return replace(request, messages=(*earlier, last), schema=schema.sent)


def valid_records(reply: str, schema: Schema) -> list[Any]:
    """Return the records of the first valid JSON value in a reply, ignoring other content.

    Raises:
        NoJson, Mismatch: there is none; the message is about the first value.
    """
    problems = []
    for value in read_json(reply):
        try:
            return schema.records(value)
        except Mismatch as error:
            problems.append(error)
    raise problems[0]
