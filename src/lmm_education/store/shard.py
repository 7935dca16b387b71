"""One collection of the embedded store: a shard of Qdrant Edge, opened and changed."""

from __future__ import annotations

import errno
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as engine

from lmm_education.errors import StoreDamaged, StoreError
from lmm_education.material import SparseVector
from lmm_education.store.folders import check_space, disk_full, size_on_disk
from lmm_education.store.layout import INDEXED, UNUSED, Vectors
from lmm_education.store.port import CollectionName, Point
from lmm_education.store.values import EngineDialect, known_ids, refusal

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


class _Truth:
    """A truth value. The bindings take Python's for the numbers 0 and 1; what calls itself numpy's they take for
    what it is."""

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
    """A shard that is open: several threads may ask its `engine`; one may change it."""

    def __init__(self, path: Path, collection: CollectionName, vectors: Vectors, shard: engine.EdgeShard) -> None:
        self.path, self.collection, self.vectors, self.engine = path, collection, vectors, shard
        self._has_graph: bool | None = None
        self._written = 0

    @classmethod
    def create(cls, path: Path, collection: CollectionName, vectors: Vectors) -> Shard:
        """A new, empty shard in a folder that does not exist yet.

        Raises:
            StoreError: it cannot be written.
        """
        path.mkdir()
        check_space(path, ROOM)
        with engine_errors(path):
            return cls(path, collection, vectors, engine.EdgeShard.create(str(path), _config(vectors, graph=False)))

    @classmethod
    def load(cls, path: Path, collection: CollectionName, vectors: Vectors) -> Shard:
        """Open a shard that exists.

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
        """Give back memory and files. What was not flushed is."""
        with engine_errors(self.path):
            self.engine.close()

    def upsert(self, points: Sequence[Point]) -> None:
        """Store some points; those with the same id are replaced whole."""
        check_space(self.path, ROOM + 3 * sum(map(_size, points)))
        with engine_errors(self.path):
            self.engine.update(engine.UpdateOperation.upsert_points([_to_point(point) for point in points]))
        self._grow()
        self._written += len(points)
        if self._written >= SEGMENT:
            self._optimize()

    def _grow(self) -> None:
        """Let the vectors have a graph once they are many; before, it would cost more than it gains."""
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
        check_space(self.path, ROOM + 3 * sum(len(json.dumps(payload, default=str)) for payload in payloads.values()))
        with engine_errors(self.path):
            for each, payload in payloads.items():
                self.engine.update(engine.UpdateOperation.overwrite_payload([each], dict(payload)))

    def delete(self, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        if known := known_ids(ids):
            with engine_errors(self.path):
                self.engine.update(engine.UpdateOperation.delete_points(list(known)))

    def finish(self) -> None:
        """Make indexes where they pay, let the engine optimize where enough has changed, write everything, close."""
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
        """What the engine says of itself."""
        info = self.engine.info()
        return {"segments": info.segments_count, "indexed vectors": info.indexed_vectors_count or 0}


def _size(point: Point) -> int:
    """About how many bytes a point takes."""
    numbers = sum(2 * len(v.indices) if isinstance(v, SparseVector) else len(v) for v in point.vectors.values())
    return 4 * numbers + len(json.dumps(point.payload, default=str))


@contextmanager
def engine_errors(path: Path | str) -> Iterator[None]:
    """Turn what the engine raises into our errors. It raises plain `Exception`, and `BaseException` when it panics.

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


# -- what the engine is told ------------------------------------------------------------------------


def _config(vectors: Vectors, *, graph: bool) -> engine.EdgeConfig:
    """The configuration of a shard, which keeps it; `graph` decides whether dense vectors get one.

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


# None builds links for itself into the graph of the vectors: that would multiply the time that the graph takes.
_INDEXES: dict[str, Any] = {
    "keyword": engine.KeywordIndexParams(on_disk=True, enable_hnsw=False),
    # With the places of words, for phrases, it would take 1 GB of memory for every 58,000 chunks while it is made.
    "text": engine.TextIndexParams(
        tokenizer=engine.TokenizerType.Word, lowercase=True, on_disk=True, enable_hnsw=False
    ),
}


def _to_point(point: Point) -> engine.Point:
    vectors = {name: EDGE.vector(vector) for name, vector in point.vectors.items()}
    return engine.Point(point.id, vectors, dict(point.payload))
