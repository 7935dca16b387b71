"""``SentenceTransformers/…``: any model of that library, of the hub or in a folder.

A model may carry its own prompts for questions and documents; then those are used, and our table is not, so
that nothing is said twice. Prefixes from the settings win over both. Code that comes with a model is not run.
"""

from __future__ import annotations

from typing import Any

from lmm.config import ModelSettings
from lmm.models.embedders.encoder import Vector
from lmm.models.embedders.local import Encode, LocalEncoder, folder_of, require, rows, state_of
from lmm.models.embedders.prefixes import Prefixes
from lmm.models.port import Side

_SIDES = ("query", "document", "passage", "corpus")  # names of prompts that `encode_query` and its twin look for


def open_sentence_transformers(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A sentence transformer, on the GPU if there is one.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    require("sentence_transformers", settings)
    folder = folder_of(settings)
    asked = {"query": settings.query_prefix, "document": settings.document_prefix}

    def load() -> Encode:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder or settings.model.model))
        has_prompts = any(model.prompts.get(side) for side in _SIDES)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            # Given as a prompt, not as text: some models leave it out of the mean.
            prompt = asked[kind] if asked[kind] is not None or has_prompts else prefixes.of(kind)
            options: dict[str, Any] = {} if prompt is None else {"prompt": prompt}
            run = model.encode_query if kind == "query" else model.encode_document
            return rows(run(texts, batch_size=len(texts), show_progress_bar=False, **options))

        return encode

    return LocalEncoder(settings, prefixes, load, batch_size=32, weights=state_of(folder))
