"""Which hosts are this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, given as a name or an address.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_loopback_url(url: str) -> bool:
    """Whether a URL leads to this machine.

    >>> is_loopback_url("http://127.0.0.1:11434/v1"), is_loopback_url("https://localhost.example.com")
    (True, False)
    """
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
