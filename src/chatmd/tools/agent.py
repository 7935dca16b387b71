"""Another ChatMD file as a tool: the model gives it an input, and gets its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chatmd.language.items import Tool
from chatmd.tools.function_tool import FunctionTool, object_schema
from chatmd.workplace import AgentRequest, Workplace
from lmm.models.port import RunnableTool, ToolDefinition

_INPUT = {"type": "string", "description": "What it is to do, with all that it has to know: it sees nothing else."}


@asynccontextmanager
async def open_agent(declared: Tool, place: Workplace) -> AsyncIterator[Sequence[RunnableTool]]:
    """The one tool of ``<tool name="…" agent="…"/>``; its file is read anew at each call."""

    async def ask(input: str) -> str:
        return await place.ask_agent(AgentRequest(declared.agent, declared.local, place.folder, (input,)))

    description = declared.description or f"Ask the agent in {declared.agent}, and get its answer."
    yield [FunctionTool(ToolDefinition(declared.name, description, object_schema(("input",), input=_INPUT)), ask)]
