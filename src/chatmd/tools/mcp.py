"""Tools of an MCP server: ``<tool mcp_server="…"/>``."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import re
import shlex
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

import httpx2

from chatmd.content.documents import image_from
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec, Tool
from chatmd.language.transcript import storable
from chatmd.tools.command import check_variables, command_folder, environment_for, scrubber, split_command
from chatmd.tools.text_files import cut
from lmm.disk import digest
from lmm.errors import LmmError, nearest
from lmm.extras import check_installed
from lmm.fetch import CheckedTransport, same_host
from lmm.hosts import certificates, is_loopback
from lmm.messages import Attachment, Image, Message, Notice, ToolDefinition, ToolOutput, render
from lmm.models.port import RunnableTool
from lmm.terminal import megabytes

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams


# -- What servers send, mended before the SDK checks it: what is wrong costs that part, not the whole answer ---


MOST_TOOLS = 1000
"""The number of tools that are taken from a server's catalogue."""
LONGEST_ANSWER = 30_000_000
"""The number of bytes that an answer over HTTP may have."""
_STRICTEST = "2025-11-25"  # the version of the protocol that allows least in a result
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def without_surrogates(data: bytes) -> bytes:
    r"""Replace halves of surrogate pairs in JSON, which no parser takes.

    >>> without_surrogates(rb'"a\ud800 \ud83d\ude00 \\ud800"')
    b'"a\\ufffd \\ud83d\\ude00 \\\\ud800"'
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


def mended(result: Any, leave_out: Callable[[str], None]) -> Any:
    """Return a result without the tools, and with a sentence for the parts, that are not what the protocol asks for.

    `leave_out` is called with each tool that is left out, and the reason. Of a tool, only what is used is checked.
    """
    if not isinstance(result, dict):
        return result
    if isinstance(tools := result.get("tools"), list):
        valid = []
        if (more := len(tools) - MOST_TOOLS) > 0:
            leave_out(f"{more} of {len(tools)} tools of one page are left out")
        for number, tool in enumerate(tools[:MOST_TOOLS], 1):
            if isinstance(tool, dict):
                tool = {key: tool[key] for key in ("name", "title", "description", "inputSchema") if key in tool}
                if isinstance(schema := tool.get("inputSchema"), dict):
                    tool["inputSchema"] = schema | {"type": "object"}  # some leave it out
            if wrong := _wrong("tools/list", "tools", tool):
                name = tool.get("name") if isinstance(tool, dict) else None
                leave_out(f"the tool '{name or number}' is left out: its {wrong}")
            else:
                valid.append(tool)
        return result | {"tools": valid}
    if "structuredContent" in result:
        result = {"content": [], **result}
    if isinstance(content := result.get("content"), list):
        return result | {"content": list(map(_mended_part, content))}
    return result


def _mended_part(block: Any) -> Any:
    block = block if isinstance(block, dict) else {}
    if block.get("type") in ("image", "audio") and not isinstance(block.get("mimeType"), str):
        block = block | {"mimeType": "application/octet-stream"}
    if not _wrong("tools/call", "content", block):
        return block
    text, kind = block.get("text"), block.get("type", "")
    return {"type": "text", "text": text if isinstance(text, str) else f"[a part '{kind}' that cannot be read]"}


def _wrong(method: str, name: str, value: Any) -> str:
    """Return the first field of a part of a result that does not fit and why; empty if all do."""
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    try:
        validate_server_result(method, _STRICTEST, {name: [value]})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        places = [str(part) for part in first["loc"][2:]]
        return f"{'.'.join(places) or 'value'}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return ""


class MendedStream:
    """A stream of messages of the SDK's: results are `mended`, and lines with half a surrogate pair are read.

    `ended` is called at its end.
    """

    def __init__(self, stream: Any, leave_out: Callable[[str], None], ended: Callable[[], object] = str) -> None:
        self._stream, self._leave_out, self._ended = stream, leave_out, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        return self._mend(await self._stream.receive())

    def __aiter__(self) -> MendedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._mend(await self._stream.__anext__())
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> MendedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _mend(self, item: Any) -> Any:
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCResponse
        from mcp_types.jsonrpc import jsonrpc_message_adapter
        from pydantic import ValidationError

        if isinstance(item, ValidationError) and isinstance(line := item.errors()[0]["input"], str):
            data = without_surrogates(line.encode("utf-8", "replace"))
            try:
                item = SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
            except ValidationError:
                return item
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            message.result = mended(message.result, self._leave_out)
        return item


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer: at most `LONGEST_ANSWER` bytes, an event of a stream as well, `without_surrogates`."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._stream, self._events = stream, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = bytearray()
        async for piece in self._stream:
            data += piece
            if len(data) > LONGEST_ANSWER:
                raise httpx2.ReadError(f"its answer has more than {LONGEST_ANSWER // 1_000_000} MB")
            if self._events and b"\n" in piece:
                end = data.rindex(b"\n") + 1
                yield without_surrogates(bytes(data[:end]))
                del data[:end]
        yield without_surrogates(bytes(data))

    async def aclose(self) -> None:
        await self._stream.aclose()


# -- The address of an MCP server: a program to start, or a URL -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """A program, as name and arguments, that uses its standard input and output; or a URL (streamable HTTP).

    >>> address = Address(url="http://localhost:8000/mcp?key=abc")
    >>> address.label, address.origin, address.is_loopback, Address(("rg", "a b")).label
    ('http://localhost:8000/mcp', 'http://localhost:8000', True, "rg 'a b'")
    """

    command: tuple[str, ...] = ()
    url: str = ""

    @property
    def label(self) -> str:
        """The address for people and logs, without the query, which may contain a key."""
        return shlex.join(self.command) or urlsplit(self.url)._replace(query="", fragment="").geturl()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return urlsplit(self.url)._replace(path="", query="", fragment="").geturl()

    @property
    def is_loopback(self) -> bool:
        """Whether the URL names this machine."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https:")


def read_address(written: str) -> Address:
    """Parse ``mcp_server="…"``. A command is split like in a POSIX shell, but no shell runs it.

    Raises:
        ChatmdError: it is neither a command nor a URL, or contains a password.

    >>> read_address('stdio:python srv.py --name "my notes"').command
    ('python', 'srv.py', '--name', 'my notes')
    >>> read_address("mcp+https://mcp.example.org/v1").url
    'https://mcp.example.org/v1'
    """
    scheme, colon, rest = written.partition(":")
    if scheme.lower() == "stdio" and colon:
        return Address(split_command(rest))
    url = written[4:] if scheme.lower().startswith("mcp+http") else written
    why = ""
    try:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise ChatmdError("an address must not contain a password: it would be written into logs",
                              hint="use the variables that contain it: client_id_env, client_secret_env")  # fmt: skip
        if parts.scheme in ("http", "https") and parts.hostname:
            return Address(url=same_host(url))
    except ValueError as error:
        why = "" if "@" in url else f": {error}"  # the error may quote a password
    redacted = re.sub(r"//[^/@]*@", "//…@", written.partition("?")[0])[:100]  # without what might be a password
    raise ChatmdError(f"'{redacted}' is not the address of an MCP server{why}",
                      hint='write mcp_server="stdio:COMMAND", or a URL that begins with https://')  # fmt: skip


# -- Results of MCP tools as text and images for a model. The SDK's values are read by their attributes only


_LARGEST = 5_000_000  # bytes of an image


def output_of(result: Any, limit: int = 30_000) -> ToolOutput:
    """Convert a ``CallToolResult``: its texts and links in order, in at most `limit` characters, and its images.

    Sound and other data are replaced by a sentence, as models do not get them from tools.
    """
    parts = [_part(block) for block in result.content]
    text = "\n\n".join(part for part in parts if isinstance(part, str) and part)
    images = tuple(part for part in parts if isinstance(part, Image))
    if not text and not images and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error and not text:
        text = "The tool failed, and did not say why."
    return ToolOutput(cut(text, limit), images, failed=bool(result.is_error))


def _part(block: Any) -> Image | str:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return _data(block.data, block.mime_type, "an image" if block.type == "image" else "a sound")
    if block.type == "resource_link":
        size = megabytes(block.size) if block.size is not None else ""
        description = f": {block.description}" if block.description else ""
        return (
            f"[{block.title or block.name}: {', '.join(filter(None, (block.uri, block.mime_type, size)))}]{description}"
        )
    if block.type == "resource":
        uri, text = str(block.resource.uri), getattr(block.resource, "text", None)
        if text is None:
            return _data(block.resource.blob, block.resource.mime_type or "data", uri)
        return render(Message("tool", "", (Attachment(str(text), "resource", uri),))).rstrip("\n")
    return f"[something of the kind '{block.type}', which is not shown]"


def _data(data: str, media_type: str, what: str) -> Image | str:
    """Return an image, whatever type the server says it has, or a sentence about what cannot be shown."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except ValueError:
        return f"[{what} ({media_type}) that cannot be decoded]"
    with contextlib.suppress(ChatmdError):
        return image_from(decoded, limit=_LARGEST)
    return f"[{what} that is not shown: {media_type}, {megabytes(len(decoded))}]"


# -- Credentials for MCP servers at a URL ---------------------------------------------------------------------


def credentials_for(declared: Tool, address: Address, run: Run) -> tuple[dict[str, str], httpx2.Auth | None]:
    """Return the header with a token, or OAuth client credentials, from the environment variables of a declaration.

    Raises:
        ChatmdError: the secret is missing, or would be sent unencrypted.
    """
    check_variables(declared, run)
    if declared.client_id_env and not declared.client_secret_env:
        raise ChatmdError("client_id_env needs a secret too", hint='client_secret_env="NAME OF THE VARIABLE"')
    if not declared.client_secret_env:
        return {}, None
    if not (address.is_encrypted or address.is_loopback):
        raise ChatmdError(f"the secret would be sent unencrypted to {address.label}", hint="use https://")
    secret = run.environment[declared.client_secret_env]
    if not declared.client_id_env:
        return {"Authorization": f"Bearer {secret}"}, None
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    client, issuer = run.environment[declared.client_id_env], declared.issuer or address.origin
    return {}, ClientCredentialsOAuthProvider(address.url, _NoStorage(), client, secret, issuer=issuer)


class _NoStorage:
    """A storage that stores nothing: tokens are kept in memory, for as long as the connection."""

    async def get_tokens(self) -> None: ...
    async def set_tokens(self, tokens: object) -> None: ...
    async def get_client_info(self) -> None: ...
    async def set_client_info(self, client_info: object) -> None: ...


# -- Connections --------------------------------------------------------------------------------------------------


_LONGEST_SILENCE = 300.0  # seconds between two pieces of a stream; calls have limits of their own
_MOST_PAGES = 100  # of a catalogue: a server might return pages without end
_TOLD = 1000  # characters of standard error in a message
_PATIENCE_AT_THE_END = 10.0  # seconds; the SDK needs up to 7 for a program that will not stop
# As with any library, the SDK's log is shown only if the application configures logging.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(slots=True)
class Connection:
    """The connection to a declared server. `patience` is the longest time for an answer, in seconds.

    A program's standard error goes to the file `stderr`, which never makes it wait, as a pipe may.
    """

    address: Address
    declared: Tool
    run: Run
    patience: float
    stderr: TextIO
    _written: int = 0  # bytes in `stderr` when the program was started
    _client: Client | None = None
    _life: asyncio.Task[None] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)  # the program's output; the SDK waits on at its start
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _status: int = 0  # of the last response, if it was an HTTP error

    async def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the server's catalogue of tools, from all its pages.

        Raises:
            ChatmdError: the server cannot be reached, or its answer is not valid.
        """
        client, found, cursor = await self._connected(), dict[str, ToolDefinition](), None
        for _ in range(_MOST_PAGES):
            page = await self._asked(client.list_tools(cursor=cursor), "list its tools")
            for tool in page.tools:
                described = tool.description or tool.title or ""
                found[tool.name] = ToolDefinition(tool.name, described, tool.input_schema)
            if page.next_cursor is None or len(found) >= MOST_TOOLS:
                return tuple(found.values())[:MOST_TOOLS]
            if page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        raise self._error("its list of tools does not end")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool and return its output.

        Raises:
            ChatmdError: the server has ended, takes too long, or refuses the call.
        """
        client = await self._connected()
        limit = self.patience
        result = await self._asked(client.call_tool(name, dict(arguments), read_timeout_seconds=limit), f"'{name}'")
        return output_of(result, self.declared.max_output or self.run.rules.max_output)

    async def aclose(self) -> None:
        """Close the connection; a program is stopped."""
        self._stop.set()
        if self._life is not None:
            done, _ = await asyncio.wait([self._life], timeout=_PATIENCE_AT_THE_END)
            if not done:
                self._life.cancel()
        self._client, self._life = None, None

    # -- asking ------------------------------------------------------------------------------------

    async def _asked(self, answer: Coroutine[Any, Any, Any], what: str) -> Any:
        """Wait for an answer of the SDK, and convert its errors to ours."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        try:
            return await answer
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":  # servers use the code too
                life = self._life
                await self.aclose()
                why = life.exception() if life is not None and life.done() and not life.cancelled() else None
                problem = f"{what}: the server ended before it answered{f': {self._reason(why)}' if why else ''}"
                hint = "the next call restarts it, without what it had in memory"
                raise self._error(problem, hint=hint) from None
            if error.code == REQUEST_TIMEOUT:
                problem = f"{what}: no answer within {self.patience:g} seconds"
                raise self._error(problem, hint='set a longer timeout="…"') from None
            raise self._error(f"{what}: {self._reason(error)}") from None
        except (RuntimeError, ValidationError) as error:
            first = str(error).strip().partition("\n")[0]
            raise self._error(f"{what}: the server's answer is not what the protocol asks for: {first}") from None

    # -- connecting --------------------------------------------------------------------------------

    async def _connected(self) -> Client:
        async with self._lock:
            if self._client is None or self._life is None or self._life.done():
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        self._stop, self._status, self._written = asyncio.Event(), 0, os.fstat(self.stderr.fileno()).st_size
        self._ended = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        transport = (
            self._http(*credentials_for(self.declared, self.address, self.run))
            if self.address.url
            else self._program(command_folder(self.declared, self.run), environment_for(self.declared, self.run))
        )
        self._life = asyncio.create_task(self._live(transport, ready), name="mcp-connection")
        ended = asyncio.create_task(self._ended.wait())
        try:
            either: list[asyncio.Future[Any]] = [ready, self._life, ended]
            await asyncio.wait(either, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._life.cancel()
            raise
        finally:
            ended.cancel()
        if ready.done():
            return ready.result()
        if is_alive := not self._life.done():
            self._life.cancel()
            await asyncio.wait([self._life], timeout=_PATIENCE_AT_THE_END)
        why = self._life.exception() if self._life.done() and not self._life.cancelled() else None
        if self._ended.is_set():
            raise self._error("it ended before it answered")
        if is_alive:
            raise self._error(f"it did not answer within {self.patience:g} seconds",
                              hint='is it an MCP server? set a longer timeout="…"')  # fmt: skip
        raise self._error(f"cannot connect: {self._reason(why)}")

    @asynccontextmanager
    async def _program(self, folder: Path, env: dict[str, str]) -> AsyncGenerator[TransportStreams]:
        """Run a program and yield its streams; at the end it is asked to stop, then killed."""
        from mcp.client.stdio import StdioServerParameters, stdio_client

        name, *arguments = self.address.command
        parameters = StdioServerParameters(
            command=name, args=arguments, env=env, cwd=folder, encoding_error_handler="replace"
        )
        async with stdio_client(parameters, errlog=self.stderr) as (reading, writing):
            yield MendedStream(reading, self._leave_out, self._ended.set), writing

    @asynccontextmanager
    async def _http(self, headers: dict[str, str], auth: httpx2.Auth | None) -> AsyncGenerator[TransportStreams]:
        """Yield the streams of a server at a URL, within the rules for the network."""
        from mcp.client.streamable_http import streamable_http_client

        async def note(response: httpx2.Response) -> None:
            self._status = response.status_code if response.status_code >= 400 else 0  # the SDK does not report it
            if response.headers.get("content-encoding", "identity") != "identity":  # it may be any size when unpacked
                raise httpx2.ReadError("its answer is compressed, which was not asked for", request=response.request)
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            events = response.headers.get("content-type", "").startswith("text/event-stream")
            response.stream = BoundedBody(response.stream, events=events)

        address = self.address
        tls = await asyncio.to_thread(certificates) if address.is_encrypted or auth else None
        async with (
            httpx2.AsyncClient(
                headers={"Accept-Encoding": "identity", **headers},
                auth=auth,
                timeout=httpx2.Timeout(self.patience, read=_LONGEST_SILENCE),
                event_hooks={"response": [note]},
                transport=CheckedTransport(self.run.rules.fetching, tls, loopback=address.is_loopback),
            ) as client,
            streamable_http_client(address.url, http_client=client) as (reading, writing),
        ):
            yield MendedStream(reading, self._leave_out), writing

    async def _live(self, transport: AbstractAsyncContextManager[Any], ready: asyncio.Future[Client]) -> None:
        """Keep the client open in one task, from start to end.

        A task of its own, and not a context of the run's: an error in the background of the SDK cancels the task that
        entered the client, and calls from any task may open a server again that has ended.
        """
        from mcp import Client
        from mcp_types import Implementation

        async with Client(
            transport,
            cache=None,
            client_info=Implementation(name="lmmarkdown", title="LM Markdown", version=version("lmmarkdown")),
            read_timeout_seconds=self.patience,
        ) as client:
            client.session.validate_tool_result = _skip_schema_check  # type: ignore[method-assign]
            ready.set_result(client)
            await self._stop.wait()

    def _leave_out(self, what: str) -> None:
        self.run.emit(Notice(f"MCP server {self.address.label}: {self._scrubbed(what)}"))

    @property
    def instructions(self) -> str:
        """What the server says about its tools."""
        return (self._client.instructions or "") if self._client is not None else ""

    # -- messages ----------------------------------------------------------------------------------

    def _error(self, message: str, *, hint: str = "") -> ChatmdError:
        file = self.stderr.fileno()
        begin = max(self._written, os.fstat(file).st_size - 4 * _TOLD)
        tail = os.pread(file, 4 * _TOLD, begin).decode("utf-8", "replace")
        # A line that is cut off could begin in the middle of a secret.
        output = self._scrubbed((tail if begin == self._written else tail.partition("\n")[2]).strip())
        output = output if len(output) <= _TOLD else "…" + output[-_TOLD:].partition("\n")[2]
        stderr = f"; its standard error:\n{output}\n" if output else ""
        return ChatmdError(f"MCP server {self.address.label}: {self._scrubbed(message)}{stderr}", hint=hint)

    def _reason(self, error: BaseException | None) -> str:
        """Return the message of an error, the first one of a group, with the HTTP status that the SDK leaves out."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, OSError):
            return error.strerror or str(error)
        words = "" if error is None else str(error).strip() or type(error).__name__
        if words in ("", "ReadError", "WriteError"):  # httpx gives no more details
            return "it closed the connection"
        secret = self.declared.client_secret_env
        if self._status in (401, 403) and not secret:
            words = "it requires credentials (client_id_env and client_secret_env, or the latter alone)"
        elif self._status in (401, 403):
            issued = "if that server issued the secret, name it: issuer=…"
            words += f" ({issued if 'issuer' in words else f'{secret} may be wrong'})"
        return f"HTTP {self._status}: {words}" if self._status else words

    def _scrubbed(self, text: str) -> str:
        """Remove the secrets that were passed to the server, and the query of its address, from a text."""
        text = scrubber(AgentSpec(tools=(self.declared,)), self.run)(text)
        return text.replace(self.address.url, self.address.label) if self.address.url else text


async def _skip_schema_check(name: str, result: object) -> None:
    """Replace the SDK's check of a result against the server's schema: its patterns may take years to match."""


def check_sdk() -> None:
    """Raise an error that says what to install if the SDK is missing."""
    check_installed("mcp", "MCP servers need", "mcp", kind=ChatmdError)


# -- The tools of an MCP server that a model is offered: selection, names and schemas ---------------------------


_MANY = 100  # tools: many models choose badly among more, and some servers of models refuse more than 128
_MOST_SAID = 2000  # characters of a server's instructions
_LONGEST = 64  # characters of a name: OpenAI's limit, the lowest


def offered_tools(tools: Sequence[ToolDefinition], declared: Tool) -> dict[str, ToolDefinition]:
    """Return the tools of a server's catalogue that a declaration offers, by the server's names.

    Raises:
        ChatmdError: the declaration names a tool that the server does not have.
    """
    by_name = {tool.name: tool for tool in tools}
    for name in declared.include:
        if name not in by_name:
            raise ChatmdError(f"the server has no tool '{name}'", hint=nearest(name, sorted(by_name)))
    chosen = [by_name[name] for name in declared.include or by_name]
    names = model_names([tool.name for tool in chosen], declared.prefix)
    # If only one tool is included, the author's description is about that tool.
    better = declared.description if len(declared.include) == 1 else ""
    return {
        tool.name: ToolDefinition(
            names[tool.name], storable(better or tool.description), accept_schema(tool.parameters), declared.strict
        )
        for tool in chosen
    }


def model_names(names: Sequence[str], prefix: str = "") -> dict[str, str]:
    """Return names that models accept: at most 64 letters, digits, ``_`` and ``-``.

    A name that had to be changed never equals that of another tool.

    >>> model_names(["search", "docs.search", "docs/search"])
    {'search': 'search', 'docs.search': 'docs_search_a7e5', 'docs/search': 'docs_search_8a3c'}
    >>> model_names(["search"], "wiki_")
    {'search': 'wiki_search'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", prefix + name)[:_LONGEST] or "_" for name in names}
    count = Counter(plain.values())
    for name, short in plain.items():
        if count[short] > 1 and short != prefix + name:
            plain[name] = f"{short[: _LONGEST - 5]}_{digest(name, length=4)}"
    return plain


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server, which checks its arguments itself: matching a foreign schema may take years."""

    connection: Connection
    name: str
    definition: ToolDefinition
    judges_arguments = True

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        return await self.connection.call(self.name, arguments)


@asynccontextmanager
async def open_server(declared: Tool, run: Run) -> AsyncGenerator[Sequence[RunnableTool]]:
    """Open the tools of a declared server for the duration of the context.

    Raises:
        ChatmdError: the address is not valid, the server does not answer, or lacks a declared tool.
    """
    with TemporaryFile("w+", encoding="utf-8") as stderr:
        async with AsyncExitStack() as stack:
            try:
                check_sdk()
                address, patience = read_address(declared.server), declared.timeout or run.rules.tool_timeout
                connection = await stack.enter_async_context(
                    aclosing(Connection(address, declared, run, patience, stderr))
                )
                offered = offered_tools(await connection.tools(), declared)
                if len(offered) > _MANY:
                    hint = 'includes="…" chooses some; each is sent with every request'
                    run.emit(Notice(f"MCP server {address.label} offers {len(offered)} tools ({hint})"))
                if offered and (instructions := storable(connection.instructions.strip()[:_MOST_SAID])):
                    first, definition = next(iter(offered.items()))
                    about = f"{definition.description}\n\nThe server says about all its tools: {instructions}".strip()
                    offered[first] = replace(definition, description=about)
            except LmmError as error:
                error.where = error.where or declared.span.where
                raise
            yield [McpTool(connection, name, definition) for name, definition in offered.items()]


# -- Schemas for providers -------------------------------------------------------------------------
# Servers may describe arguments by any JSON schema; providers accept less. What they do not support is left out: the
# server checks its arguments itself.

Schema = Mapping[str, Any]
# At the top level, providers require an object, without keywords that combine schemas.
_COMBINE = ("oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 80


def accept_schema(schema: Schema) -> dict[str, Any]:
    """Convert a schema to one that providers accept: of type object, with properties, and only internal references.

    >>> accept_schema({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})
    {'type': 'object', 'properties': {}}
    >>> accept_schema({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]})
    {'type': 'object', 'properties': {'a': {}, 'b': {}}}
    """
    whole = _local(schema)
    properties: dict[str, Any] = {}
    for branch in _branches(whole, whole):
        if isinstance(found := branch.get("properties"), dict):
            properties |= {name: each for name, each in found.items() if name not in properties}
    top = {key: value for key, value in whole.items() if key not in (*_COMBINE, "$schema", "$id", "$ref")}
    return top | {"type": "object", "properties": properties}


def _local(value: Any, depth: int = 0) -> Any:
    """Copy a schema up to a depth, without references to other documents, so that nobody fetches them."""
    if depth > _DEEPEST:
        return {}
    if isinstance(value, Mapping):
        copied = {key: each for key, each in value.items() if key not in ("$dynamicRef", "$recursiveRef")}
        if not str(copied.get("$ref", "#")).startswith("#"):
            del copied["$ref"]
        return {key: _local(each, depth + 1) for key, each in copied.items()}
    return [_local(each, depth + 1) for each in value] if isinstance(value, list) else value


def _branches(schema: Any, root: Schema) -> Iterator[Schema]:
    """Iterate over the schemas that may describe a value, each once: itself, its references, and its alternatives."""
    pending, seen = [schema], set[int]()
    while pending:
        branch = pending.pop()
        if not isinstance(branch, Mapping) or id(branch) in seen:
            continue
        seen.add(id(branch))
        yield branch
        if "$ref" in branch:
            pending.append(_referred(str(branch["$ref"]), root))
        for key in reversed(_BRANCHES):
            pending += reversed(found) if isinstance(found := branch.get(key), list) else ()


def _referred(reference: str, root: Schema) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found
