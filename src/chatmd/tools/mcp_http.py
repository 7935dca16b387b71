"""MCP servers behind a URL: where requests may go, and how the client says who it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2

from chatmd.errors import ChatmdError
from chatmd.language.items import Tool
from chatmd.tools.mcp_address import HttpAddress
from chatmd.tools.mcp_network import CheckedTransport
from chatmd.workplace import Rules

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_LONGEST_SILENCE = 300.0  # seconds between two pieces of a stream; calls have limits of their own


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are to a server: a client with its secret (OAuth client credentials), or a secret alone (a token)."""

    client_id: str = ""
    secret: str = field(default="", repr=False)
    issuer: str = ""


def credentials_for(declared: Tool, address: HttpAddress, environment: Mapping[str, str]) -> Credentials:
    """What a declaration says by the names of environment variables.

    Raises:
        ChatmdError: a variable is not set, or the secret would be sent where others can read it.
    """
    for name in (declared.client_id_env, declared.client_secret_env):
        if name and not environment.get(name):
            raise ChatmdError(f"the environment variable {name} is not set", hint=f"export {name}=…")
    if declared.client_id_env and not declared.client_secret_env:
        raise ChatmdError("a client's id needs its secret", hint='client_secret_env="NAME OF THE VARIABLE"')
    if not declared.client_secret_env:
        return Credentials()
    if not (address.is_encrypted or address.is_loopback):
        raise ChatmdError(f"the secret would be sent unencrypted to {address.label}", hint="use https://")
    return Credentials(
        environment[declared.client_id_env] if declared.client_id_env else "",
        environment[declared.client_secret_env],
        declared.issuer or address.origin,
    )


@dataclass(slots=True)
class LastRefusal:
    """The status of the last answer, if it was an error of HTTP: the SDK does not tell it."""

    status: int = 0

    async def note(self, response: httpx2.Response) -> None:
        self.status = response.status_code if response.status_code >= 400 else 0


@asynccontextmanager
async def connection(
    address: HttpAddress, credentials: Credentials, rules: Rules, refusal: LastRefusal, timeout: float
) -> AsyncGenerator[TransportStreams]:
    """The streams of a server behind a URL, within the rules for the network.

    Raises:
        httpx2.HTTPError: it cannot be reached.
    """
    from mcp.client.streamable_http import streamable_http_client

    token = (
        {"Authorization": f"Bearer {credentials.secret}"} if credentials.secret and not credentials.client_id else {}
    )
    encrypted = address.is_encrypted or bool(credentials.client_id)  # reading certificates takes 0.2 s
    certificates = await asyncio.to_thread(httpx2.create_ssl_context) if encrypted else None
    async with (
        httpx2.AsyncClient(
            headers=token,
            auth=_oauth(address, credentials) if credentials.client_id else None,
            timeout=httpx2.Timeout(timeout, read=_LONGEST_SILENCE),
            event_hooks={"response": [refusal.note]},
            transport=CheckedTransport(rules, certificates, loopback=address.is_loopback),
        ) as client,
        streamable_http_client(address.url, http_client=client) as streams,
    ):
        yield streams


def _oauth(address: HttpAddress, credentials: Credentials) -> httpx2.Auth:
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    return ClientCredentialsOAuthProvider(
        address.url, _Tokens(), credentials.client_id, credentials.secret, issuer=credentials.issuer
    )


class _Tokens:
    """Tokens live as long as the connection, and nowhere but in memory."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._client: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info
