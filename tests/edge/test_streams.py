"""Streams as servers send them, to the letter: what a reader gets of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes.openai_server import Action, ScriptedServer, fail

from lmm import errors, loop
from lmm.config import ModelSettings, Secret
from lmm.messages import (
    ChatEvent,
    ChatRequest,
    Message,
    Reasoning,
    Reply,
    Retrying,
    TextDelta,
    ToolCall,
    ToolDefinition,
)
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel, ask
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


def model_at(url: str, **options: Any) -> ChatModel:
    """A model at this address."""
    settings = {"max_retries": 0} | options
    return open_chat(ModelSettings(ModelName("OpenAICompatible", "test"), base_url=url, **settings))


def events(server: ScriptedServer, action: Action) -> list[ChatEvent]:
    """All that a reader gets of one answer."""
    server.queue(action)
    model = open_chat(
        ModelSettings(
            ModelName("OpenAICompatible", "test"), base_url=server.url, api_key=Secret("k", "KEY"), max_retries=0
        )
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


def test_what_a_server_does_not_count_is_estimated(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From characters, four to a token; a budget holds, and it is said that it was estimated."""
    uncounted = Action(raw=TEXTS["no usage, no ids"])
    server.answer = lambda request: uncounted
    reply = events(server, uncounted)[-1]
    assert isinstance(reply, Reply)
    assert (reply.usage.output_tokens, reply.usage.estimated, reply.usage.cost) == (2, True, None)
    (folder / "notes.md").write_text("".join(f"---\n?: why {n}?\n---\n# {n}\n\n{'leaf ' * 200}\n\n" for n in range(9)))
    ran = run_here(capsys, "messages", "notes.md", "--budget", "12000")
    assert (ran.code, "does not cover this request" in ran.err, "estimated" in ran.err + ran.out) == (1, True, True)
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


def two(*pieces: str) -> tuple[str, ...]:
    """A stream with these pieces of calls."""
    return (*pieces, delta("tool_calls"), DONE)


def piece(index: int | None, arguments: Any = None, **more: Any) -> str:
    """A piece of a call, with its name or without."""
    name = {"name": more.pop("name")} if "name" in more else {}
    function = name | ({} if arguments is None else {"arguments": arguments})
    return delta(tool_calls=[{"function": function, **({} if index is None else {"index": index}), **more}])


X, Y = '{"q": "x"}', '{"q": "y"}'
MANY = {
    "one index for both": two(piece(0, X, id="a", name="look"), piece(0, Y, id="b", name="look")),
    "one index, in pieces": two(
        piece(0, "", id="a", name="look"), piece(0, X[:5]), piece(0, X[5:]),
        piece(0, "", id="b", name="look"), piece(0, Y),
    ),
    "one index, no ids": two(piece(0, X, name="look"), piece(0, Y, name="look")),
    "the name in every piece": two(
        piece(0, X[:5], id="a", name="look"), piece(0, X[5:], id="a", name="look"),
        piece(1, Y[:5], id="b", name="look"), piece(1, Y[5:], id="b", name="look"),
    ),
    "the name in every piece, no ids": two(
        piece(0, X[:5], name="look"), piece(0, X[5:], name="look"),
        piece(1, Y[:5], name="look"), piece(1, Y[5:], name="look"),
    ),
    "an empty object first": two(
        piece(0, "{}", id="a", name="look"), piece(0, X), piece(1, "{}", id="b", name="look"), piece(1, Y[:4]),
        piece(1, Y[4:]),
    ),
    "whole, in one piece": (
        delta(tool_calls=[
            {"index": 0, "id": "a", "function": {"name": "look", "arguments": X}},
            {"index": 1, "id": "b", "function": {"name": "look", "arguments": Y}},
        ]), delta("tool_calls"), DONE,
    ),
    "one id for both": two(piece(0, X, id="a", name="look"), piece(1, Y, id="a", name="look")),
    "no index": two(piece(None, X, id="a", name="look"), piece(None, Y, id="b", name="look")),
    "no index, no ids": two(piece(None, X, name="look"), piece(None, Y, name="look")),
    "no index, in pieces": two(
        piece(None, X[:3], id="a", name="look"), piece(None, X[3:]), piece(None, Y[:3], id="b", name="look"),
        piece(None, Y[3:]),
    ),
    "arguments as objects": two(piece(0, {"q": "x"}, id="a", name="look"), piece(1, {"q": "y"}, id="b", name="look")),
    "a call of the earlier form, and one of today's": (
        delta(function_call={"name": "look", "arguments": X[:3]}), delta(function_call={"arguments": X[3:]}),
        *two(piece(1, Y, id="b", name="look")),
    ),
    "ids that are null later": two(
        piece(0, X[:3], id="a", name="look"), piece(0, X[3:], id=None, name=None), piece(1, Y, id="b", name="look")
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY)
def test_two_calls_as_servers_send_them(server: ScriptedServer, kind: str) -> None:
    """Each with its own arguments and an id of its own."""
    reply = events(server, Action(raw=MANY[kind]))[-1]
    assert isinstance(reply, Reply)
    assert [(one.name, json.loads(one.arguments)["q"]) for one in reply.calls] == [("look", "x"), ("look", "y")]
    assert len({one.id for one in reply.calls}) == 2


END = (delta("stop"), DONE)
THOUGHTS = {
    "reasoning": (delta(reasoning="Hm."), delta(content="A leaf."), *END),
    "reasoning_content": (delta(reasoning_content="Hm."), delta(content="A leaf."), *END),
    "tags": tuple(delta(content=piece) for piece in ("<think>", "Hm.", "</think>", "A leaf.")) + END,
    "tags in pieces": tuple(delta(content=piece) for piece in ("\n<th", "ink>H", "m.\n</", "think>\n", "A leaf."))
    + END,
    "all at once": (delta(content="<think>\nHm.\n</think>\n\nA leaf."), *END),
    "no opening tag": (delta(content="Hm.\n</think>\n\nA leaf."), *END),
    "no opening tag, in pieces": tuple(delta(content=one) for one in ("H", "m.\n</th", "ink>", "\n\nA", " leaf."))
    + END,
    "no opening tag, no line of its own": (delta(content="Hm.</think>A leaf."), *END),
    "Gemini's tags": (delta(content="<thought>\nHm.</thought>A leaf."), *END),
    "Gemma's tags": (delta(content="<|channel>thought\nHm.<channel|>A leaf."), *END),
    "Mistral's tags": (delta(content="[THINK]Hm.[/THINK]A leaf."), *END),
    "a list of parts": (
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
        delta(content=[{"type": "text", "text": "A leaf."}]),
        *END,
    ),
    "details": (delta(reasoning_details=[{"type": "reasoning.text", "text": "Hm."}]), delta(content="A leaf."), *END),
    "two fields at once": (delta(reasoning="Hm.", reasoning_content="Hm."), delta(content="A leaf."), *END),
}


@pytest.mark.parametrize("kind", THOUGHTS)
def test_a_thought(server: ScriptedServer, kind: str) -> None:
    """Is told as one, and is no part of the text."""
    found = events(server, Action(raw=THOUGHTS[kind]))
    reply = found[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning[0].text.strip()) == ("A leaf.", "Hm.")
    assert shown(found) == "A leaf."
    assert [thought.text.strip() for thought in found if isinstance(thought, Reasoning)] == ["Hm."]


def shown(found: list[ChatEvent]) -> str:
    """The text that a reader has seen at the end."""
    pieces: list[str] = []
    for event in found:
        if isinstance(event, Retrying):
            pieces.clear()
        elif isinstance(event, TextDelta):
            pieces.append(event.text)
    return "".join(pieces)


TAGGED = {
    "an empty thought": ("<think>\n\n</think>\n\nA leaf.", "A leaf."),
    "two thoughts": ("<think>Hm.</think>A leaf.\n<think>Ah.</think>\nA root.", "A leaf.\nA root."),
    "thoughts one after the other": ("<think>Hm.</think>\n<think>Ah.</think>\nA leaf.", "A leaf."),
    "a sentence about the tag": ("The tag </think> ends a thought.", None),
    "code about the tag": ("Write `</think>`:\n\n```\n<think>x</think>\n```\n", None),
    "a thought about code": ("<think>```\n</think>A leaf.", "A leaf."),
    "less than": ("a < b and c <", None),
}


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("kind", TAGGED)
def test_tags_in_a_text(server: ScriptedServer, kind: str, size: int) -> None:
    """Are taken out where they are a thought, whatever pieces they come in; the text is the same everywhere."""
    text, wanted = TAGGED[kind]
    pieces = [delta(content=text[i : i + size]) for i in range(0, len(text), size)]
    found = events(server, Action(raw=(*pieces, *END)))
    reply = found[-1]
    assert isinstance(reply, Reply)
    assert reply.text == shown(found) == (text if wanted is None else wanted)


def test_what_is_printed_is_what_is_written(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And journaled: the same reply, asked for again, is the same."""
    server.answer = lambda request: Action(raw=(delta(content="plan, plan\n</think>\n\nA leaf."), *END))
    for name in ("a.md", "b.md"):
        (folder / name).write_text("---\n?: why?\n---\nText.\n")
        ran = run_here(capsys, "messages", name)
        assert (ran.code, "A leaf." in ran.out) == (0, True)
        assert "~reply: A leaf.\n" in (folder / name).read_text()
    assert len(server.requests) == 1


STRAY = {
    "Hermes": '<tool_call>\n{"name": "look", "arguments": {"q": "leaf"}}\n</tool_call>',
    "Mistral": '[TOOL_CALLS] [{"name": "look", "arguments": {"q": "leaf"}}]',
    "Mistral, new": '[TOOL_CALLS]look[ARGS]{"q": "leaf"}',
    "Llama": '{"name": "look", "parameters": {"q": "leaf"}}',
    "Llama, with its token": '<|python_tag|>{"name": "look", "parameters": {"q": "leaf"}}',
    "Llama, as Python": '[look(q="leaf")]',
    "gpt-oss": '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"q": "leaf"}<|call|>',
    "Qwen's coder": "<tool_call>\n<function=look>\n<parameter=q>\nleaf\n</parameter>\n</function>\n</tool_call>",
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{}\n```",
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{}",
    "Gemma": '```tool_code\nprint(look(q="leaf"))\n```',
    "fenced": '```json\n{"name": "look", "arguments": {"q": "leaf"}}\n```',
    "fenced, after words": 'I look.\n\n```json\n{"name": "look", "arguments": {"q": "leaf"}}\n```',
    "Llama, after words": 'I look.\n{"name": "look", "parameters": {"q": "leaf"}}',
    "Phi": 'functools[{"name": "look", "arguments": {"q": "leaf"}}]',
    "after words": 'I look.\n<tool_call>{"name": "look", "arguments": {}}</tool_call>',
}
NO_CALLS = (
    "You can call `look(q)`.",
    '```\n<tool_call>{"name": "look"}</tool_call>\n```\nis Hermes.',
    '{"name": "Oak"}',
    'A call:\n\n```json\n{"name": "look", "arguments": {}}\n```\n\nIt returns a leaf.',
)


@pytest.mark.parametrize("kind", STRAY)
def test_a_call_that_is_only_text(server: ScriptedServer, kind: str) -> None:
    """Is noticed, with the tool's name, and not carried out."""
    reply = events(server, Action(raw=(delta(content=STRAY[kind]), *END)))[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.calls, reply.stray_call) == (STRAY[kind], (), "look")


@pytest.mark.parametrize("text", NO_CALLS)
def test_a_text_about_a_call(server: ScriptedServer, text: str) -> None:
    """Is an answer."""
    reply = events(server, Action(raw=(delta(content=text), *END)))[-1]
    assert isinstance(reply, Reply)
    assert reply.stray_call == ""


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
    "an error as vLLM sends it": (
        delta(content="A"),
        data({"object": "error", "message": "out of memory", "type": "InternalServerError", "code": 500}),
    ),
    "an event named error": ("event: error\n" + data({"error": {"message": "out of memory"}}),),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_in_the_stream(server: ScriptedServer, kind: str) -> None:
    """Is told in the server's words, and may be tried again."""
    with pytest.raises(errors.ModelUnavailable, match="out of memory"):
        events(server, Action(raw=BROKEN[kind]))


def test_a_refusal_of_the_model(server: ScriptedServer) -> None:
    """Its words come in a field of their own, and it ends as an answer does."""
    with pytest.raises(errors.ModelRejected, match="filter"):
        events(server, Action(raw=(delta(refusal="I cannot help."), *END)))


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


def test_signs_of_life_count(server: ScriptedServer) -> None:
    """A server that sends comments has not gone; one that sends nothing has."""
    slow = tuple(": ping\n\n" for _ in range(5))
    server.queue(Action(raw=(*slow, delta(content="A leaf."), *END), pause=0.1))
    assert loop.run(ask(model_at(server.url, timeout=0.4), QUESTION)).text == "A leaf."
    server.queue(Action(raw=(*slow[:1], delta(content="A leaf."), *END), pause=0.6))
    with pytest.raises(errors.ModelTimeout, match=r"sent nothing for 0\.4 s .*timeout"):
        loop.run(ask(model_at(server.url, timeout=0.4), QUESTION))


ADDRESSES = {
    "without /v1": ("", "base_url may lack '/v1'"),
    "with the protocol's path": ("/v1/chat/completions", "leave out '/chat/completions'"),
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_an_address_that_is_almost_right(server: ScriptedServer, kind: str) -> None:
    """Is refused with what to change."""
    path, hint = ADDRESSES[kind]
    with pytest.raises(errors.ModelNotFound) as caught:
        loop.run(ask(model_at(server.url.removesuffix("/v1") + path), QUESTION))
    assert hint in caught.value.hint


def test_answers_of_what_stands_before_the_server(server: ScriptedServer) -> None:
    """408 is tried again; a redirect is named with its target; a login page is said to be a page."""
    server.queue(fail(408, "slow"), Action(raw=(delta(content="A leaf."), *END)))
    assert loop.run(ask(model_at(server.url, max_retries=1), QUESTION)).text == "A leaf."
    server.queue(Action(status=307, body="", headers={"Location": "https://models.example/v1/chat/completions?x=1"}))
    with pytest.raises(errors.ModelRejected, match=r"redirects to https://models\.example/v1/chat.* .set base_url"):
        loop.run(ask(model_at(server.url), QUESTION))
    server.queue(Action(status=307, body="", headers={"Location": "/v2"}))
    with pytest.raises(errors.ModelRejected, match="redirects to /v2"):
        loop.run(ask(model_at(server.url, api="responses"), QUESTION))
    page = "<!DOCTYPE html>\n<html>Sign in</html>"
    for sent in (Action(body=page), Action(raw=(page,))):
        server.queue(sent)
        with pytest.raises(errors.NoValidReply, match="sent a web page"):
            loop.run(ask(model_at(server.url), QUESTION))
