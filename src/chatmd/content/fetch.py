"""Documents at a URL, fetched without being led astray.

A host name is looked up once, every address that it means is checked, and the connection goes to one that was: so
a name that means another address a moment later changes nothing. Redirects are followed one by one under the same
rules. Time and size are limited, the size also of what is unpacked. Nothing of ours goes along: no cookies, no
passwords, no proxy of the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpcore2
import httpx2

from chatmd.content.addresses import not_public
from chatmd.content.compressed import ACCEPTED, Unpacker, too_large
from chatmd.content.urls import check_url, redirected, shown
from chatmd.errors import FetchFailed
from chatmd.workplace import Rules

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port."""

MOST_REDIRECTS = 8
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came: `media_type` and `charset` in lower case, as the server says, else empty; `url` after redirects."""

    data: bytes
    media_type: str
    charset: str
    url: str


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as this machine knows them.

    Raises:
        OSError: there are none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def fetch(url: str, rules: Rules, *, resolve: Resolve = resolve_host) -> Fetched:
    """Get a document, within the rules for the network, `rules.fetch_timeout` seconds and `rules.fetch_limit` bytes.

    Raises:
        FetchFailed: it cannot be had, or must not.
    """
    address = check_url(url)
    try:
        async with asyncio.timeout(rules.fetch_timeout):
            return await _following(address, rules, resolve)
    except TimeoutError as error:
        hint = "fetch_timeout under [chatmd] in config.toml allows more"
        raise FetchFailed(f"it took more than {rules.fetch_timeout:g} seconds", where=shown(url), hint=hint) from error


async def _following(url: str, rules: Rules, resolve: Resolve) -> Fetched:
    backend = _OwnBackend(rules, resolve)
    try:
        return await _redirects(url, rules.fetch_limit, backend)
    finally:
        await backend.aclose()


async def _redirects(url: str, limit: int, backend: CheckedBackend) -> Fetched:
    for _ in range(MOST_REDIRECTS + 1):
        try:
            answer = await _one(url, limit, backend)
        except FetchFailed as error:
            raise FetchFailed(error.message, where=error.where or shown(url), hint=error.hint) from error
        except (*_NETWORK_ERRORS, OSError, ValueError) as error:
            raise FetchFailed(_reason(error), where=shown(url)) from None  # its text may hold what ours does not
        if isinstance(answer, Fetched):
            return answer
        url = redirected(url, answer)
    raise FetchFailed(f"it redirects more than {MOST_REDIRECTS} times", where=shown(url))


async def _one(url: str, limit: int, backend: CheckedBackend) -> Fetched | str:
    """The answer to one request; of a redirect, where it leads."""
    parsed = httpx2.URL(url)  # which writes names and paths as HTTP has them
    certificates = await asyncio.to_thread(_certificates) if parsed.scheme == "https" else None
    target = httpcore2.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path or b"/"
    )
    headers = [
        (b"User-Agent", _user_agent()),
        (b"Accept", _ACCEPT.encode()),
        (b"Accept-Encoding", ACCEPTED.encode()),
    ]
    async with (
        httpcore2.AsyncConnectionPool(certificates, network_backend=backend) as pool,
        pool.stream("GET", target, headers=headers) as response,
    ):
        told = {name.decode("latin-1").lower(): value.decode("latin-1").strip() for name, value in response.headers}
        if response.status in _REDIRECTS and "location" in told:
            return told["location"]
        if response.status != 200:
            raise FetchFailed(_status(response.status))
        data = await _body(response, told, limit)
        media_type, charset = _content_type(told.get("content-type", ""))
        return Fetched(data, media_type, charset, url)


async def _body(response: httpcore2.Response, told: dict[str, str], limit: int) -> bytes:
    length = told.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > limit):
        raise too_large(limit)
    unpacker = Unpacker(told.get("content-encoding", "").lower(), limit)
    pieces: list[bytes] = []
    came = 0
    async for piece in response.aiter_stream():
        came += len(piece)
        if came > limit:
            raise too_large(limit)
        pieces.append(unpacker.feed(piece))
    unpacker.end()
    return b"".join(pieces)


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Makes connections, to addresses that were checked and to no others."""

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        self._rules, self._resolve = rules, resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._addresses(host, port)
        for number, address in enumerate(addresses, 1):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError:
                if number == len(addresses):
                    raise
        raise AssertionError("a host has addresses")

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of them checked: one that is not public condemns the others."""
        try:
            found = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"there is no host '{host[:100]}'", hint="check the URL and the network") from error
        if not found:
            raise FetchFailed(f"there is no host '{host[:100]}'", hint="check the URL and the network")
        for address in found:
            what = "" if self._rules.private_network else not_public(address)
            if what:
                self._rules.require("private_network")
                raise FetchFailed(
                    f"'{host[:100]}' is no public address, but {what}",
                    hint="if it should be fetched all the same: private_network = true under [chatmd] in config.toml",
                )
        return found

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise FetchFailed("no socket of this machine is fetched from")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _OwnBackend(CheckedBackend):
    """Closes all that it opened: what is cut off while TLS begins, nobody else would close."""

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        super().__init__(rules, resolve)
        self._streams: list[httpcore2.AsyncNetworkStream] = []

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        stream = await super().connect_tcp(*args, **options)
        self._streams.append(stream)
        return stream

    async def aclose(self) -> None:
        for stream in self._streams:
            with contextlib.suppress(*_NETWORK_ERRORS, OSError):
                await stream.aclose()


# -- what was told -----------------------------------------------------------------------------------------

_NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
_STATUS = {
    401: "it wants to know who is asking (401)",
    403: "it refuses to show this (403)",
    404: "there is no such page (404)",
    410: "this page is gone (410)",
    429: "it had too many requests (429): try again later",
}


def _status(status: int) -> str:
    return _STATUS.get(status, f"the server answered with status {status}")


def _reason(error: Exception) -> str:
    """What a network error means, without what the server or the URL says."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "no encrypted connection could be made"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpcore2.ConnectError):
        return "nothing answers there"
    if isinstance(error, httpcore2.ProtocolError):
        return "what answers there does not speak HTTP, or broke off"
    return "the connection broke off"


def _content_type(value: str) -> tuple[str, str]:
    """Media type and character set of a ``Content-Type``.

    >>> _content_type('Text/HTML; a=b; Charset="UTF-8"')
    ('text/html', 'utf-8')
    """
    media_type, *parameters = (part.strip() for part in value.lower().split(";"))
    values = dict(part.partition("=")[::2] for part in parameters)
    return media_type, values.get("charset", "").strip("\"' ")


@functools.cache
def _user_agent() -> bytes:
    return f"lmmarkdown/{version('lmmarkdown')}".encode("ascii")


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The machine's certificates, read once: that takes 0.2 s."""
    return httpx2.create_ssl_context()
