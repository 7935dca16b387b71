"""What MCP servers send, mended before the SDK checks it: what is wrong costs that part, not the whole answer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

MOST_TOOLS = 1000
"""The number of tools that are taken from a server's catalogue."""
LONGEST_ANSWER = 30_000_000
"""The number of bytes that an answer over HTTP may have."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def without_surrogates(data: bytes) -> bytes:
    r"""Replace halves of surrogate pairs in JSON, which no parser takes.

    >>> without_surrogates(rb'"a\ud800 \ud83d\ude00 \\ud800"')
    b'"a\\ufffd \\ud83d\\ude00 \\\\ud800"'
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


def mended(result: Any, leave_out: Callable[[str], None]) -> Any:
    """Return a result without the tools, and with a sentence for the parts, that are not what the protocol asks for.

    `leave_out` is called with each tool that is left out, and the reason.
    """
    import mcp_types as types
    from pydantic import TypeAdapter

    if not isinstance(result, dict):
        return result
    if isinstance(tools := result.get("tools"), list):
        kept, adapter = [], TypeAdapter[Any](types.Tool)
        for number, tool in enumerate(tools[: MOST_TOOLS + 1], 1):
            if number > MOST_TOOLS:
                leave_out(f"{len(tools) - MOST_TOOLS} of {len(tools)} tools of one page are left out")
            elif wrong := _wrong(adapter, tool):
                name = tool.get("name") if isinstance(tool, dict) else None
                leave_out(f"the tool '{name or number}' is left out: its {wrong}")
            else:
                kept.append(tool)
        return result | {"tools": kept}
    if isinstance(content := result.get("content"), list):
        return result | {"content": [_part(block, TypeAdapter(types.ContentBlock)) for block in content]}
    return result


def _part(block: Any, adapter: Any) -> Any:
    if not isinstance(block, dict):
        return {"type": "text", "text": "[a part that cannot be read]"}
    kind = block.get("type")
    if kind in ("image", "audio") and not isinstance(block.get("mimeType"), str):
        block = block | {"mimeType": "application/octet-stream"}
    if wrong := _wrong(adapter, block):
        text = block.get("text")
        return {
            "type": "text",
            "text": text if isinstance(text, str) else f"[a part of the kind '{kind}': its {wrong}]",
        }
    return block


def _wrong(adapter: Any, value: Any) -> str:
    """Return the first field that does not fit and why; empty if all do."""
    from pydantic import ValidationError

    try:
        adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        places = [str(part) for part in first["loc"]]
        return f"{'.'.join(places) or 'value'}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return ""


class MendedStream:
    """A stream of messages of the SDK's: results are `mended`, and lines with half a surrogate pair are read."""

    def __init__(self, stream: Any, leave_out: Callable[[str], None]) -> None:
        self._stream, self._leave_out = stream, leave_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        return self._mend(await self._stream.receive())

    def __aiter__(self) -> MendedStream:
        return self

    async def __anext__(self) -> Any:
        return self._mend(await self._stream.__anext__())

    async def __aenter__(self) -> MendedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _mend(self, item: Any) -> Any:
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCResponse
        from mcp_types.jsonrpc import jsonrpc_message_adapter
        from pydantic import ValidationError

        if isinstance(item, ValidationError) and isinstance(line := item.errors()[0]["input"], str):
            data = without_surrogates(line.encode("utf-8", "replace"))
            try:
                item = SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
            except ValidationError:
                return item
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            message.result = mended(message.result, self._leave_out)
        return item


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer: at most `LONGEST_ANSWER` bytes, an event of a stream as well, `without_surrogates`."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._stream, self._events = stream, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = bytearray()
        async for piece in self._stream:
            data += piece
            if len(data) > LONGEST_ANSWER:
                raise httpx2.ReadError(f"its answer has more than {LONGEST_ANSWER // 1_000_000} MB")
            if self._events and b"\n" in piece:
                end = data.rindex(b"\n") + 1
                yield without_surrogates(bytes(data[:end]))
                del data[:end]
        yield without_surrogates(bytes(data))

    async def aclose(self) -> None:
        await self._stream.aclose()
