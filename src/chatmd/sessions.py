"""Conversations of other programs as ChatMD: sessions of Claude Code and Codex, and what ``llm logs`` prints."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatmd.errors import ChatmdError
from chatmd.language.transcript import USER_TURN, storable, transcript_text
from lmm.disk import files
from lmm.disk.files import read_document
from lmm.errors import FileWriteError
from lmm.messages import Message, Role, ToolCall, ToolResult

_KINDS = "a session of Claude Code or Codex (.jsonl), or what llm logs --json prints"
_ROLES: tuple[Role, ...] = ("assistant", "system", "developer")
_SPOKEN = ("text", "input_text", "output_text")


def import_session(path: Path, output: Path | None = None, *, force: bool = False) -> tuple[Path, int]:
    """Write a session as a ChatMD file, beside it or as `output`; return that file and its number of messages.

    Raises:
        ChatmdError: the file contains no conversation.
        FileReadError, FileWriteError: the file cannot be read, or the output exists already.
    """
    target = output / f"{path.stem}.chatmd" if output and output.is_dir() else output or path.with_suffix(".chatmd")
    if target.exists() and not force:
        raise FileWriteError("this file exists already", where=str(target), hint="--force replaces it")
    messages = read_session(read_document(path), str(path))
    if not messages:
        raise ChatmdError("there is no conversation in this file", where=str(path), hint=f"it can be {_KINDS}")
    files.replace(target, transcript_text(messages) + f"\n{USER_TURN}")
    return target, len(messages)


def read_session(text: str, file: str = "") -> list[Message]:
    """Return the messages of a session of any of the programs; of several conversations in a log of ``llm``, the last.

    Records that are no messages are left out, and so is an incomplete last line.

    Raises:
        ChatmdError: another line is not JSON.

    >>> line = '{"type": "user", "message": {"role": "user", "content": "Why?"}}'
    >>> [(message.role, message.text) for message in read_session(line)]
    [('user', 'Why?')]
    """
    names: dict[str, str] = {}
    records = _records(text, file)
    last = records[-1].get("conversation_id") if records else None
    records = [record for record in records if record.get("conversation_id") == last]
    found = [message for record in records for message in _messages(record, names)]
    answered = {result.call for message in found for result in message.results}
    kept = [
        replace(
            one,
            calls=tuple(call for call in one.calls if call.id in answered),
            results=tuple(result for result in one.results if result.call in names),
        )
        for one in found
    ]
    return [one for one in kept if one.text.strip() or one.calls or one.results]


def _records(text: str, file: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a file: one per line, or all in a list."""
    with contextlib.suppress(ValueError):
        whole = json.loads(text)
        return [value for value in (whole if isinstance(whole, list) else [whole]) if isinstance(value, dict)]
    lines = text.rstrip().split("\n")
    found, bad = list[Mapping[str, Any]](), list[int]()
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line) if line.strip() else None
            found += [value] if isinstance(value, dict) else []
        except ValueError:
            bad.append(number)
    if found and bad and bad[0] < len(lines):  # not the last line, of a session that goes on
        hint = "correct or delete it: what it says would be missing"
        raise ChatmdError(f"line {bad[0]} is not JSON", where=file, hint=hint)
    return found


def _messages(record: Mapping[str, Any], names: dict[str, str]) -> Iterator[Message]:
    """Yield the messages of a record; `names` maps the ids of calls to the names of the functions."""
    message, payload = record.get("message"), record.get("payload", record)
    if isinstance(message, dict) and not record.get("isSidechain") and not record.get("isMeta"):
        yield from _claude(message, names)
    elif record.get("type", "") in ("response_item", "message", "function_call", "function_call_output"):
        yield from _codex(payload, names)
    elif isinstance(record.get("response"), str) and "prompt" in record:
        yield from _llm(record, names)


def _llm(record: Mapping[str, Any], names: dict[str, str]) -> Iterator[Message]:
    """Yield a request and its response; the instructions, repeated in each record, only when they change."""
    system = record.get("system") or ""
    if system != names.get("<system>", ""):
        yield Message("system", storable(system))
    names["<system>"] = system
    for part in record.get("tool_results") or ():
        yield _result(part["tool_call_id"], str(part["output"]), names, failed=bool(part.get("exception")))
    yield Message("user", storable(str(record["prompt"] or "")))
    calls = [
        (part["tool_call_id"], part["name"], json.dumps(part["arguments"])) for part in record.get("tool_calls") or ()
    ]
    yield Message("assistant", storable(record["response"]), calls=tuple(_call(*call, names) for call in calls))


def _claude(message: Mapping[str, Any], names: dict[str, str]) -> Iterator[Message]:
    role: Role = "assistant" if message.get("role") == "assistant" else "user"
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    calls = [part for part in parts if part.get("type") == "tool_use"]
    made = tuple(_call(part.get("id"), part.get("name"), json.dumps(part.get("input", {})), names) for part in calls)
    results = [part for part in parts if part.get("type") == "tool_result"]
    for part in results:
        failed = bool(part.get("is_error"))
        yield _result(part.get("tool_use_id"), _text_of(part.get("content")), names, failed=failed)
    yield Message(role, storable(_text_of(content)), calls=made)


def _codex(payload: Mapping[str, Any], names: dict[str, str]) -> Iterator[Message]:
    kind = str(payload.get("type", ""))
    if kind == "message":
        role: Role = next((role for role in _ROLES if role == payload.get("role")), "user")
        yield Message(role, storable(_text_of(payload.get("content"))))
    elif kind.endswith("_call_output"):
        output = payload.get("output")
        text = output if isinstance(output, str) else _text_of(output) or json.dumps(output)
        yield _result(payload.get("call_id"), text, names)
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        arguments = payload.get("arguments") or json.dumps(payload.get("action") or {"input": payload.get("input", "")})
        call = _call(payload.get("call_id"), payload.get("name", "shell"), str(arguments), names)
        yield Message("assistant", "", calls=(call,))


def _call(id: object, name: object, arguments: str, names: dict[str, str]) -> ToolCall:
    names[str(id)] = str(name)
    return ToolCall(storable(str(id)), storable(str(name)), storable(arguments))


def _result(id: object, text: str, names: Mapping[str, str], *, failed: bool = False) -> Message:
    call = storable(str(id))
    return Message("tool", "", results=(ToolResult(call, names.get(call, ""), storable(text), failed=failed),))


def _text_of(content: object) -> str:
    """Return the texts of a content; an image becomes ``[image]``."""
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content if isinstance(content, list) else ()
    told = dict.fromkeys(("image", "input_image"), "[image]")
    texts = (part.get("text", "") if part.get("type") in _SPOKEN else told.get(part.get("type")) for part in parts)
    return "\n".join(text for text in texts if text)
