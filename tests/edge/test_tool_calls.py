"""Tools, images and reasoning through the adapter, on the wire of both OpenAI protocols."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from fakes.openai_server import Action, ScriptedServer

from lmm.config import ModelSettings, Secret
from lmm.errors import ModelRejected
from lmm.messages import (
    ChatRequest,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel, ask
from lmm.providers import ModelName

ADD = ToolDefinition(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)
CALLS = (("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}'))
Api = Literal["chat", "responses"]
APIS: list[Api] = ["chat", "responses"]


def model_for(server: ScriptedServer, api: Api, model: str = "gpt-5.4", **options: Any) -> ChatModel:
    """A model at the server that speaks one of the protocols."""
    return open_chat(
        ModelSettings(
            ModelName("OpenAI", model),
            base_url=server.url,
            api_key=Secret("key", "KEY"),
            max_retries=0,
            api=api,
            **options,
        )
    )


@pytest.mark.parametrize("api", APIS)
def test_calls_arrive_whole_and_in_order(server: ScriptedServer, api: Api) -> None:
    """Each call is an event when its arguments are complete, and the reply has all of them."""
    server.queue(Action("Let me see.", calls=CALLS))

    async def events() -> list[object]:
        request = ChatRequest((Message("user", "add"),), tools=(ADD,))
        return [event async for event in model_for(server, api).stream(request)]

    *pieces, reply = asyncio.run(events())
    assert isinstance(reply, Reply)
    assert reply.text == "Let me see."
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == list(CALLS)
    assert [event for event in pieces if isinstance(event, ToolCall)] == list(reply.calls)
    assert "".join(event.text for event in pieces if isinstance(event, TextDelta)) == "Let me see."


@pytest.mark.parametrize("api", APIS)
def test_a_reply_of_calls_alone(server: ScriptedServer, api: Api) -> None:
    """A model that only calls has said nothing, which is no empty reply."""
    server.queue(Action("", calls=CALLS[:1]))
    reply = asyncio.run(ask(model_for(server, api), ChatRequest((Message("user", "add"),), tools=(ADD,))))
    assert (reply.text, len(reply.calls)) == ("", 1)


def conversation(*, reasoning: tuple[Reasoning, ...] = ()) -> ChatRequest:
    """A question with an image, a call, its result, and what is asked now."""
    return ChatRequest(
        (
            Message("system", "Be exact."),
            Message("user", "What is this?", content=(Image(b"\x89PNG"), "Look closely.")),
            Message("assistant", "", calls=(ToolCall("c1", "add", '{"a": 1, "b": 2}'),), reasoning=reasoning),
            Message("tool", "", results=(ToolResult("c1", "add", "3"), ToolResult("c2", "add", "no", failed=True))),
        ),
        tools=(ADD,),
    )


def test_history_in_chat_completions(server: ScriptedServer) -> None:
    """Parts keep their order; results follow their call; reasoning is left out."""
    asyncio.run(ask(model_for(server, "chat"), conversation(reasoning=(Reasoning("hm", "rs_0", "x", "openai"),))))
    body = server.requests[0].body
    system, user, assistant, *results = body["messages"]
    assert system["content"] == "Be exact."
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]
    assert user["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}
    assert "hm" not in json.dumps(body)
    assert [(m["role"], m["tool_call_id"]) for m in results] == [("tool", "c1"), ("tool", "c2")]
    assert body["tools"][0]["function"]["parameters"]["required"] == ["a", "b"]
    assert "parallel_tool_calls" not in body  # the default, which some models refuse even as false


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("arguments", ["", "{", "not JSON", "[1]"])
def test_a_history_with_arguments_that_are_no_json(server: ScriptedServer, api: Api, arguments: str) -> None:
    """A model's malformed call stands in the transcript; the conversation goes on."""
    call = Message("assistant", "", calls=(ToolCall("c1", "add", arguments),))
    result = Message("tool", "", results=(ToolResult("c1", "add", "not JSON", failed=True),))
    reply = asyncio.run(ask(model_for(server, api), ChatRequest((Message("user", "add"), call, result), tools=(ADD,))))
    assert reply.text


def test_history_in_responses(server: ScriptedServer) -> None:
    """The same conversation as items; reasoning of the same provider goes back with its seal."""
    asyncio.run(ask(model_for(server, "responses"), conversation(reasoning=(Reasoning("hm", "rs_0", "x", "openai"),))))
    assert server.requests[0].path == "/v1/responses"
    items = server.requests[0].body["input"]
    kinds = [item.get("type", item.get("role")) for item in items]
    assert [kind for kind in kinds if kind not in ("system", "user", "message")] == [
        "reasoning", "function_call", "function_call_output", "function_call_output",
    ]  # fmt: skip
    reasoning = next(item for item in items if item.get("type") == "reasoning")
    assert (reasoning["id"], reasoning["encrypted_content"]) == ("rs_0", "x")


@pytest.mark.parametrize(("model", "provider"), [("gpt-5.4", "anthropic"), ("gpt-4o", "openai")])
def test_reasoning_that_means_nothing_to_a_model_stays_here(server: ScriptedServer, model: str, provider: str) -> None:
    """Another provider's, or any to a model that does not reason: it would go out as text."""
    request = conversation(reasoning=(Reasoning("secret thought", "t1", "seal", provider),))
    asyncio.run(ask(model_for(server, "responses", model), request))
    assert "secret thought" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("api", APIS)
def test_reasoning_arrives_as_such(server: ScriptedServer, api: Api) -> None:
    """It is never part of the text."""
    server.queue(Action("Three.", reasoning="One and two."))

    async def events() -> list[object]:
        request = ChatRequest((Message("user", "1 + 2?"),))
        return [event async for event in model_for(server, api).stream(request)]

    *pieces, reply = asyncio.run(events())
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning[0].text) == ("Three.", "One and two.")
    assert "".join(event.text for event in pieces if isinstance(event, ReasoningDelta)) == "One and two."
    if api == "responses":
        assert (reply.reasoning[0].signature, reply.item) == ("sealed", "msg_1")


@pytest.mark.parametrize(("api", "where"), [("chat", "reasoning_effort"), ("responses", "reasoning")])
def test_reasoning_effort_goes_out(server: ScriptedServer, api: Api, where: str) -> None:
    """It is sent as the protocol has it."""
    asyncio.run(ask(model_for(server, api, reasoning_effort="low"), ChatRequest((Message("user", "hm"),))))
    assert "low" in json.dumps(server.requests[0].body[where])


def test_no_tools_no_field(server: ScriptedServer) -> None:
    """`parallel_tool_calls` is sent with tools only: some servers refuse it otherwise."""
    asyncio.run(ask(model_for(server, "chat"), ChatRequest((Message("user", "hm"),))))
    assert not {"tools", "parallel_tool_calls", "reasoning_effort"} & set(server.requests[0].body)


def test_the_built_in_model_says_that_it_has_no_tools() -> None:
    """Nothing is put silently in place of what was asked for."""
    from lmm.models.builtin import ExtractiveModel

    with pytest.raises(ModelRejected, match="cannot use tools"):
        asyncio.run(ask(ExtractiveModel(), ChatRequest((Message("user", "add"),), tools=(ADD,))))
