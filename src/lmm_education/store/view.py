"""Reading the embedded store: a generation that is held, with its shards open."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as engine

from lmm_education.errors import StoreError, StoreMissing
from lmm_education.frequencies import Frequencies
from lmm_education.store import values
from lmm_education.store.folders import copy_folder, file_errors
from lmm_education.store.generations import MANIFEST, Generation, Lease, Stamp, check_files, damaged
from lmm_education.store.layout import (
    INDEXED,
    check_format,
    engine_path,
    most_first,
    tally,
    values_at,
    vectors_of,
)
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import CollectionName, Fields, Leg, Point, Scored, Where
from lmm_education.store.shard import EDGE, PAGE, Shard, engine_errors

FREQUENCIES = "frequencies.bin"
FACET_PAGE = 4096  # points
_TO_OPEN = 1 << 20  # bytes that must be free where a shard is opened in place


class EdgeReader:
    """Reading, the same in a store and in a run of changes; see `port.Reader`."""

    location: str

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        """The shard of a collection, with what its engine raises as errors of ours; None where nothing was stored."""
        raise NotImplementedError
        yield

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        with self._reading("chunks") as shard:
            opened = self._there(shard)
            options = {"filter": EDGE.where(where), "with_payload": values.to_selector(fields), "with_vector": False}
            requests = [
                engine.QueryRequest(
                    limit=leg.limit, query=engine.Query.Nearest(EDGE.vector(leg.query), using=leg.vector), **options
                )
                for leg in legs
            ]
            return list(map(values.to_scored, opened.engine.query_batch(engine.QueryBatchRequest(requests))))

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Point]:
        """See `port.Reader.get`."""
        with self._reading(collection) as shard:
            wanted = values.known_ids(ids)
            if shard is None or not wanted:
                return []
            records = shard.engine.retrieve(list(wanted), values.to_selector(fields), vectors)
            found = {point.id: point for point in map(values.to_stored, records)}
            return [found[each] for each in wanted if each in found]

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Point]:
        """See `port.Reader.scroll`. All points are of one generation, even if another is published meanwhile."""
        with self._reading(collection) as shard:
            for page in _pages(shard, where, fields, vectors, PAGE) if shard else ():
                yield from map(values.to_stored, page)

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `port.Reader.count`."""
        with self._reading(collection) as shard:
            return shard.engine.count(engine.CountRequest(exact=True, filter=EDGE.where(where))) if shard else 0

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `port.Reader.facet`. The engine counts texts only, and only where there is an index.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        with self._reading("chunks") as shard:
            opened = self._there(shard)
            if key in INDEXED["chunks"] and key in opened.engine.info().payload_schema:
                request = engine.FacetRequest(engine_path(key), limit=limit + 1, exact=True, filter=EDGE.where(where))
                return most_first({str(hit.value): hit.count for hit in opened.engine.facet(request).hits}, limit)
            payloads = (record.payload for page in _pages(opened, where, (key,), False, FACET_PAGE) for record in page)
            return tally((value for payload in payloads for value in values_at(payload, key)), limit)

    def _there(self, shard: Shard | None) -> Shard:
        if shard is None:
            raise StoreMissing(self.location)
        return shard


def _pages(shard: Shard, where: Where, fields: Fields, vectors: bool, size: int) -> Iterator[list[engine.Record]]:
    """The points that fit, page by page."""
    condition, selector, offset = EDGE.where(where), values.to_selector(fields), None
    while True:
        request = engine.ScrollRequest(
            offset=offset, limit=size, filter=condition, with_payload=selector, with_vector=vectors
        )
        page, offset = shard.engine.scroll(request)
        yield page
        if offset is None:
            return


class EdgeView(EdgeReader):
    """A generation that is open for reading, or none where nothing was ever stored. It is closed when it was retired
    and nobody uses it any more."""

    manifest_read: Manifest | None = None

    def __init__(self, location: str, current: tuple[Generation, Lease, Stamp] | None) -> None:
        self.location = location
        self.generation: Generation | None = None
        self._lease: Lease | None = None
        self.pointer: Stamp | None = None
        if current:
            self.generation, self._lease, self.pointer = current
        self._shards, self._lock = dict[CollectionName, Shard](), threading.Lock()
        self._users, self._retired = 0, False
        self._private: Path | None = None
        if self.generation and self._lease:
            try:
                check_files(self.generation)
                self.manifest_read = read_manifest(self.generation.path)
            except BaseException:
                self._lease.release()
                raise

    @property
    def stamp(self) -> str:
        """See `port.StoreView.stamp`: the name of the generation."""
        return self.generation.name if self.generation else ""

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self.manifest_read

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        return self._frequencies

    @functools.cached_property
    def _frequencies(self) -> Frequencies:
        """The sum of the frequencies in the records of its documents.

        Raises:
            StoreDamaged: the file that has them is not there, or not what was written.
        """
        if self.generation is None:
            return Frequencies()
        path = self.generation.path / FREQUENCIES
        try:
            return Frequencies.from_bytes(path.read_bytes())
        except (OSError, ValueError) as error:
            raise damaged(path, "these are no document frequencies of ours") from error

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        shard = self.shard(collection)
        with engine_errors(self.location):
            yield shard

    def shard(self, collection: CollectionName) -> Shard | None:
        """A collection, opened when it is first asked for.

        Raises:
            StoreDamaged: the engine does not know its files.
            StoreError: it cannot be opened.
        """
        with self._lock:
            if collection not in self._shards and self.generation and self.manifest_read:
                path, vectors = self.generation.path / collection, vectors_of(self.manifest_read, collection)
                self._shards[collection] = Shard.load(self._writable(path), collection, vectors)
            return self._shards.get(collection)

    def _writable(self, path: Path) -> Path:
        """The folder of a shard. The engine opens files for writing even to read them, and replaces a small one: where
        that is forbidden, or the disk is full, it gets a copy in the system's folder for temporary files."""
        if os.access(path, os.W_OK) and shutil.disk_usage(path).free > _TO_OPEN:
            return path
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="lmm-store-"))
            self._remove_private = weakref.finalize(self, shutil.rmtree, self._private, ignore_errors=True)
        with file_errors(self._private):
            copy_folder(path, self._private / path.name)
        return self._private / path.name

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
        if self._lease:
            self._lease.release()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a generation.

    Raises:
        StoreDamaged: it is not there, or not one.
        StoreMismatch: another version of lmm wrote it.
    """
    try:
        found: Mapping[str, Any] = json.loads((path / MANIFEST).read_bytes())
        check_format(found["format"], str(path.parent.parent))
        return Manifest.from_json(found)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(path / MANIFEST, "this is no manifest of ours") from error
