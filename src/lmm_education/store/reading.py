"""A generation of the embedded store that is open for reading."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmm_education.errors import StoreError
from lmm_education.frequencies import Frequencies
from lmm_education.store.folders import copy_folder, disk_full, stand_in
from lmm_education.store.generations import MANIFEST, Generation, Lease, Stamp, cannot_write, check_files, damaged
from lmm_education.store.layout import check_format, vectors_of
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import CollectionName
from lmm_education.store.shard import Shard

_TO_OPEN = 1 << 20  # bytes that must be free where a shard is opened in place
FREQUENCIES = "frequencies.bin"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class View:
    """A generation that is open for reading. It is closed when it was retired and nobody uses it any more."""

    def __init__(self, generation: Generation, lease: Lease, stamp: Stamp) -> None:
        self.generation, self.stamp = generation, stamp
        self._lease, self._shards, self._lock = lease, dict[CollectionName, Shard](), threading.Lock()
        self._users, self._retired = 0, False
        self._private: Path | None = None
        try:
            check_files(generation)
            self.manifest = read_manifest(generation.path)
        except BaseException:
            lease.release()
            raise

    @functools.cached_property
    def frequencies(self) -> Frequencies:
        """The sum of the frequencies in the records of its documents.

        Raises:
            StoreDamaged: the file that has them is not there, or not what was written.
        """
        path = self.generation.path / FREQUENCIES
        try:
            return Frequencies.from_bytes(path.read_bytes())
        except (OSError, ValueError) as error:
            raise damaged(path, "these are no document frequencies of ours") from error

    def shard(self, collection: CollectionName) -> Shard:
        """A collection, opened when it is first asked for.

        Raises:
            StoreDamaged: the engine does not know its files.
            StoreError: it cannot be opened.
        """
        with self._lock:
            if collection not in self._shards:
                self._shards[collection] = self._open(collection)
            return self._shards[collection]

    def _open(self, collection: CollectionName) -> Shard:
        """The engine opens files for writing even to read them, and replaces a small one: where that is forbidden, or
        the disk is full, it gets a copy in the system's folder for temporary files. Of two dense vectors it writes the
        configuration in any order, so that the file's bytes change: then it gets a folder to replace files in."""
        path, vectors = self.generation.path, vectors_of(self.manifest, collection)
        in_place = os.access(path, os.W_OK) and shutil.disk_usage(path).free > _TO_OPEN
        if in_place and not (vectors.dense and vectors.multi):
            return Shard.load(path / collection, collection, vectors)
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="lmm-store-"))
            self._remove_private = weakref.finalize(self, shutil.rmtree, self._private, ignore_errors=True)
        private = self._private / collection
        with telling_of_files(self._private):
            (stand_in if in_place else copy_folder)(path / collection, private)
        return Shard.load(path / collection, collection, vectors, opened=private)

    def enter(self) -> None:
        """Begin to use it."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """End using it."""
        with self._lock:
            self._users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Nobody will enter any more."""
        self._retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        with self._lock:
            if not self._retired or self._users:
                return
            shards, self._shards = list(self._shards.values()), {}
        for shard in shards:
            with contextlib.suppress(StoreError):  # nothing of ours is lost: it was only read
                shard.close()
        if self._private is not None:
            self._remove_private()
        self._lease.release()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a generation.

    Raises:
        StoreDamaged: it is not there, or not one.
        StoreMismatch: another version of lmm wrote it.
    """
    try:
        values = json.loads((path / MANIFEST).read_bytes())
        check_format(values["format"], str(path.parent.parent))
        return Manifest.from_json(values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(path / MANIFEST, "this is no manifest of ours") from error


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write the manifest into a generation."""
    (path / MANIFEST).write_text(json.dumps(manifest.as_json(), ensure_ascii=False, indent=1), encoding="utf-8")


def write_frequencies(path: Path, frequencies: Frequencies) -> None:
    """Write the sum of all documents' frequencies into a generation."""
    (path / FREQUENCIES).write_bytes(frequencies.to_bytes())


@contextmanager
def telling_of_files(folder: Path) -> Iterator[None]:
    """Failures to write the store's files, as errors of ours; what the block's own work raises passes through."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(folder) from error
        if error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(folder):
            raise cannot_write(folder, error) from error
        raise
