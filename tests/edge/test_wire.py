"""Agents on strict servers: what real servers refuse is not sent to them, whichever model wrote the transcript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes.openai_server import Action, Recorded, ScriptedServer, fail
from fakes.strict_servers import ANSWER, STRICT, THOUGHT, strict_server

from chatmd import Chat
from lmm import loop
from lmm.config import load_settings
from lmm.messages import ChatEvent, ChatRequest, Message, Notice, Reply, ToolDefinition
from lmm.models.chat import open_chat
from lmm.models.port import ask

LEARNS = {"vLLM with Mistral's template": 2}
"""How many refusals a server may need until it is known what it takes; all others are known before."""


@pytest.fixture(params=STRICT)
def name(request: pytest.FixtureRequest) -> str:
    """A server whose vendor's library is here."""
    pytest.importorskip(STRICT[request.param].package, exc_type=ImportError)
    return str(request.param)


@pytest.fixture
def strict(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """The server, and a config.toml for it."""
    for variable in ("OPENAI", "ANTHROPIC", "GOOGLE", "MISTRAL", "OPENROUTER"):
        monkeypatch.setenv(f"{variable}_API_KEY", "sk-1234567890")
    one = STRICT[name]
    with strict_server(name) as server:
        lines = [
            f'model = "{one.model}"',
            f'base_url = "{server.url.removesuffix("/v1")}{one.root}"',
            "max_retries = 0",
        ]
        lines += [f'{key} = "{value}"' for key, value in one.settings.items()]
        (folder / "config.toml").write_text("\n".join(["[major]", *lines, ""]))
        yield server


def look(q: str) -> str:
    """Look something up."""
    return f"{q}: green"


def run(text: str) -> Chat:
    """The agent with one tool, after its run."""
    chat = Chat.from_text(text, tools=[look])
    chat.run()
    return chat


def test_an_agent_runs_to_its_end(strict: ScriptedServer, name: str) -> None:
    """A thought, a call, its result, an answer; and the next question of the same conversation."""
    chat = run("<user>Which colour is a leaf?</user>")
    assert ANSWER in chat.text
    assert "leaf: green" in chat.text
    if name not in ("OpenAI", "Gemini, compatible", "vLLM with Mistral's template", "Mistral"):
        assert THOUGHT in chat.text
    chat.say("And a root?")
    chat.run()
    assert chat.text.count(ANSWER) == 2
    assert strict.refusals == []  # type: ignore[attr-defined]


def test_a_run_is_gone_on_with_from_its_text(strict: ScriptedServer) -> None:
    """Step by step, as by programs that end in between: what a server wants back is in the transcript."""
    chat = Chat.from_text("<user>Which colour is a leaf?</user>", tools=[look])
    chat.run(once=True)
    again = Chat.from_text(chat.text, tools=[look])
    again.run()
    assert ANSWER in again.text
    assert strict.refusals == []  # type: ignore[attr-defined]


FOREIGN = f"""<system>Be brief.</system>
<user>Which colour is a leaf?</user>
<reasoning id="t1" signature="x" provider="somebody"><summary>Hm.</summary></reasoning>
<tool_call tool_call_id="functions.look:0" function_name="functions.look up it all {"x" * 70}">{{"q": </tool_call>
<tool_response tool_call_id="functions.look:0" status="failed">no such tool</tool_response>
<tool_call tool_call_id="{"c" * 80}" function_name="look">{{"q": "leaf"}}</tool_call>
<tool_response tool_call_id="{"c" * 80}"></tool_response>
<tool_call tool_call_id="functions.look:0" function_name="look">{{}}</tool_call>
<tool_response tool_call_id="functions.look:0">green</tool_response>
<assistant></assistant>
<user>Go on.</user>
<tool_call tool_call_id="c1" function_name="look">{{"q": "leaf"}}</tool_call>
<tool_response tool_call_id="c1">green</tool_response>
<user>Well?</user>
<user>I mean: which colour?</user>
"""


def test_a_transcript_that_other_models_wrote(strict: ScriptedServer, name: str) -> None:
    """Ids, names, arguments and blanks of others; two messages of the user in a row."""
    assert ANSWER in run(FOREIGN).text
    assert len(strict.refusals) <= LEARNS.get(name, 0)  # type: ignore[attr-defined]


def test_a_call_that_is_only_text(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The server did not turn it into a call: the run ends with that, exit 1, and the text is in the transcript."""
    stray = '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'
    server.queue(stray)
    (folder / "a.chatmd").write_text('<tool name="read_file"/><user>Read a.txt</user>')
    ran = run_here(capsys, "run", "a.chatmd")
    assert (ran.code, len(server.requests)) == (1, 1)
    assert "calls 'read_file' in its text: the server did not turn this into a call" in ran.err
    assert stray in (folder / "a.chatmd").read_text()
    assert run_here(capsys, "check", "a.chatmd").code == 0


def test_what_a_model_does_not_take_is_left_out(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And said, once; the run goes on."""

    def answer(request: Recorded) -> Action | str:
        wrong = next((name for name in ("temperature", "reasoning_effort") if name in request.body), "")
        return fail(400, f"Unsupported parameter: '{wrong}' is not supported with this model.") if wrong else ANSWER

    server.answer = answer
    (folder / "a.chatmd").write_text('<config temperature="0.2" reasoning_effort="low"/><user>Hi</user>')
    ran = run_here(capsys, "run", "a.chatmd")
    assert (ran.code, len(server.requests)) == (0, 3)
    for name in ("temperature", "reasoning_effort"):
        assert (ran.out + ran.err).count(f"does not take {name}, which is left out") == 1


def test_what_a_model_does_not_take_is_known_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is published: `check` and `render` warn."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567890")
    (folder / "a.chatmd").write_text('<config model="gpt-5" temperature="0.2"/><user>Hi</user>')
    checked, rendered = run_here(capsys, "check", "a.chatmd"), run_here(capsys, "render", "a.chatmd")
    assert (checked.code, rendered.code) == (0, 0)
    assert "OpenAI/gpt-5 does not take temperature" in checked.out + checked.err
    assert "OpenAI/gpt-5 does not take temperature" in rendered.out + rendered.err


def test_a_limit_by_the_name_that_a_server_takes(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Learned from its refusal, through a compatible server as well."""
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.answer = lambda request: fail(400, said) if "max_tokens" in request.body else ANSWER
    (folder / "a.chatmd").write_text('<config max_tokens="77"/><user>Hi</user>')
    assert run_here(capsys, "run", "a.chatmd").code == 0
    assert [request.body.get("max_completion_tokens") for request in server.requests] == [None, 77]


SCHEMAS: dict[str, Any] = {
    "an array of anything": {"type": "object", "properties": {"paths": {"type": "array"}}},
    "required is null": {"type": "object", "properties": {"q": {"type": "string"}}, "required": None},
    "a free object": {"type": "object", "properties": {"values": {"type": "object"}}},
    "no properties": {"type": "object"},
    "nothing": {},
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schemas_of_tools_are_repaired(strict: ScriptedServer, kind: str) -> None:
    """As far as servers insist; what a schema allows is what it allowed, and a name comes back as it is ours."""
    tool = ToolDefinition("files.look up", "Look it up.", SCHEMAS[kind])
    model = open_chat(load_settings(Path("config.toml").read_text()).major)
    reply = loop.run(ask(model, ChatRequest((Message("user", "Which?"),), tools=(tool,))))
    assert [call.name for call in reply.calls] == ["files.look up"]
    assert strict.refusals == []  # type: ignore[attr-defined]
    assert "additionalProperties" not in json.dumps(strict.requests[-1].body.get("tools"))


def test_a_tool_that_cannot_be_offered_is_left_out(strict: ScriptedServer, name: str) -> None:
    """By name, with the field; the others are offered."""
    broken = ToolDefinition("broken", "", {"type": "object", "properties": {"q": ["string"]}})
    good = ToolDefinition("good", "", {"type": "object", "properties": {}})
    request = ChatRequest((Message("user", "Which?"),), tools=(broken, good))

    async def collect() -> list[ChatEvent]:
        return [
            event async for event in open_chat(load_settings(Path("config.toml").read_text()).major).stream(request)
        ]

    told = loop.run(collect())
    assert [event.text for event in told if isinstance(event, Notice)] == [
        f"{STRICT[name].model} is not offered the tool 'broken': parameters.q is [\"string\"], not a schema"
    ]
    assert isinstance(told[-1], Reply)
    assert [call.name for call in told[-1].calls] == ["good"]
