"""Our values as Qdrant Edge's, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import qdrant_edge as engine

from lmm_education.material import SparseVector
from lmm_education.store.layout import UNUSED, Vectors, engine_path
from lmm_education.store.port import (
    Among,
    Condition,
    Fields,
    HasWords,
    Leg,
    Match,
    Point,
    Scored,
    Stored,
    Vector,
    Where,
)

# A segment of more than 2 MB of vectors becomes one that is only read: it opens in a millisecond, where one that
# grows needs 33 ms for each thousand chunks. Merging two means to write them anew, so up to 8 stand side by side.
_OPTIMIZERS = engine.EdgeOptimizersConfig(
    indexing_threshold=2_000, default_segment_number=8, deleted_threshold=0.2, vacuum_min_vector_number=1000
)
_GRAPH, _NO_GRAPH = 16, 0  # links of a point


def config_for(vectors: Vectors, *, graph: bool) -> engine.EdgeConfig:
    """The configuration of a shard, which keeps it; `graph` decides whether dense vectors get one.

    Without a write-ahead log, several processes may open it. Vectors are read from the disk when they are needed:
    opening takes a third of the time, and the system keeps in memory what is used.
    """
    dense = {}
    if vectors.dense:
        dense["dense"] = _dense(vectors.dense)
    if vectors.multi:
        dense["multi"] = _dense(
            vectors.multi,
            multivector_config=engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim),
            hnsw_config=_hnsw(_NO_GRAPH),
        )
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


def index(field: str, kind: str) -> engine.UpdateOperation:
    """What makes an index on a payload field. None builds links for itself into the graph of the vectors: that would
    multiply the time that the graph takes."""
    return engine.UpdateOperation.create_field_index(field, _INDEXES[kind])


_INDEXES: dict[str, Any] = {
    "keyword": engine.KeywordIndexParams(on_disk=True, enable_hnsw=False),
    "integer": engine.IntegerIndexParams(on_disk=True, enable_hnsw=False, lookup=True, range=False),
    "bool": engine.BoolIndexParams(on_disk=True, enable_hnsw=False),
    # With the places of words, for phrases, it would take 1 GB of memory for every 58,000 chunks while it is made.
    "text": engine.TextIndexParams(
        tokenizer=engine.TokenizerType.Word, lowercase=True, on_disk=True, enable_hnsw=False
    ),
}


def to_points(points: Iterable[Point]) -> list[engine.Point]:
    """Points as the engine stores them.

    Raises:
        ValueError, TypeError: an id is not a UUID, a payload is not JSON.
    """
    return [
        engine.Point(point.id, {name: to_vector(v) for name, v in point.vectors.items()}, dict(point.payload))
        for point in points
    ]


def to_vector(vector: Vector) -> Any:
    """A vector as the engine takes it."""
    if isinstance(vector, SparseVector):
        return engine.SparseVector(list(vector.indices), list(vector.values))
    if not hasattr(vector[0], "__len__"):
        return vector
    return [list(row) for row in vector]  # type: ignore[arg-type]


def from_vector(vector: Any) -> Vector:
    """The reverse of `to_vector`; sparse vectors come back ascending."""
    if isinstance(vector, engine.SparseVector):
        pairs = sorted(zip(vector.indices, vector.values, strict=True))
        return SparseVector(tuple(index for index, _ in pairs), tuple(value for _, value in pairs))
    return vector  # type: ignore[no-any-return]


def to_request(leg: Leg, where: Where, fields: Fields) -> engine.QueryRequest:
    """One search."""
    condition = to_filter(where)

    def nearest(leg: Leg) -> engine.Query:
        return engine.Query.Nearest(to_vector(leg.query), using=leg.vector)

    return engine.QueryRequest(
        limit=leg.limit,
        query=nearest(leg),
        prefetches=[engine.Prefetch(each.limit, query=nearest(each), filter=condition) for each in leg.among],
        filter=condition,
        with_payload=to_selector(fields),
        with_vector=False,
    )


def to_scored(found: Iterable[engine.ScoredPoint]) -> list[Scored]:
    """What a search found."""
    return [Scored(str(point.id), point.score, point.payload or {}) for point in found]


def to_stored(record: engine.Record) -> Stored:
    """A point that was read."""
    vectors = record.vector if isinstance(record.vector, Mapping) else {}
    return Stored(str(record.id), record.payload or {}, {name: from_vector(vector) for name, vector in vectors.items()})


def to_selector(fields: Fields) -> bool | list[str]:
    """Which payload fields come along."""
    return fields if isinstance(fields, bool) else [engine_path(field) for field in fields] or False


def known_ids(ids: Collection[str]) -> list[UUID]:
    """Those that can be ids at all."""
    found = []
    for text in ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


class _Truth:
    """A truth value. The bindings take Python's for the numbers 0 and 1; what calls itself numpy's they take for
    what it is."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return self.value


_Truth.__name__, _Truth.__qualname__, _Truth.__module__ = "bool_", "bool_", "numpy"


def to_filter(where: Where) -> engine.Filter | None:
    """Conditions that all hold."""
    if not where:
        return None
    wanted = [_condition(each) for each in where if not (isinstance(each, Match) and each.negate)]
    unwanted = [_condition(each) for each in where if isinstance(each, Match) and each.negate]
    return engine.Filter(must=wanted or None, must_not=unwanted or None)


def _condition(condition: Condition) -> Any:
    if isinstance(condition, Among):
        return engine.HasIdCondition(set(known_ids(condition.ids)))
    key = engine_path(condition.key)
    if isinstance(condition, HasWords):
        return engine.FieldCondition(key=key, match=engine.MatchText(condition.words))
    texts = [value for value in condition.values if isinstance(value, str)]
    numbers = [value for value in condition.values if isinstance(value, int) and not isinstance(value, bool)]
    truths = [value for value in condition.values if isinstance(value, bool)]
    matches: list[Any] = [engine.MatchValue(_Truth(value)) for value in truths]  # type: ignore[arg-type]
    matches += [engine.MatchAny(numbers)] if numbers else []
    matches += [engine.MatchAny(texts)] if texts or not matches else []
    conditions: list[Any] = [engine.FieldCondition(key=key, match=match) for match in matches]
    return conditions[0] if len(conditions) == 1 else engine.Filter(should=conditions)
