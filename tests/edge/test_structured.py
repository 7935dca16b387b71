"""Data by a schema: what goes to the server, what comes back, servers that take no schema or no long text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

from lmm import errors, loop
from lmm.config import ModelSettings, Secret
from lmm.messages import ChatRequest, Message
from lmm.models.chat import open_chat
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import make_schema
from lmm.providers import ModelName

PLANT = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PLANTS = {"type": "array", "items": {"$ref": "#/$defs/plant"}, "$defs": {"plant": PLANT}}
OAK = '{"name": "Oak"}'


def model_for(server: ScriptedServer, api: Any = "chat") -> ChatModel:
    """The adapter on the server."""
    return open_chat(
        ModelSettings(
            ModelName("OpenAICompatible", "test"),
            base_url=server.url,
            api_key=Secret("k", "KEY"),
            max_retries=0,
            api=api,
        )
    )


def asked(model: ChatModel, schema: Any = PLANT, *, times: int = 1, retries: int = 1) -> Any:
    """What the model says to a prompt, by a schema; with several `times`, the last."""

    async def values() -> list[Any]:
        client = Client.of(model)
        return [await client.value(Ask.of("Which tree?"), make_schema(schema), retries=retries) for _ in range(times)]

    return loop.run(values())[-1]


def sent(request: Recorded) -> Any:
    """The schema that went out beside the messages."""
    return request.body["response_format"]["json_schema"]["schema"]


def test_the_schema_goes_to_the_server_and_into_the_prompt(server: ScriptedServer) -> None:
    """A model that is kept to a grammar still has to know what is wanted."""
    server.queue(OAK)
    assert asked(model_for(server)) == {"name": "Oak"}
    (request,) = server.requests
    assert request.body["response_format"]["type"] == "json_schema"
    assert sent(request)["properties"] == PLANT["properties"]
    assert json.dumps(PLANT, indent=2) in request.last


def test_the_responses_protocol_has_a_place_for_it_too(server: ScriptedServer) -> None:
    """Under `text`."""
    server.queue(OAK)
    assert asked(model_for(server, "responses")) == {"name": "Oak"}
    assert server.requests[0].body["text"]["format"]["schema"]["required"] == ["name"]


@pytest.mark.parametrize("reply", ['{"records": [{"name": "Oak"}]}', '[{"name": "Oak"}]'])
def test_a_list_is_sent_as_an_object(server: ScriptedServer, reply: str) -> None:
    """Which servers insist on; what it refers to stays where it is found; a bare list is read as well."""
    server.queue(reply)
    assert asked(model_for(server), PLANTS) == [{"name": "Oak"}]
    schema = sent(server.requests[0])
    assert (schema["type"], schema["properties"]["records"]["items"]) == ("object", {"$ref": "#/$defs/plant"})
    assert schema["$defs"]["plant"]["required"] == ["name"]


def without_schemas(request: Recorded) -> Action | str:
    """A server that knows no `response_format`."""
    return fail(400, "unknown field response_format") if "response_format" in request.body else OAK


def test_a_server_that_takes_no_schema_is_asked_plainly(server: ScriptedServer) -> None:
    """Once with it; the plain request shows the schema; the next one is plain from the beginning."""
    server.answer = without_schemas
    assert asked(model_for(server), times=2) == {"name": "Oak"}
    refused, plain, again = server.requests
    assert "response_format" in refused.body
    assert "response_format" not in {**plain.body, **again.body}
    assert plain.messages == refused.messages == again.messages
    assert '"required"' in plain.last


def test_another_reason_to_refuse_is_told_as_it_is(server: ScriptedServer) -> None:
    """The plain request is refused too: what the server said first; and no third request."""
    server.answer = lambda request: fail(400, "first" if "response_format" in request.body else "second")
    with pytest.raises(errors.ModelRejected, match="first"):
        asked(model_for(server))
    assert len(server.requests) == 2


def test_what_is_not_valid_is_sent_back(server: ScriptedServer) -> None:
    """With what is wrong; after so many times it is an error that says so."""
    server.queue("An oak.", OAK)
    assert asked(model_for(server)) == {"name": "Oak"}
    server.queue("An oak.", "{}")
    with pytest.raises(errors.NoValidReply, match="'name' is a required property"):
        asked(model_for(server))
    assert "there is no JSON in it" in server.requests[1].last


def test_a_reply_that_was_cut_off_names_the_limit(server: ScriptedServer) -> None:
    """And is not asked for again: it would be cut off again."""
    server.queue(Action('{"name": "O', finish="length"))
    with pytest.raises(errors.NoValidReply, match=r"cut off .* max_tokens under \[aux\]"):
        asked(model_for(server))
    assert len(server.requests) == 1


def test_a_reply_that_is_valid_is_read_although_it_was_cut_off(server: ScriptedServer) -> None:
    """Text after the JSON is of no interest."""
    server.queue(Action(OAK + " and", finish="length"))
    assert asked(model_for(server)) == {"name": "Oak"}


TOO_LONG = {
    "llama.cpp": ({"code": 400, "message": "request (6024 tokens) exceeds the available context size (4096 tokens), "
                   "try increasing it", "type": "exceed_context_size_error", "n_ctx": 4096}, 4096),
    "OpenAI": ({"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in "
                "9000 tokens. Please reduce the length of the messages.", "code": "context_length_exceeded"}, 8192),
    "vLLM": ({"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
              "(4900 in the messages, 100 in the completion).", "type": "BadRequestError", "code": 400}, 4096),
    "vLLM, newer": ({"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. "
                     "Make sure that `max_model_len` is no smaller than the number of text tokens."}, 4096),
    "Anthropic": ({"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
                  200_000),
    "LM Studio": ({"message": "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
                   "loaded with context length of only 4096 tokens"}, 0),
    "Ollama": ({"message": "the input length exceeds the context length"}, 0),
}  # fmt: skip


@pytest.mark.parametrize("who", TOO_LONG)
def test_too_long_is_told_apart(server: ScriptedServer, who: str) -> None:
    """Each server's own words; the window where it tells; with a schema too, one request."""
    error, window = TOO_LONG[who]
    server.queue(Action(status=400, body={"error": error}))
    with pytest.raises(errors.TooLong, match="larger window") as caught:
        asked(model_for(server))
    assert (caught.value.window, len(server.requests)) == (window, 1)


def test_a_schema_is_not_sent_where_none_was_asked_for(server: ScriptedServer) -> None:
    """An ordinary question."""
    request = ChatRequest((Message("user", "Why?"),))
    loop.run(Client.of(model_for(server)).ask(Ask(request)))
    assert "response_format" not in server.requests[0].body
