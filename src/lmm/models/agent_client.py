"""The adapter to agents' programs that the user is logged in to: our port, over the Agent Client Protocol.

A program is started when its model is first asked, in an empty folder, without tools and without the keys of providers:
the user's account pays. Each request has a session of its own. What the program asks for (files, terminals,
permissions) is refused. It ends with this process. Imported only when such a model is called: importing the protocol's
library takes half a second.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import json
import os
import re
import signal
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection

from lmm import errors
from lmm.config import ModelSettings
from lmm.loop import to_its_end
from lmm.messages import (
    Attachment,
    ChatEvent,
    ChatRequest,
    Image,
    Notice,
    Reasoning,
    ReasoningDelta,
    Reply,
    TextDelta,
    Usage,
    dialogue_text,
    encodable,
    message_parts,
    render,
    tagged,
)
from lmm.models.agent_programs import AgentProgram
from lmm.models.server import ModelServer
from lmm.models.tokens import priced
from lmm.providers import PROVIDER_KEYS
from lmm.terminal import clipped

_Json = dict[str, Any]
_GRACE, _POLL = 2.0, 0.02  # seconds: to do what it is asked; between two looks
_AT_ONCE = 4  # sessions: one of Claude's takes 190 MB
_LONGEST_MESSAGE = 64 * 1024 * 1024
_LOGIN_REQUIRED, _CUT = -32000, ("max_tokens", "max_turn_requests", "cancelled")
_COMMAND = re.compile(r"\s*[/$!@]")  # what programs take for a command at the beginning of a text


class AgentModel:
    """An agent's program, at `path`, behind our port; `left_out` are the settings that it does not take."""

    def __init__(self, settings: ModelSettings, program: AgentProgram, path: str, left_out: Sequence[str]) -> None:
        self.name, self._program, self._command = str(settings.model), program, (path, *program.command[1:])
        self._notices = [Notice(f"{self.name} does not take {one}, which is left out") for one in left_out]
        self._server = ModelServer(self.name, "", timeout=settings.timeout)
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._starting: asyncio.Task[AgentConnection] | None = None

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask in a new session; yield pieces as they arrive, then one `Reply`.

        Raises:
            ModelError: the program is not available, or does not answer.
        """
        if request.tools:
            hint = "choose another model where tools are used: --model, config.toml, or the header"
            raise errors.ModelRejected(f"{self.name} cannot be given tools", hint=hint)
        blocks = prompt_of(request)
        events, result = list[ChatEvent](), dict[str, Any]()
        async with self._limit:
            try:
                agent = await self._started()
                if len(blocks) > 1 and not _part(agent.can, "promptCapabilities").get("image"):
                    raise errors.ModelRejected(f"{self.name} takes no pictures", hint="leave them out")
                async with aclosing(agent.ask(blocks, self._program.session)) as updates:
                    async for result in updates:
                        event = event_of(result, self.name)
                        if event and not (isinstance(event, Notice) and event in events):
                            events.append(event)
                            yield event
            except (OSError, RequestError) as error:
                raise self._error(error) from error
        text, thought = (
            "".join(one.text for one in events if isinstance(one, kind)) for kind in (TextDelta, ReasoningDelta)
        )
        thoughts = (Reasoning(thought),) if thought.strip() else ()
        for other in (*self._notices, *thoughts):
            yield other
        self._notices = []
        reason, used = result.get("stopReason"), _part(result, "usage")
        if reason == "refusal":
            raise errors.ModelRejected(f"{self.name} refused to answer", hint="ask in other words")
        count = Counter({key: value for key, value in used.items() if isinstance(value, int)})
        sent = count["inputTokens"] + count["cachedReadTokens"] + count["cachedWriteTokens"]
        usage = Usage(sent, count["outputTokens"] + count["thoughtTokens"], None, 1, False, count["cachedReadTokens"])
        yield priced(Reply(text, self.name, usage, cut=reason in _CUT, reasoning=thoughts), request)

    async def _started(self) -> AgentConnection:
        """Return the running program; all who ask while it starts wait for the same one."""
        task, here = self._starting, asyncio.get_running_loop()
        if task is None or task.get_loop() is not here or (task.done() and (task.exception() or task.result().ended)):
            start = AgentConnection.start(self._command, self._program, self._server.timeout)
            task = self._starting = here.create_task(start)
        return await asyncio.shield(task)

    def _error(self, error: OSError | RequestError) -> errors.ModelError:
        """Return our own error for one of the protocol or the program."""
        if isinstance(error, TimeoutError):
            return self._server.silent()
        if isinstance(error, OSError):
            fact = f"{self.name} is not available: {clipped(str(error), 300)}"
            return errors.ModelUnavailable(fact, hint=f"try it in a terminal: {self._program.command[0]}")
        if error.code == _LOGIN_REQUIRED:
            return errors.ModelKeyMissing(
                f"{self.name} is not available: nobody is logged in", hint=self._program.login
            )
        details = error.data.get("details") if isinstance(error.data, dict) else None
        return self._server.refusal(0, str(details or error))


class AgentConnection:
    """A program until it `ended`, what it `can`, and the transport of its messages for the protocol's library."""

    def __init__(self, process: Process, folder: tempfile.TemporaryDirectory[str], timeout: float) -> None:
        self._process, self._folder, self._timeout = process, folder, timeout
        self._sessions: dict[str, asyncio.Queue[_Json | None]] = {}
        self.ended = False
        self.can: _Json = {}
        self._connection = Connection(self._handle, self)
        atexit.register(self.stop)

    @classmethod
    async def start(cls, command: Sequence[str], program: AgentProgram, timeout: float) -> AgentConnection:
        """Start a program, and agree with it on the protocol."""
        folder = tempfile.TemporaryDirectory(prefix="lmm-agent-", ignore_cleanup_errors=True)
        empty = Path(folder.name, "empty")
        empty.mkdir()
        for name, text in program.files.items():
            (empty.parent / name).write_text(text)
        environment = {name: value for name, value in os.environ.items() if name not in PROVIDER_KEYS}
        environment |= {name: value.replace("{folder}", folder.name) for name, value in program.variables.items()}
        with (empty.parent / "stderr").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(word.replace("{folder}", folder.name) for word in command),
                stdin=PIPE, stdout=PIPE, stderr=log, cwd=empty, env=environment, limit=_LONGEST_MESSAGE,
                start_new_session=True,
            )  # fmt: skip
        agent = cls(process, folder, timeout)
        # Without capabilities: neither files nor terminals.
        agreed = await agent._request("initialize", protocolVersion=PROTOCOL_VERSION, clientCapabilities={})
        agent.can = _part(agreed, "agentCapabilities")
        return agent

    async def ask(self, blocks: Sequence[_Json], about: Mapping[str, Any]) -> AsyncGenerator[_Json]:
        """Ask in a new session; yield what the program sends, the result last."""
        session, updates, prompt = "", asyncio.Queue[_Json | None](), None
        try:
            cwd = str(Path(self._folder.name, "empty"))
            new = await self._request("session/new", cwd=cwd, mcpServers=[], _meta=dict(about))
            session = str(new.get("sessionId", ""))
            self._sessions[session] = updates
            prompt = asyncio.create_task(self._request("session/prompt", sessionId=session, prompt=list(blocks)))
            prompt.add_done_callback(lambda _: updates.put_nowait(None))
            while (update := await asyncio.wait_for(updates.get(), self._timeout)) is not None:
                yield update
            yield await prompt
        finally:
            await to_its_end(self._close(session, prompt))

    async def _close(self, session: str, prompt: asyncio.Task[_Json] | None) -> None:
        """End a session; a program that ignores that a prompt is cancelled is stopped."""
        about = {"sessionId": session}
        if prompt is not None:
            try:
                if not prompt.done():
                    await asyncio.wait_for(self._connection.send_notification("session/cancel", about), _GRACE)
                await asyncio.wait_for(asyncio.gather(prompt, return_exceptions=True), _GRACE)
            except OSError:  # it does not listen, or has gone
                await asyncio.to_thread(self.stop)
        if "close" in _part(self.can, "sessionCapabilities"):
            # Not by the library, which would wait for the response.
            message = {"jsonrpc": "2.0", "id": session, "method": "session/close", "params": about}
            with suppress(OSError):
                await asyncio.wait_for(self.send(message), _GRACE)
        self._sessions.pop(session, None)

    async def _request(self, method: str, **parameters: Any) -> _Json:
        asking = self._connection.send_request(method, parameters)
        try:
            # A prompt may take as long as it wants, if it sends something.
            result = await (asking if method == "session/prompt" else asyncio.wait_for(asking, self._timeout))
        except TimeoutError:
            await asyncio.to_thread(self.stop)
            raise
        except ConnectionError as error:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE)
            log = Path(self._folder.name) / "stderr"
            said = log.read_text(errors="replace").strip() if log.exists() else ""
            last = f": {said.splitlines()[-1]}" if said else ""
            raise OSError(f"its program ended with exit code {self._process.returncode}{last}") from error
        return result if isinstance(result, dict) else {}

    def stop(self) -> None:
        """End the program and all that it has started, from any thread."""
        self.ended = True
        atexit.unregister(self.stop)
        with suppress(ProcessLookupError, PermissionError):  # nothing is left
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(self._process.pid, number)
                for _ in range(round(_GRACE / _POLL)):
                    time.sleep(_POLL)
                    os.killpg(self._process.pid, 0)
        self._folder.cleanup()

    async def _handle(self, method: str, parameters: Any, is_notification: bool) -> None:
        """Take what the program sends by itself: updates of sessions, and requests, which are refused."""
        parameters = parameters if isinstance(parameters, dict) else {}
        updates = self._sessions.get(str(parameters.get("sessionId")))
        if method == "session/update":
            if updates is not None:
                updates.put_nowait(parameters.get("update"))
            return
        if is_notification:
            return
        if updates is not None:
            updates.put_nowait({"sessionUpdate": method})
        raise RequestError.method_not_found(method)

    # -- the transport ---------------------------------------------------------------------------------

    async def send(self, message: _Json) -> None:
        """Write a message of the library; if the program has gone, `receive` ends, and who waits gets to know."""
        assert self._process.stdin is not None, "it was started with a pipe"
        with suppress(ConnectionError):
            if not self.ended:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                await self._process.stdin.drain()

    async def receive(self) -> _Json | None:
        """Return the next message; nothing at the end. What is no message is a program's chatter."""
        while self._process.stdout is not None and (line := await self._process.stdout.readline()):
            with suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(line), dict):
                    return message
        self.ended = True
        return None

    async def close(self) -> None:
        """Leave the program to `stop`."""


# -- messages in its form, and what it sends in ours ---------------------------------------------------


def _part(value: _Json, key: str) -> _Json:
    """Return an object in what a program sent; an empty one if it is missing, or something else."""
    part = value.get(key)
    return part if isinstance(part, dict) else {}


def prompt_of(request: ChatRequest) -> list[_Json]:
    """Return a request as the blocks of a prompt, the text first.

    Instructions and conversation become one text, since programs have a system message of their own, and a session
    begins with each request.

    Raises:
        ModelRejected: a picture has an address, which a program without tools cannot fetch.

    >>> from lmm.messages import Message
    >>> prompt_of(ChatRequest((Message("user", "Why?"),)))
    [{'type': 'text', 'text': 'Why?'}]
    >>> asked = ChatRequest((Message("system", "Be brief."), Message("user", "Why?")))
    >>> " ".join(prompt_of(asked)[0]["text"].split())
    '<instructions> Be brief. </instructions> Why?'
    """
    system = "\n\n".join(render(one) for one in request.messages if one.role in ("system", "developer"))
    said = [one for one in request.messages if one.role not in ("system", "developer")]
    text = f"{tagged(Attachment(dialogue_text(said), 'conversation'))}\n\nWrite the assistant's next message, only."
    if len(said) == 1:
        text = "\n\n".join(part for part in message_parts(said[0]) if isinstance(part, str))
    if system:
        text = f"{tagged(Attachment(system, 'instructions'))}\n\n{text}"
    elif _COMMAND.match(text):
        text = tagged(Attachment(text, "message"))
    images = [part for one in said for part in one.content if isinstance(part, Image)]
    if any(image.url for image in images):
        raise errors.ModelRejected("an agent takes no pictures by their address", hint="save them beside the document")
    shown = ((base64.b64encode(image.data).decode(), image.media_type) for image in images)
    return [{"type": "text", "text": text}, *({"type": "image", "data": d, "mimeType": kind} for d, kind in shown)]


def event_of(update: Any, name: str) -> TextDelta | ReasoningDelta | Notice | None:
    """Convert what the program `name` sends during a prompt, if it matters."""
    match update:
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(text)}} if text:
            return TextDelta(text)
        case {"sessionUpdate": "agent_thought_chunk", "content": {"text": str(text)}} if text:
            return ReasoningDelta(encodable(text))
        case {"sessionUpdate": "tool_call", "title": title}:
            return Notice(f"{name} calls a tool of its own: {clipped(str(title), 60)}")
        case {"sessionUpdate": str(method)} if "/" in method:
            return Notice(f"{name} asks for {method}, which is refused")
    return None
