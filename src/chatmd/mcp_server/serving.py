"""Serve a library: over standard input and output, or over HTTP, until the client or the user ends it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from chatmd.mcp_server.library import Library
from chatmd.mcp_server.protocol import Publisher, logger
from lmm.errors import LmmError
from lmm.listening import patient_protocol

if TYPE_CHECKING:
    import socket

_LOOK = 1.0  # seconds between two looks at the folder of prompts
_LOOK_AT_COURSE = 3.0  # and at the store, which takes longer
_PATIENCE = 5  # seconds for calls on their way when the server is stopped
_LONGEST_REQUEST = 1024 * 1024  # bytes
_MOST_SESSIONS = 200  # of clients of the older protocol


async def serve_stdio(library: Library) -> None:
    """Serve the one client at standard input and output until it closes its end."""
    from mcp.server.stdio import stdio_server

    publisher = Publisher(library)
    server = publisher.server()
    async with (
        _watching(library, publisher),
        _lines_of_stdin() as lines,
        stdio_server(stdin=lines) as (reading, writing),
    ):
        await server.run(reading, writing, server.create_initialization_options())


async def serve_http(library: Library, listener: socket.socket, *, public: bool = False, token: str = "") -> None:
    """Serve all who connect to `listener`, under ``/mcp``; with `token`, those who have it."""
    import uvicorn
    from sse_starlette.sse import AppStatus

    publisher = Publisher(library)
    app = http_app(publisher, public=public, token=token)
    config = uvicorn.Config(
        app, http=patient_protocol(), log_level="warning", access_log=False, timeout_graceful_shutdown=_PATIENCE
    )
    server = uvicorn.Server(config)
    async with _watching(library, publisher):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        finally:  # also if this is cancelled: calls on their way may come to an end
            publisher.close()
            server.should_exit = AppStatus.should_exit = True  # the latter ends streams of the older protocol
            await serving
            AppStatus.should_exit = False


def http_app(publisher: Publisher, *, public: bool = False, token: str = "") -> ASGIApp:
    """The ASGI application. Unless `public`, requests must name this machine as their host and their origin; a page of
    another site that is open in somebody's browser has no business here in either case."""
    security = None if not public else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = publisher.server().streamable_http_app(
        transport_security=security, max_request_body_size=_LONGEST_REQUEST, max_sessions=_MOST_SESSIONS
    )
    app = SameSite(app) if public else app
    return Gate(app, token) if token else app


class SameSite:
    """Turns away what comes from a page of another site."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else None
        origin = headers.get("origin", "") if headers is not None else ""
        if headers is not None and origin and origin.partition("://")[2] != headers.get("host"):
            await PlainTextResponse("Invalid Origin header", 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)


class Gate:
    """Lets in who sends the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, self._expected):
                wants = {"WWW-Authenticate": "Bearer"}
                await PlainTextResponse("a token is needed", 401, headers=wants)(scope, receive, send)
                return
        await self.app(scope, receive, send)


# -- changes ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _watching(library: Library, publisher: Publisher) -> AsyncGenerator[None]:
    """Look for changes meanwhile, and tell clients of them."""
    library.refresh()
    tasks = [asyncio.create_task(_every(_LOOK, lambda: _look(library, publisher)))]
    if library.course is not None:
        seen = await asyncio.to_thread(library.course.stamp)
        tasks.append(asyncio.create_task(_look_at_course(library, publisher, seen)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def _look(library: Library, publisher: Publisher) -> None:
    if await asyncio.to_thread(library.refresh):
        await publisher.tell_of_prompts()


async def _look_at_course(library: Library, publisher: Publisher, seen: str) -> None:
    course = library.course
    assert course is not None

    async def look() -> None:
        nonlocal seen
        now = await asyncio.to_thread(course.stamp)
        if now != seen:
            seen = now
            await publisher.tell_of_documents()

    await _every(_LOOK_AT_COURSE, look)


async def _every(seconds: float, look: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await look()
        except (LmmError, OSError) as error:  # the next look may succeed
            logger.warning("cannot look for changes: %s", error)


# -- standard input --------------------------------------------------------------------------------


@asynccontextmanager
async def _lines_of_stdin() -> AsyncGenerator[Any]:
    """The lines of standard input, read in a thread that nobody has to wait for: so Ctrl-C works at once.

    What is started meanwhile finds the null device there instead, and cannot take the client's messages.
    """
    mine = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield _Lines(mine)
    finally:
        os.dup2(mine, 0)


class _Lines:
    """An async iterator over the lines of a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        threading.Thread(target=self._read, args=(descriptor,), name="mcp-stdin", daemon=True).start()

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        line = await self._queue.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with os.fdopen(descriptor, encoding="utf-8", errors="replace", closefd=False) as stream:
                for line in stream:
                    self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
