"""A server of embedding models or rerankers: retries with backoff, our own errors; OpenAI's embedding protocol.

OpenAI's has a client of ours, as Chat Completions have: pydantic-ai's takes a second to import, for every search, and
ignores the index of a vector, so that a server that answers in another order would be stored wrong.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
import sys
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import errors, loop
from lmm.config import EmbeddingSettings
from lmm.extras import check_installed
from lmm.models.chat import backoff
from lmm.models.port import Side
from lmm.models.server import ModelServer
from lmm.providers import PROVIDERS
from lmm_education.encode.text_encoder import OnVectors, Prefixes, Send, Vector, identity_of, to_vector
from lmm_education.material import batches

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
UNREADABLE = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


async def ask_server(
    server: ModelServer, client: httpx2.AsyncClient, body: Mapping[str, Any], read: Callable[[Any], T], what: str
) -> T:
    """Send `body`; return what `read` makes of the reply; `what` names its content.

    Raises:
        NoValidReply: it replies with something else.
        ModelError: it cannot be reached, or refuses.
    """
    async with server.post(client, body) as response:
        content = await response.aread()
    try:
        return read(json.loads(content))
    except UNREADABLE as error:
        raise server.no_reply(content, what) from error


async def retry(server: ModelServer, call: Callable[[], Awaitable[T]]) -> T:
    """Return what `call` returns; transient failures are retried, after the pause that the server asks for."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except errors.ModelError as error:
            if not error.retryable or attempt > server.retries:
                raise
            await asyncio.sleep(backoff(attempt, error.retry_after, random.random()))


def read_vectors(reply: Any) -> list[Vector]:
    """Return the vectors of a reply in OpenAI's form, sorted by index, from numbers or base64."""
    rows: list[Mapping[str, Any]] = reply["data"]
    places = [int(row["index"]) if "index" in row and row["index"] is not None else i for i, row in enumerate(rows)]
    if sorted(places) != list(range(len(rows))):
        raise ValueError(f"the places of the vectors are {places[:10]}")
    return [_numbers(row["embedding"]) for _, row in sorted(zip(places, rows, strict=True), key=itemgetter(0))]


def _numbers(value: Any) -> Vector:
    """Read a vector from JSON numbers, or from base64 of little-endian four-byte floats.

    >>> _numbers("AACAPwAAAMA=").tolist()
    [1.0, -2.0]
    """
    if not isinstance(value, str):
        return to_vector(value)
    vector = array("f")
    try:
        vector.frombytes(base64.b64decode(value, validate=True))
    except binascii.Error as error:
        raise ValueError("the vectors are text that is not base64") from error
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


@dataclass(frozen=True, slots=True)
class Api:
    """An embedding API. `url` is where the vendor's own server is; `most` texts and `characters` go into one request.

    A provider with an extra is asked through pydantic-ai. All others have OpenAI's protocol: `dimensions` is the name
    of the field with the length of the vectors; base64 saves two thirds of the bytes where it is supported.
    """

    url: str
    most: int
    characters: int
    dimensions: str = "dimensions"
    encoding: str = "float"


# The limits are the vendors': texts per request from their documentation; characters so that a request stays
# within the tokens they allow even where a character is a token. 32 is what the smallest local server takes
# (text-embeddings-inference, as it is delivered).
APIS: dict[str, Api] = {
    "openai": Api("https://api.openai.com/v1", most=256, characters=200_000, encoding="base64"),
    "compatible": Api("", most=32, characters=100_000),
    "mistral": Api("https://api.mistral.ai/v1", most=32, characters=16_000, dimensions="output_dimension"),
    "voyage": Api("https://api.voyageai.com/v1", most=128, characters=100_000),
    "cohere": Api("https://api.cohere.com", most=96, characters=100_000),
    "google": Api("https://generativelanguage.googleapis.com", most=100, characters=20_000),
}


@asynccontextmanager
async def _open_compatible(api: Api, settings: EmbeddingSettings, server: ModelServer) -> AsyncGenerator[Send]:
    size = {} if settings.dimensions is None else {api.dimensions: settings.dimensions}
    given = {"model": settings.model.model, "encoding_format": api.encoding, **size}
    async with server.client() as client:
        yield lambda texts, kind: ask_server(server, client, given | {"input": list(texts)}, read_vectors, "vectors")


class RemoteEncoder:
    """The model that `settings` name, on a server with this API.

    Raises:
        ModelNotInstalled: the extra for its provider is not installed.
        ModelError: from `encode`: its children only.
    """

    def __init__(self, api: Api, settings: EmbeddingSettings, prefixes: Prefixes) -> None:
        self._settings, self._api, self.prefixes = settings, api, prefixes
        self.name = str(settings.model)
        provider = PROVIDERS[settings.model.provider.lower()]
        self._is_vendor = bool(provider.extra)
        kind, where = errors.ModelNotInstalled, settings.origin
        check_installed(provider.extra, f"{self.name} needs", *provider.modules, kind=kind, where=where)
        self._limit = asyncio.Semaphore(settings.concurrency)
        self.identity = identity_of(self.name, settings.dimensions and f"dimensions={settings.dimensions}")
        self.server = settings.base_url
        of_settings = ModelServer.of(settings, "" if self._is_vendor else "/embeddings", api.url)
        pull = {404: f"ollama pull {settings.model.model}"} if settings.model.provider == "Ollama" else {}
        headers = {} if self._is_vendor else of_settings.headers  # the vendor's client puts the key where it belongs
        connections = settings.concurrency
        self._server = replace(
            of_settings, table="[embedding]", headers=headers, connections=connections, hints=_HINTS | pull
        )

    def encode(self, texts: Sequence[str], kind: Side, on_vectors: OnVectors) -> None:
        """Embed; at most `settings.concurrency` requests at once, over all calls."""
        loop.run(self._encode(texts, kind, on_vectors))

    async def _encode(self, texts: Sequence[str], kind: Side, on_vectors: OnVectors) -> None:
        most = self._settings.batch_size or self._api.most
        one_at_a_time = asyncio.Lock()
        prefix = self.prefixes.of(kind)

        async def one(part: Sequence[int], send: Send) -> None:
            async with self._limit:
                vectors = await retry(self._server, lambda: send([prefix + texts[i] for i in part], kind))
            if len(vectors) != len(part):
                raise errors.ModelRejected(
                    f"{self.name} sent {len(vectors)} vectors for {len(part)} texts", hint="see the server's log"
                )
            await loop.to_its_end(hand_over(part, vectors))  # what arrived was paid for

        async def hand_over(part: Sequence[int], vectors: list[Vector]) -> None:
            async with one_at_a_time:
                await asyncio.to_thread(on_vectors, part, vectors)  # it may wait for the disk

        try:
            async with self._opened() as send, asyncio.TaskGroup() as tasks:
                for part in batches(range(len(texts)), most, self._api.characters, lambda i: len(texts[i])):
                    tasks.create_task(one(part, send))
        except ExceptionGroup as group:  # the first failure stops all others
            raise group.exceptions[0] from group.exceptions[0].__cause__

    def _opened(self) -> AbstractAsyncContextManager[Send]:
        if not self._is_vendor:
            return _open_compatible(self._api, self._settings, self._server)
        from lmm_education.encode.vendors import open_vendor  # 1 to 1.5 s

        return open_vendor(self._settings, self._server)


_TOO_MUCH = "a text may be too long for the model, or batch_size too large; else change the model"
_HINTS = {
    **dict.fromkeys((400, 422), _TOO_MUCH),
    200: "does the server support this protocol, and is this an embedding model?",
    413: "set a smaller batch_size under [embedding] in config.toml",
    429: "try again later, or set a smaller 'concurrency' under [embedding] in config.toml",
}
