"""``FastEmbed/…``: ONNX models without PyTorch; of FastEmbed's list, or any in a folder.

FastEmbed knows which of its models want a prefix and adds none, so ours are added here; one of its models
tells questions from documents inside, so both of its functions are used.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lmm.config import ModelSettings
from lmm.disk.files import cache_folder
from lmm.errors import ModelNotFound
from lmm.models.embedders.encoder import Vector
from lmm.models.embedders.local import Encode, LocalEncoder, folder_of, require, rows, state_of
from lmm.models.embedders.prefixes import Prefixes
from lmm.models.port import Side

_ONNX_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")


def open_fastembed(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A model of FastEmbed.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist or holds no ONNX model; from `encode`, the model
            cannot be loaded.
    """
    require("fastembed", settings)
    folder = folder_of(settings)
    model_file = _onnx_file(folder, settings) if folder else ""

    def load() -> Encode:
        model = _in_folder(folder, model_file) if folder else _of_the_list(settings)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            prefixed = [prefixes.of(kind) + text for text in texts]
            run = model.query_embed if kind == "query" else model.passage_embed
            return rows(run(prefixed, batch_size=len(texts)))

        return encode

    return LocalEncoder(settings, prefixes, load, batch_size=64, weights=state_of(folder))


def _of_the_list(settings: ModelSettings) -> Any:
    from fastembed import TextEmbedding

    name = settings.model.model
    if name.lower() not in {str(known["model"]).lower() for known in TextEmbedding.list_supported_models()}:
        raise ModelNotFound(
            f"FastEmbed does not know the model '{name}'",
            where=settings.origin,
            hint="name one of its list, a folder with an ONNX model, or take SentenceTransformers/…",
        )
    # Its own default is the folder for temporary files: downloaded again after every restart.
    weights = os.environ.get("FASTEMBED_CACHE_PATH") or str(cache_folder() / "fastembed")
    return TextEmbedding(name, cache_dir=weights)


def _onnx_file(folder: Path, settings: ModelSettings) -> str:
    found = next((file for file in _ONNX_FILES if (folder / file).is_file()), None)
    if found is None:
        raise ModelNotFound(
            f"{settings.model}: the folder holds no ONNX model",
            where=settings.origin,
            hint=f"one of {', '.join(_ONNX_FILES)} is looked for",
        )
    return found


def _in_folder(folder: Path, model_file: str) -> Any:
    """A model that FastEmbed does not list: how it pools is in the files of a sentence transformer, else the mean."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = str(folder)
    if name.lower() not in {str(known["model"]).lower() for known in TextEmbedding.list_supported_models()}:
        pooling = _json(folder / "1_Pooling" / "config.json")
        modules = _json(folder / "modules.json")
        kind = PoolingType.CLS if pooling.get("pooling_mode_cls_token") else PoolingType.MEAN
        kind = PoolingType.LAST_TOKEN if pooling.get("pooling_mode_lasttoken") else kind
        TextEmbedding.add_custom_model(
            model=name,
            pooling=kind,
            normalization=not modules or any("Normalize" in str(module.get("type")) for module in modules),
            sources=ModelSource(hf=name),
            dim=int(_json(folder / "config.json")["hidden_size"]),
            model_file=model_file,
        )
    return TextEmbedding(name, specific_model_path=name)


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
