"""Our values as an engine's, and back. Qdrant Edge and qdrant-client have the same classes, which take their arguments
in other ways: a `EngineDialect` has what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from lmm_education.errors import StoreError, StoreMismatch
from lmm_education.material import SparseVector
from lmm_education.store.layout import engine_path
from lmm_education.store.port import Among, Condition, Fields, HasWords, Match, Point, Scored, Vector, Where


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
        """A vector as the engine takes it."""
        if isinstance(vector, SparseVector):
            return self.sparse(list(vector.indices), list(vector.values))
        if hasattr(vector[0], "__len__"):
            return [list(map(float, row)) for row in vector]  # type: ignore[arg-type]
        return list(map(float, vector))  # type: ignore[arg-type]

    def where(self, where: Where) -> Any:
        """Conditions that all hold; None if there are none."""
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
    """The error for what an engine refuses."""
    if any(words in said.lower() for words in _OTHER_VECTORS):
        return StoreMismatch(said, where=where, hint="encoding and embedding model must be those of the store")
    return StoreError(f"{message}: {said}", where=where)


def _from_vector(vector: Any) -> Vector:
    if not hasattr(vector, "indices"):
        return vector  # type: ignore[no-any-return]
    pairs = sorted(zip(vector.indices, vector.values, strict=True))
    return SparseVector(tuple(index for index, _ in pairs), tuple(value for _, value in pairs))


def to_scored(found: Iterable[Any]) -> list[Scored]:
    """What a search found."""
    return [Scored(str(point.id), point.score, point.payload or {}) for point in found]


def to_stored(record: Any) -> Point:
    """A point that was read; sparse vectors ascending."""
    vectors = record.vector if isinstance(record.vector, Mapping) else {}
    return Point(str(record.id), record.payload or {}, {name: _from_vector(each) for name, each in vectors.items()})


def to_selector(fields: Fields) -> Any:
    """Which payload fields come along."""
    return fields if isinstance(fields, bool) else [engine_path(field) for field in fields] or False


def known_ids(ids: Iterable[str]) -> list[str]:
    """Those that can be ids at all, as the engines spell them.

    >>> known_ids(["no id", "00000000-0000-0000-0000-00000000000A"])
    ['00000000-0000-0000-0000-00000000000a']
    """
    found = []
    for text in ids:
        with contextlib.suppress(ValueError):
            found.append(str(UUID(text)))
    return found
