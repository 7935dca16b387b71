"""Our values as Qdrant Edge's, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import qdrant_edge as engine

from lmm_education.course import SparseVector
from lmm_education.store.layout import INDEXED, UNUSED, IndexKind, Vectors, engine_path
from lmm_education.store.port import CollectionName, Contains, Fields, Leg, Match, Point, Scored, Stored, Vector, Where

# Up to 10 MB of vectors are compared one by one (under a millisecond); what is more gets a graph. Merging segments
# means to build their graph anew, so a small change must not cause it: up to 8 may stand side by side.
_OPTIMIZERS = engine.EdgeOptimizersConfig(
    indexing_threshold=10_000, default_segment_number=8, deleted_threshold=0.2, vacuum_min_vector_number=1000
)


def config_for(vectors: Vectors) -> engine.EdgeConfig:
    """The configuration of a new shard, which keeps it.

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
            hnsw_config=engine.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        )
    name = "sparse" if vectors.sparse else UNUSED
    sparse = {name: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)}
    return engine.EdgeConfig(
        vectors=dense or None,
        sparse_vectors=sparse,
        optimizers=_OPTIMIZERS,
        payload_memory=engine.Memory.Cold,
        wal_enabled=False,
    )


def _dense(size: int, **options: Any) -> engine.EdgeVectorParams:
    return engine.EdgeVectorParams(size, engine.Distance.Cosine, memory=engine.Memory.Cold, **options)


def index_params(kind: IndexKind) -> Any:
    """The parameters of an index on a payload field. None builds links for itself into the graph of the vectors:
    that multiplies the time that the graph takes."""
    if kind == "keyword":
        return engine.KeywordIndexParams(on_disk=True, enable_hnsw=False)
    return engine.TextIndexParams(
        tokenizer=engine.TokenizerType.Word, lowercase=True, phrase_matching=True, on_disk=True, enable_hnsw=False
    )


def indexes(collection: CollectionName) -> list[engine.UpdateOperation]:
    """What makes the indexes of a collection."""
    return [
        engine.UpdateOperation.create_field_index(field, index_params(kind))
        for field, kind in INDEXED[collection].items()
    ]


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
    query = engine.Query.Nearest(to_vector(leg.query), using=leg.vector)
    return engine.QueryRequest(
        limit=leg.limit, query=query, filter=to_filter(where), with_payload=to_selector(fields), with_vector=False
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


def _condition(condition: Match | Contains) -> Any:
    key = engine_path(condition.key)
    if isinstance(condition, Contains):
        return engine.FieldCondition(key=key, match=engine.MatchPhrase(condition.phrase))
    texts = [value for value in condition.values if isinstance(value, str)]
    numbers = [value for value in condition.values if isinstance(value, int) and not isinstance(value, bool)]
    truths = [value for value in condition.values if isinstance(value, bool)]
    matches: list[Any] = [engine.MatchValue(_Truth(value)) for value in truths]  # type: ignore[arg-type]
    matches += [engine.MatchAny(numbers)] if numbers else []
    matches += [engine.MatchAny(texts)] if texts or not matches else []
    conditions: list[Any] = [engine.FieldCondition(key=key, match=match) for match in matches]
    return conditions[0] if len(conditions) == 1 else engine.Filter(should=conditions)
