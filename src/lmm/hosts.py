"""Which hosts are this machine, which addresses of servers are taken, and the certificates they are known by."""

from __future__ import annotations

import functools
import ipaddress
import ssl
from urllib.parse import urlsplit

from lmm.errors import ConfigError

UNFIT = frozenset(map(chr, (*range(33), 127))) | {"\\"}
"""What a URL may not hold: libraries do not agree on where these end a host."""


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


def check_server(url: str, name: str, where: str = "") -> None:
    """Refuse the address of a server that two libraries may read in two ways, or that holds a password: it would stand
    in messages and logs. `name` is what is set to it.

    >>> check_server("http://me:pw@example.org/v1", "base_url")
    Traceback (most recent call last):
    lmm.errors.ConfigError: base_url contains a user or a password (put keys into environment variables: api_key_env)

    Raises:
        ConfigError: it is such an address.
    """
    try:
        has_user = "@" in urlsplit(url).netloc
    except ValueError:
        raise ConfigError(f"{name} is not a URL", where=where, hint="write https://HOST/PATH") from None
    if has_user:
        hint = "put keys into environment variables: api_key_env"
        raise ConfigError(f"{name} contains a user or a password", where=where, hint=hint)
    if not UNFIT.isdisjoint(url):
        what = f"{name} contains a backslash, a blank or a control character"
        raise ConfigError(what, where=where, hint="write https://HOST/PATH")


@functools.cache
def certificates() -> ssl.SSLContext:
    """The machine's certificates, read once: that takes 0.2 s."""
    import httpx2

    return httpx2.create_ssl_context()


def tls_for(url: str) -> ssl.SSLContext:
    """What a server's certificate is verified with; without https there is nothing to verify."""
    return certificates() if url.lower().startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
