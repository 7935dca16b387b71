"""Where servers of ours listen, and who can reach them there."""

from __future__ import annotations

import ipaddress
import socket

from lmm.errors import LmmError

_WAITING = 2048  # connections that wait to be accepted: a class that opens the page at once


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, given as a name or an address.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


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
