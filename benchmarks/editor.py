"""`lmm lsp`: from its start to its first answer, and from a keystroke in a document of 200 kB to its diagnostics.

It is a client of its own, in a few lines: what a test's client costs is not measured. The peer is a server of pygls
that does nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Self

from benchmarks.documents import large_document
from benchmarks.measure import Row, seconds, show

EMPTY = "from pygls.lsp.server import LanguageServer; LanguageServer('empty', '1').start_io()"
OURS = (sys.executable, "-m", "lmm", "lsp")
URI = "file:///nowhere/large.md"
KEYS = 9


class Client:
    """A process that speaks the protocol, begun and initialized; `started` is how long that took."""

    def __init__(self, command: Sequence[str]) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.send("initialize", id=1, capabilities={}, processId=None, rootUri=None)
        self.receive()
        self.started = time.perf_counter() - began
        self.send("initialized")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, method: str, *, id: int | None = None, **params: Any) -> None:
        """Send a notification, or with an `id` a request."""
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": id} if id is not None else {})
        data = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length"):
                length = int(line.partition(b":")[2])
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message

    def diagnostics(self, version: int) -> list[Any]:
        """What is reported of a version."""
        while True:
            params = self.receive().get("params", {})
            if params.get("version") == version and "diagnostics" in params:
                found: list[Any] = params["diagnostics"]
                return found


def started(command: Sequence[str]) -> float:
    """Seconds from the start to the first answer."""
    with Client(command) as client:
        return client.started


def keystrokes(text: str, keys: int = KEYS) -> float:
    """Seconds from a keystroke in the middle, which makes a mistake or mends it, to its diagnostics; the median."""
    lines = text.split("\n")
    middle = next(n for n in range(len(lines) // 2, len(lines)) if not lines[n] and not lines[n - 1].startswith("-"))
    lines[middle] = "\n---\nsee: a\n---\n"
    text, at = "\n".join(lines), {"line": middle + 2, "character": 6}
    with Client(OURS) as client:
        item = {"uri": URI, "languageId": "markdown", "version": 1, "text": text}
        client.send("textDocument/didOpen", textDocument=item)
        before, times = len(client.diagnostics(1)), []
        for version in range(2, keys + 2):
            put = version % 2 == 0
            end = at if put else {**at, "character": at["character"] + 3}
            change = {"range": {"start": at, "end": end}, "text": ": b" if put else ""}
            began = time.perf_counter()
            client.send(
                "textDocument/didChange", textDocument={"uri": URI, "version": version}, contentChanges=[change]
            )
            found = len(client.diagnostics(version))
            times.append(time.perf_counter() - began)
            assert found == before + put, (found, before, version)
            time.sleep(0.2)
    return statistics.median(times)


def rows() -> list[Row]:
    """Both, each beside a server that does nothing."""
    ours, empty = (statistics.median(started(c) for _ in range(5)) for c in (OURS, (sys.executable, "-c", EMPTY)))
    key = keystrokes(large_document(200_000, 120))
    return [
        Row(
            "lmm lsp: start", f"pygls {seconds(empty)}", seconds(ours), f"{ours / empty:.1f} ×", "≤ 0.5 s", ours <= 0.5
        ),
        Row(
            "lmm lsp: keystroke, 200 kB, with the pause that it waits for", "", seconds(key), "", "≤ 0.5 s", key <= 0.5
        ),
    ]


if __name__ == "__main__":
    show(rows())
