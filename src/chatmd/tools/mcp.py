"""Tools of an MCP server: ``<tool mcp_server="…"/>``."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, overload

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.language.transcript import storable
from chatmd.tools.mcp_connection import Connection, ServerTool, check_installed, logger, read_address
from chatmd.tools.mcp_schemas import accepted, strict, without_nulls
from lmm.errors import LmmError
from lmm.messages import ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool

# -- The tools of an MCP server as a model is offered them: which of them, under which names, with which schemas


_LONGEST = 64  # characters of a name: OpenAI's limit, the lowest
_SHOWN = 12  # names that an error lists


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it. The server knows it as `name`; `schema` is that of the arguments it gets."""

    name: str
    definition: ToolDefinition
    schema: Mapping[str, Any]


def offered_tools(tools: Sequence[ServerTool], declared: Tool) -> tuple[OfferedTool, ...]:
    """What a declaration offers of a server's catalogue.

    Raises:
        ChatmdError: it names a tool that the server does not have, or one that cannot be strict.
    """
    chosen = _chosen(tools, declared.include)
    names = model_names([tool.name for tool in chosen], declared.prefix)
    return tuple(_offered(tool, names[tool.name], declared) for tool in chosen)


def _chosen(tools: Sequence[ServerTool], wanted: Sequence[str]) -> list[ServerTool]:
    by_name = {tool.name: tool for tool in tools}
    for name in wanted:
        if name not in by_name:
            near = get_close_matches(name, list(by_name), n=1)
            offers = f"it has {_listed(sorted(by_name))}" if by_name else "it has none"
            raise ChatmdError(f"the server has no tool '{name}'", hint=f"did you mean '{near[0]}'?" if near else offers)
    return [by_name[name] for name in wanted] if wanted else list(by_name.values())


def _listed(names: Sequence[str]) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _offered(tool: ServerTool, name: str, declared: Tool) -> OfferedTool:
    schema = accepted(tool.schema)
    try:
        shown = strict(schema) if declared.strict else schema
    except ChatmdError as error:
        raise ChatmdError(f"'{tool.name}' cannot be strict: {error.message}", hint=error.hint) from None
    # An author who takes one tool may know better than the server what it is for.
    described = declared.description if declared.description and len(declared.include) == 1 else tool.description
    return OfferedTool(tool.name, ToolDefinition(name, storable(described), shown, declared.strict), schema)


def model_names(names: Sequence[str], prefix: str = "") -> dict[str, str]:
    """The names under which models are offered tools: letters, digits, ``_`` and ``-``, at most 64 of them.

    A name that had to be changed never takes that of another tool.

    >>> model_names(["search", "docs.search", "docs/search"])
    {'search': 'search', 'docs.search': 'docs_search_a7e5', 'docs/search': 'docs_search_8a3c'}
    >>> model_names(["search"], "wiki_")
    {'search': 'wiki_search'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", prefix + name)[:_LONGEST] or "_" for name in names}
    count = Counter(plain.values())
    return {
        name: plain[name] if count[plain[name]] == 1 or plain[name] == prefix + name else _told_apart(name, plain[name])
        for name in names
    }


def _told_apart(name: str, plain: str) -> str:
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:4]
    return f"{plain[: _LONGEST - 5]}_{mark}"


@dataclass(slots=True)
class ServerTools(Sequence[RunnableTool]):
    """What a server offers now. If it tells of changes, the tools here change with it, while it is open."""

    connection: Connection
    declared: Tool
    _offered: dict[str, OfferedTool] = field(default_factory=dict)
    _tools: list[McpTool] = field(default_factory=list)

    @overload
    def __getitem__(self, index: int) -> RunnableTool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RunnableTool]: ...
    def __getitem__(self, index: int | slice) -> RunnableTool | Sequence[RunnableTool]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def now(self, name: str) -> OfferedTool | None:
        """The tool of that name as the server describes it now; None if it is gone."""
        return self._offered.get(name)

    async def load(self, declared: Tool) -> None:
        """Ask the server what it has.

        Raises:
            ChatmdError: it does not answer, or lacks a tool that is declared.
        """
        offered = offered_tools(await self.connection.tools(), declared)
        self._offered = {tool.definition.name: tool for tool in offered}
        self._tools = [McpTool(self, tool) for tool in offered]

    async def follow(self) -> None:
        """Load again whenever the server tells that its tools have changed; what is gone is offered no longer."""
        changed = self.connection.changed
        while await changed.wait():
            changed.clear()
            try:
                have = {tool.name for tool in await self.connection.tools()}
                left = tuple(name for name in self.declared.include if name in have)
                if self.declared.include and not left:
                    self._offered, self._tools = {}, []
                else:
                    await self.load(replace(self.declared, include=left))
            except LmmError as error:
                logger.warning("the tools have changed, and could not be read: %s", error)


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server."""

    server: ServerTools
    first: OfferedTool

    @property
    def definition(self) -> ToolDefinition:
        return (self.server.now(self.first.definition.name) or self.first).definition

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        tool = self.server.now(self.first.definition.name)
        if tool is None:
            raise ChatmdError(f"the server no longer has the tool '{self.first.name}'")
        given = without_nulls(arguments, tool.schema) if tool.definition.strict else arguments
        return await self.server.connection.call(tool.name, given)


@asynccontextmanager
async def open_server(declared: Tool, run: Run) -> AsyncGenerator[Sequence[RunnableTool]]:
    """The tools of the server that a declaration names, for as long as the context is open.

    Raises:
        ChatmdError: the address is wrong, the server does not answer, or lacks a tool that is declared.
    """
    with _at(declared):
        check_installed()
        address = read_address(declared.server)
        connection = Connection(address, declared, run, declared.timeout or run.rules.tool_timeout)
        tools = ServerTools(connection, declared)
    following = asyncio.create_task(tools.follow())
    try:
        with _at(declared):
            await tools.load(declared)
        yield tools
    finally:
        following.cancel()
        await connection.aclose()


@contextlib.contextmanager
def _at(declared: Tool) -> Any:
    """Errors inside say where the declaration stands."""
    try:
        yield
    except LmmError as error:
        error.where = error.where or declared.span.where
        raise
