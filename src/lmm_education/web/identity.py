"""Who is asking: an opaque name for everybody in ``request.state.student``, before anything else is done.

The name is a keyed hash: of the login's name, of a key's name, of a random number that the browser keeps in a signed
cookie, or where there is none of these, of the address. A log with it tells nobody's name or address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import Scope

from lmm.errors import ConfigError
from lmm_education.web.accounts import ApiKey, Session, Signer
from lmm_education.web.http import is_encrypted

# -- addresses ---------------------------------------------------------------------------------------


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_HOUSEHOLD = 64  # bits of an IPv6 address that are one household's


def networks(names: Sequence[str], *, where: str = "config.toml") -> tuple[Network, ...]:
    """Addresses and networks.

    Raises:
        ConfigError: a name is neither.

    >>> networks(["127.0.0.1", "10.0.0.0/8"])
    (IPv4Network('127.0.0.1/32'), IPv4Network('10.0.0.0/8'))
    """
    try:
        return tuple(ipaddress.ip_network(name) for name in names)
    except ValueError as error:
        hint = "such as 127.0.0.1 or 10.0.0.0/8"
        raise ConfigError(f"'trusted_proxy' in [serve]: {error}", where=where, hint=hint) from None


def is_in(address: str, trusted: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks.

    >>> is_in("10.1.2.3", networks(["10.0.0.0/8"])), is_in("::ffff:10.1.2.3", networks(["10.0.0.0/8"])), is_in("x", ())
    (True, True, False)
    """
    known = _parsed(address)
    return known is not None and any(known in network for network in trusted)


def caller_address(peer: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """Who a request comes from: the peer, or if that is a trusted proxy, the last in ``X-Forwarded-For`` that is none.

    >>> proxies = networks(["127.0.0.1"])
    >>> caller_address("127.0.0.1", "198.51.100.1, 192.0.2.7", proxies), caller_address("192.0.2.9", "1.1.1.1", proxies)
    ('192.0.2.7', '192.0.2.9')
    """
    if not is_in(peer, trusted):
        return peer
    for named in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
        if not is_in(named, trusted):
            return named
    return peer


def household(address: str) -> str:
    """What of an address tells people apart.

    >>> household("192.0.2.7"), household("2001:db8:1:2:3:4:5:6"), household("nonsense")
    ('192.0.2.7', '2001:db8:1:2::/64', '')
    """
    known = _parsed(address)
    if known is None:
        return ""
    if known.version == 4:
        return str(known)
    return str(ipaddress.ip_network((known, _HOUSEHOLD), strict=False))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return mapped or known


# -- callers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `student` is the opaque name, `admitted` whether the login lets him in, `address` the household's.

    `session` and `key` are there if that is how he was known; `browser` is the number in his browser's cookie.
    """

    student: str
    admitted: bool
    address: str = ""
    browser: str = ""
    session: Session | None = None
    key: ApiKey | None = None


def caller_of(connection: HTTPConnection) -> Caller:
    """Who sent a request, as the middleware found."""
    caller = connection.state.caller
    assert isinstance(caller, Caller)
    return caller


def cookie_name(what: str, signer: Signer) -> str:
    """A name of the course's own: browsers send cookies to all ports and paths of a host."""
    return f"lmm_{what}_{signer.pseudonym('cookie', what)[:8]}"


def set_cookie(headers: MutableHeaders, connection: HTTPConnection, name: str, value: str, age: int) -> None:
    """Let the browser keep a cookie for `age` seconds, out of reach of scripts and of other sites' requests; where it
    came by TLS, as far as is told, out of reach of plain connections: who lies here keeps a cookie from himself.

    Where other sites may frame the page, the browser keeps one for each of them, and wants TLS for that.
    """
    secure = "; Secure" if (encrypted := is_encrypted(connection)) else ""
    site = "None; Partitioned" if encrypted and connection.state.framed else "Lax"
    headers.append("Set-Cookie", f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite={site}{secure}")


def route_of(scope: Scope) -> str:
    """The path of a request within the course, without what the course is mounted under."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"
