"""Embedding models behind HTTP: batches side by side, retries with backoff, errors in our words."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lmm import errors, loop
from lmm.config import ModelSettings
from lmm.hosts import tls_for
from lmm.models.port import Side
from lmm.models.resilience import backoff
from lmm_education.encode.embedders.dialects import Dialect, EmbeddingRequest
from lmm_education.encode.embedders.prefixes import Prefixes
from lmm_education.encode.embedders.text_encoder import Took, Vector, batches, identity_of

if TYPE_CHECKING:
    import httpx2


class RemoteEncoder:
    """The model that `settings` name, on a server that speaks `dialect`.

    Raises (from `encode`): children of `lmm.errors.ModelError` only.
    """

    def __init__(self, dialect: Dialect, settings: ModelSettings, prefixes: Prefixes) -> None:
        self._settings, self._dialect = settings, dialect
        self._key = settings.api_key.reveal() if settings.api_key else ""
        self._base_url = (settings.base_url or dialect.url).rstrip("/")
        self._url = self._base_url + dialect.path.format(model=settings.model.model.removeprefix("models/"))
        self._limit = asyncio.Semaphore(settings.concurrency)
        self.name = str(settings.model)
        self.identity = identity_of(self.name, settings.dimensions and f"dimensions={settings.dimensions}")
        self.server = settings.base_url
        self.prefixes = prefixes

    def encode(self, texts: Sequence[str], kind: Side, took: Took) -> None:
        """Embed; at most `settings.concurrency` requests at once, over all calls."""
        loop.run(self._encode(texts, kind, took))

    async def _encode(self, texts: Sequence[str], kind: Side, took: Took) -> None:
        most = self._settings.batch_size or self._dialect.most
        one_at_a_time = asyncio.Lock()
        prefix = self.prefixes.of(kind)

        async def one(part: range, client: httpx2.AsyncClient) -> None:
            question = EmbeddingRequest(
                self._settings.model.model, [prefix + texts[i] for i in part], kind, self._settings.dimensions
            )
            async with self._limit:
                vectors = await self._retrying(client, question)
            await loop.to_its_end(hand_over(part, vectors))  # what arrived was paid for

        async def hand_over(part: range, vectors: list[Vector]) -> None:
            async with one_at_a_time:
                await asyncio.to_thread(took, part, vectors)  # it may wait for the disk

        try:
            async with self._client() as client, asyncio.TaskGroup() as tasks:
                for part in batches(texts, most, self._dialect.characters):
                    tasks.create_task(one(part, client))
        except ExceptionGroup as group:  # the first failure stops all others
            raise group.exceptions[0] from group.exceptions[0].__cause__

    def _client(self) -> httpx2.AsyncClient:
        """A client for one call: no connection stays open between calls."""
        import httpx2

        name, value = self._dialect.key
        headers = {name: value.format(key=self._key)} if self._key else {}
        limits = httpx2.Limits(max_connections=self._settings.concurrency)
        tls = tls_for(self._base_url)
        return httpx2.AsyncClient(headers=headers, verify=tls, timeout=self._settings.timeout, limits=limits)

    async def _retrying(self, client: httpx2.AsyncClient, question: EmbeddingRequest) -> list[Vector]:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._once(client, question)
            except errors.ModelError as error:
                if not error.retryable or attempt > self._settings.max_retries:
                    raise
                await asyncio.sleep(backoff(attempt, error.retry_after, random.random()))

    async def _once(self, client: httpx2.AsyncClient, question: EmbeddingRequest) -> list[Vector]:
        import httpx2

        try:
            response = await client.post(self._url, json=self._dialect.body(question))
        except httpx2.TimeoutException as error:
            raise errors.ModelTimeout(
                f"{self.name} sent nothing for {self._settings.timeout:g} s",
                hint="set a longer 'timeout' under [embedding] in config.toml, or try again",
            ) from error
        except httpx2.TransportError as error:
            raise errors.ModelUnavailable(
                f"{self.name}: {error or type(error).__name__}", hint=f"is the server running at {self._base_url}?"
            ) from error
        except httpx2.InvalidURL as error:
            raise errors.ModelRejected(
                f"{self.name}: {self._url} is not an address", hint="mend base_url under [embedding]"
            ) from error
        if response.status_code != 200:
            raise self._refusal(response)
        return self._read(response, len(question.texts))

    def _read(self, response: httpx2.Response, count: int) -> list[Vector]:
        try:
            vectors = self._dialect.vectors(json.loads(response.content))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise errors.ModelRejected(
                f"{self.name}: the reply holds no vectors: {_shortened(response.text)}",
                hint=f"does {self._base_url} speak this protocol, and is this an embedding model?",
            ) from error
        if len(vectors) != count:
            raise errors.ModelRejected(
                f"{self.name} sent {len(vectors)} vectors for {count} texts", hint="look at the server's log"
            )
        return vectors

    def _refusal(self, response: httpx2.Response) -> errors.ModelError:
        """What a status other than 200 means."""
        message = f"{self.name}: HTTP {response.status_code}: {_shortened(_said(response))}"
        if len(self._key) > 7:  # some servers quote the key that they refuse
            message = message.replace(self._key, "…")
        kind, hint = _kind_of(response.status_code, response.text)
        if kind is errors.ModelNotFound and self._settings.model.provider == "Ollama":
            hint = f"ollama pull {self._settings.model.model}"
        return kind(message, hint=hint, retry_after=_retry_after(response.headers))


_HINTS: dict[int, tuple[type[errors.ModelError], str]] = {
    401: (errors.ModelKeyMissing, "check the API key: lmm status"),
    403: (errors.ModelKeyMissing, "check the API key: lmm status"),
    404: (errors.ModelNotFound, "check the model's name and the server: lmm status"),
    408: (errors.ModelTimeout, "try again"),
    413: (errors.ModelRejected, "set a smaller batch_size under [embedding] in config.toml"),
    429: (errors.ModelBusy, "try again later, or set a smaller 'concurrency' under [embedding] in config.toml"),
}


def _kind_of(status: int, said: str) -> tuple[type[errors.ModelError], str]:
    """The error that a status stands for, and what to do.

    >>> _kind_of(503, "overloaded")[0].__name__, _kind_of(400, "API key not valid.")[0].__name__
    ('ModelUnavailable', 'ModelKeyMissing')
    """
    if status == 429 and "insufficient_quota" in said:  # OpenAI; waiting would not help
        return errors.ModelRejected, "the account's quota or credit is used up"
    if status == 400 and "API key not valid" in said:  # Google
        return _HINTS[401]
    if status >= 500:
        return errors.ModelUnavailable, "try again later"
    rejected = "a text may be too long for the model, or batch_size too large; else change the model"
    return _HINTS.get(status, (errors.ModelRejected, rejected))


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


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:300] + "…"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds a server asks to wait, if it says so in seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None
