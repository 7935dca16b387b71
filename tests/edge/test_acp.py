"""`lmm run --acp` as a real process, asked by the protocol library's own client, and by lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from edge.support import finish, start
from fakes.openai_server import Action, Recorded, ScriptedServer

AGENT = """<config/>
<tool name="write_file"/>
<system>Help.</system>

<user>

</user>
"""
NEW: dict[str, Any] = {"cwd": "/", "mcpServers": []}
WRITE = ("c1", "write_file", json.dumps({"path": "new.md", "content": "n\n"}))


@pytest.fixture
def agent(folder: Path, server: ScriptedServer) -> Iterator[Path]:
    """An agent that writes a file if it is asked to, is long about it if it is asked to be, and greets."""

    def answer(request: Recorded) -> Action | str:
        if request.body["messages"][-1]["role"] == "tool":
            return "Written."
        if "Write" in request.last:
            return Action("Let me see. ", calls=(WRITE,))
        return Action("Wait " * 40, hold=held, hold_after=5) if "long" in request.last else f"You said {request.last}."

    held = threading.Event()
    server.answer = answer
    (folder / "helper.chatmd").write_text(AGENT)
    yield folder / "helper.chatmd"
    held.set()


def kinds(updates: Sequence[dict[str, Any]]) -> list[str]:
    """The kinds of updates in order, pieces of one text as one."""
    names = [update["sessionUpdate"] for update in updates]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


def text_of(updates: Sequence[dict[str, Any]]) -> str:
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


async def conversed(agent: Path, folder: Path) -> dict[str, Any]:
    """A conversation by the library's client: what came of each request."""
    acp = pytest.importorskip("acp")
    updates, asked, choices = list[dict[str, Any]](), list[str](), ["no", "yes", "always"]

    class Client(acp.Client):  # type: ignore[misc, name-defined]  # `acp` is a value here
        async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
            updates.append(update.model_dump(by_alias=True, exclude_none=True))

        async def request_permission(self, options: Any, session_id: str, tool_call: Any, **more: Any) -> Any:
            asked.append(tool_call.title)
            choice = choices.pop(0)
            assert choice in [option.option_id for option in options]
            return acp.RequestPermissionResponse.model_validate(
                {"outcome": {"outcome": "selected", "optionId": choice}}
            )

    def taken() -> list[dict[str, Any]]:
        some = updates.copy()
        updates.clear()
        return some

    found: dict[str, Any] = {}
    words = ("-m", "lmm", "run", "--acp", "--ask", agent.name)
    async with acp.spawn_agent_process(Client(), sys.executable, *words, cwd=folder, env=dict(os.environ)) as (
        agent_end,
        _,
    ):
        found["agent"] = await agent_end.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await agent_end.new_session(cwd=str(folder), mcp_servers=[])).session_id

        async def say(*blocks: Any) -> tuple[str, list[dict[str, Any]]]:
            reply = await agent_end.prompt(session_id=session, prompt=list(blocks))
            await asyncio.sleep(0.2)  # updates are handled in tasks of their own
            return reply.stop_reason, taken()

        with pytest.raises(acp.RequestError, match="you did not agree"):
            await say(acp.text_block("Write it."))
        found["written"] = await say(acp.text_block("Write it."))
        link = acp.resource_link_block("notes", (folder / "notes.md").as_uri())
        found["linked"] = await say(acp.text_block("Read:"), link)
        talking = asyncio.create_task(say(acp.text_block("Be long.")))
        while not updates:
            await asyncio.sleep(0.02)
        with pytest.raises(acp.RequestError, match="still being answered"):
            await agent_end.prompt(session_id=session, prompt=[acp.text_block("And?")])
        await agent_end.cancel(session_id=session)
        found["cancelled"] = await talking
    async with acp.spawn_agent_process(
        Client(), sys.executable, *words[:-2], agent.name, cwd=folder, env=dict(os.environ)
    ) as (agent_end, _):
        await agent_end.initialize(protocol_version=acp.PROTOCOL_VERSION)
        await agent_end.load_session(cwd=str(folder), session_id=session)
        await asyncio.sleep(0.2)
        found["loaded"] = taken()
        found["again"] = await say(acp.text_block("Write it."))
    return {**found, "asked": asked, "session": session}


@pytest.mark.timeout(180)
def test_a_conversation_with_the_librarys_client(agent: Path, folder: Path) -> None:
    """Consent, calls one by one, a linked file, a reply cut off, and a session that another process goes on with."""
    (folder / "notes.md").write_text("Of oaks.\n")
    before = agent.read_text()
    found = asyncio.run(conversed(agent, folder))
    assert found["agent"].agent_capabilities.load_session
    (reason, updates) = found["written"]
    assert (reason, kinds(updates)) == (
        "end_turn",
        ["agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"],
    )
    assert (updates[-1]["content"]["text"], (folder / "new.md").read_text()) == ("Written.", "n\n")
    call = next(update for update in updates if update["sessionUpdate"] == "tool_call")
    assert (call["kind"], call["title"]) == ("edit", 'write_file(path="new.md", content="n\\n")')
    assert found["asked"] == ["Agree to what its tools can do"] * 2 + [call["title"]]
    assert "Of oaks." in text_of(found["linked"][1])
    assert found["cancelled"][0] == "cancelled"
    assert 0 < len(text_of(found["cancelled"][1])) < 200
    assert kinds(found["loaded"])[:5] == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
    ]
    assert found["again"][0] == "end_turn"  # nobody is asked about what was agreed to
    assert agent.read_text() == before
    assert "Be long." in (folder / f"helper.{found['session']}.chatmd").read_text()


def test_what_is_no_message_and_what_is_not_known(agent: Path, folder: Path) -> None:
    """A request gets its error, with the code that JSON-RPC has for it; the session's name leads nowhere else."""

    def request(number: int, method: str, **params: object) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    said, long = [{"type": "text", "text": "Hi"}], "x" * 300
    lines = ["{", "7", request(1, "nothing"), request(2, "session/prompt"),
             request(3, "session/load", sessionId="x", **NEW),
             request(4, "session/prompt", sessionId="../x", prompt=said),
             request(5, "session/prompt", sessionId=long, prompt=said),
             request(6, "session/load", sessionId=long, **NEW),
             request(7, "session/load", sessionId="../x", **NEW),
             request(8, "session/prompt", sessionId="other", prompt=said),
             ]  # fmt: skip
    (folder / "helper.other.chatmd").write_text(AGENT)  # not loaded by this client
    with start("run", "--acp", agent.name, stdin=subprocess.PIPE) as process:
        answers = answered(process, lines, 8)
        done = finish(process)
    codes = sorted((answer["id"], answer["error"]["code"]) for answer in answers)
    unknown = [(number, -32002) for number in (3, 4, 5, 6, 7, 8)]
    refused = [(1, -32601), (2, -32602), *unknown]
    assert (done.code, done.err, codes) == (0, "", sorted(refused))
    assert {answer["error"]["data"]["sessionId"] for answer in answers if answer["error"]["code"] == -32002} == {
        "x", "../x", long, "other",
    }  # fmt: skip
    assert not list(folder.parent.glob("*.chatmd"))
    assert sorted(path.name for path in folder.glob("*.chatmd")) == ["helper.chatmd", "helper.other.chatmd"]
    assert (folder / "helper.other.chatmd").read_text() == AGENT


def answered(process: subprocess.Popen[bytes], lines: Sequence[str], number: int) -> list[dict[str, Any]]:
    """Send messages, and return so many answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    process.stdin.flush()
    found: list[dict[str, Any]] = []
    while len(found) < number:
        message = json.loads(process.stdout.readline())
        found += [message] if "error" in message or "result" in message else []
    return found


def prompted(agent: Path, prompt: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """The answer to a prompt in a new session."""
    with start("run", "--acp", agent.name, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}\n'
        )
        process.stdin.flush()
        session = json.loads(process.stdout.readline())["result"]["sessionId"]
        params = {"sessionId": session, "prompt": prompt}
        request = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}
        answers = answered(process, [json.dumps(request)], 1)
        finish(process)
    return answers


def test_what_fails_without_being_expected_to_is_answered(folder: Path) -> None:
    """A request that the file system cannot serve gets an error, and so does an address that is none."""
    (agent := folder / f"{'a' * 245}.chatmd").write_text("<system>Help.</system>\n")
    (answer,) = prompted(agent, [{"type": "text", "text": "Hi"}])
    assert (answer["id"], answer["error"]["code"]) == (2, -32603)
    assert "too long" in answer["error"]["message"]
    (answer,) = prompted(agent, [{"type": "resource_link", "uri": "http://[x"}])
    assert (answer["id"], answer["error"]["code"]) == (2, -32602)


def test_a_question_that_nobody_can_answer_any_more_ends(agent: Path) -> None:
    """An editor that is closed while it is asked leaves no process behind."""
    said = [{"type": "text", "text": "Hi"}]
    with start("run", "--acp", agent.name, stdin=subprocess.PIPE) as process:
        (begun,) = answered(
            process, [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": NEW})], 1
        )
        params = {"sessionId": begun["result"]["sessionId"], "prompt": said}
        request = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}
        done = finish(process, f"{json.dumps(request)}\n".encode())
    assert (done.code, list(agent.parent.glob("helper.*.chatmd"))) == (0, [])


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gone.md", "there is no such file"),
        ("../secret.md", "outside"),
        ("notes.md#L3:9", "it has 3 lines, and so no lines 3 to 9"),
        ("data.bin", "text"),
    ],
)
def test_a_mention_that_cannot_be_read_is_refused_before_it_is_written(folder: Path, uri: str, message: str) -> None:
    """Otherwise the conversation could never go on."""
    (agent := folder / "a.chatmd").write_text("<system>Help.</system>\n")
    (folder / "notes.md").write_text("one\ntwo\n")
    (folder / "data.bin").write_bytes(b"\0\1\2")
    path, _, fragment = uri.partition("#")
    link = {"type": "resource_link", "uri": (folder / path).as_uri() + (fragment and f"#{fragment}"), "name": path}
    (answer,) = prompted(agent, [{"type": "text", "text": "Read "}, link])
    assert message in answer["error"]["message"]
    assert list(folder.glob("a.*.chatmd")) == []


def test_a_message_in_blocks(folder: Path) -> None:
    """Mentions stay where they stood; lines are sent as lines; what cannot be sent is said."""
    (folder / "notes.md").write_text("one\ntwo\nthree\n")
    (agent := folder / "a.chatmd").write_text('<config model="Builtin/extractive"/>\n')
    link = {"type": "resource_link", "uri": (folder / "notes.md").as_uri() + "#L2:3", "name": "notes.md"}
    image: dict[str, Any] = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    blob: dict[str, Any] = {"type": "resource", "resource": {"uri": "file:///a.zip", "blob": "aaaa"}}
    prompted(agent, [{"type": "text", "text": "Is "}, link, {"type": "text", "text": " right? "}, image, blob])
    (session,) = folder.glob("a.*.chatmd")
    said = session.read_text().partition("<user>")[2].partition("</user>")[0]
    assert "Is @notes.md:2-3 right? [image that was not sent: image/png][resource that was not sent: file" in said
    assert "notes.md:2-3:\ntwo\nthree" in said
