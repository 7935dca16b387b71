"""Python functions as tools: a model is offered what signature and docstring say."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

from chatmd.errors import ChatmdError
from chatmd.tools.registry import FunctionTool
from lmm.messages import ToolDefinition, ToolOutput
from lmm.models.port import RunnableTool

PythonTool = Callable[..., Any] | RunnableTool
"""A function, plain or ``async``, or a tool that has a `definition` and a `call`."""


def function_tool(function: PythonTool) -> RunnableTool:
    """Make a tool of a function: its name, its docstring, and a schema of its parameters; a tool stays what it is.

    A plain function is called in a thread of its own. What it returns is sent as text, or as JSON.

    Raises:
        ChatmdError: its parameters cannot be given by name, or have types that no JSON has.

    >>> def add(a: int, b: int = 0) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: the first one.
    ...     '''
    ...     return a + b
    >>> definition = function_tool(add).definition
    >>> definition.name, definition.description, definition.parameters["properties"]["a"]["description"]
    ('add', 'Add two numbers.', 'the first one.')
    >>> asyncio.run(function_tool(add).call({"a": 2, "b": 3})).text
    '5'
    """
    if not callable(function):
        return function
    from pydantic import PydanticUserError, TypeAdapter, validate_call
    from pydantic_core import to_json

    name = getattr(function, "__name__", type(function).__name__)
    try:
        checked: Callable[..., Any] = validate_call(function)
        schema = TypeAdapter[Any](function).json_schema()  # type: ignore[arg-type]
    except (PydanticUserError, NameError, TypeError) as error:
        hint = "annotate its parameters with types that JSON supports, such as str, int, list[str], a Pydantic model"
        raise ChatmdError(f"this cannot be a tool: {name}: {str(error).splitlines()[0]}", hint=hint) from error
    if schema.get("type") != "object":
        raise ChatmdError(f"this cannot be a tool: {name}", hint="each parameter must be a keyword")
    about, described = read_docstring(inspect.getdoc(function) or "")
    for parameter, text in described.items():
        if parameter in schema["properties"]:
            schema["properties"][parameter]["description"] = text

    async def call(**arguments: Any) -> ToolOutput | str:
        if inspect.iscoroutinefunction(function):
            value = await checked(**arguments)
        else:
            value = await asyncio.to_thread(checked, **arguments)
        return value if isinstance(value, str | ToolOutput) else to_json(value, fallback=str).decode()

    return FunctionTool(ToolDefinition(name, about, schema), call)


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):?\s*$|^:\w+|^>>> ", re.MULTILINE)
_ITEM = re.compile(
    r"^(?:\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?|:param (?:\w+ )?(\w+)):\s+(.+(?:\n\s{8,}\S.*)*)", re.MULTILINE
)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of a function, and of each parameter (as Google or Sphinx have it).

    >>> read_docstring("Add.\\n\\n:param a: one\\n:returns: the sum")
    ('Add.', {'a': 'one'})
    """
    section = _SECTION.search(text)
    about = text[: section.start()] if section else text
    rest = text[len(about) :].partition("Returns:")[0]
    return about.strip(), {one[1] or one[2]: " ".join(one[3].split()) for one in _ITEM.finditer(rest)}
