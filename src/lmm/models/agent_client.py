"""The adapter to agents' programs that the user is logged in to: our port, over the Agent Client Protocol.

A program is started when its model is first asked, in an empty folder, without tools and without the keys of providers:
the user's account pays. Each request has a session of its own. What the program asks for (files, terminals,
permissions) is refused. It ends when nothing was asked for half a minute, and with this process. Imported only when
such a model is called: importing the protocol's library takes half a second.
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
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
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
from lmm.models.agent_programs import AgentProgram, find_agent
from lmm.models.server import ModelServer
from lmm.models.tokens import estimated
from lmm.providers import PROVIDER_KEYS
from lmm.terminal import clipped

_Json = dict[str, Any]
_IDLE, _GRACE, _POLL = 30.0, 2.0, 0.02  # seconds: without a session; to do what it is asked; between two looks
_AT_ONCE = 4  # sessions: one of Claude's takes 190 MB
_LONGEST_MESSAGE = 64 * 1024 * 1024
_LOGIN_REQUIRED = -32000
_COMMAND = re.compile(r"\s*[/$!@]")  # what programs take for a command at the beginning of a text


class AgentModel:
    """An agent's program behind our port; `left_out` are the settings that it does not take.

    Raises:
        ModelNotFound: there is no such agent.
        ModelNotInstalled: its program is missing.
    """

    def __init__(self, settings: ModelSettings, left_out: Sequence[str]) -> None:
        self.name, self._timeout = str(settings.model), settings.timeout
        self._program, path = find_agent(settings.model.model)
        if not path:
            fact = f"{self.name} is not available: the program {self._program.command[0]} is not on your path"
            raise errors.ModelNotInstalled(fact, hint=f"npm install -g {self._program.package}")
        self._command = (path, *self._program.command[1:])
        self._notices = [Notice(f"{self.name} does not take {one}, which is left out") for one in left_out]
        self._server, self._limit = ModelServer(self.name, ""), asyncio.Semaphore(_AT_ONCE)
        self._starting: asyncio.Task[AgentConnection] | None = None

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask in a new session; yield pieces as they arrive, then one `Reply`.

        Raises:
            ModelError: the program is not available, or does not answer.
        """
        if request.tools:
            hint = "choose another model where tools are used: --model, config.toml, or the header"
            raise errors.ModelRejected(f"{self.name} cannot be given tools", hint=hint)
        system, blocks = prompt_of(request, system_apart=self._program.takes_system)
        session = {**self._program.session, **({"systemPrompt": system} if system else {})}
        events = list[ChatEvent]()
        async with self._limit:
            with self._translated():
                agent = await self._started()
                if len(blocks) > 1 and not agent.takes_images:
                    raise errors.ModelRejected(f"{self.name} takes no pictures", hint="leave them out")
                async with agent.asked(blocks, session) as (prompt, updates):
                    while (update := await asyncio.wait_for(updates.get(), self._timeout)) is not None:
                        event = event_of(update, self.name)
                        if event and not (isinstance(event, Notice) and event in events):
                            events.append(event)
                            yield event
                    result = await prompt
                    for notice in self._notices:
                        yield notice
                    self._notices = []
                    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
                    thoughts = (Reasoning(thought),) if thought.strip() else ()
                    for whole in thoughts:
                        yield whole
                    text = "".join(event.text for event in events if isinstance(event, TextDelta))
                    yield self._reply(request, text, thoughts, result)

    def _reply(self, request: ChatRequest, text: str, thoughts: tuple[Reasoning, ...], result: _Json) -> Reply:
        reason, used = result.get("stopReason"), _part(result, "usage")
        if reason == "refusal":
            raise errors.ModelRejected(f"{self.name} refused to answer", hint="ask in other words")
        if reason == "cancelled":  # not by us
            raise self._server.broke_off()
        count = {key: value for key, value in used.items() if isinstance(value, int)}
        cached = count.get("cachedReadTokens", 0)
        sent = count.get("inputTokens", 0) + cached + count.get("cachedWriteTokens", 0)
        usage = Usage(sent, count.get("outputTokens", 0) + count.get("thoughtTokens", 0), None, 1, cached_tokens=cached)
        reply = Reply(text, self.name, usage, cut=reason in ("max_tokens", "max_turn_requests"), reasoning=thoughts)
        return reply if sent else replace(reply, usage=estimated(request, reply))

    async def _started(self) -> AgentConnection:
        """Return the running program; all who ask while it starts wait for the same one."""
        task, here = self._starting, asyncio.get_running_loop()
        if task is None or task.get_loop() is not here or (task.done() and (task.exception() or task.result().ended)):
            task = self._starting = here.create_task(AgentConnection.start(self._command, self._program, self._timeout))
        return await asyncio.shield(task)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise our own errors for those of the protocol and the program."""
        try:
            yield
        except TimeoutError as error:
            hint = "set a longer 'timeout' for this model in config.toml, or try again"
            raise errors.ModelTimeout(f"{self.name} sent nothing for {self._timeout:g} s", hint=hint) from error
        except OSError as error:
            fact = f"{self.name} is not available: {clipped(str(error), 300)}"
            raise errors.ModelUnavailable(fact, hint=f"try it in a terminal: {self._program.command[0]}") from error
        except RequestError as error:
            if error.code == _LOGIN_REQUIRED:
                fact = f"{self.name} is not available: nobody is logged in"
                raise errors.ModelKeyMissing(fact, hint=self._program.login) from error
            details = error.data.get("details") if isinstance(error.data, dict) else None
            raise self._server.refusal(0, str(details or error)) from error


class AgentConnection:
    """A running program, and the transport of its messages for the protocol's library."""

    def __init__(self, process: Process, folder: tempfile.TemporaryDirectory[str], timeout: float) -> None:
        self._process, self._folder, self._timeout = process, folder, timeout
        self._cwd = str(Path(folder.name) / "empty")
        self._sessions: dict[str, asyncio.Queue[_Json | None]] = {}
        self._in_use, self._stopped = 0, False
        self._idle: asyncio.TimerHandle | None = None
        self._can: _Json = {}
        self._connection = Connection(self._handle, self)
        atexit.register(self.stop)

    @classmethod
    async def start(cls, command: Sequence[str], program: AgentProgram, timeout: float) -> AgentConnection:
        """Start a program, and agree with it on the protocol."""
        folder = tempfile.TemporaryDirectory(prefix="lmm-agent-", ignore_cleanup_errors=True)
        for name, text in program.files.items():
            (Path(folder.name) / name).write_text(text)
        environment = {name: value for name, value in os.environ.items() if name not in PROVIDER_KEYS}
        environment |= {name: value.replace("{folder}", folder.name) for name, value in program.variables.items()}
        empty = Path(folder.name) / "empty"
        empty.mkdir()
        with (Path(folder.name) / "stderr").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(word.replace("{folder}", folder.name) for word in command),
                stdin=PIPE, stdout=PIPE, stderr=log, cwd=empty, env=environment, limit=_LONGEST_MESSAGE,
                start_new_session=True,
            )  # fmt: skip
        agent = cls(process, folder, timeout)
        about = {"name": "lmm", "version": "1"}
        refused = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        agreed = await agent._request(
            "initialize", protocolVersion=PROTOCOL_VERSION, clientCapabilities=refused, clientInfo=about
        )
        agent._can = _part(agreed, "agentCapabilities")
        agent._rest()
        return agent

    @property
    def ended(self) -> bool:
        """Whether it has to be started again."""
        return self._stopped or self._process.returncode is not None

    @property
    def takes_images(self) -> bool:
        """Whether a prompt may have pictures."""
        return bool(_part(self._can, "promptCapabilities").get("image"))

    @asynccontextmanager
    async def asked(
        self, blocks: Sequence[_Json], about: Mapping[str, Any]
    ) -> AsyncGenerator[tuple[asyncio.Task[_Json], asyncio.Queue[_Json | None]]]:
        """Ask in a new session; yield the result to come, and what the program sends until then; None is its end."""
        self._in_use += 1
        if self._idle is not None:
            self._idle.cancel()
        session, updates, prompt = "", asyncio.Queue[_Json | None](), None
        try:
            new = await self._request("session/new", cwd=self._cwd, mcpServers=[], _meta=dict(about))
            session = str(new.get("sessionId", ""))
            self._sessions[session] = updates
            prompt = asyncio.create_task(self._request("session/prompt", sessionId=session, prompt=list(blocks)))
            prompt.add_done_callback(lambda _: updates.put_nowait(None))
            yield prompt, updates
        finally:
            await to_its_end(self._close(session, prompt))

    async def _close(self, session: str, prompt: asyncio.Task[_Json] | None) -> None:
        """End a session; a prompt in progress is cancelled, and a program that ignores this is stopped."""
        about = {"sessionId": session}
        if prompt is not None and not prompt.done():
            with suppress(OSError):
                await asyncio.wait_for(self._connection.send_notification("session/cancel", about), _GRACE)
            await asyncio.wait((prompt,), timeout=_GRACE)
            if not prompt.done():
                prompt.cancel()
                await asyncio.to_thread(self.stop)
        if session and "close" in _part(self._can, "sessionCapabilities"):
            # Not by the library, which would wait for the response.
            message = {"jsonrpc": "2.0", "id": session, "method": "session/close", "params": about}
            with suppress(OSError):
                await asyncio.wait_for(self.send(message), _GRACE)
        if prompt is not None and prompt.done() and not prompt.cancelled():
            prompt.exception()  # retrieved: else asyncio complains
        self._sessions.pop(session, None)
        self._in_use -= 1
        self._rest()

    def _rest(self) -> None:
        """Stop the program in a while, if it has no session until then."""
        if not (self._in_use or self.ended):
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(_IDLE, loop.run_in_executor, None, self.stop)

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
        self._stopped = True
        atexit.unregister(self.stop)
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                ends = time.monotonic() + _GRACE
                while time.monotonic() < ends:
                    time.sleep(_POLL)
                    os.killpg(self._process.pid, 0)
            except (ProcessLookupError, PermissionError):  # nothing is left
                break
        self._folder.cleanup()

    async def _handle(self, method: str, parameters: Any, is_notification: bool) -> _Json | None:
        """Take what the program sends by itself: updates of sessions, and requests, which are refused."""
        parameters = parameters if isinstance(parameters, dict) else {}
        updates = self._sessions.get(str(parameters.get("sessionId")))
        if method == "session/update":
            if updates is not None:
                updates.put_nowait(parameters.get("update"))
            return None
        if is_notification:
            return None
        if updates is not None:
            updates.put_nowait({"sessionUpdate": method})
        if method != "session/request_permission":
            raise RequestError.method_not_found(method)
        for option in parameters.get("options") or ():
            if isinstance(option, dict) and str(option.get("kind")).startswith("reject"):
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}

    # -- the transport ---------------------------------------------------------------------------------

    async def send(self, message: _Json) -> None:
        """Write a message of the library."""
        assert self._process.stdin is not None, "it was started with a pipe"
        is_answer = "method" not in message  # nobody waits for it, if the program has gone
        with suppress(ConnectionError) if is_answer else nullcontext():
            if not (is_answer and self.ended):
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                await self._process.stdin.drain()

    async def receive(self) -> _Json | None:
        """Return the next message; nothing at the end. What is no message is a program's chatter."""
        while self._process.stdout is not None and (line := await self._process.stdout.readline()):
            with suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(line), dict):
                    return message
        return None

    async def close(self) -> None:
        """Leave the program to `stop`."""


# -- messages in its form, and what it sends in ours ---------------------------------------------------


def _part(value: _Json, key: str) -> _Json:
    """Return an object in what a program sent; an empty one if it is missing, or something else."""
    part = value.get(key)
    return part if isinstance(part, dict) else {}


def prompt_of(request: ChatRequest, *, system_apart: bool) -> tuple[str, list[_Json]]:
    """Convert a request; return the system message, if it is sent apart, and the prompt's blocks, the text first.

    A conversation becomes one text, since a session begins with each request.

    Raises:
        ModelRejected: a picture has an address, which a program without tools cannot fetch.

    >>> from lmm.messages import Message
    >>> asked = ChatRequest((Message("system", "Be brief."), Message("user", "Why?")))
    >>> prompt_of(asked, system_apart=True)
    ('Be brief.', [{'type': 'text', 'text': 'Why?'}])
    >>> " ".join(prompt_of(asked, system_apart=False)[1][0]["text"].split())
    '<instructions> Be brief. </instructions> Why?'
    """
    system = "\n\n".join(render(one) for one in request.messages if one.role in ("system", "developer"))
    said = [one for one in request.messages if one.role not in ("system", "developer")]
    text = f"{tagged(Attachment(dialogue_text(said), 'conversation'))}\n\nWrite the assistant's next message, only."
    if len(said) == 1:
        text = "\n\n".join(part for part in message_parts(said[0]) if isinstance(part, str))
    if _COMMAND.match(text):
        text = tagged(Attachment(text, "message"))
    if system and not system_apart:
        text = f"{tagged(Attachment(system, 'instructions'))}\n\n{text}"
    images = [part for one in said for part in one.content if isinstance(part, Image)]
    if any(image.url for image in images):
        raise errors.ModelRejected("an agent takes no pictures by their address", hint="save them beside the document")
    shown = [
        {"type": "image", "data": base64.b64encode(image.data).decode(), "mimeType": image.media_type}
        for image in images
    ]
    return system if system_apart else "", [{"type": "text", "text": text}, *shown]


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
