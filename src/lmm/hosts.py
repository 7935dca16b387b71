"""Hosts and addresses: which are local, which are public, which server URLs are accepted; TLS certificates."""

from __future__ import annotations

import functools
import ssl
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from lmm.errors import ConfigError

UNFIT = frozenset(map(chr, (*range(33), 127))) | {"\\"}
"""What a URL may not contain: libraries do not agree on whether these characters end a host."""
Address = IPv4Address | IPv6Address

# IANA's registries of special-purpose addresses, 2026, multicast, and IPv4 addresses in another notation.
# They are listed here because the standard library's answer differs between versions of Python.
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
_PUBLIC_6 = ip_network("2000::/3")  # all that IANA has allocated; everything outside is special
# IPv4 addresses in the last 32 bits: mapped, or translated by the network (NAT64), as all are in some networks.
_EMBEDDING = tuple(ip_network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96"))
_TABLE: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(text), what) for what, texts in _OWN.items() for text in texts.split()
)


def is_loopback(host: str) -> bool:
    """Return whether a host, given as a name or an address, is reachable from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_loopback_url(url: str) -> bool:
    """Return whether a URL leads to this machine.

    >>> is_loopback_url("http://127.0.0.1:11434/v1"), is_loopback_url("https://localhost.example.com")
    (True, False)
    """
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def check_server(url: str, name: str, where: str = "") -> None:
    """Check the URL of a server: by HTTP, not ambiguous between libraries, and without a password, which would appear
    in messages and logs. `name` is the setting that contains it.

    >>> check_server("http://me:pw@example.org/v1", "base_url")
    Traceback (most recent call last):
    lmm.errors.ConfigError: base_url contains a user or a password (put keys into environment variables: api_key_env)

    Raises:
        ConfigError: the URL is not acceptable.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError(f"{name} is not a URL", where=where, hint="write https://HOST/PATH") from None
    if "@" in parts.netloc:
        hint = "put keys into environment variables: api_key_env"
        raise ConfigError(f"{name} contains a user or a password", where=where, hint=hint)
    if not UNFIT.isdisjoint(url):
        what = f"{name} contains a backslash, a blank or a control character"
        raise ConfigError(what, where=where, hint="write https://HOST/PATH")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        what = f"{name} must begin with http:// or https:// and a host, not {url!r}"
        raise ConfigError(what, where=where, hint="write https://HOST/PATH")


@functools.cache
def certificates() -> ssl.SSLContext:
    """Return the machine's certificates, read only once: that takes 0.2 s."""
    import httpx2

    return httpx2.create_ssl_context()


def tls_for(url: str) -> ssl.SSLContext:
    """Return the context for verifying a server's certificate; without https there is nothing to verify."""
    return certificates() if url.lower().startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


# -- addresses that are not public: loopback, private, link-local, … -------------------------------
# A document's URL may come from anywhere, and so may the address of a host name. Content at addresses that are not
# public - a router's page, a database, a cloud's metadata with keys in it - must not be sent to a model.


def not_public(address: str) -> str:
    """Return the kind of an address that is not public; the empty string for public addresses.

    >>> not_public("169.254.169.254"), not_public("::ffff:10.0.0.1"), not_public("1.1.1.1")
    ('the local link', 'a private network', '')

    Raises:
        ValueError: this is not an address.
    """
    return _what(ip_address(address.partition("%")[0]))


def _what(address: Address) -> str:
    named = next((what for network, what in _TABLE if address in network), "")
    if named or isinstance(address, IPv4Address):
        return named
    if any(address in network for network in _EMBEDDING):
        return _what(IPv4Address(int(address) & 0xFFFF_FFFF))
    return "" if address in _PUBLIC_6 else "reserved"
