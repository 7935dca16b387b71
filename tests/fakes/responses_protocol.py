"""The stream events of OpenAI's Responses protocol for a scripted `Action` (see `fakes.openai_server`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fakes.openai_server import Action


def events(action: Action, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every event in order, numbered; a `finish` of None breaks off before the end."""
    for number, event in enumerate(_events(action, body)):
        yield event | {"sequence_number": number}


def messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and text of the messages in a request."""
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    return [(item["role"], _text(item["content"])) for item in items if "role" in item]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _events(action: Action, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": _response(action, body, "in_progress", [])}
    output: list[dict[str, Any]] = []
    for events_of_item in _items(action):
        for event in events_of_item:
            yield event | {"output_index": len(output)}
        output.append(event["item"])
    if action.error:
        yield {"type": "error", "code": "server_error", "message": action.error, "param": None}
    if action.finish is None or action.error:
        return
    status = "incomplete" if action.finish == "length" else "completed"
    yield {"type": f"response.{status}", "response": _response(action, body, status, output)}


def _items(action: Action) -> Iterator[Iterator[dict[str, Any]]]:
    if action.reasoning:
        yield _reasoning(action.reasoning)
    if action.text or not action.calls:
        yield _message(action.stream_pieces())
    for call in action.calls:
        yield _call(*call)


def _reasoning(text: str) -> Iterator[dict[str, Any]]:
    at = {"item_id": "rs_1", "summary_index": 0}
    item: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
    part = {"type": "summary_text", "text": text}
    yield {"type": "response.output_item.added", "item": item}
    yield at | {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}}
    yield at | {"type": "response.reasoning_summary_text.delta", "delta": text}
    yield at | {"type": "response.reasoning_summary_text.done", "text": text}
    yield at | {"type": "response.reasoning_summary_part.done", "part": part}
    done = item | {"summary": [part], "encrypted_content": "sealed"}
    yield {"type": "response.output_item.done", "item": done}


def _message(pieces: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    at = {"item_id": "msg_1", "content_index": 0}
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    part = {"type": "output_text", "text": "".join(pieces), "annotations": []}
    yield {"type": "response.output_item.added", "item": item}
    yield at | {"type": "response.content_part.added", "part": part | {"text": ""}}
    for piece in pieces:
        yield at | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
    yield at | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
    yield at | {"type": "response.content_part.done", "part": part}
    yield {"type": "response.output_item.done", "item": item | {"status": "completed", "content": [part]}}


def _call(call_id: str, name: str, arguments: str) -> Iterator[dict[str, Any]]:
    item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": name, "arguments": ""}
    at = {"item_id": item["id"]}
    yield {"type": "response.output_item.added", "item": item | {"status": "in_progress"}}
    yield at | {"type": "response.function_call_arguments.delta", "delta": arguments}
    yield at | {"type": "response.function_call_arguments.done", "arguments": arguments, "name": name}
    yield {"type": "response.output_item.done", "item": item | {"arguments": arguments, "status": "completed"}}


def _response(action: Action, body: Mapping[str, Any], status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    sent, received = action.usage
    usage = {
        "input_tokens": sent,
        "output_tokens": received,
        "total_tokens": sent + received,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": body.get("model", "test"),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "usage": usage if status != "in_progress" else None,
    }
