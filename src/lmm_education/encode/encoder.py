"""From chunks and questions to vectors, as the encoding model says.

A question must be encoded as the chunks were: `Encoder.manifest_parts` goes into the store's manifest, and
`Encoder.fit` refuses a store that was made otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lmm.config import ModelSettings
from lmm.errors import ConfigError, ModelNotInstalled
from lmm.models.port import Embedder, Progress
from lmm_education.config import CourseSettings
from lmm_education.encode.bm25 import BUILTIN, WITH_GRAMS, Bm25Encoder, language_code, sparse_vector
from lmm_education.encode.embed import shared_embedder
from lmm_education.encode.fastembed import check_installed, load_fastembed
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
    uses_idf,
)
from lmm_education.material import Chunk, Dense, SparseVector
from lmm_education.store.manifest import Manifest, mismatch
from lmm_education.store.port import Vector

# -- sparse ----------------------------------------------------------------------------------------
# ``Builtin/bm25``, and through FastEmbed learned ones (SPLADE, miniCOIL), mostly English.

_WHERE = "[RAG] sparse_model"


class SparseEncoder(Protocol):
    """What makes sparse vectors. `name` includes everything that changes those of documents."""

    @property
    def name(self) -> str:
        """``Provider/model``, with its parameters."""
        ...

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """A vector per text, empty where a text has no word that counts."""
        ...

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """The question as it is to be compared with texts in all of these languages."""
        ...


def open_sparse(name: str) -> SparseEncoder:
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
        check_installed("fastembed", f"FastEmbed/{model}", _WHERE)
        self.name = f"FastEmbed/{model}"
        self._model = model

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """What the model makes of texts; it decides itself which languages it knows."""
        model = load_fastembed("sparse model", self._model, _WHERE)
        return [sparse_vector(v.indices, v.values) for v in model.passage_embed(list(texts))]

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """What the model makes of a question."""
        vector = next(iter(load_fastembed("sparse model", self._model, _WHERE).query_embed(text)))
        return sparse_vector(vector.indices, vector.values)


# -- both kinds ------------------------------------------------------------------------------------

Vectors = dict[str, Vector]
MULTILINGUAL = "FastEmbed/intfloat/multilingual-e5-large"
"""What we advise where the built-in embedding model will not do."""
ENGLISH_ONLY = "Builtin/"
"""How the names of the models begin that know English only."""
NONE_IN_STORE = "default: none in the store"
"""Where an embedding model's name comes from if the store was made without one, because there was none."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoding with the models it needs. Made by `open_encoder`.

    `notices` is what the user has to be told once, `language` that of texts for which none is given.
    """

    encoding: Encoding
    language: str = "en"
    embedder: Embedder | None = None
    sparse: SparseEncoder | None = None
    notices: tuple[str, ...] = ()

    @property
    def vectors(self) -> tuple[VectorName, ...]:
        """The vectors that are made: those of the encoding for which there is a model."""
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
        """Whether the words of a question count by how rare they are (`Frequencies.weigh`)."""
        return self.sparse is not None and uses_idf(self.sparse.name)

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
        if self.embedder:
            self._embed(chunks, found, self.embedder, on_progress)
        return found

    def _embed(
        self, chunks: Sequence[Chunk], found: Sequence[Vectors], embedder: Embedder, on_progress: Progress | None
    ) -> None:
        jobs = [(i, name, text) for i, chunk in enumerate(chunks) for name, text in self._dense_texts(chunk)]
        if not jobs:
            return
        made = embedder.embed([text for *_, text in jobs], kind="document", on_progress=on_progress)
        several: dict[int, list[Dense]] = {}
        for (i, name, _), vector in zip(jobs, made, strict=True):
            if name == MULTI:
                several.setdefault(i, []).append(vector)
            else:
                found[i][name] = vector
        for i, of_chunk in several.items():
            found[i][MULTI] = of_chunk

    def _dense_texts(self, chunk: Chunk) -> list[tuple[VectorName, str]]:
        """The texts to embed for a chunk, with the vector that each is for; empty texts are left out."""
        encoding = self.encoding
        multi = encoding.multi if MULTI in self.vectors else ()
        sources: list[tuple[VectorName, Source]] = [(MULTI, source) for source in multi]
        if encoding.dense:
            sources.append((DENSE, encoding.dense))
        return [(name, text) for name, source in sources for text in source_texts(chunk, source) if text.strip()]

    def encode_query(self, text: str, *, languages: Collection[str] = ()) -> Vectors:
        """The vectors of a question, by the name of the leg that asks with them.

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
            parts.append([self.sparse.name, language_code(language or self.language), text])
        if self.embedder:
            parts.append([self.space, *self._dense_texts(chunk)])
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def fit(self, manifest: Manifest, *, location: str = "") -> Encoder:
        """The encoder that can ask a store with this manifest.

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
    embedding: ModelSettings,
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
    if encoding.embeds and embedder is None:
        embedder, notices = _open_embedder(encoding, language, embedding)
    # Where nothing knows what words mean, their letters tell which belong together.
    alone = encoding.by_question and embedder is None and settings.sparse_model == BUILTIN
    return Encoder(
        encoding,
        language,
        embedder=embedder if encoding.embeds else None,
        sparse=open_sparse(WITH_GRAMS if alone else settings.sparse_model) if encoding.sparse else None,
        notices=notices,
    )


def _open_embedder(
    encoding: Encoding, language: str, embedding: ModelSettings
) -> tuple[Embedder | None, tuple[str, ...]]:
    advice = f'set model = "{MULTILINGUAL}" or another multilingual model under [embedding] in config.toml'
    builtin, chosen = str(embedding.model).startswith(ENGLISH_ONLY), not embedding.origin.startswith("default")
    foreign = builtin and language_code(language) != "en"
    can_do_without = encoding.by_question and not chosen
    if embedding.origin == NONE_IN_STORE and can_do_without:
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
