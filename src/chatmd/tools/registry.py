"""The registry of tools: their names, the functions that open them, and their powers.

Modules are imported when a prompt declares one of their tools. Other Python packages add tools by an entry point in
the group ``chatmd.tools``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, cast

from chatmd.context import Run
from chatmd.errors import ChatmdError, ToolNotAvailable
from chatmd.language.agent import Tool
from lmm.messages import ToolDefinition, ToolOutput, object_schema
from lmm.models.port import RunnableTool

Power = Literal["read", "write", "process", "network", "agent"]
OpenTools = AbstractAsyncContextManager[Sequence[RunnableTool]]
Opener = Callable[[Tool, Run], OpenTools]
"""Open the tools of a declaration, or raise a `ChatmdError` with the place and the reason."""


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A kind of tool: `opener` is ``module:function``, an `Opener`; `powers` are all that its tools can have."""

    opener: str
    powers: frozenset[Power]

    def load(self) -> Opener:
        """Import the module and return the function.

        Raises:
            ChatmdError: the module, of another package, cannot be imported, or has no such function.
        """
        module, _, function = self.opener.partition(":")
        try:
            return cast(Opener, getattr(import_module(module), function))
        except (ImportError, AttributeError) as error:
            raise ChatmdError(f"the tool's module cannot be loaded: {error}", where=self.opener) from error


def _row(opener: str, *powers: Power) -> ToolKind:
    return ToolKind(opener, frozenset(powers))


# Kinds that an attribute of <tool> selects.
KINDS: dict[str, ToolKind] = {
    "command": _row("chatmd.tools.command:open_command", "process"),
    "agent": _row("chatmd.tools.calling:open_agent", "agent"),
    "mcp": _row("chatmd.tools.mcp:open_server", "process", "network"),
}
# Built-in tools, by the name in <tool name="…"/>.
BUILTINS: dict[str, ToolKind] = {
    "read_file": _row("chatmd.tools.files:open_read_file", "read"),
    "read_directory": _row("chatmd.tools.files:open_read_directory", "read"),
    "read_skill": _row("chatmd.tools.files:open_read_skill", "read"),
    "search_files": _row("chatmd.tools.files:open_search_files", "read"),
    "write_file": _row("chatmd.tools.files:open_write_file", "write"),
    "append_to_file": _row("chatmd.tools.files:open_append_to_file", "write"),
    "find_and_replace": _row("chatmd.tools.files:open_find_and_replace", "write"),
    "apply_patch": _row("chatmd.tools.patch:open_apply_patch", "write"),
    "webpage_to_markdown": _row("chatmd.tools.web:open_webpage_to_markdown", "network"),
    "import_image": _row("chatmd.tools.files:open_import_image", "read"),
    # These are in the package lmm_education, which this one does not import.
    "course_search": _row("lmm_education.agent_tools:open_course_search", "read"),
    "index_markdown_docs": _row("lmm_education.agent_tools:open_index_markdown_docs", "read", "write"),
    "markdown_search": _row("lmm_education.agent_tools:open_markdown_search", "read"),
}
# Names of built-in tools in other programs.
ALIASES = {"get_contents": "read_file", "read_dir": "read_directory"}
# Tools of other programs that we do not have, with what to use instead.
ELSEWHERE: dict[str, str] = {
    "odoc_search": "markdown_search finds passages in documentation that index_markdown_docs has read",
    "query_vector_db": "markdown_search asks what index_markdown_docs has read, course_search what lmm ingest has",
    "index_ocaml_code": "search_files finds text and patterns in code; documents: index_markdown_docs",
    "meta_refine": "prompts are improved on cases, and outside of a run: lmm refine",
    "fork": 'let an agent of its own do that part of the work: agent="part.chatmd" local',
}
GROUP = "chatmd.tools"


def kind_of(declared: Tool) -> ToolKind:
    """Return the kind of a declared tool.

    Raises:
        ToolNotAvailable: it is a tool of ochat that is not available here.
        ChatmdError: there is no tool of that name.
    """
    if declared.kind != "builtin":
        return KINDS[declared.kind]
    where = declared.span.where
    name = ALIASES.get(declared.name, declared.name)
    if name in BUILTINS:
        return BUILTINS[name]
    for found in entry_points(group=GROUP, name=name):
        return _row(found.value, "read", "write", "process", "network")
    if name in ELSEWHERE:
        raise ToolNotAvailable(f"ochat's tool '{name}' is not available here", where=where, hint=ELSEWHERE[name])
    close = get_close_matches(name, [*BUILTINS, *ALIASES], n=1)
    known = f'built in: {", ".join(BUILTINS)}; your own program: command="…"; in Python, functions: tools=[…]'
    hint = f"did you mean {close[0]}?" if close else known
    raise ChatmdError(f"there is no built-in tool '{declared.name}'", where=where, hint=hint)


# -- Functions as tools, with a definition written by hand -----------------------------------------------------


def load_json(text: str) -> Any:
    """Parse JSON in which a text may contain line breaks."""
    return json.loads(text, strict=False)


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool that calls `function` with the arguments by name, in a thread unless it is ``async``.

    Its value is sent as text, or as JSON (`as_json`), unless it is a `ToolOutput`. `read_arguments` parses the
    arguments that a model wrote, and raises ValueError if it cannot.
    """

    definition: ToolDefinition
    function: Callable[..., Any]
    read_arguments: Callable[[str], Any] = load_json

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        if inspect.iscoroutinefunction(self.function):
            output = await self.function(**arguments)
        else:
            output = await asyncio.to_thread(self.function, **arguments)
        if isinstance(output, ToolOutput):
            return output
        return ToolOutput(output if isinstance(output, str) else as_json(output))


def as_json(value: object) -> str:
    """Return a value of Python as JSON: dataclasses, dates, sets, arrays, and tables with the names of their rows.

    >>> import numpy
    >>> as_json({"mean": numpy.float64(2.5), "n": numpy.int64(4), "values": numpy.array([1, float("nan")])})
    '{"mean":2.5,"n":4,"values":[1.0,"NaN"]}'

    Raises:
        TypeError: it has a part that JSON cannot express.
    """
    from pydantic_core import PydanticSerializationError, to_json  # not needed by our own tools

    if isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return to_json(value, fallback=_data_of, inf_nan_mode="strings").decode()
    except PydanticSerializationError as error:
        reason = str(error).partition(": ")[2].removeprefix("TypeError: ")
        raise TypeError(f"its value cannot be sent to a model as JSON: {reason}") from None


def _data_of(value: Any) -> object:
    """Return the data in an object of a library: polars, pandas, pyarrow, NumPy; else its text, if it has one."""
    if hasattr(value, "to_frame"):  # a column or an index of pandas or polars
        value = value.to_frame()
    for method, how in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("split",)), ("tolist", ())):
        if hasattr(value, method):
            return getattr(value, method)(*how)
    if isinstance(value, Iterable):
        return list(value)
    if str(value) == object.__repr__(value):
        raise TypeError(f"return text, numbers, lists or dicts instead of {type(value).__name__}")
    return str(value)


def offer(
    name: str, function: Callable[..., ToolOutput | str] | Callable[..., Awaitable[str]], description: str,
    required: Sequence[str], read: Callable[[str], Any] = load_json, **properties: Mapping[str, Any],
) -> OpenTools:  # fmt: skip
    """Return one tool that calls a function with these properties by name."""
    definition = ToolDefinition(name, description, object_schema(required, **properties))
    return nullcontext([FunctionTool(definition, function, read)])


def renaming(**names: str) -> Callable[[str], Any]:
    """Return a parser of arguments that also accepts other `names` for some of them.

    >>> renaming(file="path")('{"file": "a.md"}'), renaming(file="path")('{"file": "b", "path": "a.md"}')
    ({'path': 'a.md'}, {'file': 'b', 'path': 'a.md'})
    """

    def read(text: str) -> Any:
        arguments = load_json(text)
        if not isinstance(arguments, dict):
            return arguments
        return {key if names.get(key, key) in arguments else names[key]: value for key, value in arguments.items()}

    return read


# -- Python functions as tools, defined by their signatures and docstrings ---------------------------------


PythonTool = Callable[..., Any] | RunnableTool
"""A function, plain or ``async``, or a tool with a `definition` and a `call`."""


def function_tool(function: PythonTool) -> RunnableTool:
    """Make a tool from a function, with its name, its docstring, and a schema of its parameters; return tools as given.

    A plain function is called in a thread of its own. Its value is sent as text, or as JSON.

    Raises:
        ChatmdError: a parameter cannot be passed by name, or has a type that JSON does not support.

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
        if not hasattr(function, "definition"):
            hint = "give a list of functions: tools=[add]"
            raise ChatmdError(f"this cannot be a tool: {function!r}", hint=hint)
        return function
    named = getattr(function, "func", function)  # of functools.partial
    name = getattr(named, "__name__", type(named).__name__)
    if not name.isidentifier():
        hint = "models call tools by name: define it with def, and a docstring that says what it is for"
        raise ChatmdError(f"this cannot be a tool: {name} has no name", hint=hint)
    checked, schema = _checked(function, name)
    about, described = read_docstring(inspect.getdoc(named) or "")
    for parameter, text in described.items():
        if parameter in schema["properties"]:
            schema["properties"][parameter]["description"] = text
    return FunctionTool(ToolDefinition(name, about, schema), checked)


def _checked(function: Callable[..., Any], name: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a function that checks its arguments, and their schema."""
    from pydantic import PydanticUserError, TypeAdapter, validate_call

    def refusal(fact: str, hint: str) -> ChatmdError:
        return ChatmdError(f"this cannot be a tool: {name} {fact}", hint=hint)

    wrapped = f"write a function that calls it: def use_{name}(…), with a type for each parameter"
    if isinstance(function, type):
        raise refusal("is a class", wrapped)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise refusal("does not say what its parameters are", wrapped) from error
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY):
            raise refusal(f"takes {one}, and models pass each argument by its name", wrapped)
    if untyped := [one.name for one in parameters if one.annotation is one.empty and one.kind is not one.VAR_KEYWORD]:
        advice = f"models may pass anything; write {untyped[0]}: int"
        warnings.warn(f"the tool {name} has no types for {', '.join(untyped)}: {advice}", stacklevel=2)
    try:
        return validate_call(function), TypeAdapter[Any](function).json_schema()  # type: ignore[arg-type]
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]  # without advice for users of Pydantic
        found = re.search(r"<class '(.+?)'>|core_schema\.(\w+)Schema", reason)
        hint = "types that JSON supports are str, int, float, bool, list[str], dict, dataclasses, Pydantic models"
        kind = found[1] or found[2] if found else reason
        raise refusal(f"has a parameter whose type cannot be sent to a model: {kind}", hint) from error


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):?\s*$|^:\w+|^>>> ", re.MULTILINE)
_ITEM = re.compile(
    r"^(?:\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?|:param (?:\w+ )?(\w+)):\s+(.+(?:\n\s{8,}\S.*)*)", re.MULTILINE
)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a function and of its parameters from a docstring (Google or Sphinx style).

    >>> read_docstring("Add.\\n\\n:param a: one\\n:returns: the sum")
    ('Add.', {'a': 'one'})
    """
    section = _SECTION.search(text)
    about = text[: section.start()] if section else text
    rest = text[len(about) :].partition("Returns:")[0]
    return about.strip(), {one[1] or one[2]: " ".join(one[3].split()) for one in _ITEM.finditer(rest)}


CURRENT_CALL_ID: ContextVar[str] = ContextVar("PRESENT", default="")
"""The id of the call that is being made, for code that acts on its behalf."""
IN_ORDER = "It begins after all calls before it in the same reply have ended."
"""What the descriptions of tools that write files or run programs say about it."""
