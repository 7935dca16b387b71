"""Sockets on which our servers listen, and limits for requests that never complete."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, Self

from lmm.errors import LmmError

logger = logging.getLogger("lmm.serve")
_WAITING = 2048  # connections that wait to be accepted: a class that opens the page at once
_OWN_FILES = 64  # open files of the server itself: its store, databases, idle connections to models
_ENOUGH_FILES = 65536


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free port.

    Raises:
        LmmError: the port is in use, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]  # which repeats the address
        raise LmmError(f"cannot listen on {host}:{port}: {reason}", hint="choose another port") from None


def url_of(listener: socket.socket, path: str = "/") -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


# -- requests that never complete -----------------------------------------------------------------

PATIENCE = 20.0
"""Seconds within which a request must arrive, head and body."""
MOST_WAITING = 400
"""Limit of connections with incomplete requests; beyond it, the oldest are closed. Browsers send theirs at once."""
_LARGEST_HEAD = 64 * 1024
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits: connections at once, those of them with incomplete requests, and those accepted at once."""

    open: int
    waiting: int
    accepted: int

    @classmethod
    def of(cls, files: int) -> Self:
        """Return the limits of a process that may open `files`: each answer needs a connection to the model, too.

        >>> ConnectionLimits.of(128), ConnectionLimits.of(65536)
        (ConnectionLimits(open=32, waiting=16, accepted=16), ConnectionLimits(open=32736, waiting=400, accepted=2048))
        """
        most = max(4, (files - _OWN_FILES) // 2)
        return cls(most, min(MOST_WAITING, most // 2), min(_WAITING, most // 2))


def allowed_files() -> int:
    """Raise the limit of open files as far as allowed, up to `_ENOUGH_FILES`, and return it."""
    try:
        import resource
    except ImportError:
        return _ENOUGH_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _ENOUGH_FILES if soft == resource.RLIM_INFINITY else soft
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def bounded(patience: float = PATIENCE) -> dict[str, Any]:
    """Return options of uvicorn that limit connections to the available files, and close those whose request does not
    arrive within `patience` seconds."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    limits = ConnectionLimits.of(allowed_files())
    protocol = type("PatientProtocol", (Patient, AutoHTTPProtocol), {"waiting": SlowConnections(patience, limits)})
    return {"http": protocol, "backlog": limits.accepted}


_warned = -60.0


def _too_many(message: str, *values: object) -> None:
    """Log a warning, unless one was logged within the last minute."""
    global _warned
    if time.monotonic() >= _warned + 60:
        _warned = time.monotonic()
        logger.warning(message, *values)


def handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle errors of an event loop: when no connection can be accepted, log a rare warning instead of tracebacks."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        _too_many("%s, so that connections have to wait (see ulimit -n)", error.strerror)
    else:
        loop.default_exception_handler(context)


class SlowConnections:
    """The connections of a server whose requests are incomplete, the oldest first."""

    def __init__(self, patience: float, limits: ConnectionLimits) -> None:
        self._patience, self.limits = patience, limits
        self._timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def begin(self, transport: asyncio.Transport) -> None:
        """Start the timer for a request, unless it runs already: a slow request does not get more time."""
        if transport in self._timers:
            return
        self._timers[transport] = asyncio.get_running_loop().call_later(self._patience, self._give_up, transport)
        if len(self._timers) > self.limits.waiting:
            self._give_up(next(iter(self._timers)))

    def end(self, transport: asyncio.Transport) -> None:
        """Stop the timer: the request is complete, or the connection closed."""
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self, transport: asyncio.Transport) -> None:
        self.end(transport)
        transport.abort()


class Patient(asyncio.Protocol):
    """A mixin for uvicorn's HTTP protocols that enforces the limits. Their `cycle` is the current request."""

    waiting: SlowConnections
    connections: Sized
    transport: asyncio.Transport
    cycle: Any
    _head = 0  # bytes of an incomplete head

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for a request on a new connection; refuse the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.waiting.limits.open:
            _too_many("more than %d connections at once (see ulimit -n)", self.waiting.limits.open)
            self.transport.write(_FULL)
            self.transport.close()
            return
        self.waiting.begin(self.transport)

    def data_received(self, data: bytes) -> None:
        """Receive data: a part of a request, or several requests."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._head += len(data)
            self.waiting.begin(self.transport)
            if self._head > _LARGEST_HEAD:
                self.transport.abort()
            return
        self._head = 0
        if self.cycle.more_body:
            self.waiting.begin(self.transport)
        else:
            self.waiting.end(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for a request."""
        self.waiting.end(self.transport)
        super().connection_lost(exc)
