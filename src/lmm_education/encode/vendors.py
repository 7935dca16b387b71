"""The embedding models of Cohere, Google and Voyage: pydantic-ai, with the vendors' own clients.

Imported only when such a model embeds. What a client would decide by itself is decided here: no redirects, no second
layer of retries, our time-out, the machine's certificates and proxies, the address of the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from pydantic_ai.embeddings import EmbeddingModel

from lmm.config import EmbeddingSettings
from lmm.models.port import Side
from lmm.models.pydantic_ai_adapter import model_error
from lmm.models.server import ModelServer
from lmm_education.encode.text_encoder import Send, Vector, to_vector


@asynccontextmanager
async def open_vendor(settings: EmbeddingSettings, server: ModelServer) -> AsyncGenerator[Send]:
    """Connect to the vendor's server.

    Raises (from what it yields): children of `lmm.errors.ModelError` only.
    """
    name = settings.model.model.removeprefix("models/")
    options: Any = {"truncate": True} | ({} if settings.dimensions is None else {"dimensions": settings.dimensions})
    if name == "gemini-embedding-2":
        options["google_task"] = "raw"  # the prefixes are ours, so that those of the settings count
    async with _VENDORS[settings.model.provider](name, server) as model:

        async def send(texts: Sequence[str], kind: Side) -> list[Vector]:
            try:
                result = await model.embed(texts, input_type=kind, settings=options)
                return list(map(to_vector, result.embeddings))
            except Exception as error:  # a reply of another form fails anywhere in a vendor's client
                raise model_error(server, error, "vectors") from error

        yield send


@asynccontextmanager
async def _open_cohere(name: str, server: ModelServer) -> AsyncGenerator[EmbeddingModel]:
    import httpx
    from cohere import AsyncClientV2
    from pydantic_ai.embeddings.cohere import CohereEmbeddingModel
    from pydantic_ai.providers.cohere import CohereProvider

    async with server.client_of(httpx) as http:
        client = AsyncClientV2(server.key or "no-key", base_url=server.url, max_retries=0, httpx_client=http)
        yield CohereEmbeddingModel(name, provider=CohereProvider(cohere_client=client))


@asynccontextmanager
async def _open_google(name: str, server: ModelServer) -> AsyncGenerator[EmbeddingModel]:
    from pydantic_ai.embeddings.google import GoogleEmbeddingModel
    from pydantic_ai.providers.google import GoogleProvider

    async with server.client() as http:
        provider = GoogleProvider(api_key=server.key or "no-key", base_url=server.url, http_client=http)
        yield GoogleEmbeddingModel(name, provider=provider)


@asynccontextmanager
async def _open_voyage(name: str, server: ModelServer) -> AsyncGenerator[EmbeddingModel]:
    from pydantic_ai.embeddings.voyageai import VoyageAIEmbeddingModel
    from pydantic_ai.providers.voyageai import VoyageAIProvider
    from voyageai import aiosession
    from voyageai.client_async import AsyncClient

    async with server.client() as http:

        async def request(*, method: str, url: str, headers: dict[str, str], data: bytes, **ignored: object) -> object:
            reply = await http.request(method, url, headers=headers, content=data)
            content = partial(asyncio.sleep, 0, reply.content)
            return SimpleNamespace(status=reply.status_code, headers=reply.headers, read=content, release=bool)

        # A session of aiohttp has no proxies without .netrc, which it cannot combine with a key, and follows redirects.
        aiosession.set(cast(Any, SimpleNamespace(request=request)))
        client = AsyncClient(server.key or "no-key", base_url=server.url)
        yield VoyageAIEmbeddingModel(name, provider=VoyageAIProvider(voyageai_client=client))


_VENDORS: dict[str, Callable[[str, ModelServer], AbstractAsyncContextManager[EmbeddingModel]]] = {
    "Cohere": _open_cohere,
    "Google": _open_google,
    "Voyage": _open_voyage,
}
