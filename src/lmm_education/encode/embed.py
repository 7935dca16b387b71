"""Open the embedding model that the settings name: batches, a cache on disk, checks, one set of errors.

Where is a provider added? One row of `lmm.providers.PROVIDERS`, which names a row of `ADAPTERS` here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from lmm.config import ModelSettings
from lmm.disk.digest import digest
from lmm.errors import ModelKeyMissing, ModelNotFound, ModelRejected
from lmm.messages import encodable
from lmm.models.port import Progress, Side
from lmm.providers import PROVIDERS, is_static
from lmm.terminal import clipped
from lmm_education.encode.embedders.local import open_fastembed, open_model2vec, open_sentence_transformers
from lmm_education.encode.embedders.minilm import NAME as MINILM, open_minilm
from lmm_education.encode.embedders.remote import DIALECTS, RemoteEncoder
from lmm_education.encode.embedders.text_encoder import (
    Prefixes,
    TextEncoder,
    Took,
    Vector,
    identity_of,
    is_usable,
    prefixes_of,
)
from lmm_education.encode.embedders.wordllama import open_wordllama
from lmm_education.encode.vector_cache import VectorCache

# How to speak to a provider's embedding models, by `Provider.embedder`.
ADAPTERS: dict[str, Callable[[ModelSettings, Prefixes], TextEncoder]] = {
    "builtin": lambda settings, prefixes: (open_minilm if settings.model.model == MINILM else open_wordllama)(
        settings, prefixes
    ),
    "fastembed": open_fastembed,
    "sentence_transformers": open_sentence_transformers,
    "model2vec": open_model2vec,
    **{name: functools.partial(RemoteEncoder, dialect) for name, dialect in DIALECTS.items()},
}
# Static word vectors are made at thousands a second: a cache would save tenths of a second for a whole course, and
# write a kilobyte for each chunk (benchmarks/results.md).


def open_embedder(settings: ModelSettings, *, cache: bool = True) -> TextEmbedder:
    """The embedding model of a tier (`Settings.embedding`), ready to embed; weights are loaded when first needed.

    Raises:
        ModelNotFound: the provider has no embedding models, or not this one.
        ModelKeyMissing: the provider needs a key and there is none.
        ModelNotInstalled: the extra for the provider is not installed.

    >>> from lmm.config import load_settings
    >>> embedder = open_embedder(load_settings(env={}).embedding)
    >>> embedder.name, embedder.dimensions
    ('Builtin/wordllama', 256)
    """
    provider = PROVIDERS[settings.model.provider.lower()]
    if not provider.embedder:
        known = ", ".join(p.name for p in PROVIDERS.values() if p.embedder)
        raise ModelNotFound(
            f"{provider.name} has no embedding models", where=settings.origin, hint=f"those that have: {known}"
        )
    if settings.missing_key:
        raise ModelKeyMissing(
            f"{settings.model} needs an API key",
            where=settings.origin,
            hint=f"export {settings.missing_key}=…, or set another model under [embedding] in config.toml",
        )
    encoder = ADAPTERS[provider.embedder](settings, _prefixes(settings))
    worth_it = cache and not is_static(str(settings.model))
    return TextEmbedder(CachedEncoder(encoder, VectorCache()) if worth_it else encoder, settings.dimensions)


def shared_embedder(settings: ModelSettings) -> TextEmbedder:
    """`open_embedder`, the same model for equal settings: weights are loaded once, limits hold over all calls."""
    return _shared(settings)


@functools.lru_cache(maxsize=16)
def _shared(settings: ModelSettings) -> TextEmbedder:
    return open_embedder(settings)


def _prefixes(settings: ModelSettings) -> Prefixes:
    """Those of the settings, else those of the model's card; static word vectors have none."""
    known = Prefixes() if is_static(str(settings.model)) else prefixes_of(settings.model.model)
    query, document = settings.query_prefix, settings.document_prefix
    return Prefixes(known.query if query is None else query, known.document if document is None else document)


class TextEmbedder:
    """An encoder behind the port: equal texts are embedded once, and no vector comes out that is none."""

    def __init__(self, encoder: TextEncoder, dimensions: int | None = None) -> None:
        self._encoder = encoder
        self._dimensions = dimensions
        self.name, prefix = encoder.name, encoder.prefixes.document
        # What a document's vector depends on besides its text: name, weights, `dimensions`, prefix.
        self.space = identity_of(encoder.identity, prefix and f"document_prefix={prefix!r}")

    @property
    def dimensions(self) -> int:
        """The length of its vectors; a model that does not say it is asked for one."""
        if self._dimensions is None:
            self.embed(["dimensions"], kind="document")
        assert self._dimensions is not None
        return self._dimensions

    def embed(self, texts: Sequence[str], *, kind: Side, on_progress: Progress | None = None) -> list[list[float]]:
        """One vector per text, in order, as the model gives it; every number is exact as a four-byte float.

        Raises:
            ModelRejected: a text is empty or has no vector, or the reply is not what it should be.
            ModelError: the model cannot be reached or loaded, or refuses; those that may pass were retried.
        """
        prepared = [self._prepared(text, i, len(texts)) for i, text in enumerate(texts)]
        different = list(dict.fromkeys(prepared))
        found: dict[str, Vector] = {}

        def took(places: Sequence[int], vectors: Sequence[Vector]) -> None:
            for place, vector in zip(places, vectors, strict=True):
                self._check(different[place], vector)
                found[different[place]] = vector
            if on_progress is not None:
                on_progress(len(texts) - len(different) + len(found), len(texts))

        if different:
            self._encoder.encode(different, kind, took)
        return [found[text].tolist() for text in prepared]

    def _prepared(self, text: str, place: int, count: int) -> str:
        if not text.strip():
            raise ModelRejected(f"text {place + 1} of {count} is empty, so it has no vector", hint="leave it out")
        return encodable(text)

    def _check(self, text: str, vector: Vector) -> None:
        if self._dimensions is not None and len(vector) != self._dimensions:
            raise ModelRejected(
                f"{self.name} made a vector of {len(vector)} numbers, not {self._dimensions}, of “{clipped(text, 60)}”",
                hint="set 'dimensions' under [embedding] to what the model supports; if the model behind the name "
                f"has changed, remove the cache: {VectorCache().file}",
            )
        if not is_usable(vector):
            raise ModelRejected(
                f"{self.name} makes no vector of “{clipped(text, 60)}”: zeros, or no numbers",
                hint="mark that text with 'skip: true', or set a model that supports its language",
            )
        self._dimensions = len(vector)


class CachedEncoder:
    """`encoder`, asked only for what is not in the cache; what arrives is remembered at once, batch by batch."""

    def __init__(self, encoder: TextEncoder, cache: VectorCache) -> None:
        self._encoder, self._cache = encoder, cache
        self.name, self.identity = encoder.name, encoder.identity
        self.server, self.prefixes = encoder.server, encoder.prefixes

    def encode(self, texts: Sequence[str], kind: Side, took: Took) -> None:
        """Embed what is not known."""
        prefix = self.prefixes.of(kind)
        keys = [digest(self.identity, self.server, kind, prefix, text, length=40) for text in texts]
        known = self._cache.get(keys)
        if known:
            places = [i for i, key in enumerate(keys) if key in known]
            took(places, [known[keys[i]] for i in places])
        missing = [i for i, key in enumerate(keys) if key not in known]
        if not missing:
            return

        def took_missing(places: Sequence[int], vectors: Sequence[Vector]) -> None:
            took([missing[i] for i in places], vectors)  # which refuses what is no vector
            self._cache.put({keys[missing[i]]: vector for i, vector in zip(places, vectors, strict=True)})

        self._encoder.encode([texts[i] for i in missing], kind, took_missing)
