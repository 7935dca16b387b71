"""The embedded store: Qdrant Edge in this process, in a folder of generations.

A reader has a *view*: a generation, with its shards open. Before every query, it checks the pointer
file for a newer generation. A writer copies what it changes into a new generation, which no reader sees before the
pointer moves.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import qdrant_edge as engine

from lmm_education.errors import StoreDamaged, StoreError, StoreMissing
from lmm_education.frequencies import Frequencies
from lmm_education.payloads import WORDS, document_point_id, words_of
from lmm_education.store.generations import (
    MOST_REPLACED,
    Generation,
    Generations,
    check_files,
    check_space,
    copy_folder,
    disk_full,
    file_errors,
    files_of,
    read_records,
    remove_generation,
    size_on_disk,
)
from lmm_education.store.port import (
    COLLECTIONS,
    INDEXED,
    RECORDS,
    SECTIONS,
    UNUSED,
    CollectionName,
    EngineDialect,
    Fields,
    Leg,
    Manifest,
    Point,
    Scored,
    StoreStatus,
    Vectors,
    WaitReporter,
    Where,
    as_stored,
    check_format,
    check_same,
    engine_path,
    known_ids,
    most_first,
    numbers_in,
    payload_size,
    refusal,
    tally,
    to_scored,
    to_selector,
    to_stored,
    values_at,
    vectors_of,
)

MANIFEST, FREQUENCIES = "manifest.json", "frequencies.bin"
_TO_OPEN = 1 << 20  # bytes that must be free where a shard is opened in place
PAGE = 512  # points
ROOM = 8 << 20  # bytes that the engine's own files may need besides what is stored
ROOM_FROM = 1_000  # points; from there on, optimizing may write everything once more
SEGMENT = 200_000  # points that a run writes before they are optimized: the memory that this takes grows with them
GRAPH_FROM = 32 << 20  # bytes of dense vectors; below, comparing them all takes less than 3 ms
# A segment of more than 2 MB of vectors becomes one that is only read: it opens in a millisecond, where one that
# grows needs 33 ms for each thousand chunks. Merging two means to write them anew, so up to 8 stand side by side.
_OPTIMIZERS = engine.EdgeOptimizersConfig(
    indexing_threshold=2_000, default_segment_number=8, deleted_threshold=0.2, vacuum_min_vector_number=1000
)
_GRAPH, _NO_GRAPH = 16, 0  # links of a point
# The fields of a document's record besides its metadata: enough to rebuild a store.
_OF_A_RECORD = ("document", "file", "title", "language", "hash", "chunks", "sections")


# -- one collection: a shard ----------------------------------------------------------------------


class _Truth:
    """A boolean that the bindings accept as one: they take Python's for the numbers 0 and 1, but not numpy's."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return self.value


_Truth.__name__, _Truth.__qualname__, _Truth.__module__ = "bool_", "bool_", "numpy"

EDGE = EngineDialect(
    sparse=engine.SparseVector,
    ids=lambda ids: engine.HasIdCondition(set(ids)),
    words=engine.MatchText,
    value=lambda value: engine.MatchValue(_Truth(value)),  # type: ignore[arg-type]
    any=engine.MatchAny,
    field=engine.FieldCondition,
    filter=engine.Filter,
)


class Shard:
    """An open shard: several threads may query its `engine`; one may change it."""

    def __init__(self, path: Path, collection: CollectionName, vectors: Vectors, shard: engine.EdgeShard) -> None:
        self.path, self.collection, self.vectors, self.engine = path, collection, vectors, shard
        self._has_graph: bool | None = None
        self._written = 0

    @classmethod
    def create(cls, path: Path, collection: CollectionName, vectors: Vectors) -> Shard:
        """Create an empty shard in a folder that does not exist yet.

        Raises:
            StoreError: it cannot be written.
        """
        path.mkdir()
        check_space(path, ROOM)
        with engine_errors(path):
            return cls(path, collection, vectors, engine.EdgeShard.create(str(path), _config(vectors, graph=False)))

    @classmethod
    def load(cls, path: Path, collection: CollectionName, vectors: Vectors) -> Shard:
        """Open an existing shard.

        Raises:
            StoreDamaged: its files are not as the engine left them.
        """
        try:
            with engine_errors(path):
                return cls(path, collection, vectors, engine.EdgeShard.load(str(path)))
        except StoreError as error:
            if error.__cause__ is None or "No space left" in str(error.__cause__):
                raise
            raise StoreDamaged(f"cannot be opened: {error.__cause__}", where=str(path)) from error

    def close(self) -> None:
        """Flush, and release memory and files."""
        with engine_errors(self.path):
            self.engine.close()

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points; existing ones with the same id are replaced completely."""
        size = sum(4 * numbers_in(point) + payload_size(point.payload) for point in points)
        check_space(self.path, ROOM + 3 * size)
        with engine_errors(self.path):
            converted = []
            for point in points:
                vectors = {name: EDGE.vector(vector) for name, vector in point.vectors.items()}
                converted.append(engine.Point(point.id, vectors, dict(point.payload)))
            self.engine.update(engine.UpdateOperation.upsert_points(converted))
        self._grow()
        self._written += len(points)
        if self._written >= SEGMENT:
            self._optimize()

    def _grow(self) -> None:
        """Enable the vector graph once there are many vectors; with fewer, it would cost more than it gains."""
        if self._has_graph is None:
            config = json.loads((self.path / "edge_config.json").read_bytes())
            self._has_graph = bool((config.get("hnsw_config") or {}).get("m"))
        with engine_errors(self.path):
            if self._has_graph or 4 * self.vectors.dense * self.engine.info().points_count < GRAPH_FROM:
                return
            self.engine.flush()
            self.engine.close()
            self.engine = engine.EdgeShard.load(str(self.path), _config(self.vectors, graph=True))
        self._has_graph = True

    def set_payload(self, payloads: Mapping[str, Mapping[str, object]]) -> None:
        """See `port.Writer.set_payload`."""
        check_space(self.path, ROOM + 3 * sum(map(payload_size, payloads.values())))
        with engine_errors(self.path):
            for each, payload in payloads.items():
                self.engine.update(engine.UpdateOperation.overwrite_payload([each], dict(payload)))

    def delete(self, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        if known := known_ids(ids):
            with engine_errors(self.path):
                self.engine.update(engine.UpdateOperation.delete_points(list(known)))

    def finish(self) -> None:
        """Create indexes where they pay, let the engine optimize where enough has changed, write everything, close."""
        self._optimize()
        self.close()
        # Opening applies journals that flushing left. Readers must find nothing to apply: many may open it at once.
        Shard.load(self.path, self.collection, self.vectors).close()

    def _optimize(self) -> None:
        self._written = 0
        with engine_errors(self.path):
            info = self.engine.info()
            for field, index in INDEXED[self.collection].items():
                if info.points_count >= index.since and field not in info.payload_schema:
                    self.engine.update(engine.UpdateOperation.create_field_index(field, _INDEXES[index.kind]))
            if info.points_count >= ROOM_FROM:
                check_space(self.path, ROOM + 2 * size_on_disk(self.path))
            self.engine.optimize()
            self.engine.flush()

    def details(self) -> dict[str, int]:
        """Return the engine's statistics for `status`."""
        info = self.engine.info()
        return {"segments": info.segments_count, "indexed vectors": info.indexed_vectors_count or 0}


@contextmanager
def engine_errors(path: Path | str) -> Iterator[None]:
    """Convert the engine's exceptions: it raises plain `Exception`, and `BaseException` when it panics.

    Raises:
        StoreError: whatever the engine raised.
    """
    try:
        yield
    except (StoreError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise disk_full(Path(path)) from error
        raise refusal("the engine refused", str(error), str(path)) from error


# -- configuration of the engine --------------------------------------------------------------------


def _config(vectors: Vectors, *, graph: bool) -> engine.EdgeConfig:
    """Return the configuration of a shard, which keeps it; `graph` decides whether dense vectors get a graph.

    Without a write-ahead log, several processes may open it. Vectors are read from the disk when they are needed:
    opening takes a third of the time, and the system keeps in memory what is used.
    """
    dense = {}
    if vectors.dense:
        dense["dense"] = _dense(vectors.dense)
    if vectors.multi:
        comparator = engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)
        dense["multi"] = _dense(vectors.multi, multivector_config=comparator, hnsw_config=_hnsw(_NO_GRAPH))
    name = "sparse" if vectors.sparse else UNUSED
    return engine.EdgeConfig(
        vectors=dense or None,
        sparse_vectors={name: engine.EdgeSparseVectorParams()},
        hnsw_config=_hnsw(_GRAPH if graph else _NO_GRAPH),
        optimizers=_OPTIMIZERS,
        payload_memory=engine.Memory.Cold,
        wal_enabled=False,
    )


def _hnsw(links: int) -> engine.HnswIndexConfig:
    return engine.HnswIndexConfig(m=links, ef_construct=100, full_scan_threshold=10_000)


def _dense(size: int, **options: Any) -> engine.EdgeVectorParams:
    return engine.EdgeVectorParams(size, engine.Distance.Cosine, memory=engine.Memory.Cold, **options)


# No index adds its own links to the vector graph: that would multiply the time that the graph takes.
_INDEXES: dict[str, Any] = {
    "keyword": engine.KeywordIndexParams(on_disk=True, enable_hnsw=False),
    # With the places of words, for phrases, it would take 1 GB of memory for every 58,000 chunks while it is made.
    "text": engine.TextIndexParams(
        tokenizer=engine.TokenizerType.Word, lowercase=True, on_disk=True, enable_hnsw=False
    ),
}


# -- reading and writing ---------------------------------------------------------------------------


def _query_of(leg: Leg, where: Where) -> dict[str, Any]:
    query = engine.Query.Nearest(EDGE.vector(leg.query), using=leg.vector)
    return {"limit": leg.limit, "query": query, "filter": EDGE.where([*where, *leg.where])}


class EdgeReader:
    """Reading, the same in a store and in a run of changes; see `port.Reader`."""

    location: str

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        """Yield the shard of a collection, its exceptions converted; None where nothing was stored."""
        raise NotImplementedError
        yield

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        with self._reading("chunks") as shard:
            opened = self._required(shard)
            requests = [
                engine.QueryRequest(
                    **_query_of(leg, where),
                    prefetches=[engine.Prefetch(**_query_of(each, where)) for each in leg.prefetch],
                    with_payload=to_selector(not leg.bare and fields),
                    with_vector=[leg.vector] if leg.stored else False,
                )
                for leg in legs
            ]
            found = opened.engine.query_batch(engine.QueryBatchRequest(requests))
            return [to_scored(points, leg) for points, leg in zip(found, legs, strict=True)]

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Point]:
        """See `port.Reader.get`."""
        with self._reading(collection) as shard:
            wanted = known_ids(ids)
            if shard is None or not wanted:
                return []
            records = shard.engine.retrieve(list(wanted), to_selector(fields), vectors)
            found = {point.id: point for point in map(to_stored, records)}
            return [found[each] for each in wanted if each in found]

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Point]:
        """See `port.Reader.scroll`. All points are of one generation, even if another is published in the meantime."""
        with self._reading(collection) as shard:
            condition, selector, offset = EDGE.where(where), to_selector(fields), None
            while shard:
                request = engine.ScrollRequest(
                    offset=offset, limit=PAGE, filter=condition, with_payload=selector, with_vector=vectors
                )
                page, offset = shard.engine.scroll(request)
                yield from map(to_stored, page)
                if offset is None:
                    return

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
            opened = self._required(shard)
            if key in INDEXED["chunks"] and key in opened.engine.info().payload_schema:
                request = engine.FacetRequest(engine_path(key), limit=limit + 1, exact=True, filter=EDGE.where(where))
                return most_first({str(hit.value): hit.count for hit in opened.engine.facet(request).hits}, limit)
        found = self.scroll("chunks", where=where, fields=(key,))
        return tally((value for point in found for value in values_at(point.payload, key)), limit)

    def _required(self, shard: Shard | None) -> Shard:
        if shard is None:
            raise StoreMissing(self.location)
        return shard


class EdgeView(EdgeReader):
    """A generation open for reading, or none where nothing was ever stored. It is closed when the last reference to it
    is gone."""

    def __init__(self, location: str, generation: Generation | None) -> None:
        self.location, self.generation = location, generation
        self._manifest: Manifest | None = None
        self._shards, self._lock = dict[CollectionName, Shard](), threading.Lock()
        self._private: Path | None = None
        if generation:
            check_files(generation.path, generation.checksum)
            self._manifest = read_manifest(generation.path)
            weakref.finalize(self, _close, self._shards).atexit = False

    @property
    def stamp(self) -> str:
        """See `port.StoreView.stamp`: the name of the generation."""
        return self.generation.path.name if self.generation else ""

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self._manifest

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`.

        Raises:
            StoreDamaged: the file that has them is not there, or not what was written.
        """
        if self.generation is None:
            return Frequencies()
        path = self.generation.path / FREQUENCIES
        try:
            return Frequencies.from_bytes(path.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreDamaged("these document frequencies were not written by lmm", where=str(path)) from error

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        with engine_errors(self.location):
            yield self.shard(collection)

    def shard(self, collection: CollectionName) -> Shard | None:
        """Return the shard of a collection, opened on first use.

        Raises:
            StoreDamaged: the engine cannot read its files.
            StoreError: it cannot be opened.
        """
        with self._lock:
            if collection not in self._shards and self.generation and self._manifest:
                path, vectors = self.generation.path / collection, vectors_of(self._manifest, collection)
                self._shards[collection] = Shard.load(self._writable(path), collection, vectors)
            return self._shards.get(collection)

    def _writable(self, path: Path) -> Path:
        """Return a folder in which a shard can be opened. The engine opens files for writing even to read them, and
        replaces a small one: without permission, or on a full disk, it gets a copy in the temporary folder."""
        if os.access(path, os.W_OK) and shutil.disk_usage(path).free > _TO_OPEN:
            return path
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="lmm-store-"))
            weakref.finalize(self, shutil.rmtree, self._private, ignore_errors=True)
        with file_errors(self._private):
            copy_folder(path, self._private / path.name)
        return self._private / path.name


def _close(shards: dict[CollectionName, Shard]) -> None:
    """Close shards of which nothing has to be kept."""
    for shard in shards.values():
        with contextlib.suppress(StoreError):
            shard.close()


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a generation.

    Raises:
        StoreDamaged: it is missing or invalid.
        StoreMismatch: another version of lmm wrote it.
    """
    try:
        found: Mapping[str, Any] = json.loads((path / MANIFEST).read_bytes())
        check_format(found["format"], str(path.parent.parent))
        return Manifest.from_json(found)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreDamaged("this manifest was not written by lmm", where=str(path / MANIFEST)) from error


class EdgeWriter(EdgeReader):
    """A run of changes in a new generation, begun by the first use as a copy of `base`, the current one."""

    is_atomic = True

    def __init__(self, generations: Generations, base: EdgeView | None, manifest: Manifest) -> None:
        self._generations, self._manifest = generations, manifest
        self._base = base.generation if base else None
        self._frequencies = base.frequencies() if base else Frequencies()
        self.location = str(generations.folder)
        self._begun: Generation | None = None
        self._shards: dict[CollectionName, Shard] = {}
        self._is_changed = False  # whether anything is to be published
        self._words_before: dict[str, Any] = {}  # of the records of documents that were written or removed, by id

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self._manifest

    def _records(self) -> list[Mapping[str, Any]]:
        """Return the records of the documents: those of the base that were not touched, and the new ones."""
        old = read_records(self._base.path) if self._base else []
        new = self.get("documents", [*self._words_before], fields=_OF_A_RECORD)
        kept = (each for each in old if document_point_id(each["document"]) not in self._words_before)
        return sorted([*kept, *(point.payload for point in new)], key=lambda record: str(record.get("file")))

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`: those of the base, with the difference that this run makes."""
        now = (words_of(each.payload) for each in self.get("documents", [*self._words_before], fields=(WORDS,)))
        return Frequencies.total([self._frequencies, *now], less=map(words_of, self._words_before.values()))

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        with engine_errors(self.location):
            yield self._shard(collection)

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`."""
        given = iter(points)
        while some := list(islice(given, PAGE)):
            records = [point.id for point in some if point.payload.get("what") == "document"]
            self._changing(collection, records).upsert(some)

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See `port.Writer.set_payload`.

        Raises:
            StoreError: there is no such point.
        """
        if payloads:
            records = [id for id, payload in payloads.items() if payload.get("what") == "document"]
            self._changing(collection, records).set_payload(payloads)

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        if ids:
            self._changing(collection, ids if collection == "documents" else ()).delete(ids)

    def _changing(self, collection: CollectionName, records: Iterable[str]) -> Shard:
        """Return the collection to change, after noting the words of the documents whose records change."""
        self._is_changed = True
        if new := [id for id in records if id not in self._words_before]:
            found = self.get("documents", new, fields=(WORDS,)) if self._base else ()
            known = {point.id: point.payload for point in found}
            self._words_before |= {id: known.get(id, {}) for id in new}
        return self._shard(collection)

    def _shard(self, collection: CollectionName) -> Shard:
        """Return the collection of the new generation, which is begun if necessary."""
        if self._begun is None:
            base = self._base
            if base:
                check_space(self._generations.folder, ROOM + size_on_disk(base.path))
            self._begun = self._generations.begin()
            if base:  # damage that is copied unseen would get a checksum of its own
                check_files(base.path, base.checksum, copy_to=self._begun.path)
            for each in COLLECTIONS:
                path, vectors = self._begun.path / each, vectors_of(self._manifest, each)
                self._shards[each] = (Shard.load if base else Shard.create)(path, each, vectors)
        return self._shards[collection]

    def commit(self) -> bool:
        """Publish the changes, and return whether there were any. A new store is published even if it is empty."""
        if self._base is None:
            self._changing("chunks", ())
        if self._begun is None or not self._is_changed:
            return False
        records = self._records()
        frequencies = self.frequencies().to_bytes()
        for collection in COLLECTIONS:
            self._shards.pop(collection).finish()
        manifest = json.dumps(self._manifest.as_json(), ensure_ascii=False, indent=1)
        (self._begun.path / MANIFEST).write_text(manifest, encoding="utf-8")
        (self._begun.path / FREQUENCIES).write_bytes(frequencies)
        self._generations.publish(self._begun, records, self._base and self._base.path)
        self._begun = None
        return True

    def end(self) -> None:
        """Remove what was not published."""
        if self._begun is not None:
            _close(self._shards)
            remove_generation(self._begun.path)


class EdgeStore(WaitReporter, EdgeReader):
    """The store in a folder, which need not exist before something is written.

    Threads may share it. After a fork, the child opens its own files. Between `root` and `folder`, links are refused.
    """

    def __init__(self, folder: Path, *, root: Path | None = None, timeout: float = 30.0) -> None:
        self._generations, self._timeout, self.location = Generations(folder, root), timeout, str(folder)
        self._view: EdgeView | None = None
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), False

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        with self.view() as view:
            return view.manifest()

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        with self.view() as view:
            return view.frequencies()

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        with self.view() as view, view._reading(collection) as shard:
            yield shard

    @contextmanager
    def view(self) -> Iterator[EdgeView]:
        """See `port.Store.view`: the newest generation."""
        if self._process != os.getpid():  # threads and locks of the engine do not survive a fork: leave them be
            self._abandoned = self._view
            self._view, self._lock, self._process = None, threading.Lock(), os.getpid()
        with self._lock:
            view = self._newest()
        yield view

    def _newest(self) -> EdgeView:
        if self._closed:
            raise StoreError("the store was closed", where=self.location)
        stamp = self._view.generation.stamp if self._view and self._view.generation else None
        if self._view is None or stamp != self._generations.stamp():
            self._view = None
            self._view = EdgeView(self.location, self._generations.open_current())
        return self._view

    @contextmanager
    def writing(self, manifest: Manifest, *, anew: bool = False) -> Iterator[EdgeWriter]:
        """See `port.Store.writing`. `anew` begins with an empty store; until the end, readers see the old one.

        Raises:
            StoreMismatch: the store was made with another manifest, and `anew` is not set.
            StoreBusy: another process writes and does not come to an end.
            StoreError: it cannot be written; the disk is full.
        """
        if self._closed:
            raise StoreError("the store was closed", where=self.location)
        with self._generations.writer_lock(self._timeout, self._report):
            # A store that is rebuilt may be damaged: it is not opened.
            view = None if anew else EdgeView(self.location, self._generations.current())
            if view and view.generation:
                check_same(manifest, view.manifest(), self.location)
                self._generations.sweep(MOST_REPLACED - 1)
            writer = EdgeWriter(self._generations, view, as_stored(manifest))
            del view
            try:
                with file_errors(self._generations.folder):
                    yield writer
                    published = writer.commit()
            finally:
                writer.end()
            if published:
                with self._lock:  # another thread may be about to take it
                    self._view = None
                self._generations.sweep()

    def check(self) -> str:
        """See `port.Store.check`: every byte is read and compared with what was written."""
        with self.view() as view:
            if view.generation is None:
                return ""
            check_files(view.generation.path, view.generation.checksum, whole=True)
            files, size = list(files_of(view.generation.path)), size_on_disk(view.generation.path)
            return f"{len(files)} files, {size / 1e6:,.1f} MB"

    def records(self) -> list[dict[str, Any]] | None:
        """See `port.Store.records`: read from lists beside what the engine has."""
        return self._generations.records()

    def status(self) -> StoreStatus:
        """See `port.Store.status`."""
        with self.view() as view:
            details: dict[str, Any] = {"engine": f"Qdrant Edge {version('qdrant-edge-py')}"}
            if (shard := view.shard("chunks")) is not None:
                details |= {
                    "generation": view.stamp,
                    "generations": len(self._generations.folders()),
                    **shard.details(),
                }
            return StoreStatus(
                location=self.location,
                manifest=view.manifest(),
                documents=view.count("documents", where=[RECORDS]),
                sections=view.count("documents", where=[SECTIONS]),
                chunks=view.count("chunks"),
                size=size_on_disk(self._generations.folder) if view.generation else 0,
                details=details,
            )

    def close(self) -> None:
        """See `port.Store.close`."""
        with self._lock:
            self._view, self._closed = None, True
