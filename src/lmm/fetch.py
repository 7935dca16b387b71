"""Fetching documents from URLs safely.

A host name is resolved once, all of its addresses are checked, and the connection goes to a checked address: so it does
not matter if the name resolves to another address a moment later. Redirects are followed one by one under the same
rules. Time and size are limited, also the size after decompression. No cookies or passwords are sent, and no proxy of
the environment is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import httpcore2
import httpx2

from lmm.errors import FetchFailed
from lmm.hosts import UNFIT, is_loopback, not_public, tls_for
from lmm.terminal import clipped, megabytes

_SCHEMES = ("http", "https")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_NUMBER = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?\Z")
_LINES = re.compile(r"L(\d+)(?:C\d+)?(?:-L?(\d+)(?:C\d+)?)?")
LONGEST = 8_000


def shown(url: str) -> str:
    """Return a URL for use in messages: without user, password, query and fragment, which may contain keys.

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
    """Check that a URL may be fetched; return it without its fragment, and with its host as `same_host` writes it.

    >>> check_url(" https://example.org/a#b "), check_url("http://0177.1/")
    ('https://example.org/a', 'http://127.0.0.1/')

    Raises:
        FetchFailed: it is not a URL, has another scheme than HTTP, or contains a password.
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
    """Return an HTTP URL with its host in a canonical, unambiguous form.

    An IPv4 address may be written in parts that are octal or hexadecimal, or as one number; systems and libraries do
    not agree on the meaning of such forms.

    >>> same_host("http://0x7F.1:8080/a"), same_host("https://Example.org/"), same_host("http://[0::01]/")
    ('http://127.0.0.1:8080/a', 'https://example.org/', 'http://[::1]/')

    Raises:
        ValueError: this cannot be the name of a host, or its port is invalid.
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
            if not host or not _NAME.issuperset(host):
                raise ValueError(host)
            if _NUMBER.search(host):  # then it must be an IPv4 address, as in the URL standard
                host = str(IPv4Address(socket.inet_aton(host.removesuffix("."))))
        same = urlunsplit(parts._replace(netloc=host if port is None else f"{host}:{port}"))
        httpx2.URL(same)  # it checks names in other scripts
    except (httpx2.InvalidURL, OSError, ValueError):
        raise ValueError("this cannot be the name of a host") from None
    return same


def redirected(url: str, location: str) -> str:
    """Return the target URL of a redirect from `url`.

    >>> redirected("https://example.org/a/b", "../c?d#e")
    'https://example.org/c?d'

    Raises:
        FetchFailed: the target may not be fetched, or is not encrypted although `url` is.
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
    """A file shown by a page of GitHub: its `url` as plain text, its name, and the lines, from 1, in the fragment."""

    url: str
    name: str
    lines: tuple[int, int] | None = None


def github_file(url: str) -> GitHubFile | None:
    """Return the file that a page of GitHub shows; None if the URL is of something else.

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
            if (named := _LINES.fullmatch(parts.fragment)) is None:
                return GitHubFile(raw, name_of(raw))
            first, last = sorted((int(named[1]), int(named[2] or named[1])))
            return GitHubFile(raw, name_of(raw), (max(1, first), max(1, last)))
    return None


def name_of(url: str) -> str:
    """Return the file name in a URL, or its host if it ends in a slash.

    >>> name_of("https://example.org/a/b.html?c"), name_of("https://example.org/")
    ('b.html', 'example.org')
    """
    parts = urlsplit(url)
    return unquote(parts.path.rpartition("/")[2]) or parts.hostname or ""


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host and a port to addresses."""


@dataclass(frozen=True, slots=True)
class FetchRules:
    """Limits of fetching: `timeout` in seconds, and `limit` in bytes, also after decompression.

    Addresses that are not public are refused unless `private`. The hints `more_…` say how to raise
    each of the three limits.
    """

    timeout: float = 30.0
    limit: int = 5_000_000
    private: bool = False
    more_time: str = ""
    more_bytes: str = ""
    more_private: str = ""

    @property
    def too_large(self) -> FetchFailed:
        """The error for a document with too many bytes."""
        return FetchFailed(f"it has more than {megabytes(self.limit)}", hint=self.more_bytes)

    def check_public(self, host: str, addresses: Iterable[str]) -> None:
        """Refuse a host with addresses that are not public.

        Raises:
            FetchFailed: one is not.
        """
        for what in () if self.private else filter(None, map(not_public, addresses)):
            raise FetchFailed(f"'{host[:100]}' is not a public address, but {what}", hint=self.more_private)

    def check(self, url: str) -> None:
        """Check a URL as far as that is possible without a look-up of its host.

        Raises:
            FetchFailed: it would not be fetched.
        """
        host = urlsplit(check_url(url)).hostname or ""
        with contextlib.suppress(ValueError):  # it is a name
            self.check_public(host, ["127.0.0.1" if host == "localhost" else host])


MOST_REDIRECTS = 8
_CODINGS = ("gzip", "deflate")
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched document: `media_type` and `charset` in lower case if the server sent them, `url` after redirects."""

    data: bytes
    media_type: str
    charset: str
    url: str


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as resolved by this machine.

    Raises:
        OSError: there are none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def fetch(url: str, rules: FetchRules, *, resolve: Resolve = resolve_host) -> Fetched:
    """Fetch a document, within the rules.

    Raises:
        FetchFailed: it cannot or must not be fetched.
    """
    url = check_url(url)
    try:
        async with asyncio.timeout(rules.timeout):
            for _ in range(MOST_REDIRECTS + 1):
                tls = await asyncio.to_thread(tls_for, url)
                try:
                    async with CheckedTransport(rules, tls, resolve=resolve) as transport:
                        answer = await _one(url, rules, transport)
                except FetchFailed as error:
                    error.where = error.where or shown(url)
                    raise
                except (httpx2.HTTPError, OSError, ValueError) as error:  # its text may contain secrets of the URL
                    raise FetchFailed(_reason(error), where=shown(url)) from None
                if isinstance(answer, Fetched):
                    return answer
                url = redirected(url, answer)
    except TimeoutError as error:
        told = f"it took more than {rules.timeout:g} s"
        raise FetchFailed(told, where=shown(url), hint=rules.more_time) from error
    raise FetchFailed(f"it redirects more than {MOST_REDIRECTS} times", where=shown(url))


async def _one(url: str, rules: FetchRules, transport: CheckedTransport) -> Fetched | str:
    """Send one request; return the response, or the location of a redirect."""
    agent = f"lmmarkdown/{version('lmmarkdown')}"
    headers = {"User-Agent": agent, "Accept": _ACCEPT, "Accept-Encoding": ", ".join(_CODINGS)}
    response = await transport.handle_async_request(httpx2.Request("GET", url, headers=headers))
    sent, data = response.headers, bytearray()
    try:
        if response.status_code in _REDIRECTS and "location" in sent:
            return sent["location"]
        if response.status_code != 200:
            status = response.status_code
            raise FetchFailed(_STATUS.get(status, f"the server answered with status {status}"), status=status)
        length, coding = sent.get("content-length", ""), sent.get("content-encoding", "identity")
        if length.isdecimal() and (len(length) > 18 or int(length) > rules.limit):
            raise rules.too_large
        if coding.lower() not in (*_CODINGS, "identity"):
            raise FetchFailed(f"it is compressed with '{coding[:40]}', which was not requested")
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > rules.limit:
                raise rules.too_large
    except httpx2.DecodingError:
        raise FetchFailed("the response is damaged: it cannot be unpacked") from None
    finally:
        await response.aclose()
    media_type = sent.get("content-type", "").partition(";")[0].strip().lower()
    return Fetched(bytes(data), media_type, response.charset_encoding or "", url)


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """A transport for httpx2 that enforces the network rules: it connects to checked addresses only.

    With `loopback`, servers on this machine are allowed (the author of a prompt may name one), and they may refer to
    others on this machine, such as a login server. A server elsewhere must not lead to an address that is not public.
    No proxy of the environment is used.
    """

    def __init__(
        self,
        rules: FetchRules,
        certificates: ssl.SSLContext | None,
        *,
        loopback: bool = False,
        resolve: Resolve = resolve_host,
    ) -> None:
        super().__init__(verify=certificates or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._rules, self._loopback, self._resolve = rules, loopback, resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of its host that answers; see `httpx2.AsyncBaseTransport`."""
        url, host = request.url, request.url.raw_host.decode()
        *others, last = await self._addresses(host, url.port or (443 if url.scheme == "https" else 80))
        for address in others:
            with contextlib.suppress(httpx2.ConnectError):
                return await super().handle_async_request(_pinned(request, host, address))
        return await super().handle_async_request(_pinned(request, host, last))

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, all checked: if one is not public, the host is refused."""
        found = list[str]()
        with contextlib.suppress(OSError, UnicodeError):
            found = list(dict.fromkeys(await self._resolve(host, port)))
        if not found:
            raise FetchFailed(f"there is no host '{host[:100]}'", hint="check the URL and the network")
        if not (self._loopback and is_loopback(host)):
            self._rules.check_public(host, found)
        return found


def _pinned(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """Return a request that goes to an address, with the name of its host in its headers and in TLS."""
    streams = list[httpcore2.AsyncNetworkStream]()

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            streams.append(info["return_value"])
        elif event == "connection.start_tls.failed":  # nothing else closes a connection that is cut off there
            await streams.pop().aclose()

    extensions = {**request.extensions, "sni_hostname": host, "trace": trace}
    url = request.url.copy_with(host=address)
    return httpx2.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)


# -- errors as messages ------------------------------------------------------------------------------------

_STATUS = {
    401: "it requires a login (401)",
    403: "access is forbidden (403)",
    404: "there is no such page (404)",
    410: "this page is gone (410)",
    429: "it received too many requests (429): try again later",
}


def _reason(error: Exception) -> str:
    """Describe a network error in words, without text from the server or the URL."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "no encrypted connection could be made"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error.__cause__, httpcore2.ConnectError):
        return "nothing answers at this address"
    if isinstance(error.__cause__, httpcore2.ProtocolError):
        return "the server does not speak HTTP, or broke off"
    return "the connection broke off"
