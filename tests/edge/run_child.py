"""Runs `Chat.run` in forked processes that the kill test kills; a script, not a module of tests.

It imports all that a run needs once. For every line ``SECONDS URL FILE`` on standard input it forks; the child runs
the file with a small model that asks the server at URL, and is killed after so many seconds (``never`` lets it end).
The parent prints the child's exit status (negative for a signal) and how long it took.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

# What a run imports on its way is imported before the fork, so that a run takes its own time only.
import filelock  # noqa: F401
import jsonschema.validators
import referencing  # noqa: F401

import chatmd
import chatmd.runtime.runner
import chatmd.tools.calling
import chatmd.tools.files
from lmm.messages import ChatEvent, ChatRequest, Message, Reasoning, Reply, TextDelta, ToolCall


class TinyModel:
    """The least that speaks Chat Completions: one POST per request; the reply then comes in pieces."""

    name = "OpenAICompatible/test"

    def __init__(self, url: str) -> None:
        self.url = urlsplit(url)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask the server."""
        message = await asyncio.to_thread(self._post, request)
        thoughts = (Reasoning(message["reasoning"], "r1", "", "tiny"),) if message.get("reasoning") else ()
        for thought in thoughts:
            yield thought
        text = message["content"] or ""
        for start in range(0, len(text), 5):
            await asyncio.sleep(0.0005)
            yield TextDelta(text[start : start + 5])
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        )
        yield Reply(text, self.name, calls=calls, reasoning=thoughts)

    def _post(self, request: ChatRequest) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.url.hostname or "", self.url.port, timeout=60)
        messages = [part for message in request.messages for part in _wire(message)]
        connection.request("POST", f"{self.url.path}/chat/completions", json.dumps({"messages": messages}))
        body = json.loads(connection.getresponse().read())
        connection.close()
        message: dict[str, Any] = body["choices"][0]["message"]
        return message


def _wire(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"role": "tool", "tool_call_id": result.call, "content": result.text} for result in message.results]
    text = "\n".join([message.text, *(part for part in message.content if isinstance(part, str))])
    calls = [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in message.calls]
    return [{"role": message.role, "content": text, "tool_calls": calls}]


def main() -> None:
    """Fork, perhaps kill, and wait for the child, once for every line."""
    jsonschema.validators.validator_for({})
    for line in sys.stdin:
        kill_after, url, path = line.rstrip("\n").split(" ", 2)
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            chatmd.Chat.open(path).run(model=TinyModel(url))
            os._exit(0)
        if kill_after != "never":
            time.sleep(float(kill_after))
            os.kill(child, signal.SIGKILL)  # ended or not: until it is waited for, the id is the child's
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {time.monotonic() - begin}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
