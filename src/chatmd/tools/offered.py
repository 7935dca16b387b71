"""What a model would be offered by the tools that a file declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chatmd.language.items import AgentSpec, Tool
from chatmd.tools.agent import agent_in
from chatmd.tools.declared import Declaration, own_declarations
from chatmd.tools.registry import kind_of
from chatmd.workplace import Workplace
from lmm.errors import LmmError
from lmm.messages import ToolDefinition

KINDS = {"builtin": "built in", "command": "command", "agent": "agent", "mcp": "MCP server"}
"""What kinds of tools are called."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one declaration offers: `definitions` as the model gets them, or the `problem` with it.

    An agent whose file is missing or has errors can be called, but is of no use.

    `powers` are names as in `chatmd.tools.registry.Power`. A server that was not `opened` offers what nobody knows yet.
    """

    declared: Tool
    declaration: Declaration
    powers: tuple[str, ...]
    definitions: tuple[ToolDefinition, ...] = ()
    opened: bool = True
    problem: str = ""


async def offered_by(spec: AgentSpec, place: Workplace, *, servers: bool = False) -> tuple[Offer, ...]:
    """What the tools of a file offer, in its order.

    With `servers`, its MCP servers are started or called, for what they have: see to consent before.
    """
    declarations = own_declarations(spec, place).declarations
    return tuple([await _offer(*pair, place, servers) for pair in zip(spec.tools, declarations, strict=False)])


async def _offer(tool: Tool, declaration: Declaration, place: Workplace, servers: bool) -> Offer:
    powers: tuple[str, ...] = ()
    try:
        kind = kind_of(tool)
        powers = tuple(sorted(kind.powers))
        if tool.kind == "mcp" and not servers:
            return Offer(tool, declaration, powers, opened=False)
        if tool.kind == "agent" and tool.local:
            agent_in(tool.agent, place)
        async with kind.load()(tool, place) as tools:
            return Offer(tool, declaration, powers, tuple(one.definition for one in tools))
    except LmmError as error:
        return Offer(tool, declaration, powers, problem=str(error))


def type_in_words(schema: Mapping[str, Any]) -> str:
    """What a JSON schema asks for, in few words.

    >>> type_in_words({"type": "array", "items": {"type": "string"}}), type_in_words({"enum": ["a", 1]})
    ('list of string', '"a" or 1')
    >>> type_in_words({"anyOf": [{"type": "integer"}, {"type": "null"}]}), type_in_words({})
    ('integer or null', 'anything')
    """
    if options := schema.get("enum"):
        return " or ".join(f'"{option}"' if isinstance(option, str) else str(option) for option in options)
    for union in ("anyOf", "oneOf"):
        if parts := schema.get(union):
            return " or ".join(dict.fromkeys(type_in_words(part) for part in parts if isinstance(part, Mapping)))
    kind = schema.get("type", "anything")
    items = schema.get("items")
    if kind == "array" and isinstance(items, Mapping):
        return f"list of {type_in_words(items)}"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
