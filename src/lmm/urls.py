"""Addresses of documents: which are taken, how they are shown, and where GitHub keeps the file behind a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import httpx2

from lmm.errors import FetchFailed
from lmm.hosts import UNFIT
from lmm.terminal import clipped

_SCHEMES = ("http", "https")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_HEXADECIMAL = frozenset("0123456789abcdef")
_LINES = re.compile(r"L(\d+)(?:C\d+)?(?:-L?(\d+)(?:C\d+)?)?")
LONGEST = 8_000


def shown(url: str) -> str:
    """A URL as messages may tell it: without user, password, query and fragment, in which keys may be.

    >>> shown("https://ann:pw@example.org:8080/a?token=1#x"), shown("//[")
    ('https://example.org:8080/a?…', 'the URL')
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = "?…" if parts.query else ""
        text = f"{parts.scheme}://{host}{parts.path}{query}" if host else f"{parts.scheme}:…"
    except ValueError:
        return "the URL"
    return clipped(text, 200)


def check_url(url: str) -> str:
    """A URL that may be fetched, without its fragment, and with its host as `same_host` writes it.

    >>> check_url(" https://example.org/a#b "), check_url("http://0177.1/")
    ('https://example.org/a', 'http://127.0.0.1/')

    Raises:
        FetchFailed: it is none, of another scheme than HTTP, or holds a password.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise FetchFailed("this is not a URL", where=shown(url), hint="write https://HOST/PATH") from error
    if parts.scheme.lower() not in _SCHEMES:
        raise FetchFailed("only http:// and https:// are fetched", where=shown(url))
    if "@" in parts.netloc:
        raise FetchFailed("a URL with a user or a password in it is not fetched", where=shown(url))
    if not parts.hostname or not UNFIT.isdisjoint(url) or len(url) > LONGEST:
        hint = "write blanks as %20, and other special characters likewise"
        raise FetchFailed("this is not a URL", where=shown(url), hint=hint)
    try:
        return same_host(urlunsplit(parts._replace(fragment="")))
    except ValueError as error:
        raise FetchFailed(f"this is not a URL: {error}", where=shown(url), hint="write https://HOST/PATH") from error


def same_host(url: str) -> str:
    """A URL of HTTP whose host is written in the one way that everybody reads alike.

    An IPv4 address may be written in parts that are octal or hexadecimal, or as one number: what that means, systems
    and libraries do not agree on.

    >>> same_host("http://0x7F.1:8080/a"), same_host("https://Example.org/"), same_host("http://[0::01]/")
    ('http://127.0.0.1:8080/a', 'https://example.org/', 'http://[::1]/')

    Raises:
        ValueError: this cannot be the name of a host, or its port is none.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").lower(), parts.port
    if port == 0:
        raise ValueError("there is no port 0")
    try:
        if "[" in parts.netloc:
            address = IPv6Address(host)
            if address.scope_id is not None:
                raise ValueError("the name of a network interface is specific to this machine")
            host = f"[{address}]"
        elif host.isascii():
            host = _named(host)
        same = urlunsplit(parts._replace(netloc=host if port is None else f"{host}:{port}"))
        httpx2.URL(same)  # which knows how names in other scripts are written
    except (httpx2.InvalidURL, ValueError):
        raise ValueError("this cannot be the name of a host") from None
    return same


def _named(host: str) -> str:
    """A host in ASCII; one whose last part is a number is an IPv4 address, or nothing (as in the URL standard)."""
    if not host or not _NAME.issuperset(host):
        raise ValueError(host)
    parts = host.removesuffix(".").split(".")
    if not parts[-1].isdecimal() and not (parts[-1].startswith("0x") and _HEXADECIMAL.issuperset(parts[-1][2:])):
        return host
    *first, last = map(_number, parts)
    if len(parts) > 4 or any(number > 255 for number in first) or last >= 256 ** (5 - len(parts)):
        raise ValueError(host)
    return str(IPv4Address(last + sum(number << (24 - 8 * place) for place, number in enumerate(first))))


def _number(digits: str) -> int:
    if digits.startswith("0x"):
        return int(digits[2:] or "0", 16)
    return int(digits, 8 if digits.startswith("0") else 10)


def redirected(url: str, location: str) -> str:
    """Where a redirect from `url` leads.

    >>> redirected("https://example.org/a/b", "../c?d#e")
    'https://example.org/c?d'

    Raises:
        FetchFailed: it leads to what may not be fetched, or from an encrypted to an open connection.
    """
    try:
        target = check_url(urljoin(url, location.strip()))
    except ValueError as error:
        raise FetchFailed("it redirects to something that is not a URL", where=shown(url)) from error
    except FetchFailed as error:
        raise FetchFailed(f"it redirects to {error.where}: {error.message}", where=shown(url)) from error
    if url.lower().startswith("https:") and target.lower().startswith("http:"):
        hint = "write http:// yourself if encryption is not needed"
        raise FetchFailed(f"it redirects to {shown(target)}, which is not encrypted", where=shown(url), hint=hint)
    return target


@dataclass(frozen=True, slots=True)
class GitHubFile:
    """A file that a page of GitHub shows: its `url` as plain text, its name, and the lines, from 1, that are meant."""

    url: str
    name: str
    lines: tuple[int, int] | None = None


def github_file(url: str) -> GitHubFile | None:
    """The file behind a page of GitHub; None if the URL is of something else.

    >>> file = github_file("https://github.com/o/r/blob/main/docs/a%20b.md#L10-L20")
    >>> file.url, file.name, file.lines
    ('https://raw.githubusercontent.com/o/r/main/docs/a%20b.md', 'a b.md', (10, 20))
    >>> github_file("https://github.com/o/r/issues/1")
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    if parts.scheme.lower() not in _SCHEMES or parts.netloc.lower() not in ("github.com", "www.github.com"):
        return None
    match parts.path.split("/", 5):
        case ["", owner, project, "blob" | "raw", version, file] if owner and project and version and file:
            raw = f"https://raw.githubusercontent.com/{owner}/{project}/{version}/{file}"
            return GitHubFile(raw, name_of(raw), _lines(parts.fragment))
    return None


def _lines(fragment: str) -> tuple[int, int] | None:
    match = _LINES.fullmatch(fragment)
    if match is None:
        return None
    first, last = sorted((int(match[1]), int(match[2] or match[1])))
    return max(1, first), max(1, last)


def name_of(url: str) -> str:
    """The name of the file that a URL ends in; its host's, if it ends in a slash.

    >>> name_of("https://example.org/a/b.html?c"), name_of("https://example.org/")
    ('b.html', 'example.org')
    """
    parts = urlsplit(url)
    return unquote(parts.path.rpartition("/")[2]) or parts.hostname or ""
