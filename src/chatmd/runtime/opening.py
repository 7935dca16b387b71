"""Open the tools that a file declares."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack

from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.tools.calling import OpenTool
from chatmd.tools.registry import kind_of
from chatmd.workplace import Workplace

_GRACE = 5.0  # seconds: tools that keep the time themselves tell more about it


async def open_tools(declared: Iterable[Tool], place: Workplace, stack: AsyncExitStack) -> dict[str, OpenTool]:
    """The tools by the names that the model calls them by; they are closed with `stack`.

    Raises:
        ChatmdError: there is no such tool, it cannot be opened, or two have the same name.
    """
    tools: dict[str, OpenTool] = {}
    for one in declared:
        opened = await stack.enter_async_context(kind_of(one).load()(one, place))
        for tool in opened:
            name = tool.definition.name
            if name in tools:
                hint = 'its tools can have a prefix="…"' if one.kind == "mcp" else "name one of them otherwise"
                raise ChatmdError(f"two tools are called '{name}'", where=one.span.where, hint=hint)
            tools[name] = OpenTool(tool, _timeout(one, place))
    return tools


def _timeout(declared: Tool, place: Workplace) -> float | None:
    """After how many seconds a call is given up; an agent's only if that is declared, since it has the run's limits."""
    if declared.timeout is None and declared.kind == "agent":
        return None
    return (declared.timeout or place.rules.tool_timeout) + _GRACE
