"""How an MCP client gets out: to addresses that were checked, and to this machine where the prompt says so."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import httpcore2
import httpx2

from chatmd.content.fetch import CheckedBackend, Resolve, resolve_host
from chatmd.tools.mcp_address import is_this_machine
from chatmd.workplace import Rules


class CheckedTransport(httpx2.AsyncBaseTransport):
    """A transport for httpx2 under the rules for the network.

    The author of a prompt may name a server on this machine (`loopback`), and it may then lead on to others on this
    machine, such as one to log in at. A server elsewhere may lead to no address that is not public. No proxy of the
    environment is used.
    """

    def __init__(
        self, rules: Rules, certificates: ssl.SSLContext | None, *, loopback: bool, resolve: Resolve = resolve_host
    ) -> None:
        backend = _Backend(rules, loopback, resolve)
        self._pool = httpcore2.AsyncConnectionPool(certificates, network_backend=backend)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`."""
        url = httpcore2.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        try:
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    request.method,
                    url,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        except _ERRORS as error:
            raise httpx2.ConnectError(str(error) or type(error).__name__, request=request) from error
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.aiter_stream():
                yield piece
        except _ERRORS as error:
            raise httpx2.ReadError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        await self._answer.aclose()


_ERRORS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, httpcore2.UnsupportedProtocol)


class _Backend(httpcore2.AsyncNetworkBackend):
    """Chooses by the host which rules hold."""

    def __init__(self, rules: Rules, loopback: bool, resolve: Resolve) -> None:
        self._public = CheckedBackend(rules, resolve)
        self._here = CheckedBackend(replace(rules, private_network=True), resolve) if loopback else self._public

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        backend = self._here if is_this_machine(host) else self._public
        return await backend.connect_tcp(host, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return await self._public.connect_unix_socket(path, timeout, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._public.sleep(seconds)
