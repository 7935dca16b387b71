"""Vendors with servers of their own, through their libraries or ours, where these are installed: what goes out,
what comes back, on a scripted server that speaks as they do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from fakes.openai_server import Action, ScriptedServer

from lmm import errors, loop
from lmm.config import ModelSettings, Secret
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, TextDelta
from lmm.models.chat import open_chat
from lmm.providers import ModelName

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Vendor:
    """Where a vendor's library sends what, how its server streams ``A leaf.``, and how it refuses what is too long."""

    model: str
    package: str
    root: str
    path: str
    stream: tuple[dict[str, Any], ...]
    too_long: tuple[int, dict[str, Any]]
    window: int


def _anthropic(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


VENDORS = {
    "Anthropic": Vendor(
        "claude-sonnet-5-5", "anthropic", "", "/v1/messages",
        (
            _anthropic("message_start", message={
                "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}),
            _anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": "A "}),
            _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": "leaf."}),
            _anthropic("content_block_stop", index=0),
            _anthropic("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None},
                       usage={"output_tokens": 3}),
            _anthropic("message_stop"),
        ),
        (400, {"type": "error", "error": {
            "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        200_000,
    ),
    "Google": Vendor(
        "gemini-2.5-flash", "google.genai", "", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        (
            {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "A "}]}}]},
            {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "leaf."}]},
                             "finishReason": "STOP"}],
             "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}},
        ),
        (400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
               "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}),
        1_048_576,
    ),
    "Mistral": Vendor(
        "mistral-small-latest", "lmm", "/v1", "/v1/chat/completions",
        (
            {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": {"role": "assistant", "content": "A "}, "finish_reason": None}]},
            {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": {"content": "leaf."}, "finish_reason": "stop"}],
             "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}},
        ),
        (400, {"object": "error", "type": "invalid_request_error", "code": 3051, "message":
               "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context "
               "length"}),
        131_072,
    ),
}  # fmt: skip


@pytest.fixture(params=VENDORS)
def name(request: pytest.FixtureRequest) -> str:
    """A vendor whose library is here."""
    pytest.importorskip(VENDORS[request.param].package, exc_type=ImportError)
    return str(request.param)


def asked(server: ScriptedServer, name: str, request: ChatRequest) -> list[ChatEvent]:
    """All that arrives."""
    vendor = VENDORS[name]
    base = server.url.removesuffix("/v1") + vendor.root
    model = open_chat(
        ModelSettings(
            ModelName(name, vendor.model),
            base_url=base,
            api_key=Secret("sk-1234567890", "KEY"),
            max_retries=0,
            max_tokens=50,
        )
    )

    async def collect() -> list[ChatEvent]:
        return [event async for event in model.stream(request)]

    return loop.run(collect())


def streamed(name: str) -> Action:
    """The stream as the vendor writes it."""
    event = "event: {type}\ndata: {data}\n\n" if name == "Anthropic" else "data: {data}\n\n"
    parts = [event.format(type=one.get("type"), data=json.dumps(one)) for one in VENDORS[name].stream]
    return Action(raw=(*parts, *(["data: [DONE]\n\n"] if name == "Mistral" else [])))


def test_a_question_and_its_answer(server: ScriptedServer, name: str) -> None:
    """In pieces, with what it took; the key goes where the vendor wants it."""
    server.queue(streamed(name))
    *pieces, reply = asked(server, name, ChatRequest((Message("system", "Be brief."), Message("user", "Why?"))))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("A leaf.", 9, 3)
    assert not reply.usage.estimated
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "A leaf."
    (request,) = server.requests
    assert request.path.partition("#")[0] == VENDORS[name].path
    assert any("sk-1234567890" in value for value in request.headers.values())
    assert all(text in json.dumps(request.body) for text in ("Be brief.", "Why?", "50"))


def test_the_provider_is_asked_to_keep_what_comes_again(server: ScriptedServer) -> None:
    """Instructions of a single question; of a conversation, all that was said. What it had kept is counted."""
    pytest.importorskip("anthropic")
    start, *rest = VENDORS["Anthropic"].stream
    used = {"input_tokens": 4, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}
    kept = ({**start, "message": {**start["message"], "usage": used}}, *rest)
    server.queue(Action(raw=tuple(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in kept)))
    first = (Message("system", "Be brief."), Message("user", "Why?"))
    reply = asked(server, "Anthropic", ChatRequest(first))[-1]
    assert isinstance(reply, Reply)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (9, 5)
    server.queue(streamed("Anthropic"))
    asked(server, "Anthropic", ChatRequest((*first, Message("assistant", "So."), Message("user", "And?"))))
    once, goes_on = (request.body for request in server.requests)
    assert once["system"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert "cache_control" not in {key for key in once if key != "system"} | set(
        json.dumps(once["messages"]).split('"')
    )
    assert "cache_control" in goes_on


def test_a_schema_goes_out(server: ScriptedServer, name: str) -> None:
    """In the vendor's own field."""
    server.queue(streamed(name))
    asked(server, name, ChatRequest((Message("user", "Which?"),), schema=SCHEMA))
    assert '"name"' in json.dumps(server.requests[0].body)


def test_too_long_is_told_apart(server: ScriptedServer, name: str) -> None:
    """With the window that the vendor names."""
    status, body = VENDORS[name].too_long
    server.queue(Action(status=status, body=body))
    with pytest.raises(errors.TooLong) as caught:
        asked(server, name, ChatRequest((Message("user", "Why?"),)))
    assert caught.value.window == VENDORS[name].window
    assert "sk-1234567890" not in str(caught.value)
