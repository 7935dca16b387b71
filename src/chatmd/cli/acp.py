"""The agent in a file for editors, over the Agent Client Protocol: JSON-RPC on standard input and output.

Each session is a copy beside the file, which its first prompt creates. A message is one line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chatmd.call_texts import call_line
from chatmd.chat import Chat
from chatmd.content.mentions import EditorMention, read_blocks, read_mentions
from chatmd.context import RunOptions
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.agent import CallItem, Content, Item, MessageItem, OutputItem
from chatmd.runtime.rewind import Draft, message_element
from chatmd.runtime.runner import Runner, open_run, prepare
from chatmd.tools.registry import BUILTINS
from lmm import loop, terminal
from lmm.errors import FileReadError, LmmError, Place
from lmm.messages import Event, Notice, ReasoningDelta, Retrying, TextDelta, ToolCall, ToolProgress, ToolResult
from lmm.stdin_lines import lines_of_stdin

logger = logging.getLogger("lmm.acp")
_Json = dict[str, Any]
Method = Callable[[_Json], Awaitable[_Json | None]]
_POWERS = {"write": "edit", "read": "read", "network": "fetch"}
_YES, _NO = (
    {"optionId": key, "name": key, "kind": kind} for key, kind in (("yes", "allow_once"), ("no", "reject_once"))
)
_ALWAYS = {"optionId": "always", "name": "always for this tool", "kind": "allow_always"}


@dataclass(slots=True)
class JsonRpcPeer:
    """Our end of JSON-RPC, on standard input and output; `methods` answer requests, each in a task of its own."""

    methods: Mapping[str, Method]
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _asked: dict[int, asyncio.Future[_Json]] = field(default_factory=dict)
    _ended: bool = False

    async def serve(self) -> None:
        """Read lines until the input ends; cancel the requests that are still in progress a second later."""
        tasks: set[asyncio.Task[None]] = set()
        async with lines_of_stdin() as lines:
            async for line in lines:
                tasks.add(task := asyncio.create_task(self._take(line)))
                task.add_done_callback(tasks.discard)
        self._ended = True
        for answer in self._asked.values():
            if not answer.done():  # and it cannot come any more
                answer.set_result({})
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        for task in tuple(tasks):
            task.cancel()
            await loop.ended(task)

    async def ask(self, method: str, params: _Json) -> _Json:
        """Return what the other end answers; nothing, if that is an error or the other end has gone."""
        if self._ended:
            return {}
        number = len(self._asked)
        self._asked[number] = asyncio.get_running_loop().create_future()
        self.send(id=number, method=method, params=params)
        return await self._asked[number]

    def send(self, **message: Any) -> None:
        """Send a message, from any thread."""
        with self._writing:
            terminal.say_json({"jsonrpc": "2.0", **message})

    async def _take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self.send(id=None, error={"code": -32700, "message": "this is not a JSON message"})
            return
        if not isinstance(message, dict):
            self.send(id=None, error={"code": -32600, "message": "this is not a request"})
            return
        method, number = message.get("method"), message.get("id")
        if method is None:
            asked = self._asked.get(number) if isinstance(number, int) else None
            if asked is not None and not asked.done():
                asked.set_result(message.get("result") or {})
            return
        answer = await self._answer(method, message.get("params") or {})
        if "id" in message:
            self.send(id=number, **answer)

    async def _answer(self, method: object, params: _Json) -> _Json:
        if not isinstance(method, str):
            return {"error": {"code": -32600, "message": "a method is named by a string"}}
        if method not in self.methods:
            return {"error": {"code": -32601, "message": f"there is no method '{method}' here"}}
        try:
            return {"result": await self.methods[method](params)}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return {"error": {"code": -32602, "message": f"{type(error).__name__}: {error}"}}
        except UnknownSession as error:
            return {"error": {"code": -32002, "message": str(error), "data": {"sessionId": error.where}}}
        except LmmError as error:
            return {"error": {"code": -32603, "message": str(error)}}
        except Exception as error:  # a request that fails must not stay without an answer
            logger.exception("%s failed", method)
            return {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}


class UnknownSession(ChatmdError):
    """A session that was neither begun nor loaded on this connection."""

    def __init__(self, session: str) -> None:
        super().__init__("there is no such session", where=session, hint="begin one, or load it first")


class AcpAgent:
    """The agent in `file`; `asks` asks before each call."""

    def __init__(self, file: Path, options: RunOptions, *, asks: bool = False) -> None:
        self.file, self.options, self.asks = file, options, asks
        methods = {"initialize": self._initialize, "session/new": self._new, "session/load": self._load,
                   "session/prompt": self._prompt, "session/cancel": self._cancel}  # fmt: skip
        self.connection = JsonRpcPeer(methods)
        self._sessions: set[str] = set()
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._always: set[str] = set()

    async def _initialize(self, params: _Json) -> _Json:
        can = {"loadSession": True, "promptCapabilities": {"embeddedContext": True}}
        name = {"name": "lmm", "title": self.file.stem, "version": version("lmmarkdown")}
        return {"protocolVersion": 1, "agentCapabilities": can, "agentInfo": name, "authMethods": []}

    async def _new(self, params: _Json) -> _Json:
        session = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._sessions.add(session)
        for server in params.get("mcpServers") or ():
            hint = "declare it in the file: <tool mcp_server=…/>"
            self._tell(session, Notice(f"the editor's MCP server {server.get('name')} is not used ({hint})"))
        return {"sessionId": session}

    async def _load(self, params: _Json) -> None:
        session = str(params["sessionId"])
        if not re.fullmatch(r"[\w-]+", session):  # it must not lead to other files
            raise UnknownSession(session)
        try:
            items = Chat.open(self._path(session)).agent.items
        except FileReadError as error:
            raise UnknownSession(session) from error
        self._sessions.add(session)
        for update in map(_past, items):
            self._update(session, update)

    async def _prompt(self, params: _Json) -> _Json:
        session, blocks = str(params["sessionId"]), params["prompt"]
        if session not in self._sessions:
            raise UnknownSession(session)
        text, mentions = read_blocks(blocks)
        if session in self._turns:
            raise ChatmdError("the message before is still being answered", where=session, hint="cancel that")
        turn = self._turns[session] = asyncio.create_task(self._turn(session, text, mentions))
        try:
            await asyncio.wait((turn,))
            if not turn.cancelled():
                turn.result()
            return {"stopReason": "cancelled" if turn.cancelled() else "end_turn"}
        except LimitReached as error:
            self._tell(session, TextDelta(str(error)))
            return {"stopReason": "max_turn_requests"}
        finally:
            del self._turns[session]
            turn.cancel()

    async def _cancel(self, params: _Json) -> None:
        if (turn := self._turns.get(str(params["sessionId"]))) is not None:
            turn.cancel()

    async def _turn(self, session: str, text: str, mentions: Sequence[EditorMention]) -> None:
        """Append a prompt to a session's file, and run it; consent is asked for as for the original file."""
        path, here = self._path(session), asyncio.get_running_loop()

        def confirm(question: str) -> bool:
            asking = self._choice(session, ("consent", "Agree to what its tools can do"), question, (_YES, _NO))
            return asyncio.run_coroutine_threadsafe(asking, here).result() == "yes"

        def begin() -> Runner:
            listener, approve = partial(self._tell, session), partial(self._approve, session) if self.asks else None
            run = prepare(self.file, replace(self.options, confirm=confirm, approve=approve, listener=listener))
            lines, files = read_mentions(mentions, run)
            said = message_element(Draft(text + lines), files)
            run = run.with_options(say=said)
            return open_run(path if path.exists() else self.file, run, path)

        await (await asyncio.to_thread(begin)).run()

    async def _approve(self, session: str, call: ToolCall) -> bool:
        if call.name in self._always:
            return True
        choice = await self._choice(session, (call.id, call_line(call)), call.arguments, (_YES, _ALWAYS, _NO))
        if choice == "always":
            self._always.add(call.name)
        return choice in ("yes", "always")

    async def _choice(self, session: str, about: tuple[str, str], text: str, options: Sequence[_Json]) -> str:
        """Ask the user, and return the id of the chosen option; empty if none."""
        call = {"toolCallId": about[0], "title": about[1], "content": _content(text)}
        params = {"sessionId": session, "toolCall": call, "options": options}
        said = await self.connection.ask("session/request_permission", params)
        return str((said.get("outcome") or {}).get("optionId", ""))

    def _path(self, session: str) -> Path:
        return self.file.with_name(f"{self.file.stem}.{session}.chatmd")

    def _tell(self, session: str, event: Event, place: Place | None = None) -> None:
        if not (place and place.path and isinstance(event, TextDelta | ReasoningDelta)):
            self._update(session, _update(event))

    def _update(self, session: str, update: _Json | None) -> None:
        if update is not None:
            self.connection.send(method="session/update", params={"sessionId": session, "update": update})


# -- Values of the protocol --------------------------------------------------------------------------------------


def _content(text: str) -> list[_Json]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _chunk(who: str, text: str) -> _Json:
    return {"sessionUpdate": f"{who}_chunk", "content": {"type": "text", "text": text}}


def _update(event: Event) -> _Json | None:
    """Return the update that the editor gets for an event."""
    if isinstance(event, TextDelta):
        return _chunk("agent_message", event.text)
    if isinstance(event, ReasoningDelta | Notice):
        return _chunk("agent_thought", event.text)
    if isinstance(event, Retrying):
        return _chunk("agent_thought", f"{event.reason}; again in {event.wait:.1f} s")
    if isinstance(event, ToolCall):
        known = BUILTINS.get(event.name)
        kind = next((kind for power, kind in _POWERS.items() if known and power in known.powers), "other")
        return {"sessionUpdate": "tool_call", "toolCallId": event.id, "title": call_line(event), "kind": kind,
                "status": "in_progress", "rawInput": event.arguments}  # fmt: skip
    if isinstance(event, ToolProgress):
        return {"sessionUpdate": "tool_call_update", "toolCallId": event.call, "status": "in_progress",
                "content": _content(event.text)}  # fmt: skip
    if isinstance(event, ToolResult):
        status = "failed" if event.failed else "completed"
        return {"sessionUpdate": "tool_call_update", "toolCallId": event.call, "status": status,
                "content": _content(event.text)}  # fmt: skip
    return None


def _past(item: Item) -> _Json | None:
    """Return the update that the editor gets for an earlier part of the conversation."""
    if isinstance(item, MessageItem) and item.role in ("user", "assistant") and not item.is_blank:
        return _chunk("user_message" if item.role == "user" else "agent_message", _words(item.content))
    if isinstance(item, CallItem):
        return _update(ToolCall(item.call, item.name, _words(item.arguments)))
    if isinstance(item, OutputItem):
        return _update(ToolResult(item.call, item.name, _words(item.content), failed=item.failed))
    return None


def _words(content: Content) -> str:
    return "".join(part if isinstance(part, str) else f"[{part.src}]" for part in content).strip()


def serve(file: Path, options: RunOptions, *, asks: bool) -> int:
    """Serve the one client at standard input and output until it closes its end; return the exit code."""
    Chat.open(file)  # raises at once if it cannot be read
    terminal.log_to_stderr("%(levelname)s %(name)s: %(message)s")  # standard output belongs to the protocol
    loop.run(AcpAgent(file, options, asks=asks).connection.serve())
    return terminal.DONE
