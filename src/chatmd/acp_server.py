"""The agent in a file for editors, over the Agent Client Protocol: JSON-RPC on standard input and output.

Each session is a copy beside the file, which its first prompt creates. A message is one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import acp
from acp.schema import (
    AgentCapabilities,
    Implementation,
    PermissionOption,
    PromptCapabilities,
    StopReason,
    ToolCallUpdate,
)

from chatmd.call_texts import Approvals, CallDecision, call_line, read_answer
from chatmd.chat import Chat
from chatmd.compaction.compact import content_text
from chatmd.content.documents import plain_text
from chatmd.content.expand import read_img, read_raw, with_place
from chatmd.context import Run, RunOptions
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.agent import CallItem, Doc, Img, Item, MessageItem, OutputItem, content_of
from chatmd.runtime.runner import Runner, open_run, prepare
from chatmd.runtime.transcript_file import Draft, message_element
from chatmd.sidecar import PICTURES
from chatmd.tools.registry import BUILTINS
from lmm import loop, terminal
from lmm.errors import FileReadError, LmmError, Place
from lmm.importing.formats import suffix_of
from lmm.messages import (
    Event,
    Notice,
    ReasoningDelta,
    Retrying,
    RunResult,
    TextDelta,
    ToolCall,
    ToolProgress,
    ToolResult,
)
from lmm.stdin_lines import lines_of_stdin

_Json = dict[str, Any]
_POWERS = {"write": "edit", "read": "read", "network": "fetch"}
_YES, _NO = (
    {"optionId": key, "name": key, "kind": kind} for key, kind in (("yes", "allow_once"), ("no", "reject_once"))
)
_ALWAYS = {"optionId": "always", "name": "always for this tool", "kind": "allow_always"}


@dataclass(slots=True)
class StdioTransport:
    """Messages as lines of standard input and output, for the protocol's library."""

    lines: AsyncIterator[str]
    _writing: threading.Lock = field(default_factory=threading.Lock)

    async def send(self, message: _Json) -> None:
        """Write a message of the library."""
        self.write(message)

    def write(self, message: _Json) -> None:
        """Write a message at once, from any thread."""
        with self._writing:
            terminal.say_json({"jsonrpc": "2.0", **message}, line=True)

    async def receive(self) -> _Json | None:
        """Return the next message; nothing at the end."""
        async for line in self.lines:
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(line), dict):
                    return message
        return None

    async def close(self) -> None:
        """Leave standard output open."""


class UnknownSession(ChatmdError):
    """A session that was neither begun nor loaded on this connection."""

    def __init__(self, session: str) -> None:
        super().__init__("there is no such session", where=session, hint="begin one, or load it first")


def _request_error(error: Exception) -> acp.RequestError:
    if isinstance(error, UnknownSession):
        return acp.RequestError(-32002, str(error), {"sessionId": error.where})
    return acp.RequestError(-32602 if isinstance(error, ValueError) else -32603, str(error))


class AcpAgent:
    """The agent in `file`; `ask` asks before each call."""

    def __init__(self, file: Path, options: RunOptions, *, ask: bool = False) -> None:
        self.file, self.options, self.ask_before_calls = file, options, ask
        self._sessions: set[str] = set()
        self._turns: dict[str, asyncio.Task[RunResult]] = {}
        self._approvals: dict[str, Approvals] = {}

    async def serve(self) -> None:
        """Answer the client at standard input and output until the input ends."""
        async with lines_of_stdin() as lines:
            self._transport = StdioTransport(lines)
            self._client = acp.AgentSideConnection(cast(acp.Agent, self), self._transport, listening=False)
            try:
                await self._client.listen()
            finally:
                await self._client.close()

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Say what this agent can do."""
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True, prompt_capabilities=PromptCapabilities(embedded_context=True)
            ),
            agent_info=Implementation(name="lmm", title=self.file.stem, version=version("lmmarkdown")),
        )

    async def new_session(self, mcp_servers: Sequence[Any] | None = None, **_: Any) -> acp.NewSessionResponse:
        """Begin a session."""
        session = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._sessions.add(session)
        for server in mcp_servers or ():
            hint = "declare it in the file: <tool mcp_server=…/>"
            self._send_event(session, Notice(f"the editor's MCP server {server.name} is not used ({hint})"))
        return acp.NewSessionResponse(session_id=session)

    async def load_session(self, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        """Show an earlier session, and go on with it."""
        try:
            if not re.fullmatch(r"[\w-]+", session_id):  # it must not lead to other files
                raise UnknownSession(session_id)
            items = Chat.open(self._path(session_id)).agent.items
        except FileReadError:
            raise _request_error(UnknownSession(session_id)) from None
        except LmmError as error:
            raise _request_error(error) from error
        self._sessions.add(session_id)
        for update in map(_past_update, items):
            self._update(session_id, update)
        return acp.LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> acp.PromptResponse:
        """Answer a message."""
        try:
            if session_id not in self._sessions:
                raise UnknownSession(session_id)
            text, mentions = read_blocks([block.model_dump(by_alias=True, exclude_none=True) for block in prompt])
            if session_id in self._turns:
                hint = "cancel that"
                raise ChatmdError("the message before is still being answered", where=session_id, hint=hint)
            return acp.PromptResponse(stop_reason=await self._answer(session_id, text, mentions))
        except (LmmError, ValueError, OSError) as error:
            raise _request_error(error) from error

    async def _answer(self, session: str, text: str, mentions: Sequence[EditorMention]) -> StopReason:
        turn = self._turns[session] = asyncio.create_task(self._turn(session, text, mentions))
        try:
            await asyncio.wait((turn,))
            if turn.cancelled():
                return "cancelled"
            return "max_tokens" if turn.result().cut else "end_turn"
        except LimitReached as error:
            self._send_event(session, TextDelta(str(error)))
            return "max_turn_requests"
        finally:
            del self._turns[session]
            turn.cancel()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Break off the answer in progress."""
        if (turn := self._turns.get(session_id)) is not None:
            turn.cancel()

    async def _turn(self, session: str, text: str, mentions: Sequence[EditorMention]) -> RunResult:
        """Append a prompt to a session's file, and run it; consent is asked for as for the original file."""
        path, current_loop = self._path(session), asyncio.get_running_loop()

        def confirm(question: str) -> bool:
            asking = self._choice(session, ("consent", "Agree to what its tools can do"), question, (_YES, _NO))
            return asyncio.run_coroutine_threadsafe(asking, current_loop).result() == "yes"

        def begin() -> Runner:
            approve = self._approver(session) if self.ask_before_calls else None
            listener = partial(self._send_event, session)
            run = prepare(self.file, replace(self.options, confirm=confirm, approve=approve, listener=listener))
            lines, files = read_mentions(mentions, run)
            message = message_element(Draft(text + lines), files)
            run = run.with_options(say=message)
            return open_run(path if path.exists() else self.file, run, path)

        return await (await asyncio.to_thread(begin)).run()

    def _approver(self, session: str) -> Approvals:
        async def ask(call: ToolCall) -> CallDecision:
            choice = await self._choice(session, (call.id, call_line(call)), call.arguments, (_YES, _ALWAYS, _NO))
            return read_answer(choice) or CallDecision("no")

        return self._approvals.setdefault(session, Approvals(ask))

    async def _choice(self, session: str, about: tuple[str, str], text: str, options: Sequence[_Json]) -> str:
        """Ask the user, and return the id of the chosen option; empty if none."""
        call = ToolCallUpdate.model_validate({"toolCallId": about[0], "title": about[1], "content": _content(text)})
        choices = [PermissionOption.model_validate(option) for option in options]
        try:
            response = await self._client.request_permission(session, call, choices)
        except (acp.RequestError, ConnectionError):
            return ""
        return str(getattr(response.outcome, "option_id", ""))

    def _path(self, session: str) -> Path:
        return self.file.with_name(f"{self.file.stem}.{session}.chatmd")

    def _send_event(self, session: str, event: Event, place: Place | None = None) -> None:
        if not (place and place.path and isinstance(event, TextDelta | ReasoningDelta)):
            self._update(session, _update(event))

    def _update(self, session: str, update: _Json | None) -> None:
        if update is not None:
            # at once: events come from several threads, in their order
            self._transport.write({"method": "session/update", "params": {"sessionId": session, "update": update}})


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


def _past_update(item: Item) -> _Json | None:
    """Return the update that the editor gets for an earlier part of the conversation."""
    words = content_text(content_of(item), {}).strip()
    if isinstance(item, MessageItem) and item.role in ("user", "assistant") and not item.is_blank:
        return _chunk("user_message" if item.role == "user" else "agent_message", words)
    if isinstance(item, CallItem):
        return _update(ToolCall(item.call, item.name, words))
    if isinstance(item, OutputItem):
        return _update(ToolResult(item.call, item.name, words, failed=item.failed))
    return None


def serve(file: Path, options: RunOptions, *, ask: bool) -> int:
    """Serve the one client at standard input and output until it closes its end; return the exit code."""
    Chat.open(file)  # raises at once if it cannot be read
    terminal.log_to_stderr("%(levelname)s %(name)s: %(message)s")  # standard output belongs to the protocol
    loop.run(AcpAgent(file, options, ask=ask).serve())
    return terminal.DONE


# -- What a message mentions: text, links to files and lines of them, parts that cannot be sent ----------------


_LINES = re.compile(r"L(\d+)(?:[:-]L?(\d+))?")


@dataclass(frozen=True, slots=True)
class EditorMention:
    """A file or address that a message mentions; of a file perhaps only the `lines` from one number to another."""

    src: str
    local: bool = True
    lines: tuple[int, int] | None = None


def read_blocks(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, list[EditorMention]]:
    """Return the text of a message in blocks of the Agent Client Protocol, and what it mentions.

    A mention is a word of the text, where it stood; parts that are not sent are said there.

    >>> link = {"type": "resource_link", "uri": "file:///notes/a%20b.md#L3:5", "name": "a b.md"}
    >>> read_blocks([{"type": "text", "text": "Is "}, link, {"type": "text", "text": " right?"}])
    ('Is @a b.md:3-5 right?', [EditorMention(src='/notes/a b.md', local=True, lines=(3, 5))])
    """
    text, mentions = "", list[EditorMention]()
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            text += block["text"]
        elif kind == "resource_link":
            parts, lines = urlsplit(block["uri"]), None
            is_file = parts.scheme == "file"
            if is_file and (found := _LINES.fullmatch(parts.fragment)):
                lines = int(found[1]), int(found[2] or found[1])
            mentions.append(EditorMention(url2pathname(parts.path) if is_file else block["uri"], is_file, lines))
            text += f"@{block.get('name') or mentions[-1].src}" + (f":{lines[0]}-{lines[1]}" if lines else "")
        elif kind == "resource" and isinstance(block["resource"].get("text"), str):
            text += f"\n\n{block['resource']['uri']}:\n{block['resource']['text']}\n\n"
        else:
            about = block.get("resource", block)
            text += f"[{kind} that was not sent: {about.get('mimeType') or about.get('uri') or 'of an unknown type'}]"
    return text, mentions


def read_mentions(mentions: Sequence[EditorMention], run: Run) -> tuple[str, list[str]]:
    """Read what is mentioned before it is written into a conversation, which could not go on with what cannot be read.

    Return the lines that are sent as text, and the files and addresses that are to be sent as documents.

    Raises:
        ChatmdError: a file cannot be read, may not be, or does not have these lines.
    """
    excerpts, files = "", list[str]()
    for mention in mentions:
        doc = Doc(mention.src, local=True)
        try:
            if mention.local and suffix_of(mention.src) in PICTURES:
                loop.run(read_img(Img(mention.src, local=True), run))
            elif mention.local:
                lines = plain_text(read_raw(doc, run)).split("\n")
                if mention.lines is not None:
                    first, last = mention.lines
                    if not 1 <= first <= last <= len(lines):
                        raise ChatmdError(f"it has {len(lines)} lines, and so no lines {first} to {last}")
                    excerpts += f"\n\n{mention.src}:{first}-{last}:\n" + "\n".join(lines[first - 1 : last])
                    continue
        except LmmError as error:
            raise with_place(error, doc) from error
        files.append(mention.src)
    return excerpts, files
