"""Addresses: what of them tells people apart, and which is the caller's where proxies stand between."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from lmm.errors import ConfigError

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
