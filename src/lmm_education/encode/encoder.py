"""Encode chunks and questions as vectors, as the encoding model says.

A question must be encoded as the chunks were: `Encoder.manifest_parts` goes into the store's manifest, and
`Encoder.fit` refuses a store that was made otherwise.

Where is a provider added? One row of `lmm.providers.PROVIDERS`, which names a row of `ADAPTERS` here.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import sqlite3
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from lmm.config import EmbeddingSettings
from lmm.disk import digest
from lmm.disk.files import cache_folder
from lmm.errors import ConfigError, ModelKeyMissing, ModelNotFound, ModelNotInstalled, ModelRejected
from lmm.messages import encodable
from lmm.models.port import Embedder, Progress, Side
from lmm.providers import PROVIDERS, is_static
from lmm.terminal import clipped
from lmm_education.config import CourseSettings
from lmm_education.encode.bm25 import BUILTIN, WITH_GRAMS, Bm25Encoder, language_code, separated, sparse_vector
from lmm_education.encode.local import (
    MINILM,
    LocalEncoder,
    check_library,
    load_fastembed,
    open_fastembed,
    open_minilm,
    open_model2vec,
    open_sentence_transformers,
    open_wordllama,
)
from lmm_education.encode.remote import APIS, RemoteEncoder
from lmm_education.encode.text_encoder import (
    Prefixes,
    Vector,
    identity_of,
    is_usable,
    prefixes_of,
)
from lmm_education.encodings import (
    DENSE,
    MULTI,
    SPARSE,
    Encoding,
    Source,
    VectorName,
    find_encoding,
    source_text,
    source_texts,
)
from lmm_education.material import Chunk, Dense, SparseVector
from lmm_education.store.port import Manifest, Vector as StoredVector, mismatch

LIMIT = 1 << 30  # bytes: 160,000 vectors of 1,536 numbers
_FILE = "vectors-2.sqlite3"  # another layout gets another number
_WAIT = 10.0  # seconds for another process's work
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)"
# Without pages that are free for new rows: the file itself does not shrink.
_SIZE = """SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
_log = logging.getLogger(__name__)
T = TypeVar("T")


# -- vectors that were made before ------------------------------------------------------------------


class VectorCache:
    """Vectors by key, so that nothing is embedded twice: one SQLite `file` in the user's cache folder.

    Several processes may use it at once. It is bounded: what would be larger than about `limit` bytes begins anew. It
    never stands in the way: where it cannot be read or written, the program goes on without it, and says so once, in
    the log of this module; a damaged file is removed, and the next program begins a new one.

    Connections are opened for each call (0.3 ms): they must not be shared between threads or be inherited by a
    forked process.
    """

    def __init__(self, file: Path | None = None, *, limit: int = LIMIT) -> None:
        self.file = file or cache_folder() / _FILE
        self.limit = limit
        self._is_off = False

    def get(self, keys: Sequence[str]) -> dict[str, Vector]:
        """The vectors that are known."""

        def read(connection: sqlite3.Connection) -> dict[str, Vector]:
            query = "SELECT vector FROM vectors WHERE key = ?"
            found = ((key, connection.execute(query, (key,)).fetchone()) for key in keys)
            return {key: array("f", row[0]) for key, row in found if row}

        return self._try(read, {})

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Remember vectors; on return they are in the file."""

        def write(connection: sqlite3.Connection) -> None:
            if connection.execute(_SIZE).fetchone()[0] > self.limit:
                connection.execute("DELETE FROM vectors")
            values = [(key, vector.tobytes()) for key, vector in vectors.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)

        self._try(write, None)

    def _try(self, work: Callable[[sqlite3.Connection], T], default: T) -> T:
        """`work` on the file; if it cannot be used, `default`, now and from now on."""
        if self._is_off:
            return default
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))  # a vector tells something of its text
            opened = sqlite3.connect(self.file, timeout=_WAIT, isolation_level=None)
            with contextlib.closing(opened) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                return work(connection)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._is_off = True
            _log.warning("vectors are not cached: %s: %s", self.file, error)
            if not isinstance(error, (sqlite3.OperationalError, OSError)):  # it is damaged
                with contextlib.suppress(OSError):
                    self.file.unlink()
            return default


# -- dense -----------------------------------------------------------------------------------------

# A model in this process or on a server, with its name, its `identity` (everything that a vector depends on besides
# text, side and prefix), its `server` (two may give one name to two models) and its prefixes.
TextEncoder = LocalEncoder | RemoteEncoder
# How to speak to a provider's embedding models, by `Provider.embedder`.
ADAPTERS: dict[str, Callable[[EmbeddingSettings, Prefixes], TextEncoder]] = {
    "builtin": lambda settings, prefixes: (open_minilm if settings.model.model == MINILM else open_wordllama)(
        settings, prefixes
    ),
    "fastembed": open_fastembed,
    "sentence_transformers": open_sentence_transformers,
    "model2vec": open_model2vec,
    **{name: functools.partial(RemoteEncoder, api) for name, api in APIS.items()},
}
# Static word vectors are made at thousands a second: a cache would save tenths of a second for a whole course, and
# write a kilobyte for each chunk (benchmarks/results.md).


def open_embedder(settings: EmbeddingSettings, *, cache: bool = True) -> TextEmbedder:
    """The embedding model of a tier (`Settings.embedding`), ready to embed; weights are loaded when first needed.

    Raises:
        ModelNotFound: the provider has no embedding models, or not this one.
        ModelKeyMissing: the provider needs a key and there is none.
        ModelNotInstalled: the extra for the provider is not installed.

    >>> from lmm.config import load_settings
    >>> embedder = open_embedder(load_settings('[embedding]\\nmodel = "Builtin/wordllama"', {}).embedding)
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
    of_model = Prefixes() if is_static(str(settings.model)) else prefixes_of(settings.model.model)
    query, document = settings.query_prefix, settings.document_prefix  # which win over those of the model's card
    prefixes = Prefixes(of_model.query if query is None else query, of_model.document if document is None else document)
    encoder = ADAPTERS[provider.embedder](settings, prefixes)
    worth_it = cache and not is_static(str(settings.model))
    return TextEmbedder(encoder, settings.dimensions, cache=VectorCache() if worth_it else None)


shared_embedder = functools.lru_cache(maxsize=16)(open_embedder)
"""The same model for equal settings: weights are loaded once, limits hold over all calls."""


class TextEmbedder:
    """An encoder behind the port: equal texts are embedded once, unusable vectors are refused, and with a cache, the
    encoder is asked only for what is not in it; what arrives is remembered at once, batch by batch."""

    def __init__(
        self, encoder: TextEncoder, dimensions: int | None = None, *, cache: VectorCache | None = None
    ) -> None:
        self._encoder, self._dimensions, self._cache = encoder, dimensions, cache
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
        for place, text in enumerate(texts, 1):
            if not text.strip():
                raise ModelRejected(f"text {place} of {len(texts)} is empty, so it has no vector", hint="leave it out")
        prepared = list(map(encodable, texts))
        different, found = list(dict.fromkeys(prepared)), dict[str, Vector]()

        def collect(vectors: Mapping[str, Vector]) -> None:
            for text, vector in vectors.items():
                self._check(text, vector)
            found.update(vectors)
            if on_progress is not None:
                on_progress(len(texts) - len(different) + len(found), len(texts))

        keys, encoder = dict[str, str](), self._encoder
        if self._cache and different:
            of = (encoder.identity, encoder.server, kind, encoder.prefixes.of(kind))
            keys = {text: digest(*of, text, length=40) for text in different}
            cached = self._cache.get([*keys.values()])
            if cached:
                collect({text: cached[key] for text, key in keys.items() if key in cached})
        missing = [text for text in different if text not in found]

        def on_vectors(places: Sequence[int], vectors: Sequence[Vector]) -> None:
            made = {missing[place]: vector for place, vector in zip(places, vectors, strict=True)}
            collect(made)  # which refuses what is no vector
            if self._cache:
                self._cache.put({keys[text]: vector for text, vector in made.items()})

        if missing:
            encoder.encode(missing, kind, on_vectors)
        return [found[text].tolist() for text in prepared]

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


# -- sparse ----------------------------------------------------------------------------------------
# ``Builtin/bm25``, and through FastEmbed learned ones (SPLADE, miniCOIL), mostly English.

_WHERE = "[RAG] sparse_model"


def open_sparse(name: str) -> Bm25Encoder | LearnedEncoder:
    """The sparse model of that name; ``[RAG] sparse_model`` in config.toml.

    Raises:
        ConfigError: there is no such provider.
        ModelNotInstalled: the extra is missing.
    """
    provider, _, model = name.partition("/")
    if name.lower() in (BUILTIN.lower(), WITH_GRAMS.lower()):
        return Bm25Encoder(grams=name.lower() == WITH_GRAMS.lower())
    if provider.lower() == "fastembed" and model:
        return LearnedEncoder(model)
    raise ConfigError(
        f"unknown sparse model '{name}'",
        where=_WHERE,
        hint=f"use {BUILTIN}, or FastEmbed/ and a sparse model, such as FastEmbed/prithivida/Splade_PP_en_v1",
    )


class LearnedEncoder:
    """``FastEmbed/…``; loaded, and downloaded if need be, when first used."""

    def __init__(self, model: str) -> None:
        check_library("fastembed", f"FastEmbed/{model}", _WHERE)
        self.name = f"FastEmbed/{model}"
        self._model = model

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """Encode texts; the model decides itself which languages it knows."""
        model = load_fastembed("sparse model", self._model, _WHERE)
        return [sparse_vector(v.indices, v.values) for v in model.passage_embed(list(texts))]

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """Encode a question."""
        vector = next(iter(load_fastembed("sparse model", self._model, _WHERE).query_embed(text)))
        return sparse_vector(vector.indices, vector.values)


# -- both kinds ------------------------------------------------------------------------------------

Vectors = dict[str, StoredVector]
MULTILINGUAL = "FastEmbed/intfloat/multilingual-e5-large"
"""What we advise where the built-in embedding model will not do."""
ENGLISH_ONLY = "Builtin/"
"""How the names of the models begin that know English only."""
NONE_IN_STORE = "none in store"
"""Where an embedding model's name comes from if the store was made without one, because there was none."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoding with the models it needs. Made by `open_encoder`.

    `notices` are messages to show the user once, `language` that of texts for which none is given.
    """

    encoding: Encoding
    language: str = "en"
    embedder: Embedder | None = None
    sparse: Bm25Encoder | LearnedEncoder | None = None
    notices: tuple[str, ...] = ()

    @property
    def vectors(self) -> tuple[VectorName, ...]:
        """The names of the vectors that are made: those of the encoding for which there is a model."""
        named = self.encoding.vectors_with(self.space)
        return tuple(name for name in named if (self.sparse if name == SPARSE else self.embedder))

    @property
    def manifest_parts(self) -> dict[str, Any]:
        """The fields of `Manifest` that are decided here. May ask the embedding model for one vector."""
        return {
            "encoding": self.encoding.name,
            "embedding": self.space,
            "dimensions": self.embedder.dimensions if self.embedder else 0,
            "sparse": self.sparse.name if self.sparse else "",
            "language": self.language,
            "sentences": self.reads_sentences,
        }

    @property
    def reads_sentences(self) -> bool:
        """Whether each sentence of a passage has a vector of its own beside the passage's."""
        return MULTI in self.vectors and "sentences" in self.encoding.multi

    @property
    def weighs_words(self) -> bool:
        """Whether the words of a question count by how rare they are (`Frequencies.weigh`); learned sparse models other
        than these weigh them themselves."""
        name = self.sparse.name.lower() if self.sparse else ""
        return any(part in name for part in ("bm25", "bm42", "minicoil"))

    @property
    def space(self) -> str:
        """All that a dense vector depends on besides its text; empty without an embedding model."""
        return getattr(self.embedder, "space", self.embedder.name) if self.embedder else ""

    def encode(
        self, chunks: Sequence[Chunk], *, language: str | Sequence[str] = "", on_progress: Progress | None = None
    ) -> list[Vectors]:
        """The vectors of each chunk, in order. A text without words, or no annotations, makes no vector.

        `language` is that of all chunks, or of each; `on_progress` is told how many texts the embedding model has read,
        of how many. Give it some thousand chunks at most: vectors take room.

        Raises:
            ModelError: the embedding model does not answer.
        """
        given = [language] * len(chunks) if isinstance(language, str) else language
        languages = [code or self.language for code in given]
        found: list[Vectors] = [{} for _ in chunks]
        if self.sparse and self.encoding.sparse:
            texts = [source_text(chunk, self.encoding.sparse) for chunk in chunks]
            for vectors, made in zip(found, self.sparse.documents(texts, languages), strict=True):
                if made.indices:
                    vectors[SPARSE] = made
        jobs = list[tuple[int, VectorName, str]]()
        for i, chunk in enumerate(chunks if self.embedder else ()):
            jobs += [(i, name, text) for name, text in self._dense_texts(chunk)]
        if self.embedder and jobs:
            embedded = self.embedder.embed([text for *_, text in jobs], kind="document", on_progress=on_progress)
            several: dict[int, list[Dense]] = {}
            for (i, name, _), vector in zip(jobs, embedded, strict=True):
                if name == MULTI:
                    found[i][MULTI] = several.setdefault(i, [])
                    several[i].append(vector)
                else:
                    found[i][name] = vector
        return found

    def _dense_texts(self, chunk: Chunk) -> list[tuple[VectorName, str]]:
        """The texts to embed for a chunk, with the vector that each is for; empty texts are left out."""
        encoding = self.encoding
        multi = encoding.multi if MULTI in self.vectors else ()
        sources: list[tuple[VectorName, Source]] = [(MULTI, source) for source in multi]
        if encoding.dense:
            sources.append((DENSE, encoding.dense))
        return [(name, text) for name, source in sources for text in source_texts(chunk, source) if text.strip()]

    def encode_query(self, text: str, *, languages: Collection[str] = ()) -> Vectors:
        """Encode a question; return its vectors by the name of the leg that uses them.

        `languages` are those of the texts in the store. A question without a word makes no vectors.
        """
        if not text.strip():
            return {}
        found: Vectors = {}
        if self.sparse and self.encoding.sparse:
            made = self.sparse.query(text, languages or (self.language,))
            if made.indices:
                found[SPARSE] = made
        if self.embedder:
            vector = self.embedder.embed([text], kind="query")[0]
            if self.encoding.dense:
                found[DENSE] = vector
            if MULTI in self.vectors:
                found[MULTI] = [vector]
        return found

    def hash_of(self, chunk: Chunk, *, language: str = "") -> str:
        """A hash of everything the chunk's vectors depend on: it changes if and only if they may."""
        parts: list[Any] = [self.encoding.name]
        if self.sparse and self.encoding.sparse:
            text = source_text(chunk, self.encoding.sparse)
            code = language_code(language or self.language)
            parts.append([self.sparse.name, code, separated(text, code)])
        if self.embedder:
            parts.append([self.space, *self._dense_texts(chunk)])
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def fit(self, manifest: Manifest, *, location: str = "") -> Encoder:
        """Return the encoder that can query a store with this manifest.

        A store without dense vectors (made where the built-in model would not do) is asked without them.

        Raises:
            StoreMismatch: the store was made with another encoding or other models; says what to do.
        """
        fitted = self
        if not manifest.embedding and self.embedder:
            fitted = replace(self, embedder=None)
        if fitted.sparse and {fitted.sparse.name, manifest.sparse} == {BUILTIN, WITH_GRAMS}:  # the words are the same
            fitted = replace(fitted, sparse=open_sparse(manifest.sparse))
        sparse = fitted.sparse.name if fitted.sparse else ""
        now = replace(
            manifest,
            encoding=fitted.encoding.name,
            embedding=fitted.space,
            sparse=sparse,
            sentences=fitted.reads_sentences,
        )
        if manifest.differences(now):
            raise mismatch(manifest, now, where=location)
        return fitted


def open_encoder(
    settings: CourseSettings,
    embedding: EmbeddingSettings,
    *,
    embedder: Embedder | None = None,
) -> Encoder:
    """The encoder of a course. `embedder` is used instead of opening `embedding`; weights are loaded when needed.

    ``hybrid`` does without a dense vector where nobody chose an embedding model and the built-in one does not
    know the course's language, or is not installed; `Encoder.notices` says so.

    Raises:
        ConfigError: an unknown encoding or sparse model.
        ModelError: the embedding model cannot be opened.
    """
    encoding, language = find_encoding(settings.encoding), settings.preparation.language
    notices: tuple[str, ...] = ()
    embeds = bool(encoding.dense or encoding.multi)
    if embeds and embedder is None:
        embedder, notices = _open_embedder(encoding, language, embedding)
    # Where nothing knows what words mean, their letters tell which belong together.
    alone = encoding.by_question and embedder is None and settings.sparse_model == BUILTIN
    return Encoder(
        encoding,
        language,
        embedder=embedder if embeds else None,
        sparse=open_sparse(WITH_GRAMS if alone else settings.sparse_model) if encoding.sparse else None,
        notices=notices,
    )


def _open_embedder(
    encoding: Encoding, language: str, embedding: EmbeddingSettings
) -> tuple[Embedder | None, tuple[str, ...]]:
    advice = f'set model = "{MULTILINGUAL}" or another multilingual model under [embedding] in config.toml'
    builtin, chosen = str(embedding.model).startswith(ENGLISH_ONLY), embedding.layer not in ("default", NONE_IN_STORE)
    foreign = builtin and language_code(language) != "en"
    can_do_without = encoding.by_question and not chosen
    if embedding.layer == NONE_IN_STORE and can_do_without:
        return None, ()
    if foreign and can_do_without:
        return None, (f"searching by words alone (BM25): {embedding.model} supports English only; {advice}",)
    try:
        opened = shared_embedder(embedding)
    except ModelNotInstalled:
        if not (builtin and can_do_without):
            raise
        return None, (f"searching by words alone (BM25): {embedding.model} is not installed; {advice}",)
    notice = f"{embedding.model} supports English only, the course is in '{language}'; {advice}"
    return opened, (notice,) if foreign else ()
