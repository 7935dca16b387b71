"""Which addresses of the network are everybody's, and which are somebody's own: loopback, private, link-local, …

A document's URL may come from anywhere, and so may what a host name means. What answers at an address that is not
public - a router's page, a database, a cloud's metadata with keys in it - is not for a model to see.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

# IANA's registries of special-purpose addresses, 2026, multicast, and what is the old notation of another address.
# Listed here, as the standard library's answer differs between versions of Python.
_OWN = {
    "this machine": "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128",
    "a private network": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15 fc00::/7 fec0::/10",
    "a provider's own network": "100.64.0.0/10",
    "a cloud's metadata": "168.63.129.16/32",
    "the local link": "169.254.0.0/16 fe80::/10",
    "reserved for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "reserved": "192.0.0.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24 240.0.0.0/4 2001::/23 "
    "2620:4f:8000::/48 3ffe::/16 5f00::/16",
    "multicast": "224.0.0.0/4 ff00::/8",
    "an IPv4 address in another form": "2002::/16",
}
_PUBLIC_6 = ip_network("2000::/3")  # all that IANA has given out; whatever lies outside is special
# IPv4 addresses in the last 32 bits: mapped, and translated by the network (NAT64), as all are in some.
_EMBEDDING = tuple(ip_network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96"))

_Table = tuple[tuple[IPv4Network | IPv6Network, str], ...]
_TABLE: _Table = tuple((ip_network(text), what) for what, texts in _OWN.items() for text in texts.split())


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
