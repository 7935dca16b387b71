"""Sparse models: ``Builtin/bm25``, and through FastEmbed learned ones (SPLADE, miniCOIL), mostly English."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from lmm.disk.files import cache_folder
from lmm.errors import ConfigError, ModelNotFound, ModelNotInstalled
from lmm_education.encode.bm25 import BUILTIN, WITH_GRAMS, Bm25Encoder, sparse_vector
from lmm_education.material import SparseVector


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
        where="[RAG] sparse_model",
        hint=f"use {BUILTIN}, or FastEmbed/ and a sparse model, such as FastEmbed/prithivida/Splade_PP_en_v1",
    )


class LearnedEncoder:
    """``FastEmbed/…``; loaded, and downloaded if need be, when first used."""

    def __init__(self, model: str) -> None:
        if find_spec("fastembed") is None:
            raise ModelNotInstalled(
                f"FastEmbed/{model} needs the package fastembed",
                where="[RAG] sparse_model",
                hint="pip install 'lmmarkdown[fastembed]'",
            )
        self.name = f"FastEmbed/{model}"
        self._model = model

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """What the model makes of texts; it decides itself which languages it knows."""
        return [sparse_vector(v.indices, v.values) for v in _load_fastembed(self._model).passage_embed(list(texts))]

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """What the model makes of a question."""
        vector = next(iter(_load_fastembed(self._model).query_embed(text)))
        return sparse_vector(vector.indices, vector.values)


@functools.lru_cache(maxsize=4)
def _load_fastembed(model: str) -> Any:
    from fastembed import SparseTextEmbedding

    known = {str(row["model"]).lower(): str(row["model"]) for row in SparseTextEmbedding.list_supported_models()}
    if model.lower() not in known:
        raise ModelNotFound(
            f"FastEmbed has no sparse model '{model}'",
            where="[RAG] sparse_model",
            hint="it has: " + ", ".join(known.values()),
        )
    # FastEmbed's own default is the folder for temporary files.
    weights = os.environ.get("FASTEMBED_CACHE_PATH") or str(cache_folder() / "fastembed")
    try:
        return SparseTextEmbedding(known[model.lower()], cache_dir=weights)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelNotFound(
            f"FastEmbed/{model} cannot be loaded: {error}",
            where="[RAG] sparse_model",
            hint="its weights are downloaded on first use; check the connection",
        ) from error
