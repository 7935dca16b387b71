"""The server of `lmm mcp`: a course and prompt files as tools and prompts, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from chatmd.context import Run, RunOptions
from chatmd.errors import ChatmdError
from chatmd.language.agent import DeclaredInput, interpret
from chatmd.language.imports import resolve_imports
from chatmd.language.nodes import BLANK, Comment, Element, SyntaxTree
from chatmd.language.syntax import errors_of, parse
from chatmd.language.transcript import gap, user_text
from chatmd.rendering import render_text
from chatmd.runtime.runner import prepare, reply_to
from chatmd.tools.calling import agent_schema, describe_prompt, fit_arguments
from chatmd.tools.mcp import model_names
from lmm.disk.files import read_document
from lmm.errors import ConfigError, LmmError
from lmm.messages import Image, Message, ToolDefinition, ToolOutput, encodable, message_parts
from lmm.models.port import RunnableTool
from lmm.server_socket import bounded
from lmm.stdin_lines import lines_of_stdin
from lmm.terminal import count

if TYPE_CHECKING:
    import socket

# -- The ChatMD files of a folder, read again for each request -------------------------------------------------


SUFFIXES = (".chatmd", ".md")
_MOST = 500  # files


LONGEST_INPUT = 200_000
"""The maximum number of characters of a prompt's input."""
_INPUT = {"type": "string", "maxLength": LONGEST_INPUT}


@dataclass(frozen=True, slots=True)
class PromptTool:
    """A prompt file as a tool: each call is a run of its own, with the limits in `options`.

    `name` is the name of the tool and of the prompt; `problem` says why the file cannot be run, if it cannot;
    `needs_input` is true if the file itself asks nothing. The file stays unchanged. No one can be asked for consent
    here: without ``yes``, only what the user agreed to before is allowed.
    """

    path: Path
    name: str
    description: str
    needs_input: bool
    problem: str = ""
    inputs: tuple[DeclaredInput, ...] = ()
    options: RunOptions = field(default_factory=RunOptions)

    @property
    def definition(self) -> ToolDefinition:
        meaning = "what it is to do, with all that it has to know: it sees nothing else"
        schema = agent_schema(self.inputs, input={**_INPUT, "description": meaning}, needs_input=self.needs_input)
        return ToolDefinition(self.name, self.description, schema)

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        if self.problem:
            raise ChatmdError(f"this prompt has errors: {self.problem}", hint="lmm check lists them")
        text, run = await self._prepared(arguments)
        return ToolOutput((await reply_to(text, "", run))[0])

    async def messages(self, arguments: Mapping[str, Any]) -> Sequence[Message]:
        """Return the messages that its model would get, with documents and images in place.

        Raises:
            LmmError: the file cannot be read or run, nobody agreed to what it does, or a model does not answer.
        """
        text, run = await self._prepared(arguments)
        async with run.in_time():
            rendered = await render_text(text, self.path, run, run_agents=True)
        return [one.message for one in rendered.messages]

    async def _prepared(self, arguments: Mapping[str, Any]) -> tuple[str, Run]:
        """Return the file's text with the user's input, and its run, with the values of declared inputs."""
        values = dict(arguments)
        if len(input := values.pop("input", "")) > LONGEST_INPUT:
            raise ChatmdError(f"the input has more than {LONGEST_INPUT:,} characters", where=self.path.name)
        text = await asyncio.to_thread(read_document, self.path)
        text += gap(text) + user_text(input) if input.strip() else ""
        return text, prepare(self.path, replace(self.options, inputs=values))


def read_prompts(
    folder: Path, *, reserved_names: Iterable[str] = (), imported: Callable[[SyntaxTree], SyntaxTree] = resolve_imports
) -> tuple[list[PromptTool], list[str]]:
    """Return the prompt files of a folder, by name, and notes on what is not published or has errors.

    Files that end in ``.chatmd`` are prompts; those in ``.md`` if they begin as prompts do. A file with errors is
    published: a call says what is wrong, and works once that is mended. `reserved_names` are other tools, `imported`
    puts imports in their places.
    """
    found, notes, paths = list[tuple[Path, SyntaxTree]](), list[str](), list[Path]()
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    except FileNotFoundError:  # until it is back
        pass
    except OSError as error:
        notes.append(f"{folder} cannot be read: {error.strerror}")
    paths = [path for path in paths if path.is_file()]
    if (more := len(paths) - _MOST) > 0:
        left_out = f"{count(more, 'file')} of {folder} {'is' if more == 1 else 'are'} not published"
        notes.append(f"{left_out}: there are more than {_MOST}")
    for path in paths[:_MOST]:
        try:
            document = parse(read_document(path), file=str(path))
        except LmmError as error:
            notes.append(f"{path.name} is not published: {error.message}")
            continue
        text = (one for one in document.children if not isinstance(one, Comment))
        first = next((one for one in text if isinstance(one, Element) or one.value.strip(BLANK + "\ufeff")), None)
        if path.suffix == ".chatmd" or isinstance(first, Element):
            found.append((path, document))
    names = model_names([path.stem for path, _ in found])
    others, prompts = set(reserved_names), list[PromptTool]()
    for path, document in found:
        name = names[path.stem]
        if name in others:
            notes.append(f"{path.name} is not published: there is another tool '{name}' (rename the file)")
            continue
        others.add(name)
        spec, wrong = interpret(imported(document))
        errors = errors_of((*document.problems, *wrong))
        problem = f"{errors[0].span.where}: {errors[0].message}" if errors else ""
        if problem:
            notes.append(f"{path.name} has errors, so calls of the tool '{name}' fail: {problem}")
        about = encodable(describe_prompt(path.name, document, spec))
        prompts.append(PromptTool(path, name, about, spec.waits_for_user, problem, spec.inputs))
    return prompts, notes


class PublishedCourse(Protocol):
    """A course, as `lmm_education.agent_tools` opens it."""

    @property
    def title(self) -> str: ...
    @property
    def instructions(self) -> str: ...
    @property
    def tools(self) -> Sequence[RunnableTool]: ...
    @property
    def is_empty(self) -> bool: ...


# -- The server: over standard input and output, or over HTTP, until the client or user ends it ----------------


logger = logging.getLogger("lmm.mcp")
_MOST_CALLS = 8  # at once; others wait
_HEARTBEAT = 5.0  # seconds between signs of life during a long call


@dataclass(slots=True)
class PublishedTools:
    """Everything that is published: a course, and the prompt files of a folder, run with `options`.

    Each request reads the folder again. `note` is called with remarks for the person who runs the server.
    """

    course: PublishedCourse | None = None
    folder: Path | None = None
    options: RunOptions = field(default_factory=RunOptions)
    note: Callable[[str], None] = lambda text: None
    prompts: Mapping[str, PromptTool] = field(default_factory=dict)
    _notes: frozenset[str] = frozenset()
    _imported: Callable[[SyntaxTree], SyntaxTree] = resolve_imports
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_CALLS))

    @property
    def tools(self) -> dict[str, RunnableTool]:
        """The tools by name: the course's, then one for each prompt file."""
        return {**self._course_tools, **self.prompts}

    @property
    def _course_tools(self) -> dict[str, RunnableTool]:
        return {tool.definition.name: tool for tool in self.course.tools} if self.course else {}

    def refresh(self) -> None:
        """Read the folder again."""
        if self.folder is None:
            return
        with contextlib.suppress(ConfigError):  # each call fails with it, and says so
            self._imported = prepare(self.folder / "prompt", self.options).rules.imported
        prompts, notes = read_prompts(self.folder, reserved_names=self._course_tools, imported=self._imported)
        for text in notes:
            if text not in self._notes:
                self.note(text)
        self.prompts = {prompt.name: replace(prompt, options=self.options) for prompt in prompts}
        self._notes = frozenset(notes)

    def server(self) -> Server[Any]:
        """Create the SDK's server."""
        prompts: dict[str, Any] = {}
        if self.folder is not None:
            prompts = {"on_list_prompts": self._list_prompts, "on_get_prompt": self._get_prompt}
        return Server(
            "lmm",
            title=self.course.title if self.course is not None else "LM Markdown",
            version=version("lmmarkdown"),
            instructions=self.course.instructions if self.course is not None else None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            **prompts,
        )

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        self.refresh()
        reads, made = types.ToolAnnotations(read_only_hint=True, open_world_hint=False), []
        for one in (tool.definition for tool in self.tools.values()):
            hints, schema = None if one.name in self.prompts else reads, dict(one.parameters)
            tool = types.Tool(name=one.name, description=one.description, input_schema=schema, annotations=hints)
            made.append(tool)
        return types.ListToolsResult(tools=made)

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.refresh()
        tool = self.tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool '{params.name}'")
        arguments, problem = fit_arguments(tool, params.arguments or {})
        if problem:
            return _result(ToolOutput(problem, failed=True))
        beating = asyncio.create_task(_send_heartbeats(ctx.session))
        try:
            async with self._calls:
                return _result(await tool.call(arguments))
        except LmmError as error:
            return _result(ToolOutput(str(error), failed=True))
        except Exception as error:  # a call that fails must not end the server
            logger.exception("the tool %s failed", params.name)
            return _result(ToolOutput(f"{params.name} failed: {type(error).__name__}", failed=True))
        finally:
            beating.cancel()

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        self.refresh()
        prompts = []
        for prompt in self.prompts.values():
            rows = [(one.name, one.description, one.value is None) for one in prompt.inputs]
            rows.append(("input", "what the prompt is to work on", prompt.needs_input))
            arguments = [types.PromptArgument(name=row[0], description=row[1], required=row[2]) for row in rows]
            prompts.append(types.Prompt(name=prompt.name, description=prompt.description, arguments=arguments))
        return types.ListPromptsResult(prompts=prompts)

    async def _get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        self.refresh()
        if (prompt := self.prompts.get(params.name)) is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt '{params.name}'")
        try:
            async with self._calls:
                messages = await prompt.messages(params.arguments or {})
        except LmmError as error:
            raise MCPError(types.INVALID_PARAMS, encodable(str(error))) from None
        return types.GetPromptResult(description=prompt.description, messages=prompt_messages(messages))


# -- values of the protocol ------------------------------------------------------------------------


def prompt_messages(messages: Sequence[Message]) -> list[types.PromptMessage]:
    """Return a conversation as a prompt of the protocol; as it has no system role, instructions become the user's.

    >>> [m.role for m in prompt_messages([Message("system", "Be brief."), Message("assistant", "Yes.")])]
    ['user', 'assistant']
    """
    made = []
    for message in messages:
        role: Any = "assistant" if message.role == "assistant" else "user"
        for is_text, group in groupby(message_parts(message), lambda part: isinstance(part, str)):
            several = list(group)
            parts = ["".join(map(str, several))] if is_text else several
            made += [types.PromptMessage(role=role, content=_content(part)) for part in parts]
        made += [types.PromptMessage(role="user", content=_content(one.text)) for one in message.results]
    return made


def _content(part: str | Image) -> Any:
    if isinstance(part, str):
        return types.TextContent(text=encodable(part))  # a file's name may be no UTF-8
    if part.url:
        return types.TextContent(text=f"[image: {part.url}]")
    return types.ImageContent(data=base64.b64encode(part.data).decode("ascii"), mime_type=part.media_type)


def _result(output: ToolOutput) -> types.CallToolResult:
    content = [_content(output.text), *map(_content, output.images)] if output.text else [*map(_content, output.images)]
    return types.CallToolResult(content=content, is_error=output.failed)


async def _send_heartbeats(session: Any) -> None:
    """Report progress to a client that asked for it, which may give up otherwise."""
    beats = 0
    with contextlib.suppress(Exception):
        while True:
            await asyncio.sleep(_HEARTBEAT)
            beats += 1
            await session.report_progress(beats, None, "still working")


_PATIENCE = 5  # seconds for calls in progress when the server is stopped
_LONGEST_REQUEST = 1024 * 1024  # bytes
_MOST_SESSIONS = 200  # of clients of the older protocol


async def serve_stdio(library: PublishedTools) -> None:
    """Serve the one client at standard input and output until it closes its end."""
    from mcp.server.stdio import stdio_server

    library.refresh()
    server = library.server()
    async with lines_of_stdin() as lines, stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def serve_http(
    library: PublishedTools, listener: socket.socket, *, public: bool = False, token: str = ""
) -> None:
    """Serve the clients that connect to `listener`, under ``/mcp``; with `token`, only those that send it."""
    import uvicorn
    from sse_starlette.sse import AppStatus

    # Unless `public`, requests must name this machine as their host and their origin. A page of another site cannot
    # send JSON, which the SDK requires, without permission, and no site gets it.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False) if public else None
    app = library.server().streamable_http_app(
        transport_security=security, max_request_body_size=_LONGEST_REQUEST, max_sessions=_MOST_SESSIONS
    )
    app.add_exception_handler(404, _not_here)
    config = uvicorn.Config(
        RequireToken(app, token) if token else app, **bounded(), log_level="warning", access_log=False,
        timeout_graceful_shutdown=_PATIENCE,
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:  # also if this is cancelled: calls in progress may finish
        server.should_exit = AppStatus.should_exit = True  # the latter ends streams of the older protocol
        await serving
        AppStatus.should_exit = False


async def _not_here(request: Request, error: Exception) -> PlainTextResponse:
    return PlainTextResponse("the address of this server ends in /mcp\n", 404)


class RequireToken:
    """Accepts only requests that send the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            sent = Headers(scope=scope).get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(sent, self._expected):
                wants = {"WWW-Authenticate": "Bearer"}
                await PlainTextResponse("a token is needed", 401, headers=wants)(scope, receive, send)
                return
        await self.app(scope, receive, send)
