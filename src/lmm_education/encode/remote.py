"""A server of embedding models or rerankers: JSON over HTTP, retries with backoff, our own errors."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from lmm import errors, loop
from lmm.config import EmbeddingSettings
from lmm.models.chat import backoff
from lmm.models.port import Side
from lmm.models.server import ModelServer
from lmm_education.encode.text_encoder import OnVectors, Prefixes, Vector, identity_of, to_vector
from lmm_education.material import batches

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
UNREADABLE = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


async def ask_server(
    server: ModelServer, client: httpx2.AsyncClient, body: Mapping[str, Any], read: Callable[[Any], T], what: str
) -> T:
    """Send `body`; return what `read` makes of the reply; `what` names its content. Retries transient failures.

    Raises:
        NoValidReply: it replies with something else.
        ModelError: it cannot be reached, or refuses.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            async with server.post(client, body) as response:
                content = await response.aread()
            break
        except errors.ModelError as error:
            if not error.retryable or attempt > server.retries:
                raise
            await asyncio.sleep(backoff(attempt, error.retry_after, random.random()))
    try:
        return read(json.loads(content))
    except UNREADABLE as error:
        raise server.no_reply(content, what) from error


Body = Callable[[EmbeddingSettings, Sequence[str], Side], dict[str, Any]]
"""What is sent to embed texts of one side."""


def _sized(settings: EmbeddingSettings, name: str) -> dict[str, Any]:
    """Return the field `name` with the number of dimensions, or nothing if that is not set."""
    return {} if settings.dimensions is None else {name: settings.dimensions}


def _openai_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    sent = {"model": settings.model.model, "input": list(texts), "encoding_format": "float"}
    return sent | _sized(settings, "dimensions")


def _openai_base64_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    """Request base64: a third of the bytes, and no numbers to parse."""
    return _openai_body(settings, texts, kind) | {"encoding_format": "base64"}


def _mistral_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    return {"model": settings.model.model, "input": list(texts), **_sized(settings, "output_dimension")}


def _voyage_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    return _mistral_body(settings, texts, kind) | {"input_type": kind}


def _cohere_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    sent = {"model": settings.model.model, "texts": list(texts), "input_type": f"search_{kind}"}
    return {**sent, "embedding_types": ["float"], **_sized(settings, "output_dimension")}


def _google_body(settings: EmbeddingSettings, texts: Sequence[str], kind: Side) -> dict[str, Any]:
    model, options = f"models/{_bare_name(settings)}", _sized(settings, "outputDimensionality")
    if not settings.model.model.startswith("gemini-embedding-2"):  # it reads a prefix instead
        options["taskType"] = f"RETRIEVAL_{kind.upper()}"
    return {"requests": [{"model": model, "content": {"parts": [{"text": text}]}, **options} for text in texts]}


def _bare_name(settings: EmbeddingSettings) -> str:
    return settings.model.model.removeprefix("models/")


def _data(reply: Any) -> list[Vector]:
    """Return the vectors of OpenAI's and Voyage's ``data``, sorted by index, from numbers or base64."""
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
class Dialect:
    """The protocol of an embedding API.

    `url` is where the vendor's own server is; `path` is appended to it, ``{model}`` filled in; `key` is the
    header that carries the API key, with the key as ``{key}``. `most` texts and `characters` go into one request.
    `body` says what is sent; `vectors` finds the vectors in the reply, in order, and raises `LookupError`,
    `TypeError` or `ValueError` where they are not.
    """

    url: str
    body: Body
    most: int
    characters: int
    path: str = "/embeddings"
    vectors: Callable[[Any], list[Vector]] = _data
    key: tuple[str, str] = ("Authorization", "Bearer {key}")


# The limits are the vendors': texts per request from their documentation; characters so that a request stays
# within the tokens they allow even where a character is a token. 32 is what the smallest local server takes
# (text-embeddings-inference, as it is delivered).
DIALECTS: dict[str, Dialect] = {
    "openai": Dialect("https://api.openai.com/v1", _openai_base64_body, most=256, characters=200_000),
    "compatible": Dialect("", _openai_body, most=32, characters=100_000),
    "mistral": Dialect("https://api.mistral.ai/v1", _mistral_body, most=32, characters=16_000),
    "voyage": Dialect("https://api.voyageai.com/v1", _voyage_body, most=128, characters=100_000),
    "cohere": Dialect(
        "https://api.cohere.com",
        _cohere_body,
        most=96,
        characters=100_000,
        path="/v2/embed",
        vectors=lambda reply: [to_vector(numbers) for numbers in reply["embeddings"]["float"]],
    ),
    "google": Dialect(
        "https://generativelanguage.googleapis.com",
        _google_body,
        most=100,
        characters=20_000,
        path="/v1beta/models/{model}:batchEmbedContents",
        vectors=lambda reply: [to_vector(row["values"]) for row in reply["embeddings"]],
        key=("x-goog-api-key", "{key}"),
    ),
}


def server_of(dialect: Dialect, settings: EmbeddingSettings) -> ModelServer:
    """Return the server of an embedding model."""
    key = settings.api_key.reveal() if settings.api_key else ""
    header, value = dialect.key
    return replace(
        ModelServer.of(settings, dialect.path.format(model=_bare_name(settings)), dialect.url),
        table="[embedding]",
        headers={header: value.format(key=key)} if key else {},
        connections=settings.concurrency,
        hints=_HINTS | ({404: f"ollama pull {settings.model.model}"} if settings.model.provider == "Ollama" else {}),
    )


class RemoteEncoder:
    """The model that `settings` name, on a server that speaks `dialect`.

    Raises (from `encode`): children of `lmm.errors.ModelError` only.
    """

    def __init__(self, dialect: Dialect, settings: EmbeddingSettings, prefixes: Prefixes) -> None:
        self._settings, self._dialect = settings, dialect
        self._limit = asyncio.Semaphore(settings.concurrency)
        self.name = str(settings.model)
        self.identity = identity_of(self.name, settings.dimensions and f"dimensions={settings.dimensions}")
        self.server = settings.base_url
        self.prefixes = prefixes
        self._server = server_of(dialect, settings)

    def encode(self, texts: Sequence[str], kind: Side, on_vectors: OnVectors) -> None:
        """Embed; at most `settings.concurrency` requests at once, over all calls."""
        loop.run(self._encode(texts, kind, on_vectors))

    async def _encode(self, texts: Sequence[str], kind: Side, on_vectors: OnVectors) -> None:
        most = self._settings.batch_size or self._dialect.most
        one_at_a_time = asyncio.Lock()
        prefix = self.prefixes.of(kind)

        async def one(part: Sequence[int], client: httpx2.AsyncClient) -> None:
            body = self._dialect.body(self._settings, [prefix + texts[i] for i in part], kind)
            async with self._limit:
                vectors = await ask_server(self._server, client, body, self._dialect.vectors, "vectors")
            if len(vectors) != len(part):
                raise errors.ModelRejected(
                    f"{self.name} sent {len(vectors)} vectors for {len(part)} texts", hint="see the server's log"
                )
            await loop.to_its_end(hand_over(part, vectors))  # what arrived was paid for

        async def hand_over(part: Sequence[int], vectors: list[Vector]) -> None:
            async with one_at_a_time:
                await asyncio.to_thread(on_vectors, part, vectors)  # it may wait for the disk

        try:
            async with self._server.client() as client, asyncio.TaskGroup() as tasks:
                for part in batches(range(len(texts)), most, self._dialect.characters, lambda i: len(texts[i])):
                    tasks.create_task(one(part, client))
        except ExceptionGroup as group:  # the first failure stops all others
            raise group.exceptions[0] from group.exceptions[0].__cause__


_TOO_MUCH = "a text may be too long for the model, or batch_size too large; else change the model"
_HINTS = {
    **dict.fromkeys((400, 422), _TOO_MUCH),
    200: "does the server support this protocol, and is this an embedding model?",
    413: "set a smaller batch_size under [embedding] in config.toml",
    429: "try again later, or set a smaller 'concurrency' under [embedding] in config.toml",
}
