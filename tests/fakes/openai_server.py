"""A scripted server on 127.0.0.1: the Chat Completions protocol, streaming and not; Responses, streaming.

It is a real HTTP server, so that tests exercise the clients, time-outs and connections that users have.
What it does with a request is an `Action`: from the queue if there is one, else chosen by a function of
the request, which by default replies ``Reply to: <prompt>``. Every request is recorded.

>>> with ScriptedServer() as server:
...     server.queue(fail(429, headers={"Retry-After": "1"}), "Four phases.", hang())
...     ...  # point a model at server.url
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from fakes import embeddings_protocol, responses_protocol

CHAT_PATH = "/v1/chat/completions"
RESPONSES_PATH = "/v1/responses"
# Longer than any test waits; a server that is closed releases what hangs.
FOR_EVER = 600.0


@dataclass(frozen=True, slots=True)
class Action:
    """What the server does with one request.

    `pieces` are the stream's content deltas (by default the text in pieces of 12 characters or more); `finish` is
    the finish reason, None ends the stream without one and without ``[DONE]``. `delay` is in seconds,
    before anything is sent. `hold` waits for the event, at `hold_after` pieces (0: before the status
    line). `cut_after` closes the connection, without a proper end, after that many pieces. `calls` are the
    tool calls that follow the text, as (id, name, arguments). `error` is told in the stream, after the text, and
    ends it. `raw` is what a stream consists of, to the letter, in place of all that, with a `pause` before each piece.
    """

    text: str = ""
    pieces: tuple[str, ...] | None = None
    finish: str | None = "stop"
    reasoning: str = ""
    usage: tuple[int, int] = (11, 7)
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hold: threading.Event | None = None
    hold_after: int = 0
    cut_after: int | None = None
    calls: tuple[tuple[str, str, str], ...] = ()
    error: str = ""
    raw: tuple[str, ...] = ()
    pause: float = 0.0

    def stream_pieces(self) -> tuple[str, ...]:
        """The content deltas of the stream."""
        if self.pieces is not None:
            return self.pieces
        size = max(12, len(self.text) // 200)
        return tuple(self.text[i : i + size] for i in range(0, len(self.text), size))


def fail(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None) -> Action:
    """An error response in OpenAI's form."""
    return Action(
        status=status, body={"error": {"message": message, "type": "test", "code": None}}, headers=headers or {}
    )


def hang(until: threading.Event | None = None, *, text: str = "late", seconds: float = 0.0) -> Action:
    """Say nothing until the event is set, or for so many seconds, or until the server is closed."""
    if seconds:
        return Action(text, delay=seconds)
    return Action(text, hold=until or threading.Event())


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it arrived; `time` is `time.monotonic()`."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    time: float

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text of every message; in Responses, of the items that are messages."""
        if "messages" in self.body:
            return [(m["role"], m["content"]) for m in self.body["messages"]]
        return responses_protocol.messages(self.body)

    @property
    def system(self) -> str:
        """The system message."""
        return next(text for role, text in self.messages if role == "system")

    @property
    def last(self) -> str:
        """The last message, whole."""
        return self.messages[-1][1]

    @property
    def fields(self) -> list[str]:
        """The annotations that it asks for."""
        form = self.body.get("response_format")
        return list(form["json_schema"]["schema"]["properties"]) if form else []

    @property
    def texts(self) -> list[str]:
        """The texts to be embedded."""
        return embeddings_protocol.texts_of(self.path, self.body)

    @property
    def prompt(self) -> str:
        """The last message's last paragraph: what was asked, without the documents before it."""
        return self.last.rpartition("\n\n")[2]


Answer = Callable[[Recorded], "Action | str"]


def annotation_reply(request: Recorded, words: str = "") -> str:
    """Annotations for the section that a request is about, each of its own: ``Summary of A > B.``."""
    section = re.search(r'<text from="([^"]*)">', request.last)
    made = {name: f"{words}{name.capitalize()} of {section[1] if section else ''}." for name in request.fields}
    if not made:
        return f"{words}About {section[1] if section else ''}."
    return json.dumps({name: one if name == "summary" else [one] for name, one in made.items()})


def echo(request: Recorded) -> str:
    """The default answer."""
    return "" if embeddings_protocol.speaks(request.path) else f"Reply to: {request.prompt}"


class ScriptedServer:
    """The server; a context manager. `url` is the ``base_url`` for clients.

    `pages` are what it answers at other paths, whatever the method; who asks for them is not recorded.
    """

    def __init__(self, answer: Answer = echo) -> None:
        self.answer = answer
        self.requests: list[Recorded] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.closing = threading.Event()
        self.pages: dict[str, Any] = {}
        self._queue: deque[Action | str] = deque()
        self._changed = threading.Condition()
        self._http = _HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.scripted = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def prompts(self) -> list[str]:
        """What was asked so far, in the order of arrival."""
        return [request.prompt for request in self.requests]

    def queue(self, *actions: Action | str) -> None:
        """Actions for the next requests, before `answer` is asked."""
        with self._changed:
            self._queue.extend(actions)

    def forget(self) -> None:
        """Drop what was queued and not asked for, as by a test that failed."""
        with self._changed:
            self._queue.clear()

    def wait_for(self, count: int, *, timeout: float = 30.0) -> None:
        """Return when so many requests have arrived."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests) >= count, timeout)
        assert arrived, f"{len(self.requests)} requests after {timeout} s, not {count}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    # -- called by the handler threads ---------------------------------------------------------------

    @contextlib.contextmanager
    def receive(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Iterator[Action]:
        """Record a request; yields what to do with it. That no other words are known is said without being recorded."""
        if "Texts wanted: up to 1" in json.dumps(body):  # prompts/expand.md, beside an answer; test_run.py is about it
            yield Action('{"texts": []}')
            return
        with self._changed:
            request = Recorded(len(self.requests) + 1, path, headers, body, time.monotonic())
            self.requests.append(request)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            queued = self._queue.popleft() if self._queue else None
            self._changed.notify_all()
        try:
            action = self.answer(request) if queued is None else queued
            yield Action(action) if isinstance(action, str) else action
        finally:
            with self._changed:
                self.in_flight -= 1

    def wait(self, event: threading.Event) -> None:
        """Wait for an event, or until the server is closed."""
        end = time.monotonic() + FOR_EVER
        while not self.closing.is_set() and time.monotonic() < end and not event.wait(0.02):
            pass


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    scripted: ScriptedServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away, as killed ones do, are nobody's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        pages = self.server.scripted.pages
        self._send(200 if self.path in pages else 404, pages.get(self.path, {"error": f"no such path: {self.path}"}))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        data = self.rfile.read(length)
        if len(data) < length:  # the client was killed while it sent
            self.close_connection = True
            return
        if self.path in self.server.scripted.pages:
            self.do_GET()
            return
        body = json.loads(data)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.scripted.receive(self.path, headers, body) as action:
            if action.delay:
                self.server.scripted.closing.wait(action.delay)
            if action.hold and not action.hold_after:
                self.server.scripted.wait(action.hold)
            embeds = embeddings_protocol.speaks(self.path)
            if self.path not in (CHAT_PATH, RESPONSES_PATH) and not (embeds or action.raw) and action.body is None:
                self._send(404, {"error": {"message": f"no such path: {self.path}"}})
            elif action.status != 200 or action.body is not None:
                self._send(action.status, action.body, action.headers)
            elif embeds:
                self._send(200, embeddings_protocol.reply_to(self.path, body), action.headers)
            elif self.path == RESPONSES_PATH:
                self._respond(action, body)
            elif body.get("stream") or action.raw:
                self._stream(action, body)
            else:
                self._send(200, completion(action, body), action.headers)

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _start_stream(self, action: Action) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in action.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _respond(self, action: Action, body: Mapping[str, Any]) -> None:
        self._start_stream(action)
        pieces = 0
        for event in responses_protocol.events(action, body):
            if event["type"].startswith("response.output_text."):
                if action.hold and action.hold_after == pieces:
                    self.server.scripted.wait(action.hold)
                if action.cut_after == pieces:
                    self._cut()
                    return
                pieces += 1
            self._chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self._chunk(b"")

    def _stream(self, action: Action, body: Mapping[str, Any]) -> None:
        self._start_stream(action)
        if action.raw:
            for raw in (*action.raw, ""):
                self.server.scripted.closing.wait(action.pause)
                self._chunk(raw.encode())
            return
        self._event(_delta(body, {"role": "assistant", "content": ""}))
        if action.reasoning:
            self._event(_delta(body, {"reasoning": action.reasoning}))
        for number, piece in enumerate((*action.stream_pieces(), None)):
            if action.hold and action.hold_after == number:
                self.server.scripted.wait(action.hold)
            if action.cut_after == number:
                self._cut()
                return
            if piece is not None:
                self._event(_delta(body, {"content": piece}))
        if action.error:
            self._event({"error": {"message": action.error, "type": "server_error", "code": "server_error"}})
        else:
            self._end_stream(action, body)
        self._chunk(b"")

    def _end_stream(self, action: Action, body: Mapping[str, Any]) -> None:
        for index, (call_id, name, arguments) in enumerate(action.calls):
            start = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
            self._event(_delta(body, {"tool_calls": [start]}))
            for piece in (arguments[:7], arguments[7:]):
                self._event(_delta(body, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        if action.finish is not None:
            self._event(_delta(body, {}, finish="tool_calls" if action.calls else action.finish))
            if (body.get("stream_options") or {}).get("include_usage"):
                self._event(_envelope(body, "chat.completion.chunk") | {"choices": [], "usage": _usage(action)})
            self._chunk(b"data: [DONE]\n\n")

    def _event(self, data: Mapping[str, Any]) -> None:
        self._chunk(f"data: {json.dumps(data)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def completion(action: Action, body: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": action.text}
    if action.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in action.calls
        ]
    if action.reasoning:
        message["reasoning"] = action.reasoning
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if action.calls else action.finish}
    return _envelope(body, "chat.completion") | {"choices": [choice], "usage": _usage(action)}


def _envelope(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1700000000, "model": body.get("model", "test")}


def _delta(body: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _envelope(body, "chat.completion.chunk") | {"choices": [choice]}


def _usage(action: Action) -> dict[str, int]:
    sent, received = action.usage
    return {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}
