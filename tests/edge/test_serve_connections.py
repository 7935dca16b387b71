"""Who sends half a request does not hold the course up: his connection ends, others are answered meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from edge.serving import serving
from edge.support import copy_course, wait_until
from fakes.openai_server import Action, ScriptedServer

PATIENCE = 3.0
HALVES = (
    b"",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
)


@pytest.fixture
def address(folder: Path, server: ScriptedServer, ingested: Path) -> Iterator[str]:
    """The course, served with little patience."""
    copy_course(ingested, folder)
    with serving(folder / "config.toml", patience=PATIENCE) as running:
        yield running


@contextmanager
def connections(address: str, number: int) -> Iterator[list[socket.socket]]:
    """Connections to it, a third of each half."""
    place = urlsplit(address)
    with ExitStack() as closing:
        opened = []
        for i in range(number):
            opened.append(closing.enter_context(socket.create_connection((place.hostname, place.port), 20)))
            opened[-1].sendall(HALVES[i % len(HALVES)])
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has ended a connection."""
    connection.settimeout(0.05)
    try:
        return not connection.recv(65536) or is_closed(connection)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def search(address: str) -> int:
    """The status of a search on a connection of its own."""
    body = json.dumps({"query": "Why is a leaf green?"})
    with contextlib.closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)) as connection:
        connection.request("POST", "/search", body, {"Content-Type": "application/json"})
        return connection.getresponse().status


def is_answered(address: str) -> bool:
    """Whether a search is; a connection that comes with hundreds of others may be ended with them."""
    with contextlib.suppress(ConnectionError):
        return search(address) == 200
    return False


def test_half_sent_requests_end(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """1,500 of them stayed open for as long as their sender liked."""
    assert search(address) == 200  # the models are there
    with caplog.at_level(logging.WARNING), connections(address, 1500) as halves:
        for _ in range(3):
            assert search(address) == 200
        assert all(map(is_closed, halves[:900]))  # more wait than may
        wait_until(lambda: all(map(is_closed, halves[900:])))
        assert search(address) == 200
    assert not caplog.records


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="has no ulimit")
def test_more_connections_than_files(folder: Path, server: ScriptedServer, ingested: Path) -> None:
    """Others are answered meanwhile; it wrote 24 MB of tracebacks, one for each that it could not accept."""
    copy_course(ingested, folder)
    command = f"ulimit -n 128; exec {shlex.quote(sys.executable)} -m lmm serve --port 0"
    process = subprocess.Popen(["bash", "-c", command], stderr=subprocess.PIPE)
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline().decode())
    assert found
    with ExitStack() as closing:
        for _ in range(300):
            silent = closing.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex(("127.0.0.1", urlsplit(found[0]).port))
        wait_until(lambda: is_answered(found[0]))
        assert all(is_answered(found[0]) for _ in range(3))
    with ExitStack() as closing:
        for _ in range(60):  # whole requests, on connections that stay
            whole = closing.enter_context(socket.create_connection(("127.0.0.1", urlsplit(found[0]).port or 0), 20))
            whole.sendall(b"GET /static/page.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_until(lambda: is_answered(found[0]))
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert told.decode().count("\n") <= 2, told
    assert b"more than 32 connections at once" in told


def test_drops_are_no_request(address: str) -> None:
    """The time is for the whole, not since the last byte; and a head has an end."""
    begun = time.monotonic()
    with connections(address, 2) as (_, slow):
        while not is_closed(slow):
            slow.sendall(b"x")
            time.sleep(0.2)
        assert time.monotonic() - begun > PATIENCE
    with connections(address, 2) as (_, large), contextlib.suppress(ConnectionError):
        for _ in range(100):
            large.sendall(b"x" * 4096)
            time.sleep(0.01)
        pytest.fail("a head without end was read")


def test_answers_take_their_time(address: str, server: ScriptedServer) -> None:
    """A request that is there is not hurried, nor is the next one on its connection."""
    server.answer = lambda request: Action("Slowly.", delay=PATIENCE + 1)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    asked = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
    for _ in range(2):
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["choices"][0]["message"]["content"].startswith("Slowly.")
    connection.close()
