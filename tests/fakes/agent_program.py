"""An agent's program, with the agent side of the protocol's library: it says what a scripted server answers.

``AGENT_SERVER`` is the server's address. ``AGENT_HABIT`` is what else it does: ``die``, ``login``, ``silent`` (it
answers nothing), ``deaf`` (it answers no prompt, and ignores that it is cancelled), ``asks`` (for a file, a terminal, a
permission), ``thinks``, ``blind``. ``AGENT_LOG`` is a file with a line of JSON for what it hears and is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any, cast

import acp
from acp.schema import AgentCapabilities, PermissionOption, PromptCapabilities, SessionCapabilities, ToolCallUpdate

HABIT = os.environ.get("AGENT_HABIT", "")


def note(**values: Any) -> None:
    """Write a line into the log."""
    with Path(os.environ["AGENT_LOG"]).open("a") as log:
        log.write(json.dumps(values) + "\n")


class FakeAgent:
    """The agent; each session is a number."""

    def __init__(self) -> None:
        self.sessions = 0
        self.cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: acp.Client) -> None:
        """Keep the connection."""
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Say what it takes."""
        if HABIT == "silent":
            await asyncio.sleep(600)
        keys = sorted(name for name in os.environ if name.endswith("_API_KEY"))
        note(
            started=os.getpid(),
            folder=str(Path.cwd()),
            files=[*map(str, Path().iterdir())],
            keys=keys,
            words=sys.argv[1:],
        )
        return acp.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(
                prompt_capabilities=PromptCapabilities(image=HABIT != "blind"),
                session_capabilities=SessionCapabilities.model_validate({"close": {}}),
            ),
        )

    async def new_session(self, cwd: str, **more: Any) -> acp.NewSessionResponse:
        """Begin a session."""
        if HABIT == "login":
            raise acp.RequestError.auth_required()
        self.sessions += 1
        name = f"session-{self.sessions}"
        self.cancelled[name] = asyncio.Event()
        note(session=name, cwd=cwd, tools=more["claudeCode"]["options"]["tools"])
        return acp.NewSessionResponse(session_id=name)

    async def close_session(self, session_id: str, **_: Any) -> None:
        """End a session."""
        note(closed=session_id)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Break off."""
        note(cancelled=session_id)
        self.cancelled[session_id].set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        """Say what the server answers, in pieces."""
        text = "".join(block.text for block in prompt if block.type == "text")
        note(prompt=text, pictures=[block.mime_type for block in prompt if block.type == "image"])
        if HABIT == "die":
            sys.stderr.write("out of memory\n")
            sys.stderr.flush()
            os._exit(3)
        if HABIT == "deaf":
            await asyncio.sleep(600)
        if HABIT == "asks":
            await self.ask_for_all(session_id)
        if HABIT == "thinks":
            await self.client.session_update(session_id, acp.update_agent_thought_text("Hm. "))
        asking = asyncio.create_task(asyncio.to_thread(answer, text))
        ended = asyncio.create_task(self.cancelled[session_id].wait())
        await asyncio.wait((asking, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return acp.PromptResponse(stop_reason="cancelled")
        for at in range(0, len(said := asking.result()), 12):
            await self.client.session_update(session_id, acp.update_agent_message_text(said[at : at + 12]))
        return acp.PromptResponse(stop_reason="end_turn")

    async def ask_for_all(self, session: str) -> None:
        """Ask for what it should not get."""
        call = ToolCallUpdate(tool_call_id="1", title="rm -rf /")
        options = [PermissionOption(option_id=kind, name=kind, kind=kind) for kind in ("allow_once", "reject_once")]
        asked = {
            "file": lambda: self.client.read_text_file(session_id=session, path="/etc/passwd"),
            "written": lambda: self.client.write_text_file(session_id=session, path="/tmp/x", content="x"),
            "terminal": lambda: self.client.create_terminal(session_id=session, command="sh"),
            "permission": lambda: self.client.request_permission(session_id=session, tool_call=call, options=options),
        }
        for what, ask in asked.items():
            try:
                got: Any = await cast(Any, ask)()
            except acp.RequestError as error:
                note(asked=what, error=error.code)
            else:
                note(asked=what, got=got.model_dump() if got is not None else None)


def answer(text: str) -> str:
    """Ask the scripted server, which takes the instructions apart."""
    system, mark, rest = text.removeprefix("<instructions>\n").partition("\n</instructions>\n\n")
    system, text = (system, rest) if mark else ("", text)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    body = json.dumps({"model": "agent", "messages": messages}).encode()
    request = urllib.request.Request(
        os.environ["AGENT_SERVER"] + "/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as got:
        return str(json.load(got)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    sys.stdout.write("this line is no message\n")
    sys.stdout.flush()
    asyncio.run(acp.run_agent(cast(acp.Agent, FakeAgent()), use_unstable_protocol=True))
