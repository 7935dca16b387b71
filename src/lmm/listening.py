"""Where servers of ours listen."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from lmm.errors import LmmError

_WAITING = 2048  # connections that wait to be accepted: a class that opens the page at once


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes one that is free.

    Raises:
        LmmError: somebody else has the port, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        raise LmmError(f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another port") from None


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


class SlowConnections:
    """The connections of a server whose requests are not there yet, the oldest first."""

    def __init__(self, patience: float, most: int) -> None:
        self._patience, self._most = patience, most
        self._timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def begin(self, transport: asyncio.Transport) -> None:
        """Wait for a request, unless we do already: not longer for one that comes in drops."""
        if transport in self._timers:
            return
        self._timers[transport] = asyncio.get_running_loop().call_later(self._patience, self._give_up, transport)
        if len(self._timers) > self._most:
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
    transport: asyncio.Transport
    cycle: Any
    _head = 0  # bytes of a head that is not there yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection, on which a request has to come."""
        super().connection_made(transport)
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


def patient_protocol(patience: float = PATIENCE, most: int = MOST_WAITING) -> type[asyncio.Protocol]:
    """The protocol with which uvicorn serves one server: its own, and no patience with half a request."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    return type("PatientProtocol", (Patient, AutoHTTPProtocol), {"waiting": SlowConnections(patience, most)})
