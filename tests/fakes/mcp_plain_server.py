"""An MCP server on standard input and output, written by hand: protocol of 2025-11-25, and every way to misbehave.

The words of its command line choose: ``silent`` never answers, ``garbage`` prints what is no message, ``dies`` ends in
the middle of a call, ``endless`` never comes to the end of its list, ``dirty`` describes tools in odd ways, ``slow`` in
ways that take years to check. ``broken`` has entries and parts that are not what the protocol asks for, ``many`` 200
tools, ``page`` 20,000 on one page, ``talks`` instructions.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

WORDS = set(sys.argv[1:])
TEXT = {"type": "string"}


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool("echo", "Say it again.", text=TEXT),
    tool("where", "The working folder, the environment and the arguments."),
    tool("fail", "Fails.", why=TEXT),
    tool("sleep", "Sleeps.", seconds={"type": "number"}),
]
DIRTY = [
    {"name": "docs.search/all pages", "inputSchema": {"type": "object"}},
    {
        "name": "either",
        "description": "One or the other.",
        "inputSchema": {
            "type": "object",
            "anyOf": [{"properties": {"a": TEXT}}, {"properties": {"b": {"$ref": "http://127.0.0.1:9/schema"}}}],
        },
    },
    {
        "name": "optional",
        "inputSchema": {
            "type": "object",
            "properties": {"text": TEXT, "limit": {"type": "integer"}},
            "required": ["text"],
        },
    },
    {"name": "open", "inputSchema": {"type": "object", "properties": {"any": {"type": "object"}}}},
]
_YEARS = {"type": "string", "pattern": "^(a+)+$"}
_TWICE = {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(60)}  # 2**60 ways through it
SLOW = [
    {
        "name": "slow",
        "inputSchema": {"type": "object", "properties": {"text": _YEARS}, "$ref": "#/$defs/d0", "$defs": _TWICE},
        "outputSchema": {"type": "object", "properties": {"text": _YEARS}},
    }
]
cancelled: list[Any] = []


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


# A tool of which only what nobody uses is wrong.
UNTYPED = {"name": "untyped", "inputSchema": {"properties": {"a": TEXT}}, "outputSchema": 7, "annotations": "none"}
BROKEN_TOOLS = [{"name": "bad", "inputSchema": "none"}, 7, {"inputSchema": {"type": "object"}}]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BROKEN_PARTS = [
    {"type": "text", "text": "half \ud800 of a pair"},
    {"type": "hologram", "data": "x"},
    {"type": "image", "data": PNG, "mimeType": "image/jpeg"},
    {"type": "image", "data": PNG},
    {"type": "image", "mimeType": "image/png"},
    {"type": "text", "text": "the end"},
]


def listed(cursor: str | None) -> dict[str, Any]:
    if "many" in WORDS or "page" in WORDS:
        return {"tools": [tool(f"t{n}", "") for n in range(200 if "many" in WORDS else 20_000)]}
    if "broken" in WORDS:
        return {"tools": [*BROKEN_TOOLS, *TOOLS, UNTYPED]}
    tools = TOOLS + (DIRTY if "dirty" in WORDS else []) + (SLOW if "slow" in WORDS else [])
    if "endless" in WORDS:
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    at = int(cursor or 0)  # two on a page
    return {"tools": tools[at : at + 2], **({"nextCursor": str(at + 2)} if at + 2 < len(tools) else {})}


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "sleep":
        time.sleep(arguments["seconds"])
    if name == "fail":
        return {"content": [{"type": "text", "text": arguments["why"]}], "isError": True}
    if name == "where":
        told = {"cwd": str(Path.cwd()), "env": dict(os.environ), "argv": sys.argv[1:], "cancelled": cancelled}
        return {"content": [{"type": "text", "text": json.dumps(told)}]}
    if "broken" in WORDS:
        return {"structuredContent": arguments} if name == "untyped" else {"content": BROKEN_PARTS}
    if name == "echo" and arguments["text"] == "long":
        return {"content": [{"type": "text", "text": "line\n" * 100_000}]}
    structured = {"structuredContent": arguments} if name == "slow" else {}
    return {"content": [{"type": "text", "text": arguments.get("text", json.dumps(arguments))}], **structured}


def answer(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method == "notifications/cancelled":
        cancelled.append(params.get("requestId"))
    if "id" not in message or "silent" in WORDS:
        return
    if method == "initialize":
        capabilities: dict[str, Any] = {"tools": {}}
        about = {"name": "plain", "version": "1"}
        said = {"instructions": "Search before you answer."} if "talks" in WORDS else {}
        send({"id": message["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                              "serverInfo": about, **said}})  # fmt: skip
    elif method == "tools/list":
        send({"id": message["id"], "result": listed(params.get("cursor"))})
    elif method == "tools/call":
        if "dies" in WORDS:
            sys.stderr.write(f"cannot go on: {os.environ.get('WIKI_TOKEN', 'no token')}\n")
            sys.stderr.flush()
            os._exit(3)
        if "broken" in WORDS and params["name"] == "fail":  # with the code that the SDK has for a closed connection
            send({"id": message["id"], "error": {"code": -32000, "message": "the disk is full"}})
            return
        send({"id": message["id"], "result": called(params["name"], params.get("arguments") or {})})
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    sys.stderr.write("plain server started\n")
    sys.stderr.flush()
    for line in sys.stdin:
        if "garbage" in WORDS:
            sys.stdout.write("Loading plugins... done\n{not json}\n\n")
        answer(json.loads(line))
