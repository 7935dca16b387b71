"""A server of embedding models or rerankers: JSON over HTTP, retries with backoff, errors in our words."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import errors
from lmm.hosts import tls_for
from lmm.models.retry import backoff
from lmm.terminal import clipped

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
UNREADABLE = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True, slots=True)
class ModelServer:
    """What is asked at a `url`: `name` is what messages call it, `table` where config.toml has its settings.

    `headers` carry the `key`, which no message shows; `hints` say what to do about a status, instead of the usual.
    """

    name: str
    url: str
    table: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    retries: int = 3
    connections: int = 1
    hints: Mapping[int, str] = field(default_factory=dict)

    def client(self) -> httpx2.AsyncClient:
        """A client for one call: no connection stays open between calls."""
        import httpx2

        limits = httpx2.Limits(max_connections=self.connections)
        return httpx2.AsyncClient(headers=self.headers, verify=tls_for(self.url), timeout=self.timeout, limits=limits)

    async def ask(self, client: httpx2.AsyncClient, body: Mapping[str, Any], read: Callable[[Any], T], what: str) -> T:
        """What `read` makes of the reply, which should hold `what`; failures that may pass are retried.

        Raises:
            ModelError: the server cannot be reached, refuses, or replies with something else.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._post(client, body)
                break
            except errors.ModelError as error:
                if not error.retryable or attempt > self.retries:
                    raise
                await asyncio.sleep(backoff(attempt, error.retry_after, random.random()))
        try:
            return read(json.loads(response.content))
        except UNREADABLE as error:
            raise errors.ModelRejected(
                f"{self.name}: the reply contains no {what}: {self._shown(response.text)}",
                hint=self.hints.get(200, f"does {self.url} support this protocol?"),
            ) from error

    async def _post(self, client: httpx2.AsyncClient, body: Mapping[str, Any]) -> httpx2.Response:
        import httpx2

        try:
            response = await client.post(self.url, json=body)
        except httpx2.TimeoutException as error:
            raise errors.ModelTimeout(
                f"{self.name} sent nothing for {self.timeout:g} s",
                hint=f"set a longer 'timeout' under {self.table} in config.toml, or try again",
            ) from error
        except httpx2.TransportError as error:
            raise errors.ModelUnavailable(
                f"{self.name}: {error or type(error).__name__}", hint=f"is the server running at {self.url}?"
            ) from error
        except httpx2.InvalidURL as error:
            raise errors.ModelRejected(
                f"{self.name}: {self.url} is not an address", hint=f"correct it under {self.table}"
            ) from error
        if response.status_code == 200:
            return response
        kind, hint = self._kind_of(response.status_code, response.text)
        raise kind(
            f"{self.name}: HTTP {response.status_code}: {self._shown(_said(response))}",
            hint=hint,
            retry_after=_retry_after(response.headers),
        )

    def _kind_of(self, status: int, said: str) -> tuple[type[errors.ModelError], str]:
        """The error that a status stands for, and what to do.

        >>> server = ModelServer("Jina", "http://127.0.0.1/", "[search]")
        >>> server._kind_of(503, "overloaded")[0].__name__, server._kind_of(400, "API key not valid.")[0].__name__
        ('ModelUnavailable', 'ModelKeyMissing')
        """
        if status == 429 and "insufficient_quota" in said:  # OpenAI; waiting would not help
            return errors.ModelRejected, "the account's quota or credit is used up"
        if status == 400 and "API key not valid" in said:  # Google
            status = 401
        other = errors.ModelUnavailable if status >= 500 else errors.ModelRejected
        kind, hint = _KINDS.get(status, (other, "try again later" if status >= 500 else _TOO_MUCH))
        return kind, self.hints.get(status, hint)

    def _shown(self, text: str) -> str:
        """A part of a reply; some servers quote the key that they refuse."""
        return clipped(text.replace(self.key, "…") if len(self.key) > 7 else text, 300)


_KINDS: dict[int, tuple[type[errors.ModelError], str]] = {
    401: (errors.ModelKeyMissing, "check the API key: lmm status"),
    403: (errors.ModelKeyMissing, "check the API key: lmm status"),
    404: (errors.ModelNotFound, "check the model's name and the server: lmm status"),
    408: (errors.ModelTimeout, "try again"),
    429: (errors.ModelBusy, "try again later"),
}


_TOO_MUCH = "a text may be too long for the model, or batch_size too large; else change the model"


def _said(response: httpx2.Response) -> str:
    """What a server says of an error, whichever of the usual forms it has."""
    try:
        body: Any = json.loads(response.content)
    except ValueError:
        return response.text
    for key in ("error", "message", "detail"):
        while isinstance(body, Mapping) and key in body:
            body = body[key]
    return body if isinstance(body, str) else json.dumps(body)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds a server asks to wait, if it says so in seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None
