"""A tool made of a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmm.messages import ToolDefinition, ToolOutput


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """`function` gets the arguments by name; a text that it returns is a result without images."""

    definition: ToolDefinition
    function: Callable[..., Awaitable[ToolOutput | str]]

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        output = await self.function(**arguments)
        return ToolOutput(output) if isinstance(output, str) else output


def object_schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others.

    >>> object_schema(("path",), path={"type": "string"})["required"]
    ['path']
    """
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
