"""``Builtin/wordllama``: the mean of static word vectors, in process, English only.

The weights come with the package `wordllama`. Only its files are used, not its code: that takes 0.3 s more
to import, sets up logging for the whole program, and pools batches by padding, which is four times slower for
paragraphs. The vectors are the same, which a test holds. 256 numbers, of which the first 128 or 64 will do
(the weights were trained so): github.com/dleemiller/WordLlama.
"""

from __future__ import annotations

from pathlib import Path

from lmm.config import ModelSettings
from lmm.errors import ConfigError, ModelNotFound, ModelNotInstalled
from lmm.models.port import Side
from lmm.models.tokens import tokenizer_in, wordllama_folder
from lmm_education.encode.embedders.local import Encode, LocalEncoder, rows
from lmm_education.encode.embedders.text_encoder import Prefixes, Vector

NAME = "wordllama"
DIMENSIONS = (256, 128, 64)


def open_wordllama(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """The built-in embedding model.

    Raises:
        ModelNotFound: `Builtin` has no embedding model of that name.
        ModelNotInstalled: there is no wheel of wordllama for this platform.
        ConfigError: `dimensions` is none that the weights were trained for.
    """
    if settings.model.model != NAME:
        raise ModelNotFound(
            f"there is no built-in embedding model '{settings.model.model}'",
            where=settings.origin,
            hint=f"use Builtin/{NAME} or Builtin/minilm",
        )
    if settings.dimensions not in (None, *DIMENSIONS):
        raise ConfigError(
            f"{settings.model} has vectors of {', '.join(map(str, DIMENSIONS))} numbers, not {settings.dimensions}",
            where=settings.origin,
        )
    folder = wordllama_folder()
    if folder is None:
        raise ModelNotInstalled(
            f"{settings.model} needs the package wordllama, which has no wheel for every platform",
            where=settings.origin,
            hint="pip install --only-binary :all: wordllama, or name another model under [embedding] in config.toml",
        )
    return LocalEncoder(settings, prefixes, lambda: _load(folder, prefixes), batch_size=256)


def _load(folder: Path, prefixes: Prefixes) -> Encode:
    import numpy as np
    from safetensors import safe_open

    tokenizer = tokenizer_in(folder)
    with safe_open(folder / "weights" / "l2_supercat_256.safetensors", framework="np") as file:
        weights = file.get_tensor("embedding.weight").astype(np.float32)

    def encode(texts: list[str], kind: Side) -> list[Vector]:
        prefix = prefixes.of(kind)
        encodings = tokenizer.encode_batch_fast([prefix + text for text in texts], add_special_tokens=False)
        means = np.zeros((len(texts), DIMENSIONS[0]), np.float32)
        for mean, encoding in zip(means, encodings, strict=True):
            if encoding.ids:
                weights[encoding.ids].mean(axis=0, out=mean)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return rows(means)

    return encode
