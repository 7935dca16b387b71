"""Streams as servers send them, to the letter: what a reader gets of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge.support import lmm
from fakes.openai_server import Action, ScriptedServer

from lmm import errors, loop
from lmm.config import ModelSettings, Secret
from lmm.messages import ChatEvent, ChatRequest, Message, Reasoning, Reply, TextDelta, ToolCall, ToolDefinition
from lmm.models.pydantic_ai_adapter import PydanticAIModel
from lmm.providers import ModelName

TOOL = ToolDefinition("look", "Look it up.", {"type": "object", "properties": {"q": {"type": "string"}}})
QUESTION = ChatRequest((Message("user", "Why?"),), tools=(TOOL,))
DONE = "data: [DONE]\n\n"
COMPLETE = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}


def data(value: Any) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(value)}\n\n"


def delta(finish: str | None = None, **content: Any) -> str:
    """One chunk, with this in its delta."""
    choice = {"index": 0, "delta": content, "finish_reason": finish}
    return data({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def call(arguments: str | None, index: int | None = 0, **more: Any) -> str:
    """A piece of a tool call."""
    function = {"arguments": arguments} if arguments is not None else {}
    one = {"function": function | ({"name": "look"} if "id" in more else {})} | more
    return delta(tool_calls=[one | ({} if index is None else {"index": index})])


def events(server: ScriptedServer, action: Action) -> list[ChatEvent]:
    """All that a reader gets of one answer."""
    server.queue(action)
    model = PydanticAIModel(
        ModelSettings(ModelName("OpenAICompatible", "test"), base_url=server.url, api_key=Secret("k", "KEY"))
    )

    async def collect() -> list[ChatEvent]:
        return [event async for event in model.stream(QUESTION)]

    return loop.run(collect())


TEXTS = {
    "as OpenAI does": (delta(role="assistant", content=""), delta(content="A leaf."), delta("stop"), DONE),
    "no finish reason": (delta(content="A leaf."), DONE),
    "no [DONE]": (delta(content="A leaf."), delta("stop")),
    "finish with the last piece": (delta(content="A "), delta("stop", content="leaf."), DONE),
    "finish as an empty text until the end": (delta("", content="A leaf."), delta("stop"), DONE),
    "finish that nobody knows": (delta(content="A leaf."), delta("eos_token"), DONE),
    "no usage, no ids": (
        data({"choices": [{"delta": {"content": "A leaf."}}]}),
        data({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        DONE,
    ),
    "usage in every chunk": (
        data(
            {
                "choices": [{"index": 0, "delta": {"content": "A leaf."}}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
            }
        ),
        delta("stop"),
        DONE,
    ),
    "choices null": (data({"choices": None}), delta(content="A leaf."), delta("stop"), DONE),
    "empty pieces first": (
        delta(role="assistant", content=None),
        delta(content=""),
        delta(),
        delta(content="A leaf."),
        delta("stop"),
        DONE,
    ),
    "comments": (
        ": OPENROUTER PROCESSING\n\n",
        ":\n\n",
        delta(content="A "),
        ": ping\n\n",
        delta(content="leaf."),
        delta("stop"),
        DONE,
    ),
    "line ends of the network": ((delta(content="A leaf.") + delta("stop") + DONE).replace("\n", "\r\n"),),
    "names of events": ("event: message\n" + delta(content="A leaf."), "event: message\n" + delta("stop"), DONE),
    "cut anywhere": tuple(
        (delta(content="A ") + delta(content="leaf.") + delta("stop") + DONE)[i : i + 7] for i in range(0, 600, 7)
    ),
    "content as a list of parts": (delta(content=[{"type": "text", "text": "A leaf."}]), delta("stop"), DONE),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text(server: ScriptedServer, kind: str) -> None:
    """Arrives whole, in pieces and in the reply."""
    *pieces, reply = events(server, Action(raw=tuple(piece for piece in TEXTS[kind] if piece)))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.cut, reply.calls) == ("A leaf.", False, ())
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "A leaf."


def test_what_a_server_does_not_count_is_estimated(server: ScriptedServer, folder: Path) -> None:
    """From characters, four to a token; a budget holds, and it is said that it was estimated."""
    uncounted = Action(raw=TEXTS["no usage, no ids"])
    server.answer = lambda request: uncounted
    reply = events(server, uncounted)[-1]
    assert isinstance(reply, Reply)
    assert (reply.usage.output_tokens, reply.usage.estimated, reply.usage.cost) == (2, True, None)
    (folder / "notes.md").write_text("".join(f"---\n?: why {n}?\n---\n# {n}\n\n{'leaf ' * 200}\n\n" for n in range(9)))
    ran = lmm("messages", "notes.md", "--budget", "2000")
    assert (ran.code, "does not cover more" in ran.err, "estimated" in ran.err + ran.out) == (1, True, True)
    assert 2 < len(server.requests) - 1 < 9


CALLS = {
    "in pieces": (call("", id="c1"), call('{"q": '), call('"leaf"}'), delta("tool_calls"), DONE),
    "whole": (call('{"q": "leaf"}', id="c1"), delta("tool_calls"), DONE),
    "whole, with finish stop": (call('{"q": "leaf"}', id="c1"), delta("stop"), DONE),
    "no finish reason": (call('{"q": "leaf"}', id="c1"), DONE),
    "no index": (call('{"q": "leaf"}', None, id="c1"), delta("tool_calls"), DONE),
    "no id": (call('{"q": "leaf"}', id=None), delta("tool_calls"), DONE),
    "after an empty text": (delta(content=""), call('{"q": "leaf"}', id="c1"), delta("tool_calls"), DONE),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call(server: ScriptedServer, kind: str) -> None:
    """Is complete before it is told, and has an id."""
    found = events(server, Action(raw=CALLS[kind]))
    (told,) = [event for event in found if isinstance(event, ToolCall)]
    assert (told.name, json.loads(told.arguments), bool(told.id)) == ("look", {"q": "leaf"}, True)
    reply = found[-1]
    assert isinstance(reply, Reply)
    assert reply.calls == (told,)


def test_two_calls_at_once(server: ScriptedServer) -> None:
    """Told apart by their index, whatever the order of their pieces."""
    pieces = (
        call("", 0, id="a"),
        call("", 1, id="b"),
        call('{"q": "x"}', 1),
        call('{"q": "y"}', 0),
        delta("tool_calls"),
    )
    reply = events(server, Action(raw=(*pieces, DONE)))[-1]
    assert isinstance(reply, Reply)
    assert [(one.id, one.arguments) for one in reply.calls] == [("a", '{"q": "y"}'), ("b", '{"q": "x"}')]


END = (delta("stop"), DONE)
THOUGHTS = {
    "reasoning": (delta(reasoning="Hm."), delta(content="A leaf."), *END),
    "reasoning_content": (delta(reasoning_content="Hm."), delta(content="A leaf."), *END),
    "tags": tuple(delta(content=piece) for piece in ("<think>", "Hm.", "</think>", "A leaf.")) + END,
    "tags in pieces": tuple(delta(content=piece) for piece in ("\n<th", "ink>H", "m.\n</", "think>\n", "A leaf."))
    + END,
    "all at once": (delta(content="<think>\nHm.\n</think>\n\nA leaf."), *END),
}


@pytest.mark.parametrize("kind", THOUGHTS)
def test_a_thought(server: ScriptedServer, kind: str) -> None:
    """Is told as one, and is no part of the text."""
    found = events(server, Action(raw=THOUGHTS[kind]))
    reply = found[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning[0].text.strip()) == ("A leaf.", "Hm.")
    assert "".join(piece.text for piece in found if isinstance(piece, TextDelta)) == "A leaf."
    assert [thought.text.strip() for thought in found if isinstance(thought, Reasoning)] == ["Hm."]


WHOLE = {
    "text": ({"role": "assistant", "content": "A leaf."}, "A leaf.", ()),
    "call": ({"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}, "", ("look",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_an_answer_that_does_not_stream(server: ScriptedServer, kind: str) -> None:
    """One JSON object although a stream was asked for: the same reply, with its usage, by one request."""
    message, text, calls = WHOLE[kind]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    body = COMPLETE | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    reply = events(server, Action(body=body))[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, tuple(one.name for one in reply.calls)) == (text, calls)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 7)
    assert len(server.requests) == 1


BROKEN = {
    "an error, as OpenAI sends it": (
        delta(content="A"),
        data({"error": {"message": "out of memory", "type": "server_error", "code": None}}),
    ),
    "an error with a status": (data({"error": {"message": "out of memory", "code": 500}}),),
    "an error as text": (data({"error": "out of memory"}),),
    "an event named error": ("event: error\n" + data({"error": {"message": "out of memory"}}),),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_in_the_stream(server: ScriptedServer, kind: str) -> None:
    """Is told in the server's words, and may be tried again."""
    with pytest.raises(errors.ModelUnavailable, match="out of memory"):
        events(server, Action(raw=BROKEN[kind]))


def test_too_long_in_the_stream(server: ScriptedServer) -> None:
    """As gateways tell it."""
    error = {"message": "This endpoint's maximum context length is 8192 tokens.", "code": 400}
    with pytest.raises(errors.TooLong) as caught:
        events(server, Action(raw=(data({"error": error}),)))
    assert caught.value.window == 8192


@pytest.mark.parametrize("pieces", [(delta(content="A l"),), (delta(content="A l"), 'data: {"choices": [{"del')])
def test_a_stream_that_breaks_off(server: ScriptedServer, pieces: tuple[str, ...]) -> None:
    """Neither a reason to finish nor the mark of the end: not a reply."""
    with pytest.raises(errors.ModelUnavailable, match="broke off"):
        events(server, Action(raw=pieces))
