"""Models of libraries that may be missing; and FastEmbed's: ONNX models of its list without PyTorch, downloaded when
they are first used."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from typing import Any

from lmm.disk.files import cache_folder
from lmm.errors import ModelNotFound, ModelNotInstalled


def check_installed(module: str, model: str, where: str) -> None:
    """Fail early where a library is missing, and say what installs it.

    Raises:
        ModelNotInstalled: there is no `module`, which the `model` named at `where` needs.
    """
    if importlib.util.find_spec(module) is None:
        raise ModelNotInstalled(
            f"{model} needs the package {module}",
            where=where,
            hint=f"pip install 'lmmarkdown[{module.replace('_', '-')}]'",
        )


_CLASSES = {
    "embedding model": ("fastembed", "TextEmbedding"),
    "sparse model": ("fastembed", "SparseTextEmbedding"),
    "cross-encoder": ("fastembed.rerank.cross_encoder", "TextCrossEncoder"),
}


@functools.lru_cache(maxsize=8)
def load_fastembed(kind: str, model: str, where: str) -> Any:
    """A model of a kind in `_CLASSES`, as FastEmbed has it.

    Raises:
        ModelNotFound: it is not in FastEmbed's list, or cannot be loaded.
    """
    module, name = _CLASSES[kind]
    library = getattr(importlib.import_module(module), name)
    known = {str(row["model"]).lower(): str(row["model"]) for row in library.list_supported_models()}
    if model.lower() not in known:
        raise ModelNotFound(
            f"FastEmbed has no {kind} '{model}'", where=where, hint="it has: " + ", ".join(known.values())
        )
    # Its own default is the folder for temporary files: downloaded again after every restart.
    weights = os.environ.get("FASTEMBED_CACHE_PATH") or str(cache_folder() / "fastembed")
    try:
        return library(known[model.lower()], cache_dir=weights)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelNotFound(
            f"FastEmbed/{model} cannot be loaded: {error}",
            where=where,
            hint="its weights are downloaded on first use; check the connection",
        ) from error
