"""Servers of models that refuse what the real ones refuse, each in its own words; one row of `STRICT` for each.

Each thinks and calls the tool it is offered, then answers: `strict_server` opens one. What real servers refuse is taken
from public reports of people who ran agents against them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fakes.openai_server import Action, Recorded, ScriptedServer, fail

Body = Mapping[str, Any]
Rule = Callable[[Body], str]
"""Returns what the server says of a request that it refuses; the empty string if it takes it."""
THOUGHT, SEAL = "I look it up.", "c2VhbA=="
ANSWER = "It is green."
DETAILS = [
    {"type": "reasoning.text", "text": "I look", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": " it up.", "signature": "sig", "format": "anthropic-claude-v1", "index": 0},
]
WHOLE_DETAILS = [
    {"type": "reasoning.text", "text": THOUGHT, "format": "anthropic-claude-v1", "index": 0, "signature": "sig"}
]


# -- rules of Chat Completions ---------------------------------------------------------------------


def _calls(body: Body) -> list[Body]:
    return [call for message in body["messages"] for call in message.get("tool_calls") or ()]


def names(body: Body) -> str:
    """Names of functions, offered and called."""
    called = [call["function"]["name"] for call in _calls(body)]
    offered = [tool["function"]["name"] for tool in body.get("tools", ())]
    wrong = [name for name in (*offered, *called) if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)]
    return f"Invalid function name: {wrong[0]!r} does not match '^[a-zA-Z0-9_-]+$'" if wrong else ""


def arguments(body: Body) -> str:
    """Arguments of calls are objects."""
    for call in _calls(body):
        try:
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "tool call arguments are not an object"
        except ValueError:
            return "Failed to parse tool call arguments as JSON"
    return ""


def results(body: Body) -> str:
    """Each call has its result, right after it; no id occurs twice."""
    waiting: list[str] = []
    seen: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "a tool message must follow the message with its tool_calls"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"these tool calls have no response: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        seen += waiting
    return "duplicate ids of tool calls" if len(set(seen)) < len(seen) else ""


def texts(body: Body) -> str:
    """No text is empty."""
    empty = [
        m["role"]
        for m in body["messages"]
        if m.get("content") == "" or (not m.get("content") and not m.get("tool_calls"))
    ]
    return f"all messages must have non-empty content; {empty[0]} has none" if empty else ""


def alternation(body: Body) -> str:
    """As templates of open models have it: instructions first, then user and assistant in turn."""
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles[1:]:
        return "System message must be at the beginning."
    for one, two in pairwise(roles):
        if one == two != "tool":
            return "Conversation roles must alternate user/assistant/user/assistant/..."
    return ""


def after_tools(body: Body) -> str:
    """As Mistral has it: the assistant speaks after its tools."""
    roles = pairwise(message["role"] for message in body["messages"])
    return "Unexpected role 'user' after role 'tool'" if ("tool", "user") in roles else ""


def schemas(body: Body) -> str:
    """Schemas of tools."""
    for tool in body.get("tools", ()):
        if said := _schema_fault(tool["function"]["parameters"], ()):
            return f"Invalid schema for function '{tool['function']['name']}': {said}"
    return ""


def _schema_fault(schema: Any, path: tuple[str, ...]) -> str:
    where = f"In context={path}, "
    if not isinstance(schema, dict):
        return f"{where}{schema!r} is not of type 'object', 'boolean'."
    if not path and (schema.get("type") != "object" or "properties" not in schema):
        return "schema must be of type 'object' with properties"
    if schema.get("type") == "array" and "items" not in schema:
        return f"{where}array schema missing items."
    if "required" in schema and not isinstance(schema["required"], list):
        return f"{where}{schema['required']!r} is not of type 'array'."
    inside = [*schema.get("properties", {}).items(), *([("items", schema["items"])] if "items" in schema else [])]
    return next((said for name, part in inside if (said := _schema_fault(part, (*path, name)))), "")


def ids(form: str, said: str) -> Rule:
    """Ids of calls have this form."""
    return lambda body: "" if all(re.fullmatch(form, call["id"]) for call in _calls(body)) else said


def without(*fields: str) -> Rule:
    """None of these parameters is taken, whatever its value."""
    said = "Unsupported parameter: '{}' is not supported with this model.".format
    return lambda body: next((said(name) for name in fields if name in body), "")


def _of_this_turn(body: Body) -> Iterator[Body]:
    last = max(number for number, message in enumerate(body["messages"]) if message["role"] == "user")
    return (message for message in body["messages"][last:] if message.get("tool_calls"))


def thoughts(field: str, value: Any, said: str) -> Rule:
    """The thought of every call of this turn comes back as it was given."""

    def rule(body: Body) -> str:
        return said if any(message.get(field) != value for message in _of_this_turn(body)) else ""

    return rule


def signatures(body: Body) -> str:
    """Gemini's, through its compatible address."""
    wanted = {"google": {"thought_signature": SEAL}}
    calls = [call for message in _of_this_turn(body) for call in message["tool_calls"]]
    if any(call.get("extra_content") != wanted for call in calls):
        return "Function call is missing a thought_signature in functionCall parts."
    return ""


# -- what they reply -------------------------------------------------------------------------------


def sse(*events: Any, named: bool = False, done: bool = False) -> Action:
    """A stream with these events, to the letter."""
    head = "event: {}\n" if named else ""
    written = [f"{head.format(event.get('type'))}data: {json.dumps(event)}\n\n" for event in events]
    return Action(raw=(*written, *(["data: [DONE]\n\n"] if done else [])))


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk of Chat Completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat(call_id: str = "call_1", *, extra: Body = {}, **thought: Any) -> Callable[[Body], Action]:  # noqa: B006
    def reply(body: Body) -> Action:
        if body["messages"][-1]["role"] == "tool" or not body.get("tools"):
            return sse(chunk(content=ANSWER), chunk("stop"), done=True)
        used = {call["id"] for call in _calls(body)}
        new = next(one for one in (call_id, *(f"{call_id[:8]}{n}" for n in range(9))) if one not in used)
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"q": "leaf"}'}
        call = {"index": 0, "id": new, "type": "function", "function": function, **extra}
        pieces = [chunk(**{key: piece}) for key, value in thought.items() for piece in value]
        return sse(*pieces, chunk(tool_calls=[call]), chunk("tool_calls"), done=True)

    return reply


def _anthropic_rules(body: Body) -> str:
    blocks = [block for m in body["messages"] if isinstance(m["content"], list) for block in m["content"]]
    for one, two in pairwise(body["messages"]):
        if one["role"] == two["role"]:
            return "messages: roles must alternate between user and assistant"
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            return "messages: text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            return "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
            return "messages.1.content.0.tool_use.name: String should match pattern"
        if block["type"] == "thinking" and block.get("signature") != SEAL:
            return "messages.1.content.0: Invalid signature in thinking block"
    used = [block["id"] for block in blocks if block["type"] == "tool_use"]
    given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if len(set(used)) < len(used) or sorted(used) != sorted(given):
        return "messages: tool_use ids must be unique, with a tool_result each"
    return ""


def _anthropic(body: Body) -> Action:
    last = body["messages"][-1]["content"]
    answered = isinstance(last, list) and any(block["type"] == "tool_result" for block in last)
    start: dict[str, Any] = {
        "id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
    }  # fmt: skip
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]]
    events: list[Any] = [{"type": "message_start", "message": start}]
    if answered or not body.get("tools"):
        blocks = [({"type": "text", "text": ""}, [{"type": "text_delta", "text": ANSWER}])]
    else:
        name = body["tools"][0]["name"]
        blocks = [
            ({"type": "thinking", "thinking": "", "signature": ""},
             [{"type": "thinking_delta", "thinking": THOUGHT}, {"type": "signature_delta", "signature": SEAL}]),
            ({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}},
             [{"type": "input_json_delta", "partial_json": '{"q": "leaf"}'}]),
        ]  # fmt: skip
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if len(blocks) > 1 else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    return sse(
        *events, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}, {"type": "message_stop"},
        named=True,
    )  # fmt: skip


def _google_rules(body: Body) -> str:
    contents = body["contents"]
    if any(part.get("text") == "" for content in contents for part in content["parts"]):
        return "Unable to submit request because it must have a text parameter."
    last = max(n for n, c in enumerate(contents) if c["role"] == "user" and any("text" in p for p in c["parts"]))
    calls = [part for content in contents[last:] for part in content["parts"] if "functionCall" in part]
    if any(part.get("thoughtSignature") != SEAL for part in calls):
        return "Function call is missing a thought_signature in functionCall parts."
    return ""


def _google(body: Body) -> Action:
    answered = any("functionResponse" in part for part in body["contents"][-1]["parts"])
    if answered or not body.get("tools"):
        parts: list[Any] = [{"text": ANSWER}]
    else:
        name = body["tools"][0]["functionDeclarations"][0]["name"]
        call = {"functionCall": {"name": name, "args": {"q": "leaf"}}, "thoughtSignature": SEAL}
        parts = [{"text": THOUGHT, "thought": True}, call]
    content = {"role": "model", "parts": parts}
    used = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return sse({"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": used})


def _responses_rules(body: Body) -> str:
    items = body["input"]
    calls = [item for item in items if item.get("type") == "function_call"]
    if any(len(call["call_id"]) > 64 for call in calls):
        return "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"
    if any(not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["name"]) for call in calls):
        return "Invalid 'input[2].name': string does not match pattern"
    given = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    return (
        "" if sorted(call["call_id"] for call in calls) == sorted(given) else "No tool output found for function call"
    )


def _responses(body: Body) -> Action:
    if body["input"][-1].get("type") == "function_call_output" or not body.get("tools"):
        return Action(ANSWER)
    thought = THOUGHT if (body.get("reasoning") or {}).get("summary") else ""  # nothing is shown unless asked for
    return Action("", reasoning=thought, calls=(("call_1", body["tools"][0]["name"], '{"q": "leaf"}'),))


@dataclass(frozen=True, slots=True)
class Strict:
    """A server: what it is called in our settings, what it refuses, and what it replies. `settings` are the tier's."""

    model: str
    rules: tuple[Rule, ...]
    reply: Callable[[Body], Action]
    root: str = "/v1"
    package: str = "pydantic_ai"
    settings: Body = field(default_factory=dict)


_COMMON: tuple[Rule, ...] = (names, arguments, results, texts, schemas)
_DEEPSEEK = "The reasoning_content in the thinking mode must be passed back to the API."
_KIMI = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
_NINE = "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9.".format("call_1")
STRICT: dict[str, Strict] = {
    "OpenAI": Strict(
        "OpenAI/gpt-5",
        (*_COMMON, ids(r".{1,40}", "Invalid 'tool_calls[0].id': string too long"),
         without("temperature", "max_tokens", "parallel_tool_calls")),
        _chat(),
    ),
    "Responses": Strict(
        "OpenAI/gpt-5", (_responses_rules,), _responses, settings={"api": "responses", "reasoning_effort": "low"}
    ),
    "DeepSeek": Strict(
        "OpenAICompatible/deepseek-reasoner",
        (*_COMMON, thoughts("reasoning_content", THOUGHT, _DEEPSEEK)),
        _chat("call_00_x", reasoning_content=["I look", " it up."]),
    ),
    "Kimi": Strict(
        "OpenAICompatible/kimi-k2-thinking",
        (*_COMMON, alternation, thoughts("reasoning_content", THOUGHT, _KIMI)),
        _chat("functions.look:0", reasoning_content=["I look", " it up."]),
    ),
    "OpenRouter": Strict(
        "OpenRouter/anthropic/claude-sonnet-5-5",
        (*_COMMON, thoughts("reasoning_details", WHOLE_DETAILS, "reasoning blocks must be passed back unmodified")),
        _chat(reasoning_details=[[detail] for detail in DETAILS]),
    ),
    "Gemini, compatible": Strict(
        "OpenAICompatible/gemini-3-pro", (*_COMMON, signatures),
        _chat(extra={"extra_content": {"google": {"thought_signature": SEAL}}}),
    ),
    "vLLM with Mistral's template": Strict(
        "vLLM/devstral", (*_COMMON, alternation, ids(r"[a-zA-Z0-9]{9}", _NINE), after_tools), _chat("abcdefgh1")
    ),
    "Mistral": Strict(
        "Mistral/mistral-small-latest",
        (*_COMMON, alternation, ids(r"[a-zA-Z0-9]{9}", _NINE), after_tools, without("stream_options")),
        _chat("abcdefgh1"),
    ),
    "Anthropic": Strict("Anthropic/claude-sonnet-5-5", (_anthropic_rules,), _anthropic, root="", package="anthropic"),
    "Google": Strict("Google/gemini-2.5-flash", (_google_rules,), _google, root="", package="google.genai"),
}  # fmt: skip


@contextmanager
def strict_server(name: str) -> Iterator[ScriptedServer]:
    """Open the server of this name; what it refused is in `refusals`."""
    strict = STRICT[name]
    refusals: list[str] = []

    def answer(request: Recorded) -> Action:
        said = first(rule(request.body) for rule in strict.rules)
        if said:
            refusals.append(said)
            return fail(400, said)
        return strict.reply(request.body)

    with ScriptedServer(answer) as server:
        server.refusals = refusals  # type: ignore[attr-defined]
        yield server


def first(said: Iterable[str]) -> str:
    """The first of these that is not empty."""
    return next(filter(None, said), "")
