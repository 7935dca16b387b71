"""Tools of an MCP server: ``<tool mcp_server="…"/>``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import Any

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.language.transcript import storable
from chatmd.tools.mcp_connection import Connection, check_sdk, read_address
from lmm.disk import digest
from lmm.errors import LmmError, nearest
from lmm.messages import Notice, ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool

# -- The tools of an MCP server that a model is offered: selection, names and schemas ---------------------------


_MANY = 100  # tools: many models choose badly among more, and some servers of models refuse more than 128
_MOST_SAID = 2000  # characters of a server's instructions
_LONGEST = 64  # characters of a name: OpenAI's limit, the lowest


def offered_tools(tools: Sequence[ToolDefinition], declared: Tool) -> dict[str, ToolDefinition]:
    """Return the tools of a server's catalogue that a declaration offers, by the server's names.

    Raises:
        ChatmdError: the declaration names a tool that the server does not have.
    """
    by_name = {tool.name: tool for tool in tools}
    for name in declared.include:
        if name not in by_name:
            raise ChatmdError(f"the server has no tool '{name}'", hint=nearest(name, sorted(by_name)))
    chosen = [by_name[name] for name in declared.include or by_name]
    names = model_names([tool.name for tool in chosen], declared.prefix)
    # If only one tool is included, the author's description is about that tool.
    better = declared.description if len(declared.include) == 1 else ""
    return {
        tool.name: ToolDefinition(
            names[tool.name], storable(better or tool.description), accept_schema(tool.parameters), declared.strict
        )
        for tool in chosen
    }


def model_names(names: Sequence[str], prefix: str = "") -> dict[str, str]:
    """Return names that models accept: at most 64 letters, digits, ``_`` and ``-``.

    A name that had to be changed never equals that of another tool.

    >>> model_names(["search", "docs.search", "docs/search"])
    {'search': 'search', 'docs.search': 'docs_search_a7e5', 'docs/search': 'docs_search_8a3c'}
    >>> model_names(["search"], "wiki_")
    {'search': 'wiki_search'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", prefix + name)[:_LONGEST] or "_" for name in names}
    count = Counter(plain.values())
    for name, short in plain.items():
        if count[short] > 1 and short != prefix + name:
            plain[name] = f"{short[: _LONGEST - 5]}_{digest(name, length=4)}"
    return plain


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server, which checks its arguments itself: matching a foreign schema may take years."""

    connection: Connection
    name: str
    definition: ToolDefinition
    judges_arguments = True

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        return await self.connection.call(self.name, arguments)


@asynccontextmanager
async def open_server(declared: Tool, run: Run) -> AsyncGenerator[Sequence[RunnableTool]]:
    """Open the tools of a declared server for the duration of the context.

    Raises:
        ChatmdError: the address is not valid, the server does not answer, or lacks a declared tool.
    """
    with TemporaryFile("w+", encoding="utf-8") as stderr:
        async with AsyncExitStack() as stack:
            try:
                check_sdk()
                address, patience = read_address(declared.server), declared.timeout or run.rules.tool_timeout
                connection = await stack.enter_async_context(
                    aclosing(Connection(address, declared, run, patience, stderr))
                )
                offered = offered_tools(await connection.tools(), declared)
                if len(offered) > _MANY:
                    hint = 'includes="…" chooses some; each is sent with every request'
                    run.tell(Notice(f"MCP server {address.label} offers {len(offered)} tools ({hint})"))
                if offered and (said := storable(connection.instructions.strip()[:_MOST_SAID])):
                    first, definition = next(iter(offered.items()))
                    about = f"{definition.description}\n\nThe server says about all its tools: {said}".strip()
                    offered[first] = replace(definition, description=about)
            except LmmError as error:
                error.where = error.where or declared.span.where
                raise
            yield [McpTool(connection, name, definition) for name, definition in offered.items()]


# -- Schemas for providers -------------------------------------------------------------------------
# Servers may describe arguments by any JSON schema; providers accept less. What they do not support is left out: the
# server checks its arguments itself.

Schema = Mapping[str, Any]
# At the top level, providers require an object, without keywords that combine schemas.
_COMBINE = ("oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 80


def accept_schema(schema: Schema) -> dict[str, Any]:
    """Convert a schema to one that providers accept: of type object, with properties, and only internal references.

    >>> accept_schema({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})
    {'type': 'object', 'properties': {}}
    >>> accept_schema({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]})
    {'type': 'object', 'properties': {'a': {}, 'b': {}}}
    """
    whole = _local(schema)
    properties: dict[str, Any] = {}
    for branch in _branches(whole, whole):
        if isinstance(found := branch.get("properties"), dict):
            properties |= {name: each for name, each in found.items() if name not in properties}
    top = {key: value for key, value in whole.items() if key not in (*_COMBINE, "$schema", "$id", "$ref")}
    return top | {"type": "object", "properties": properties}


def _local(value: Any, depth: int = 0) -> Any:
    """Copy a schema up to a depth, without references to other documents, so that nobody fetches them."""
    if depth > _DEEPEST:
        return {}
    if isinstance(value, Mapping):
        kept = {key: each for key, each in value.items() if key not in ("$dynamicRef", "$recursiveRef")}
        if not str(kept.get("$ref", "#")).startswith("#"):
            del kept["$ref"]
        return {key: _local(each, depth + 1) for key, each in kept.items()}
    return [_local(each, depth + 1) for each in value] if isinstance(value, list) else value


def _branches(schema: Any, root: Schema) -> Iterator[Schema]:
    """Iterate over the schemas that may describe a value, each once: itself, its references, and its alternatives."""
    waiting, seen = [schema], set[int]()
    while waiting:
        branch = waiting.pop()
        if not isinstance(branch, Mapping) or id(branch) in seen:
            continue
        seen.add(id(branch))
        yield branch
        if "$ref" in branch:
            waiting.append(_referred(str(branch["$ref"]), root))
        for key in reversed(_BRANCHES):
            waiting += reversed(found) if isinstance(found := branch.get(key), list) else ()


def _referred(reference: str, root: Schema) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found
