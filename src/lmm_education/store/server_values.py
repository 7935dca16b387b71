"""What a Qdrant server's collections are made of. qdrant-client takes 0.9 s to import, so that happens on first use."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from lmm_education.config import StorageSettings
from lmm_education.material import SparseVector
from lmm_education.store.layout import Vectors
from lmm_education.store.port import Fields, Leg, Point
from lmm_education.store.values import EngineDialect, to_selector

if TYPE_CHECKING:
    from qdrant_client import models

AT_ONCE = 1000  # values or points that are asked for: servers with a `max_query_limit` refuse more
T = TypeVar("T")


@functools.cache
def dialect() -> EngineDialect:
    """How qdrant-client spells vectors and conditions."""
    from qdrant_client import models

    return EngineDialect(
        sparse=lambda indices, values: models.SparseVector(indices=indices, values=values),
        ids=lambda ids: models.HasIdCondition(has_id=sorted(ids)),
        words=lambda words: models.MatchText(text=words),
        value=lambda value: models.MatchValue(value=value),
        any=lambda values: models.MatchAny(any=values),
        field=models.FieldCondition,
        filter=models.Filter,
    )


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


def creation(vectors: Vectors, settings: StorageSettings) -> dict[str, Any]:
    """The arguments that make a collection. Whoever asks has weighed the words: the server's own IDF differs by
    shard."""
    from qdrant_client import models

    quantizations: dict[str, Any] = {
        "scalar": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    }
    return {
        "vectors_config": vector_params(vectors),
        "sparse_vectors_config": {"sparse": models.SparseVectorParams()} if vectors.sparse else None,
        "replication_factor": settings.replication_factor,
        "shard_number": settings.shard_number,
        "quantization_config": quantizations.get(settings.quantization) if vectors.dense else None,
    }


def misfits(info: models.CollectionInfo, vectors: Vectors) -> list[str]:
    """What is wrong with a collection that exists, in words."""
    wanted, found = vector_params(vectors), info.config.params.vectors or {}
    found = found if isinstance(found, Mapping) else {"(unnamed)": found}
    shown, asked = ({name: _described(each) for name, each in some.items()} for some in (found, wanted))
    wrong = [
        f"'{name}' has {shown.get(name, 'no numbers')}, not {asked.get(name, 'any')}"
        for name in dict.fromkeys([*shown, *asked])
        if shown.get(name) != asked.get(name)
    ]
    sparse = info.config.params.sparse_vectors or {}
    if vectors.sparse and "sparse" not in sparse:
        wrong.append("it has no sparse vector 'sparse'")
    elif vectors.sparse and getattr(sparse["sparse"].modifier, "value", None) == "idf":
        wrong.append("'sparse' is weighed by the server's IDF")
    return wrong


def _described(params: models.VectorParams) -> str:
    return f"{params.size} numbers ({params.distance.value}{', several a point' if params.multivector_config else ''})"


def index_schema(kind: str) -> Any:
    """The parameters of an index on a payload field."""
    from qdrant_client import models

    if kind == "text":
        tokenizer = models.TokenizerType.WORD
        return models.TextIndexParams(type=models.TextIndexType.TEXT, tokenizer=tokenizer, lowercase=True)
    return models.PayloadSchemaType(kind)


def to_point(point: Point) -> models.PointStruct:
    """A point as the client takes it."""
    from qdrant_client import models

    vectors: Any = {name: dialect().vector(vector) for name, vector in point.vectors.items()}
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def to_request(leg: Leg, condition: models.Filter | None, fields: Fields) -> models.QueryRequest:
    """One search."""
    from qdrant_client import models

    return models.QueryRequest(
        query=dialect().vector(leg.query),
        using=leg.vector,
        limit=min(leg.limit, AT_ONCE),
        filter=condition,
        with_payload=to_selector(fields),
    )


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
    return payload_size(point.payload) + 20 * sum(map(_numbers, point.vectors.values()))


def payload_size(payload: Mapping[str, Any]) -> int:
    """How many bytes a payload takes in a request, at most."""
    return len(json.dumps(payload, default=str))


def _numbers(vector: Any) -> int:
    if isinstance(vector, SparseVector):
        return 2 * len(vector.indices)
    return sum(map(len, vector)) if hasattr(vector[0], "__len__") else len(vector)
