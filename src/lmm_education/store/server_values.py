"""Our values as qdrant-client's, and back. The package takes 0.9 s to import, so that happens on first use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lmm_education.config import StorageSettings
from lmm_education.material import SparseVector
from lmm_education.store.layout import Vectors, engine_path
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

if TYPE_CHECKING:
    from qdrant_client import models

AT_ONCE = 1000  # values or points that are asked for: servers with a `max_query_limit` refuse more
T = TypeVar("T")


def vector_params(vectors: Vectors) -> dict[str, models.VectorParams]:
    """The dense vectors of a collection."""
    from qdrant_client import models

    params = {}
    if vectors.dense:
        params["dense"] = models.VectorParams(size=vectors.dense, distance=models.Distance.COSINE)
    if vectors.multi:
        params["multi"] = models.VectorParams(
            size=vectors.multi,
            distance=models.Distance.COSINE,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            hnsw_config=models.HnswConfigDiff(m=0),
        )
    return params


def sparse_params(vectors: Vectors) -> dict[str, models.SparseVectorParams]:
    """The sparse vector of a collection. Whoever asks has weighed the words: the server's own IDF differs by shard."""
    from qdrant_client import models

    return {"sparse": models.SparseVectorParams()} if vectors.sparse else {}


def quantization(kind: str) -> models.ScalarQuantization | models.BinaryQuantization | None:
    """The quantization that the settings name."""
    from qdrant_client import models

    if kind == "scalar":
        return models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        )
    if kind == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def creation(vectors: Vectors, settings: StorageSettings) -> dict[str, Any]:
    """The arguments that make a collection."""
    return {
        "vectors_config": vector_params(vectors),
        "sparse_vectors_config": sparse_params(vectors) or None,
        "replication_factor": settings.replication_factor,
        "shard_number": settings.shard_number,
        "quantization_config": quantization(settings.quantization) if vectors.dense else None,
    }


def misfits(info: models.CollectionInfo, vectors: Vectors) -> list[str]:
    """What is wrong with a collection that exists, in words."""
    wanted, found = vector_params(vectors), info.config.params.vectors or {}
    found = found if isinstance(found, Mapping) else {"(unnamed)": found}
    wrong = [f"it has a vector '{name}'" for name in found if name not in wanted]
    for name, params in wanted.items():
        there = found.get(name)
        if there is None:
            wrong.append(f"it has no vector '{name}'")
        elif there.size != params.size:
            wrong.append(f"'{name}' has {there.size} numbers, not {params.size}")
        elif there.distance != params.distance:
            wrong.append(f"'{name}' is compared by {there.distance.value}, not {params.distance.value}")
        elif bool(there.multivector_config) != bool(params.multivector_config):
            wrong.append(f"'{name}' is {'' if there.multivector_config else 'not '}several vectors per point")
    sparse = info.config.params.sparse_vectors or {}
    if vectors.sparse and "sparse" not in sparse:
        wrong.append("it has no sparse vector 'sparse'")
    elif vectors.sparse and getattr(sparse["sparse"].modifier, "value", None) == "idf":
        wrong.append("'sparse' is weighed by the server's IDF")
    return wrong


def index_schema(kind: str) -> Any:
    """The parameters of an index on a payload field."""
    from qdrant_client import models

    if kind == "text":
        return models.TextIndexParams(
            type=models.TextIndexType.TEXT,
            tokenizer=models.TokenizerType.WORD,
            lowercase=True,
        )
    return models.PayloadSchemaType(kind)


def to_point(point: Point) -> models.PointStruct:
    """A point as the client takes it."""
    from qdrant_client import models

    vectors: Any = {name: to_vector(vector) for name, vector in point.vectors.items()}
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def to_vector(vector: Vector) -> Any:
    """A vector as the client takes it."""
    from qdrant_client import models

    if isinstance(vector, SparseVector):
        return models.SparseVector(indices=list(vector.indices), values=list(vector.values))
    if not hasattr(vector[0], "__len__"):
        return list(map(float, vector))  # type: ignore[arg-type]
    return [list(map(float, row)) for row in vector]  # type: ignore[arg-type]


def from_vectors(vectors: Any) -> dict[str, Vector]:
    """The vectors of a point that was read; sparse ones ascending."""
    return {name: _from_vector(vector) for name, vector in vectors.items()} if isinstance(vectors, Mapping) else {}


def _from_vector(vector: Any) -> Vector:
    if hasattr(vector, "indices"):
        pairs = sorted(zip(vector.indices, vector.values, strict=True))
        return SparseVector(tuple(index for index, _ in pairs), tuple(value for _, value in pairs))
    return vector  # type: ignore[no-any-return]


def to_requests(leg: Leg, where: Where, fields: Fields) -> list[models.QueryRequest]:
    """One search; a second one for the vectors of the first."""
    from qdrant_client import models

    query, condition = to_vector(leg.query), to_filter(where)
    limit, selector = min(leg.limit, AT_ONCE), to_selector(fields)
    whole = models.QueryRequest(
        query=query,
        using=leg.vector,
        limit=limit,
        prefetch=[_prefetch(each, condition) for each in leg.among] or None,
        filter=condition,
        with_payload=selector,
    )
    held = models.QueryRequest(
        query=query, using=leg.vector, limit=leg.held or 1, filter=condition, with_vector=[leg.vector]
    )
    return [whole, held] if leg.held else [whole]


def _prefetch(leg: Leg, condition: models.Filter | None) -> models.Prefetch:
    from qdrant_client import models

    limit = min(leg.limit, AT_ONCE)
    return models.Prefetch(query=to_vector(leg.query), using=leg.vector, limit=limit, filter=condition)


def to_scored(responses: Sequence[models.QueryResponse]) -> list[Scored]:
    """What a search found, by the answers to `to_requests`."""
    found, *more = responses
    held = {point.id: next(iter(from_vectors(point.vector).values()), None) for each in more for point in each.points}
    return [Scored(str(point.id), point.score, point.payload or {}, held.get(point.id)) for point in found.points]


def to_stored(record: models.Record) -> Stored:
    """A point that was read."""
    return Stored(str(record.id), record.payload or {}, from_vectors(record.vector))


def to_selector(fields: Fields) -> Any:
    """Which payload fields come along."""
    return fields if isinstance(fields, bool) else [engine_path(field) for field in fields] or False


def to_filter(where: Where) -> models.Filter | None:
    """Conditions that all hold."""
    from qdrant_client import models

    if not where:
        return None
    wanted = [_condition(each) for each in where if not (isinstance(each, Match) and each.negate)]
    unwanted = [_condition(each) for each in where if isinstance(each, Match) and each.negate]
    return models.Filter(must=wanted or None, must_not=unwanted or None)


def _condition(condition: Condition) -> Any:
    from qdrant_client import models

    if isinstance(condition, Among):
        return models.HasIdCondition(has_id=sorted(condition.ids))
    key = engine_path(condition.key)
    if isinstance(condition, HasWords):
        return models.FieldCondition(key=key, match=models.MatchText(text=condition.words))
    texts = [value for value in condition.values if isinstance(value, str)]
    numbers = [value for value in condition.values if isinstance(value, int) and not isinstance(value, bool)]
    truths = [value for value in condition.values if isinstance(value, bool)]
    matches: list[Any] = [models.MatchValue(value=value) for value in truths]
    matches += [models.MatchAny(any=numbers)] if numbers else []
    matches += [models.MatchAny(any=texts)] if texts or not matches else []
    conditions: list[Any] = [models.FieldCondition(key=key, match=match) for match in matches]
    return conditions[0] if len(conditions) == 1 else models.Filter(should=conditions)


def batches(items: Iterable[T], count: int, size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut into lists of at most `count` items and about `size` bytes; an item that is larger stands alone.

    >>> list(batches(["aa", "b", "cccc", "d"], 3, 4, len))
    [['aa', 'b'], ['cccc'], ['d']]
    """
    batch: list[T] = []
    total = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) >= count or total + own > size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch


def point_size(point: Point) -> int:
    """About how many bytes a point takes in a request."""
    return payload_size(point.payload) + sum(_numbers(vector) for vector in point.vectors.values()) * 20


def payload_size(payload: Mapping[str, Any]) -> int:
    """How many bytes a payload takes in a request, at most."""
    return len(json.dumps(payload, default=str))


def _numbers(vector: Vector) -> int:
    if isinstance(vector, SparseVector):
        return 2 * len(vector.indices)
    return sum(map(len, vector)) if hasattr(vector[0], "__len__") else len(vector)  # type: ignore[arg-type]
