"""Code shared by both stores: the vectors that a manifest asks for, paths into payloads, fields worth an index, and
conversion of our values to an engine's.

Qdrant Edge and qdrant-client have the same classes, which take their arguments in different ways: an `EngineDialect`
contains the differences.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from lmm_education.encodings import find_encoding
from lmm_education.errors import StoreError, StoreMismatch, StoreOutdated
from lmm_education.material import SparseVector
from lmm_education.store.port import (
    FORMAT,
    Among,
    CollectionName,
    Condition,
    Fields,
    HasWords,
    Leg,
    Manifest,
    Match,
    Point,
    Scored,
    Vector,
    Where,
    mismatch,
)

COLLECTIONS: tuple[CollectionName, ...] = ("chunks", "documents")
UNUSED = "none"
"""The name of a sparse vector that no point has: the engine wants a collection to have one at least."""


class PayloadIndex(NamedTuple):
    """An index on a payload field. The embedded store makes it when there are `since` points: below, a filter without
    it takes 2 µs a point, 25 where the payload is as long as a section's, and each index adds 10 ms to opening. A
    server makes all of them at once."""

    kind: Literal["keyword", "text"]
    since: int


# What filters name all the time. The values of type and language are also counted for every question.
INDEXED: Mapping[CollectionName, Mapping[str, PayloadIndex]] = {
    "chunks": {
        "type": PayloadIndex("keyword", 5_000),
        "language": PayloadIndex("keyword", 5_000),
        "document": PayloadIndex("keyword", 5_000),
        "section": PayloadIndex("keyword", 20_000),
        "audience": PayloadIndex("keyword", 100),
        "text": PayloadIndex("text", 20_000),
        "file": PayloadIndex("keyword", 1_000_000),  # of conditions by authors, which are rare
        "headings": PayloadIndex("keyword", 1_000_000),
    },
    "documents": {
        "what": PayloadIndex("keyword", 20_000),
        "document": PayloadIndex("keyword", 500),
        "file": PayloadIndex("keyword", 20_000),
        "audience": PayloadIndex("keyword", 20_000),
    },
}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class Vectors(NamedTuple):
    """The vectors of a collection: lengths of the dense and the multi vector (0: there is none), and whether there is a
    sparse one."""

    dense: int = 0
    multi: int = 0
    sparse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a leg may give."""
        return tuple(name for name in ("dense", "multi", "sparse") if getattr(self, name))


def vectors_of(manifest: Manifest, collection: CollectionName) -> Vectors:
    """Return the vectors that points of a collection have. Without an embedding model, there are no dense ones.

    >>> vectors_of(Manifest("hybrid", "Builtin/wordllama", dimensions=256), "chunks")
    Vectors(dense=256, multi=0, sparse=True)
    >>> vectors_of(Manifest("hybrid"), "chunks").names, vectors_of(Manifest("hybrid"), "documents").names
    (('sparse',), ())
    """
    if collection == "documents":
        return Vectors()
    named = find_encoding(manifest.encoding, where="manifest").vectors_with(manifest.embedding)
    size = manifest.dimensions
    return Vectors(size if "dense" in named else 0, size if "multi" in named else 0, "sparse" in named)


def check_same(manifest: Manifest, stored: Manifest | None, where: str) -> None:
    """Raise if a store was made with another manifest than the one to write with.

    Raises:
        StoreMismatch: they differ; the error names the differences.
    """
    now = as_stored(manifest)
    if stored and stored.differences(now):
        raise mismatch(stored, now, where=where)


def as_stored(manifest: Manifest) -> Manifest:
    """Return the manifest as it is read back: with lists instead of tuples."""
    return Manifest.from_json(json.loads(json.dumps(manifest.as_json())))


def check_format(number: object, where: str) -> None:
    """Raise if another version of lmm wrote the store in a format that we do not read.

    Raises:
        StoreOutdated: the format is older than ours.
        StoreMismatch: it is newer.
    """
    if number == FORMAT:
        return
    message = f"the store has format {number}, this version of lmm reads format {FORMAT}"
    if isinstance(number, int) and number < FORMAT:
        raise StoreOutdated(message, where=where, hint="lmm ingest rebuilds it from its documents")
    raise StoreMismatch(message, where=where, hint="update lmm: pip install --upgrade lmmarkdown")


def engine_path(path: str) -> str:
    """Return a path into a payload as Qdrant reads it: names with other characters than letters of ASCII are quoted.

    >>> engine_path("metadata.topic"), engine_path("metadata.learning goal"), engine_path('metadata."a.b"')
    ('metadata.topic', 'metadata."learning goal"', 'metadata."a.b"')
    """
    if '"' in path:
        return path
    return ".".join(
        part if (name := part.removesuffix("[]")) and _PLAIN.issuperset(name) else f'"{part}"'
        for part in path.split(".")
    )


def values_at(payload: Any, path: str) -> list[Any]:
    """Return the values at a path, with lists flattened.

    >>> values_at({"metadata": {"tags": ["a", "b"]}}, "metadata.tags"), values_at({}, "type")
    (['a', 'b'], [])
    """
    found = [payload]
    for part in re.findall(r'"([^"]*)"|([^."]+)', path):
        name = (part[0] or part[1]).removesuffix("[]")
        found = [item[name] for item in found if isinstance(item, Mapping) and name in item]
        found = [each for item in found for each in (item if isinstance(item, list) else [item])]
    return found


def tally(values: Iterable[Any], limit: int) -> dict[str, int]:
    """Count each value, most frequent first, then by name; numbers and booleans as JSON spells them.

    >>> tally(["b", "a", "b", True, None, {"x": 1}], 3)
    {'b': 2, 'a': 1, 'true': 1}
    """
    counts: dict[str, int] = {}
    for value in values:
        if isinstance(value, (str, int, float)):
            name = value if isinstance(value, str) else json.dumps(value)
            counts[name] = counts.get(name, 0) + 1
    return most_first(counts, limit)


def most_first(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Sort counts as `Reader.facet` returns them."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:limit])


@dataclass(frozen=True, slots=True)
class EngineDialect:
    """How an engine spells a sparse vector and a condition."""

    sparse: Callable[[list[int], list[float]], Any]
    ids: Callable[[frozenset[str]], Any]
    words: Callable[[str], Any]
    value: Callable[[bool], Any]
    any: Callable[[list[Any]], Any]
    field: Callable[..., Any]
    filter: Callable[..., Any]

    def vector(self, vector: Vector) -> Any:
        """Convert a vector to the engine's."""
        if isinstance(vector, SparseVector):
            return self.sparse(list(vector.indices), list(vector.values))
        if hasattr(vector[0], "__len__"):
            return [list(map(float, row)) for row in vector]  # type: ignore[arg-type]
        return list(map(float, vector))  # type: ignore[arg-type]

    def where(self, where: Where) -> Any:
        """Return a filter that requires all conditions; None if there are none."""
        wanted = [self._condition(each) for each in where if not (isinstance(each, Match) and each.negate)]
        unwanted = [self._condition(each) for each in where if isinstance(each, Match) and each.negate]
        return self.filter(must=wanted or None, must_not=unwanted or None) if where else None

    def _condition(self, condition: Condition) -> Any:
        if isinstance(condition, Among):
            return self.ids(condition.ids)
        key = engine_path(condition.key)
        if isinstance(condition, HasWords):
            return self.field(key=key, match=self.words(condition.words))
        texts = [value for value in condition.values if isinstance(value, str)]
        numbers = [value for value in condition.values if isinstance(value, int) and not isinstance(value, bool)]
        matches = [self.value(value) for value in condition.values if isinstance(value, bool)]
        matches += [self.any(numbers)] if numbers else []
        matches += [self.any(texts)] if texts or not matches else []
        conditions = [self.field(key=key, match=match) for match in matches]
        return conditions[0] if len(conditions) == 1 else self.filter(should=conditions)


# What engines, servers and the in-memory mode say of a vector that a collection has not, or has in another length.
_OTHER_VECTORS = (
    *("vector name", "vector dimension", "vector with name", "not aligned", "not found in the collection"),
    "wrong usage of sparse",
)


def refusal(message: str, said: str, where: str) -> StoreError:
    """Return the error for an engine's refusal."""
    if any(words in said.lower() for words in _OTHER_VECTORS):
        return StoreMismatch(said, where=where, hint="encoding and embedding model must be those of the store")
    return StoreError(f"{message}: {said}", where=where)


def _from_vector(vector: Any) -> Vector:
    if not hasattr(vector, "indices"):
        return vector  # type: ignore[no-any-return]
    pairs = sorted(zip(vector.indices, vector.values, strict=True))
    return SparseVector(tuple(index for index, _ in pairs), tuple(value for _, value in pairs))


def numbers_in(point: Point) -> int:
    """Return how many numbers the vectors of a point contain."""
    return sum(map(_count_numbers, point.vectors.values()))


def _count_numbers(vector: Any) -> int:
    if isinstance(vector, SparseVector):
        return 2 * len(vector.indices)
    return sum(map(len, vector)) if hasattr(vector[0], "__len__") else len(vector)


def payload_size(payload: Mapping[str, Any]) -> int:
    """Return an upper limit of the bytes that a payload takes as JSON."""
    return len(json.dumps(payload, default=str))


def to_scored(found: Iterable[Any], leg: Leg) -> list[Scored]:
    """Convert an engine's search results."""
    return [
        Scored(
            str(each.id),
            each.score,
            each.payload or {},
            to_stored(each).vectors.get(leg.vector) if leg.stored else None,
        )
        for each in found
    ]


def to_stored(record: Any) -> Point:
    """Convert an engine's record to a point; sparse vectors ascending."""
    vectors = record.vector if isinstance(record.vector, Mapping) else {}
    return Point(str(record.id), record.payload or {}, {name: _from_vector(each) for name, each in vectors.items()})


def to_selector(fields: Fields) -> Any:
    """Convert the wanted payload fields to the engine's selector."""
    return fields if isinstance(fields, bool) else [engine_path(field) for field in fields] or False


def known_ids(ids: Iterable[str]) -> list[str]:
    """Return the valid ids (UUIDs) among `ids`, as the engines spell them.

    >>> known_ids(["no id", "00000000-0000-0000-0000-00000000000A"])
    ['00000000-0000-0000-0000-00000000000a']
    """
    found = []
    for text in ids:
        with contextlib.suppress(ValueError):
            found.append(str(UUID(text)))
    return found
