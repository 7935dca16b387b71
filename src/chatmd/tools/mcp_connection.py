"""A connection to an MCP server: made when it is needed, and made anew after the server has ended.

The SDK's client lives in a task of its own, from its first to its last moment: what goes wrong in its background
ends that task, and never the run that uses it. Calls may come from any task of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.tools.environment import SHORTEST_SECRET, check_variables, environment_for
from chatmd.tools.mcp_address import Address, HttpAddress
from chatmd.tools.mcp_catalogue import ServerTool
from chatmd.tools.mcp_http import LastRefusal, connection, credentials_for
from chatmd.tools.mcp_results import output_of
from chatmd.tools.mcp_stdio import StandardError, program
from chatmd.workplace import Workplace
from lmm.disk.secrets import is_secret_variable
from lmm.messages import ToolOutput

if TYPE_CHECKING:
    from mcp import Client

_MOST_PAGES = 100  # of a catalogue: a server that never comes to an end is wrong
_MOST_TOOLS = 1000
_TOLD = 1000  # characters of standard error in a message
_PATIENCE_AT_THE_END = 10.0  # seconds; the SDK needs up to 7 for a program that will not stop
logger = logging.getLogger("chatmd.mcp")
# Like any library's, the SDK's log is shown if the program around us wants one, and not by itself.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(slots=True)
class Connection:
    """One declared server. `patience` is how long it may take to answer, in seconds."""

    address: Address
    declared: Tool
    place: Workplace
    patience: float
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _client: Client | None = None
    _life: asyncio.Task[None] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _errors: StandardError = field(default_factory=StandardError)
    _refusal: LastRefusal = field(default_factory=LastRefusal)

    async def tools(self) -> tuple[ServerTool, ...]:
        """The server's catalogue, all pages of it.

        Raises:
            ChatmdError: the server cannot be reached, or does not answer as it should.
        """
        client, found, cursor = await self._connected(), dict[str, ServerTool](), None
        for _ in range(_MOST_PAGES):
            page = await self._asked(client.list_tools(cursor=cursor), "list its tools")
            for tool in page.tools:
                described = tool.description or tool.title or ""
                found[tool.name] = ServerTool(tool.name, described, tool.input_schema)
            if page.next_cursor is None:
                return tuple(found.values())
            if page.next_cursor == cursor or len(found) > _MOST_TOOLS:
                break
            cursor = page.next_cursor
        raise self._error("its list of tools does not come to an end")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """What a tool returns.

        Raises:
            ChatmdError: the server has ended, is silent for too long, or refuses the call.
        """
        client = await self._connected()
        limit = self.patience
        result = await self._asked(client.call_tool(name, dict(arguments), read_timeout_seconds=limit), f"'{name}'")
        output = output_of(result)
        return replace(output, text=self._without_secrets(output.text))

    async def aclose(self) -> None:
        """Take leave of the server; a program is stopped."""
        self._stop.set()
        if self._life is not None:
            done, _ = await asyncio.wait([self._life], timeout=_PATIENCE_AT_THE_END)
            if not done:
                self._life.cancel()
        self._client, self._life = None, None

    # -- asking ------------------------------------------------------------------------------------

    async def _asked(self, answer: Coroutine[Any, Any, Any], what: str) -> Any:
        """An answer of the SDK, or what went wrong in our words."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        try:
            return await answer
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise await self._ended(what) from None
            if error.code == REQUEST_TIMEOUT:
                raise self._silent(what) from None
            raise self._error(f"{what}: {self._reason(error)}") from None
        except (RuntimeError, ValidationError) as error:
            first = str(error).strip().partition("\n")[0]
            raise self._error(f"{what}: the server's answer is not what the protocol asks for: {first}") from None

    async def _ended(self, what: str) -> ChatmdError:
        life = self._life
        await self.aclose()
        why = _cause(life.exception()) if life is not None and life.done() and not life.cancelled() else None
        told = f": {self._told(why)}" if why is not None else ""
        return self._error(
            f"{what}: the server ended before it answered{told}",
            hint="the next call starts it anew, without what it held in memory",
        )

    def _silent(self, what: str) -> ChatmdError:
        return self._error(f"{what}: no answer within {self.patience:g} seconds", hint='timeout="…" gives it more')

    # -- connecting --------------------------------------------------------------------------------

    async def _connected(self) -> Client:
        async with self._lock:
            if self._client is None or self._life is None or self._life.done():
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        self._stop, self._errors, self._refusal = asyncio.Event(), StandardError(), LastRefusal()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        transport = self._transport()
        self._life = asyncio.create_task(self._live(transport, ready), name="mcp-connection")
        try:
            either: list[asyncio.Future[Any]] = [ready, self._life]
            await asyncio.wait(either, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._life.cancel()
            raise
        if ready.done():
            return ready.result()
        if not self._life.done():
            self._life.cancel()
            await asyncio.wait([self._life], timeout=_PATIENCE_AT_THE_END)
            raise self._error(f"it did not introduce itself within {self.patience:g} seconds",
                              hint='is it an MCP server? timeout="…" gives it more time')  # fmt: skip
        raise self._error(f"cannot connect: {self._told(_cause(self._life.exception()))}")

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        place, declared, address = self.place, self.declared, self.address
        if isinstance(address, HttpAddress):
            check_variables(declared, place)
            credentials = credentials_for(declared, address, place.environment)
            return connection(address, credentials, place.rules, self._refusal, self.patience)
        folder = (place.folder / declared.cwd).resolve()
        if not folder.is_dir():
            raise ChatmdError(f"there is no folder '{declared.cwd}'", hint="cwd is relative to the prompt's folder")
        return program(address.command, folder, environment_for(declared, place), self._errors)

    async def _live(self, transport: AbstractAsyncContextManager[Any], ready: asyncio.Future[Client]) -> None:
        """The life of a connection, in one task from beginning to end."""
        from mcp import Client
        from mcp_types import Implementation

        client_info = Implementation(name="lmmarkdown", title="LM Markdown", version=version("lmmarkdown"))
        async with Client(
            transport,
            cache=None,
            client_info=client_info,
            read_timeout_seconds=self.patience,
            message_handler=self._heard,
        ) as client:
            ready.set_result(client)
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._stop.wait()
            finally:
                listening.cancel()

    async def _heard(self, message: object) -> None:
        """A notification of an older server. What is no message of the protocol is told of nowhere."""
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.changed.set()

    async def _listen(self, client: Client) -> None:
        """Hear of changes from a newer server, if it tells of them."""
        from mcp.client.subscriptions import ListenNotSupportedError

        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with contextlib.suppress(ListenNotSupportedError):
            try:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self.changed.set()
            except Exception as error:  # the connection goes on without: the catalogue is then what it was
                logger.info("%s tells of no changes: %s", self.address.label, self._scrubbed(str(error)))

    # -- words -------------------------------------------------------------------------------------

    def _error(self, message: str, *, hint: str = "") -> ChatmdError:
        said = self._scrubbed(self._errors.text)
        said = said if len(said) <= _TOLD else "…" + said[-_TOLD:].partition("\n")[2]
        told = f"; on its standard error it wrote:\n{said}\n" if said else ""
        return ChatmdError(f"MCP server {self.address.label}: {self._scrubbed(message)}{told}", hint=hint)

    def _told(self, error: BaseException | None) -> str:
        if isinstance(error, OSError):
            return error.strerror or str(error)
        return self._reason(error) if error is not None else "it closed the connection"

    def _reason(self, error: BaseException) -> str:
        """An error's own words, and the status of HTTP where the SDK does not tell it."""
        status, words = self._refusal.status, str(error).strip() or type(error).__name__
        if status in (401, 403):
            words = self._kept_out(words)
        return f"HTTP {status}: {words}" if status else words

    def _kept_out(self, words: str) -> str:
        declared = self.declared
        if not declared.client_secret_env:
            return "it lets nobody in without credentials (client_id_env and client_secret_env, or the latter alone)"
        if "issuer" in words:
            return f"{words} (if that is who issued the secret, say so: issuer=…)"
        return f"{words} ({declared.client_secret_env} may be wrong)"

    def _without_secrets(self, text: str) -> str:
        """A result without the secrets that the server was given: what it returns goes to the model and into files."""
        names = [name for name in self.declared.env if is_secret_variable(name)]
        for name in (*names, self.declared.client_secret_env):
            value = self.place.environment.get(name, "")
            text = text.replace(value, "…") if len(value) >= SHORTEST_SECRET else text
        return text

    def _scrubbed(self, text: str) -> str:
        """`text` without the values that were handed to the server, and without the address's query."""
        declared, environment = self.declared, self.place.environment
        names = (*declared.env, declared.client_secret_env, declared.client_id_env)
        for value in sorted((environment.get(name, "") for name in names if name), key=len, reverse=True):
            text = text.replace(value, "…") if len(value) > 3 else text
        return text.replace(self.address.url, self.address.label) if isinstance(self.address, HttpAddress) else text


def _cause(error: BaseException | None) -> BaseException | None:
    """The first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def check_installed() -> None:
    """Raise, with what to install, if the SDK is missing."""
    if find_spec("mcp") is None:
        raise ChatmdError("the package that speaks to MCP servers is not installed",
                          hint="pip install 'lmmarkdown[mcp]'")  # fmt: skip
