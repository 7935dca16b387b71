"""Declared inputs: ``<input name="topic" default="leaves"/>``, and ``{{topic}}`` in the messages of a prompt.

Only declared names are filled in, and only in the prompt's own text outside of RAW: the messages of `Chat.say`, and
the output of models and tools, are always taken literally.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chatmd.errors import ChatmdError
from chatmd.language.nodes import NOWHERE, Attribute, Element, SourceRange, Text
from chatmd.language.syntax import parse, serialize
from lmm.errors import nearest

TYPES = ("string", "integer", "number", "boolean")
_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_][\w-]*)[ \t]*\}\}")


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """`<input>`; `value` is the set value or the default; None if it has neither. `type` is one of `TYPES`."""

    name: str
    type: str = "string"
    description: str = ""
    value: str | None = None
    span: SourceRange = field(default=NOWHERE, compare=False, repr=False)

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema, for callers of the agent."""
        default = {} if self.value is None else {"default": self.value if self.type == "string" else _read(self.value)}
        return {"type": self.type, **({"description": self.description} if self.description else {}), **default}

    def accepts(self, written: str) -> bool:
        """Return whether a text is a value of the input's type.

        >>> DeclaredInput("n", "integer").accepts("3"), DeclaredInput("n", "integer").accepts("x")
        (True, False)
        """
        value = _read(written)
        kinds: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
        return self.type == "string" or type(value) in kinds[self.type]


def _read(written: str) -> object:
    try:
        return json.loads(written.lower(), parse_constant=str)
    except ValueError:
        return None


def slots_in(text: Text) -> Iterator[tuple[str, int, int]]:
    """Iterate over the names in double braces outside of RAW, with their start and end in the value."""
    for start, end in text.plain:
        yield from ((match[1], *match.span()) for match in _SLOT.finditer(text.value, start, end))


def fill(text: Text, values: Mapping[str, str]) -> Text:
    """Replace the names in double braces by their values.

    >>> fill(parse("<user>On {{ topic }}, RAW|not {{topic}}|RAW.</user>").children[0].children[0], {"topic": "<b>"})
    Text(value='On <b>, not {{topic}}.', raw=True)
    """
    pieces, at = [], 0
    for name, start, end in slots_in(text):
        if name in values:
            pieces += [text.value[at:start], values[name]]
            at = end
    return replace(text, value="".join([*pieces, text.value[at:]])) if pieces else text


def check_values(inputs: Iterable[DeclaredInput]) -> None:
    """Raise an error if an input has no value.

    Raises:
        ChatmdError: an input has no value.
    """
    for one in inputs:
        if one.value is None:
            hint = f"lmm run --set {one.name}=…; in Python run(inputs={{…}})"
            raise ChatmdError(f"the input '{one.name}' has no value", where=one.span.where, hint=hint)


def set_inputs(text: str, values: Mapping[str, object], known: Iterable[DeclaredInput], *, file: str = "") -> str:
    """Set the values of inputs in a document; an input from an import is declared again, at the top.

    Raises:
        ChatmdError: there is no such input, or the value is not of its type.

    >>> set_inputs('<input name="n" type="integer"/>', {"n": 3}, [DeclaredInput("n", "integer")])
    '<input name="n" type="integer" value="3"/>'
    """
    declared = {one.name: one for one in known}
    written = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    for name, value in written.items():
        if name not in declared:
            hint = (declared and nearest(name, declared)) or f'declare it: <input name="{name}"/>'
            raise ChatmdError(f"there is no input '{name}'", where=file, hint=hint)
        if not declared[name].accepts(value):
            raise ChatmdError(
                f"'{value}' is not of the type {declared[name].type}", where=file, hint=f"it is the input '{name}'"
            )
    tree = parse(text, file=file)
    nodes = [_with_value(node, written) if isinstance(node, Element) else node for node in tree.children]
    own = {node.get("name") for node in tree.elements if node.tag == "input"}
    added = ""
    for name, value in written.items():
        if name not in own:
            told = Attribute("name", name), Attribute("type", declared[name].type), Attribute("value", value)
            added += serialize([Element("input", told)]) + "\n"
    return added + serialize(nodes)


def _with_value(element: Element, values: Mapping[str, str]) -> Element:
    name = element.get("name") or ""
    if element.tag != "input" or name not in values:
        return element
    kept = tuple(attribute for attribute in element.attributes if attribute.name != "value")
    return Element("input", (*kept, Attribute("value", values[name])))
