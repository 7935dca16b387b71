"""Tools of an MCP server: ``<tool mcp_server="…"/>``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, overload

from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.tools.mcp_address import read_address
from chatmd.tools.mcp_catalogue import OfferedTool, offered_tools
from chatmd.tools.mcp_connection import Connection, check_installed, logger
from chatmd.tools.mcp_schemas import without_nulls
from chatmd.workplace import Workplace
from lmm.errors import LmmError
from lmm.messages import ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool


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
async def open_server(declared: Tool, place: Workplace) -> AsyncGenerator[Sequence[RunnableTool]]:
    """The tools of the server that a declaration names, for as long as the context is open.

    Raises:
        ChatmdError: the address is wrong, the server does not answer, or lacks a tool that is declared.
    """
    with _at(declared):
        check_installed()
        address = read_address(declared.server)
        connection = Connection(address, declared, place, declared.timeout or place.rules.tool_timeout)
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
    except ChatmdError as error:
        error.where = error.where or declared.span.where
        raise
