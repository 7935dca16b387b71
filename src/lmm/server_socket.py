"""Sockets on which our servers listen, and limits for requests that do not come to an end."""

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
_OWN_FILES = 64  # of a server: its store, databases, connections to models at rest
_ENOUGH_FILES = 65536


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes one that is free.

    Raises:
        LmmError: somebody else has the port, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]  # which repeats the address
        raise LmmError(f"cannot listen on {host}:{port}: {reason}", hint="choose another port") from None


def url_of(listener: socket.socket, path: str = "/") -> str:
    """The URL under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


# -- requests that do not come to an end ----------------------------------------------------------

PATIENCE = 20.0
"""Seconds for a request to arrive, head and body."""
MOST_WAITING = 400
"""Connections whose requests are on their way; of more, the oldest are ended. Those of people arrive at once."""
_LARGEST_HEAD = 64 * 1024
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Connections at once; those of them whose requests are on their way; and those that are accepted in one go."""

    open: int
    waiting: int
    accepted: int

    @classmethod
    def of(cls, files: int) -> Self:
        """Those of a process that may open so many files: an answer needs a connection to the model, too.

        >>> ConnectionLimits.of(128), ConnectionLimits.of(65536)
        (ConnectionLimits(open=32, waiting=16, accepted=16), ConnectionLimits(open=32736, waiting=400, accepted=2048))
        """
        most = max(4, (files - _OWN_FILES) // 2)
        return cls(most, min(MOST_WAITING, most // 2), min(_WAITING, most // 2))


def allowed_files() -> int:
    """How many files this process may open: as many as it may be allowed."""
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
    """How uvicorn is run: with no more connections than there can be files for, and none that is open for longer than
    `patience` without its request."""
    limits = ConnectionLimits.of(allowed_files())
    return {"http": patient_protocol(patience, limits), "backlog": limits.accepted}


class RareWarning:
    """A warning that is logged once a minute at most."""

    def __init__(self) -> None:
        self._logged = -60.0

    def __call__(self, message: str, *values: object) -> None:
        """Log it, unless that was just done."""
        if time.monotonic() >= self._logged + 60:
            self._logged = time.monotonic()
            logger.warning(message, *values)


_too_many = RareWarning()


def handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what went wrong in a loop: that no connection can be accepted is no traceback for each attempt."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        _too_many("%s, so that connections have to wait (see ulimit -n)", error.strerror)
    else:
        loop.default_exception_handler(context)


class SlowConnections:
    """The connections of a server whose requests are not there yet, the oldest first."""

    def __init__(self, patience: float, limits: ConnectionLimits) -> None:
        self._patience, self.limits = patience, limits
        self._timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def begin(self, transport: asyncio.Transport) -> None:
        """Wait for a request, unless we do already: not longer for one that comes in drops."""
        if transport in self._timers:
            return
        self._timers[transport] = asyncio.get_running_loop().call_later(self._patience, self._give_up, transport)
        if len(self._timers) > self.limits.waiting:
            self._give_up(next(iter(self._timers)))

    def end(self, transport: asyncio.Transport) -> None:
        """The request is there, or nobody any more."""
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self, transport: asyncio.Transport) -> None:
        self.end(transport)
        transport.abort()


class Patient(asyncio.Protocol):
    """What uvicorn's protocols for HTTP lack; to be put before one of them. `cycle` is theirs: the request at hand."""

    waiting: SlowConnections
    connections: Sized
    transport: asyncio.Transport
    cycle: Any
    _head = 0  # bytes of a head that is not there yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection, on which a request has to come; refused, where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.waiting.limits.open:
            _too_many("more than %d connections at once (see ulimit -n)", self.waiting.limits.open)
            self.transport.write(_FULL)
            self.transport.close()
            return
        self.waiting.begin(self.transport)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or several."""
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
        """The end of it."""
        self.waiting.end(self.transport)
        super().connection_lost(exc)


def patient_protocol(patience: float, limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol with which uvicorn serves one server: its own, and no patience with half a request."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    return type("PatientProtocol", (Patient, AutoHTTPProtocol), {"waiting": SlowConnections(patience, limits)})
