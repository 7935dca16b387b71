"""Embedding models of libraries that a user installs: loaded when they are needed, one call at a time."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lmm.config import ModelSettings
from lmm.disk.digest import digest
from lmm.errors import ModelError, ModelNotFound, ModelNotInstalled
from lmm.models.port import Side
from lmm.providers import PROVIDERS
from lmm_education.encode.embedders.text_encoder import Prefixes, Took, Vector, batches, identity_of, shortened
from lmm_education.encode.fastembed import check_installed, load_fastembed

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
        settings: ModelSettings,
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

    def encode(self, texts: Sequence[str], kind: Side, took: Took) -> None:
        """Embed; the longest texts first, so that what does not fit into memory fails at once."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        with self._lock:
            encode = self._encode = self._encode or self._loaded()
            for part in batches([texts[i] for i in order], self._batch_size, _CHARACTERS):
                places = [order[i] for i in part]
                rows = encode([texts[i] for i in places], kind)
                took(places, [shortened(row, self._dimensions) for row in rows])

    def _loaded(self) -> Encode:
        try:
            return self._load()
        except ModelError:
            raise
        except ImportError as error:
            reason = " ".join(str(error).split())
            raise ModelNotInstalled(
                f"{self.name} needs a package that is missing or does not fit the others: {reason[:300]}",
                hint=f"pip install --upgrade 'lmmarkdown[{self._extra}]'",
            ) from error
        except Exception as error:  # whatever a library raises about a model that it cannot load
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelNotFound(
                f"{self.name} could not be loaded: {reason[:300]}",
                hint="weights are downloaded once, when a model is first used: connect to the network, check the "
                "name, or give a folder with them",
            ) from error


def rows(matrix: Any) -> list[Vector]:
    """The rows of a NumPy matrix, or of anything that yields NumPy rows, as vectors."""
    vectors = []
    for numbers in matrix:
        vector = array("f")
        vector.frombytes(numbers.astype("f4", copy=False).tobytes())
        vectors.append(vector)
    return vectors


def folder_of(settings: ModelSettings) -> Path | None:
    """The folder that a model's name means, or None if it means a model of the hub.

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
    """A digest of the names, sizes and times of a folder's files: other weights, other vectors."""
    if folder is None:
        return ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return digest(repr(found), length=16)


# -- Model2Vec --------------------------------------------------------------------------------------
# ``Model2Vec/…``: static word vectors distilled from a sentence transformer, of the hub or in a folder. Small and
# fast as the built-in model, and there are multilingual ones (``Model2Vec/minishlab/potion-multilingual-128M``). A
# text none of whose words the model knows has no vector.


def open_model2vec(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A static model; it has no sides, and so no prefixes but those from the settings.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    check_installed("model2vec", str(settings.model), settings.origin)
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


def open_sentence_transformers(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A sentence transformer, on the GPU if there is one.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    check_installed("sentence_transformers", str(settings.model), settings.origin)
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
# ``FastEmbed/…``: ONNX models of its list, without PyTorch. It knows which of them want a prefix and adds none, so ours
# are added here; one of its models tells questions from documents inside, so both of its functions are used.


def open_fastembed(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A model of FastEmbed's list.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: from `encode`, there is no such model, or it cannot be loaded.
    """
    check_installed("fastembed", str(settings.model), settings.origin)

    def load() -> Encode:
        model = load_fastembed("embedding model", settings.model.model, settings.origin)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            prefixed = [prefixes.of(kind) + text for text in texts]
            run = model.query_embed if kind == "query" else model.passage_embed
            return rows(run(prefixed, batch_size=len(texts)))

        return encode

    return LocalEncoder(settings, prefixes, load, batch_size=64)
