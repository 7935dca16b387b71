"""Which addresses of the network are everybody's, and which are somebody's own: loopback, private, link-local, …

A document's URL may come from anywhere, and so may what a host name means. What answers at an address that is not
public - a router's page, a database, a cloud's metadata with keys in it - is not for a model to see.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

# IANA's registries of special-purpose addresses, 2026, multicast, and what is the old notation of another address.
# Listed here, as the standard library's answer differs between versions of Python.
_OWN_4 = {
    "0.0.0.0/8": "this machine",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's own network",
    "127.0.0.0/8": "this machine",
    "168.63.129.16/32": "a cloud's metadata",
    "169.254.0.0/16": "the local link",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "reserved for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "a private network",
    "198.51.100.0/24": "reserved for documentation",
    "203.0.113.0/24": "reserved for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_PUBLIC_6 = ip_network("2000::/3")  # all that IANA has given out; whatever lies outside is special
_OWN_6 = {
    "2001::/23": "reserved",
    "2001:db8::/32": "reserved for documentation",
    "2002::/16": "an IPv4 address in another form",
    "2620:4f:8000::/48": "reserved",
    "3ffe::/16": "reserved",
    "3fff::/20": "reserved for documentation",
    "5f00::/16": "reserved",
}
# Outside of 2000::/3, what these are is told by name; the rest is just reserved.
_NAMED_6 = {
    "::/128": "this machine",
    "::1/128": "this machine",
    "fc00::/7": "a private network",
    "fe80::/10": "the local link",
    "fec0::/10": "a private network",
    "ff00::/8": "multicast",
}
# IPv4 addresses in the last 32 bits: mapped, and translated by the network (NAT64), as all are in some.
_EMBEDDING = tuple(ip_network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96"))

_Table = tuple[tuple[IPv4Network | IPv6Network, str], ...]
_TABLE: _Table = tuple((ip_network(text), what) for text, what in (_OWN_4 | _OWN_6 | _NAMED_6).items())


def not_public(address: str) -> str:
    """What an address is, if it is not public; the empty string if it is.

    >>> not_public("169.254.169.254"), not_public("::ffff:10.0.0.1"), not_public("1.1.1.1")
    ('the local link', 'a private network', '')

    Raises:
        ValueError: this is no address.
    """
    return _what(ip_address(address.partition("%")[0]))


def _what(address: Address) -> str:
    named = next((what for network, what in _TABLE if address in network), "")
    if named or isinstance(address, IPv4Address):
        return named
    if any(address in network for network in _EMBEDDING):
        return _what(IPv4Address(int(address) & 0xFFFF_FFFF))
    return "" if address in _PUBLIC_6 else "reserved"
