"""The tools that a file declares: open them, list their definitions, and make the calls of a reply.

If a call fails - unknown tool, arguments that are not JSON or do not fit, an error, a time-out - the error is its
result. Tools get arguments that fit their schema, and known secrets are removed from their output.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import TracebackType
from typing import Any

from chatmd.content.expand import locate
from chatmd.context import AgentRequest, Approve, Run
from chatmd.errors import WITHOUT, ChatmdError, StoppedByUser, ToolNotAvailable
from chatmd.language.agent import AgentSpec, DeclaredInput, MessageItem, SubAgent, Tool, read_agent, text_of
from chatmd.language.nodes import Comment, Element, SyntaxTree
from chatmd.language.syntax import parse
from chatmd.language.transcript import storable, without_marks
from chatmd.tools.consent import REFUSED, Declaration, own_declarations
from chatmd.tools.registry import CURRENT_CALL_ID, FunctionTool, kind_of, load_json
from chatmd.tools.text_files import cut
from lmm.disk.files import read_document
from lmm.errors import DocumentError, LmmError
from lmm.messages import Notice, ToolCall, ToolDefinition, ToolOutput, ToolResult, object_schema
from lmm.models.port import RunnableTool

# -- Another ChatMD file as a tool: it gets the model's input, and returns its answer --------------------------


_INPUT = {"type": "string", "description": "What it is to do, with all that it has to know: it sees nothing else."}


@asynccontextmanager
async def open_agent(declared: Tool, run: Run) -> AsyncIterator[Sequence[RunnableTool]]:
    """Open the tool of ``<tool name="…" agent="…"/>``; its file is read again at each call.

    Its arguments are ``input`` and the inputs that the file declares.
    """

    async def ask(input: str = "", **values: object) -> str:
        return await run.ask(run, AgentRequest(declared.agent, declared.local, run.folder, (input,), values))

    inputs: tuple[DeclaredInput, ...] = ()
    description = declared.description or f"Ask the agent in {declared.agent}, and get its answer."
    with contextlib.suppress(LmmError):  # a call reports the error
        if declared.local:
            document = _document_in(declared.agent, run)
            spec = read_agent(document)
            inputs = spec.inputs
            description = declared.description or describe_prompt(declared.agent, document, spec)
    yield [FunctionTool(ToolDefinition(declared.name, description, agent_schema(inputs, input=_INPUT)), ask)]


def agent_schema(
    inputs: Sequence[DeclaredInput], *, input: Mapping[str, Any], needs_input: bool = True
) -> dict[str, Any]:
    """Return the schema of an agent as a tool: the inputs that its file declares, and `input`, its user message.

    `input` is optional if the agent declares inputs.
    """
    declared = {one.name: one.schema for one in inputs}
    needed = [one.name for one in inputs if one.value is None]
    return object_schema([*needed, *(["input"] if needs_input and not inputs else [])], **{"input": input} | declared)


_LONGEST_ABOUT = 500  # characters of a description


def describe_prompt(name: str, document: SyntaxTree, spec: AgentSpec) -> str:
    """Describe a prompt by the comment at its top, or the first sentence of its instructions, or its name."""
    for node in document.children:
        if isinstance(node, Comment) and (words := " ".join(node.value.split())):
            return words[:_LONGEST_ABOUT]
        if isinstance(node, Element):
            break
    messages = (item for item in spec.items if isinstance(item, MessageItem) and item.role in ("system", "developer"))
    instructions = next(messages, MessageItem("system"))
    text = " ".join(text_of(instructions.content).split())
    return re.split(r"(?<=[.!?]) ", text)[0][:_LONGEST_ABOUT] or f"The agent {name}."


def agent_in(src: str, run: Run) -> AgentSpec:
    """Read the agent in a file.

    Raises:
        InvalidDocument: the file has errors.
        ChatmdError: the file is missing, outside of the allowed folders, or cannot be read.
    """
    return read_agent(_document_in(src, run))


def _document_in(src: str, run: Run) -> SyntaxTree:
    path = locate(src, run)
    try:
        document = parse(read_document(path), file=str(path))
    except DocumentError as error:
        raise ChatmdError(f"'{src}': {error.message}", hint=error.hint) from error
    return run.rules.imported(document)


def may_write(declared: Tool, run: Run, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a call of a tool could change something that another call of the same reply reads.

    It could if the tool writes, runs a program, or is a server's. An agent could if one of its tools could, or an agent
    that it asks; one that cannot be read could do anything.
    """
    if declared.kind == "agent" and not declared.local:
        return False  # it gets no tools
    try:
        if declared.kind != "agent":
            return not kind_of(declared).powers <= {"read", "network"}
        path = locate(declared.agent, run)
        spec = agent_in(declared.agent, run)
    except LmmError as error:
        return not isinstance(error, ToolNotAvailable)
    if str(path) in seen:
        return False
    inside = replace(run, folder=path.parent)
    agents = [Tool("agent", one.src, agent=one.src, local=one.local) for one in spec.parts if isinstance(one, SubAgent)]
    checks = spec.output is not None and bool(spec.output.check)
    return checks or any(may_write(tool, inside, seen | {str(path)}) for tool in (*spec.tools, *agents))


# -- The definitions that a file's tools would offer to a model ------------------------------------------------


KINDS = {"builtin": "built in", "command": "command", "agent": "agent", "mcp": "MCP server", "function": "Python"}
"""The names of the kinds of tools, for people."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of one declaration: `definitions` as the model gets them, or the `problem` with it.

    An agent whose file is missing or has errors has a problem too, although a run would offer it.

    `powers` are names as in `chatmd.tools.registry.Power`. The tools of a server that was not `opened` are unknown.
    """

    declared: Tool = field(repr=False)
    declaration: Declaration = field(repr=False)
    powers: tuple[str, ...]
    definitions: tuple[ToolDefinition, ...] = ()
    opened: bool = True
    problem: str = ""

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self.definitions) or self.declaration.name
        return f"<Offer {names}: {self.problem or self.declaration.words}>"


async def offered_by(spec: AgentSpec, run: Run, *, servers: bool = False) -> tuple[Offer, ...]:
    """Return what each tool declaration of a file offers, in order, then the functions of the caller.

    With `servers`, its MCP servers are started or called to list their tools: get consent before.
    """
    declarations = own_declarations(spec, run).declarations
    offers = [await _offer(*pair, run, servers) for pair in zip(spec.tools, declarations, strict=False)]
    for definition in (one.definition for one in run.functions):
        tool, words = Tool("function", definition.name), "calls a function of your program"
        offers.append(Offer(tool, Declaration(definition.name, words, False, ""), (), (definition,)))
    return tuple(offers)


async def _offer(tool: Tool, declaration: Declaration, run: Run, servers: bool) -> Offer:
    powers: tuple[str, ...] = ()
    try:
        kind = kind_of(tool)
        powers = tuple(sorted(kind.powers))
        if tool.kind == "mcp" and not servers:
            return Offer(tool, declaration, powers, opened=False)
        if tool.kind == "agent" and tool.local:
            agent_in(tool.agent, run)
        async with kind.load()(tool, run) as tools:
            return Offer(tool, declaration, powers, tuple(one.definition for one in tools))
    except LmmError as error:
        return Offer(tool, declaration, powers, problem=str(error))


def type_in_words(schema: Mapping[str, Any]) -> str:
    """Describe the type of a JSON schema in a few words.

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


# -- Open the tools that a file declares ----------------------------------------------------------------------


_GRACE = 5.0  # seconds: tools with a timeout of their own report it better


async def open_tools(declared: Iterable[Tool], run: Run, stack: AsyncExitStack) -> dict[str, OpenTool]:
    """Open the declared tools and return them by the names that the model uses; they are closed with `stack`.

    A tool that only ochat supports is left out, with a notice; with ``skip_missing_tools`` also a program that is
    missing and an MCP server that does not answer.

    Raises:
        ChatmdError: a tool is unknown, it cannot be opened, or two have the same name.
    """
    found = list[tuple[OpenTool, str, str]]()
    for one in declared:
        try:
            opened = await stack.enter_async_context(kind_of(one).load()(one, run))
        except LmmError as error:
            may_miss = run.options.skip_missing_tools and one.kind in ("command", "mcp")
            if not (may_miss or isinstance(error, ToolNotAvailable)):
                raise
            run.emit(Notice(f"{WITHOUT}{one.name or one.server}: {error}"))
            continue
        hint = 'give its tools a prefix="…"' if one.kind == "mcp" else "rename one of them"
        # An agent without a timeout has the limits of the run.
        has_none = one.timeout is None and one.kind == "agent"
        timeout = None if has_none else (one.timeout or run.rules.tool_timeout) + _GRACE
        found += [(OpenTool(tool, timeout, may_write(one, run)), one.span.where, hint) for tool in opened]
    for function in run.functions:
        own = OpenTool(function, run.rules.tool_timeout, longest=run.rules.max_output)
        found.append((own, "", "rename the function"))
    tools: dict[str, OpenTool] = {}
    for added, where, hint in found:
        if (name := added.tool.definition.name) in tools:
            raise ChatmdError(f"there are two tools named '{name}'", where=where, hint=hint)
        tools[name] = added
    return tools


# -- Make the calls of a reply, each with a result for the model ------------------------------------------------


_log = logging.getLogger(__name__)
_LONGEST_MESSAGE = 500
_MOST_PROBLEMS = 5
CANCELLED = "The user cancelled this call before it returned. It may have had an effect."
NOT_MADE = "The user ended the turn before this call was made. It had no effect."


@dataclass(frozen=True, slots=True)
class OpenTool:
    """An open tool, the timeout of its calls in seconds (None for no limit), and whether they may change something.

    Results of more than `longest` characters are shortened; tools that a file declares do that themselves.
    """

    tool: RunnableTool
    timeout: float | None = None
    may_write: bool = True
    longest: int | None = None


@dataclass(slots=True)
class ToolCaller:
    """Makes calls of `tools` in an order in which none reads what an earlier one writes, at most `parallel` at once.

    `scrub` removes secrets from texts. `began` is called before each call, `ended` with its result.
    """

    tools: Mapping[str, OpenTool]
    parallel: int = 8
    scrub: Callable[[str], str] = str
    approve: Approve | None = None
    began: Callable[[ToolCall], None] = lambda call: None
    ended: Callable[[ToolResult], None] = lambda result: None
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stopped: bool = False

    async def call(self, calls: Sequence[ToolCall], results: dict[int, ToolResult]) -> None:
        """Make `calls`; the result of number n is stored in `results` under n, as soon as it is available.

        Raises:
            StoppedByUser: the user ended the run when asked about a call; calls that have not ended are cancelled.

        If this is cancelled or raises, calls that had not begun have a result that says so, unfinished ones have none.
        """
        made: set[int] = set()
        self._stopped = False
        limit = asyncio.Semaphore(self.parallel)
        ended = [asyncio.Event() for _ in calls]
        writes = [call.name in self.tools and self.tools[call.name].may_write for call in calls]

        async def one(number: int, call: ToolCall) -> None:
            for earlier in range(number):  # one that may write waits for all before it, others for those that may
                if writes[number] or writes[earlier]:
                    await ended[earlier].wait()
            async with limit:
                if self._stopped:
                    return
                start = time.monotonic()
                CURRENT_CALL_ID.set(call.id)
                self.began(call)
                result = await self._result(call, lambda: made.add(number))
                results[number] = replace(result, seconds=time.monotonic() - start)
                self.ended(results[number])
            ended[number].set()

        try:
            async with asyncio.TaskGroup() as group:
                for number, call in enumerate(calls):
                    group.create_task(one(number, call))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            for number, call in enumerate(calls):
                if number not in made and number not in results:
                    results[number] = ToolResult(call.id, call.name, NOT_MADE, failed=True)

    async def _result(self, call: ToolCall, begins: Callable[[], None]) -> ToolResult:
        try:
            output = await self._output(call, begins)
        except StoppedByUser:
            raise
        except LmmError as error:
            output = ToolOutput(str(error), failed=True)
        except Exception as error:  # whatever a tool does, the run goes on
            _log.error("the tool %s failed", call.name, exc_info=(type(error), error, _outside(error.__traceback__)))
            output = ToolOutput(f"{call.name} failed: {type(error).__name__}: {error}", failed=True)
        # A tool's output must not pass for a message of the user.
        text = without_marks(self.scrub(storable(output.text)))
        return ToolResult(call.id, call.name, text, output.images, output.failed)

    async def _output(self, call: ToolCall, begins: Callable[[], None]) -> ToolOutput:
        known = self.tools.get(call.name)
        if known is None:
            close = get_close_matches(call.name, self.tools, n=1)
            suggestion = f" Did you mean {close[0]}?" if close else ""
            available = f"The tools are: {', '.join(self.tools)}." if self.tools else "There are no tools at all."
            return ToolOutput(f"There is no tool '{call.name}'.{suggestion} {available}", failed=True)
        try:
            arguments, problem = fit_arguments(known.tool, read_arguments(known.tool, call.arguments))
        except (ValueError, RecursionError) as error:
            return ToolOutput(f"The arguments are not JSON: {error}. Call again with correct JSON.", failed=True)
        if problem:
            return ToolOutput(problem, failed=True)
        if self.approve is not None:
            async with self._asking:
                if self._stopped:
                    raise StoppedByUser("the user ended the turn")
                try:
                    approved = await self.approve(call)
                except StoppedByUser:
                    self._stopped = True
                    raise
            if approved is not True:
                return ToolOutput(approved or REFUSED, failed=True)
        begins()
        try:
            async with asyncio.timeout(known.timeout) as limit:
                output = await known.tool.call(arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            return ToolOutput(f"No result after {known.timeout:g} s; the call was given up.", failed=True)
        return output if known.longest is None else replace(output, text=cut(output.text, known.longest))


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from where it leaves what calls a tool."""
    passed = {"chatmd", "lmm", "asyncio", "concurrent", "pydantic"}
    place = traceback
    while place is not None and place.tb_frame.f_globals.get("__name__", "").partition(".")[0] in passed:
        place = place.tb_next
    return place or traceback


def read_arguments(tool: RunnableTool, written: str) -> Any:
    """Parse the arguments that a model wrote. Some tools also accept other names, or text that is not JSON: a patch.

    Raises:
        ValueError, RecursionError: they cannot be parsed.
    """
    return getattr(tool, "read_arguments", load_json)(written or "{}")


def fit_arguments(tool: RunnableTool, arguments: Any) -> tuple[Any, str]:
    """Return arguments as the schema of a tool has them, and what does not fit, with all that the tool takes.

    Where a value does not fit, null is left out, and so is an empty text for an optional argument; texts of numbers,
    of truth values and of JSON become what they mean.
    """
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    name, schema = tool.definition.name, dict(tool.definition.parameters)
    if getattr(tool, "judges_arguments", False) and isinstance(arguments, dict):
        return arguments, ""
    # With an empty registry, a validator fetches nothing.
    validator = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
    if isinstance(arguments, dict):
        needed = schema.get("required", ())
        for error in validator.iter_errors(arguments):
            if len(error.absolute_path) == 1:
                arguments = _converted(arguments, str(error.absolute_path[0]), error.schema, needed)
        problems = [problem for error in validator.iter_errors(arguments) for problem in _problems(error)]
    else:
        problems = ["they must be a JSON object"]
    if not problems:
        return arguments, ""
    listed = "; ".join(list(dict.fromkeys(sorted(problems)))[:_MOST_PROBLEMS])
    return arguments, f"The arguments do not fit: {listed}. {name} takes: {arguments_in_words(schema) or 'none'}."


def _converted(arguments: dict[str, Any], key: str, schema: Any, needed: Collection[str]) -> dict[str, Any]:
    """Return the arguments with what a value that does not fit its schema stands for, if that is certain."""
    value = arguments.get(key)
    if value is None or (value == "" and key not in needed):
        return {name: each for name, each in arguments.items() if name != key}
    kinds = {part.get("type") for part in (schema, *schema.get("anyOf", ())) if isinstance(part.get("type"), str)}
    if isinstance(value, str) and kinds & {"integer", "number", "boolean", "array", "object"}:
        with contextlib.suppress(ValueError, RecursionError):
            parsed = json.loads(value.lower() if "boolean" in kinds else value)
            return arguments if isinstance(parsed, str) else arguments | {key: parsed}
    return arguments


def _problems(error: Any) -> Iterator[str]:
    if not error.absolute_path and error.validator == "required":
        yield from (f"'{name}' is missing" for name in error.validator_value if name not in error.instance)
    elif not error.absolute_path and error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        yield from (f"'{name}' is none of its arguments" for name in error.instance if name not in known)
    else:
        place = ".".join(map(str, error.absolute_path))
        message = error.message if len(error.message) <= _LONGEST_MESSAGE else error.message[:_LONGEST_MESSAGE] + "…"
        yield f"{place}: {message}" if place else message


def arguments_in_words(schema: Mapping[str, Any]) -> str:
    """List the arguments of a tool with their types.

    >>> arguments_in_words(object_schema(("path",), path={"type": "string"}, count={"type": "integer"}))
    'path (string), count (integer, optional)'
    """
    needed = schema.get("required", ())
    named = ((name, type_in_words(each)) for name, each in schema.get("properties", {}).items())
    return ", ".join(f"{name} ({kind}{'' if name in needed else ', optional'})" for name, kind in named)
