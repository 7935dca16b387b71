"""A web server of raw answers: each path is a function that writes to the socket, so that it can misbehave."""

from __future__ import annotations

import contextlib
import gzip
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

Send = Callable[[bytes], object]
Answer = Callable[[Send], object]


class WebServer:
    """Answers at `url` until the context ends; `requests` are what was asked, head and all.

    With a `greeting`, it says that first, as servers of other protocols do.
    """

    def __init__(
        self, answers: Mapping[str, Answer], *, greeting: bytes = b"", tls: ssl.SSLContext | None = None
    ) -> None:
        self.answers = dict(answers)
        self.requests: list[str] = []
        self.broken_off = threading.Event()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(greeting)
                if greeting:
                    return
                lines: list[str] = []
                while (line := self.rfile.readline().decode("latin-1")).strip():
                    lines.append(line)
                if not lines:
                    return
                server.requests.append("".join(lines))
                answer = server.answers.get(lines[0].split()[1].partition("?")[0], missing)
                try:
                    answer(lambda data: self.wfile.write(data))
                except OSError:
                    server.broken_off.set()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            block_on_close = False

            def get_request(self) -> tuple[socket.socket, object]:
                connection, address = super().get_request()
                return (tls.wrap_socket(connection, server_side=True) if tls else connection), address

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [request.split()[1] for request in self.requests]


def head(status: str = "200 OK", /, **headers: object) -> bytes:
    """The head of an answer; ``content_type`` is written Content-Type."""
    lines = [f"HTTP/1.1 {status}", "Connection: close"]
    lines += [f"{name.replace('_', '-').title()}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def page(body: bytes | str, content_type: str = "text/html; charset=utf-8", **headers: object) -> Answer:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body

    def answer(send: Send) -> None:
        send(head(content_type=content_type, content_length=len(data), **headers) + data)

    return answer


def redirect(location: str, status: str = "302 Found") -> Answer:
    """An answer that leads elsewhere."""
    return lambda send: send(head(status, location=location, content_length=0))


def missing(send: Send) -> None:
    """404."""
    send(head("404 Not Found", content_length=0))


def slow(send: Send) -> None:
    """A byte now and then, for ever."""
    send(head(content_type="text/plain"))
    while True:
        send(b".")
        time.sleep(0.05)


def slow_head(send: Send) -> None:
    """A head that never ends."""
    send(b"HTTP/1.1 200 OK\r\n")
    while True:
        send(b"X-A: b\r\n")
        time.sleep(0.05)


def endless(send: Send) -> None:
    """Chunks without an end."""
    send(head(content_type="text/plain", transfer_encoding="chunked"))
    while True:
        send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")


def declared(size: int) -> Answer:
    """An answer that says how much it would be, and sends a little."""

    def answer(send: Send) -> None:
        send(head(content_type="text/plain", content_length=size) + b"little")
        with contextlib.suppress(OSError):
            time.sleep(0.2)

    return answer


def bomb(send: Send) -> None:
    """200 MB in 200 kB."""
    data = gzip.compress(bytes(200_000_000), 1)
    send(head(content_type="text/plain", content_encoding="gzip", content_length=len(data)) + data)
