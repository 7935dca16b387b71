"""Another ChatMD file as a tool: the model gives it an input, and gets its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chatmd.content.local_files import locate
from chatmd.errors import ChatmdError
from chatmd.language.agent import read_agent
from chatmd.language.items import AgentSpec, Tool
from chatmd.language.parser import parse
from chatmd.tools.function_tool import FunctionTool, object_schema
from chatmd.workplace import AgentRequest, Workplace
from lmm.disk.files import read_document
from lmm.errors import DocumentError
from lmm.messages import ToolDefinition
from lmm.models.port import RunnableTool

_INPUT = {"type": "string", "description": "What it is to do, with all that it has to know: it sees nothing else."}


@asynccontextmanager
async def open_agent(declared: Tool, place: Workplace) -> AsyncIterator[Sequence[RunnableTool]]:
    """The one tool of ``<tool name="…" agent="…"/>``; its file is read anew at each call."""

    async def ask(input: str) -> str:
        return await place.ask_agent(AgentRequest(declared.agent, declared.local, place.folder, (input,)))

    description = declared.description or f"Ask the agent in {declared.agent}, and get its answer."
    yield [FunctionTool(ToolDefinition(declared.name, description, object_schema(("input",), input=_INPUT)), ask)]


def agent_in(src: str, place: Workplace) -> AgentSpec:
    """The agent in a file, as it would be asked now.

    Raises:
        InvalidDocument: its file has errors.
        ChatmdError: it is missing, lies where no agent is taken from, or cannot be read.
    """
    path = locate(src, place)
    try:
        document = parse(read_document(path), file=str(path))
    except DocumentError as error:
        raise ChatmdError(f"'{src}': {error.message}", hint=error.hint) from error
    return read_agent(place.rules.imported(document))
