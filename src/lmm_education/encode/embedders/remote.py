"""Embedding models behind HTTP: batches side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmm import errors, loop
from lmm.config import ModelSettings
from lmm.models.port import Side
from lmm_education.encode.embedders.dialects import Dialect, EmbeddingRequest
from lmm_education.encode.embedders.prefixes import Prefixes
from lmm_education.encode.embedders.text_encoder import Took, Vector, batches, identity_of
from lmm_education.encode.server import ModelServer

if TYPE_CHECKING:
    import httpx2


class RemoteEncoder:
    """The model that `settings` name, on a server that speaks `dialect`.

    Raises (from `encode`): children of `lmm.errors.ModelError` only.
    """

    def __init__(self, dialect: Dialect, settings: ModelSettings, prefixes: Prefixes) -> None:
        self._settings, self._dialect = settings, dialect
        self._limit = asyncio.Semaphore(settings.concurrency)
        self.name = str(settings.model)
        self.identity = identity_of(self.name, settings.dimensions and f"dimensions={settings.dimensions}")
        self.server = settings.base_url
        self.prefixes = prefixes
        key = settings.api_key.reveal() if settings.api_key else ""
        header, value = dialect.key
        pull = {404: f"ollama pull {settings.model.model}"} if settings.model.provider == "Ollama" else {}
        self._server = ModelServer(
            self.name,
            (settings.base_url or dialect.url).rstrip("/")
            + dialect.path.format(model=settings.model.model.removeprefix("models/")),
            "[embedding]",
            key,
            {header: value.format(key=key)} if key else {},
            settings.timeout,
            settings.max_retries,
            settings.concurrency,
            _HINTS | pull,
        )

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
                vectors = await self._server.ask(client, self._dialect.body(question), self._dialect.vectors, "vectors")
            if len(vectors) != len(part):
                raise errors.ModelRejected(
                    f"{self.name} sent {len(vectors)} vectors for {len(part)} texts", hint="look at the server's log"
                )
            await loop.to_its_end(hand_over(part, vectors))  # what arrived was paid for

        async def hand_over(part: range, vectors: list[Vector]) -> None:
            async with one_at_a_time:
                await asyncio.to_thread(took, part, vectors)  # it may wait for the disk

        try:
            async with self._server.client() as client, asyncio.TaskGroup() as tasks:
                for part in batches(texts, most, self._dialect.characters):
                    tasks.create_task(one(part, client))
        except ExceptionGroup as group:  # the first failure stops all others
            raise group.exceptions[0] from group.exceptions[0].__cause__


_HINTS = {
    200: "does the server speak this protocol, and is this an embedding model?",
    413: "set a smaller batch_size under [embedding] in config.toml",
    429: "try again later, or set a smaller 'concurrency' under [embedding] in config.toml",
}
