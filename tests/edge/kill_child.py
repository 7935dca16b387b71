"""Runs `scan_messages` in forked processes that the kill test kills; a script, not a module of tests.

It imports lmm once. For every line ``SECONDS URL FILE`` on standard input it forks; the child answers the
file's prompts with a small model that asks the server at URL, and is killed after so many seconds
(``never`` lets it end). The parent prints the child's process id, its exit status (negative for a signal)
and how long it took.
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
from urllib.parse import urlsplit

# What a run imports on its way is imported before the fork, so that a run takes its own time only.
import filelock  # noqa: F401

from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, render
from lmm.scan import scan_messages


class TinyModel:
    """The least that speaks Chat Completions: one POST per question, no stream."""

    name = "OpenAICompatible/test"

    def __init__(self, url: str) -> None:
        self.url = urlsplit(url)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask the server."""
        text = await asyncio.to_thread(self._post, request)
        yield TextDelta(text)
        yield Reply(text, self.name)

    def _post(self, request: ChatRequest) -> str:
        connection = http.client.HTTPConnection(self.url.hostname or "", self.url.port, timeout=60)
        messages = [{"role": message.role, "content": render(message)} for message in request.messages]
        headers = {"X-Process": str(os.getpid())}
        connection.request("POST", f"{self.url.path}/chat/completions", json.dumps({"messages": messages}), headers)
        body = json.loads(connection.getresponse().read())
        connection.close()
        return str(body["choices"][0]["message"]["content"])


def main() -> None:
    """Fork, perhaps kill, and wait for the child, once for every line."""
    for line in sys.stdin:
        kill_after, url, path = line.rstrip("\n").split(" ", 2)
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            outcome = scan_messages(path, model=TinyModel(url))
            os._exit(1 if outcome.failures else 0)
        if kill_after != "never":
            time.sleep(float(kill_after))
            os.kill(child, signal.SIGKILL)  # ended or not: until it is waited for, the id is the child's
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{child} {os.waitstatus_to_exitcode(status)} {time.monotonic() - begin}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
