"""The port to vector stores: the values that are stored, the queries, and the interface of every store.

A store holds two collections: ``chunks``, whose points have vectors, and ``documents``, whose points have
none: the sections that may be retrieved whole, one record per document, and the manifest. Adapters turn
these values into an engine's; nothing else in the package knows an engine. Reading and writing are apart:
readers are never disturbed by a writer, and see all of a run's changes or none.

Qdrant Edge and qdrant-client have the same classes, which take their arguments in different ways: an `EngineDialect`
contains the differences; at the end of this module is what both adapters share.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID

import msgspec

from lmm.terminal import count
from lmm_education.encodings import find_encoding
from lmm_education.errors import StoreError, StoreMismatch, StoreOutdated
from lmm_education.frequencies import Frequencies
from lmm_education.material import Dense, SparseVector

# -- what a store was made with --------------------------------------------------------------------

FORMAT = 6
"""The version of what we store: the fields of payloads, the names of vectors, how ids are made."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The choices that decide what vectors mean.

    `embedding` is the model's name, with everything that changes its vectors (empty where the encoding
    needs none); `dimensions` its length, 0 without one; `sparse` the sparse model; `language` the language
    that it stems in; `annotations` names the annotation model's properties; `chunking` and `documents`
    the settings of those steps; `sentences` whether each sentence of a passage has a vector, which stores of models
    that read sentences had not at first.
    """

    encoding: str
    embedding: str = ""
    dimensions: int = 0
    sparse: str = ""
    language: str = "en"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    sentences: bool = False
    format: int = FORMAT

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Manifest:
        """Read back what `as_json` wrote; keys of later versions are left to `differences`.

        >>> manifest = Manifest("hybrid", "Builtin/wordllama", 256, "Builtin/bm25")
        >>> Manifest.from_json(manifest.as_json()) == manifest
        True
        """
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})

    def differences(self, other: Manifest) -> dict[str, tuple[Any, Any]]:
        """The choices that differ, as ``{name: (here, there)}``.

        >>> Manifest("hybrid").differences(Manifest("content"))
        {'encoding': ('hybrid', 'content')}
        """
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


# What decides a choice, as config.toml spells it; the keys of a table decide themselves.
_KEYS = {
    "encoding": "[RAG] encoding_model",
    "embedding": "[embedding] model",
    "dimensions": "the embedding model's dimensions",
    "sparse": "[RAG] sparse_model",
    "language": "[RAG] language",
    "annotations": "[RAG.annotation_model]",
    "chunking": "[text_splitter]",
    "documents": "[RAG]",
    "sentences": "whether sentences have vectors",
}

_MODELS = ("embedding", "dimensions", "sparse")


def mismatch(stored: Manifest, now: Manifest, *, where: str = "") -> StoreMismatch:
    """Return the error for a store made with other settings than the current ones: each by its key, and what to do.

    >>> print(mismatch(Manifest("hybrid", chunking={"unit": "tokens"}), Manifest("none", chunking={"unit": "words"})))
    ... # doctest: +NORMALIZE_WHITESPACE
    the store was made with other settings
    ([RAG] encoding_model was hybrid, is none; [text_splitter] unit was tokens, is words)
    (lmm ingest --again PATH, or change the setting back; in Python course.ingest(PATH), again=True)
    """
    differ = stored.differences(now)
    if "embedding" in differ:  # another model has its own length
        differ.pop("dimensions", None)
    if "encoding" in differ:  # another encoding may need a model less, or one more
        differ = {name: pair for name, pair in differ.items() if name not in _MODELS or all(pair)}
    changes = list[str]()
    for name, (before, after) in differ.items():
        key, pairs = _KEYS.get(name, name), {"": (before, after)}
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            pairs = {f" {inner}": (before.get(inner), after.get(inner)) for inner in {**before, **after}}
        for inner, (was, is_) in pairs.items():
            if was != is_:
                changes.append(f"{key}{inner} was {_value_text(was)}, is {_value_text(is_)}")
    hint = "lmm ingest --again PATH, or change the setting back"
    return StoreMismatch(f"the store was made with other settings ({'; '.join(changes)})", where=where, hint=hint)


def _value_text(value: Any) -> str:
    """Format a value for a message; an empty one is named as such."""
    if value is None or value == "":
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


CollectionName = Literal["chunks", "documents"]
Vector = Dense | SparseVector | Sequence[Dense]
"""A dense vector, a sparse one, or (for ``multi``) several dense ones."""
Fields = bool | Collection[str]
"""Which payload fields are wanted: all, none, or those at these paths (``metadata.topic``)."""


@dataclass(frozen=True, slots=True)
class Point:
    """A stored point: an id (a UUID as text), vectors by name, and a JSON payload. One that was read has vectors only
    if they were requested."""

    id: str
    payload: Mapping[str, Any]
    vectors: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit of a leg. `score` is the engine's: the sum over the shared words, or a cosine. `vector` is that of the leg,
    if it was requested."""

    id: str
    score: float
    payload: Mapping[str, Any] = field(default_factory=dict)
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A condition: the payload field at `key` (a path such as ``metadata.topic``) has one of the values.

    Where the field is a list, one of its items counts. With `negate`, it has none of them.
    """

    key: str
    values: tuple[str | int | bool, ...]
    negate: bool = False


RECORDS, SECTIONS = Match("what", ("document",)), Match("what", ("section",))
"""Conditions that distinguish the records of documents from their sections in the collection ``documents``."""


@dataclass(frozen=True, slots=True)
class HasWords:
    """A condition: the text at `key` has all of these words, whatever their case and order."""

    key: str
    words: str


@dataclass(frozen=True, slots=True)
class Among:
    """A condition: the point is one of these."""

    ids: frozenset[str]


Condition = Match | HasWords | Among
Where = Sequence[Condition]
"""All of these hold; the empty sequence holds everywhere."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One vector search: the `limit` points nearest to `query` by the vector of that name, of those where the leg's own
    conditions hold. With `prefetch`, only what these legs find is scored. A leg may return the `stored` vectors, and
    leave out the payloads (`bare`)."""

    vector: str
    query: Vector
    limit: int
    where: Where = ()
    prefetch: Sequence[Leg] = ()
    stored: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """For ``lmm store status``. `size` is in bytes, None where the store cannot know."""

    location: str
    manifest: Manifest | None
    documents: int
    sections: int
    chunks: int
    size: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        of = {"document": self.documents, "section": self.sections, "chunk": self.chunks}
        numbers = ", ".join(count(number, what) for what, number in of.items())
        return f"StoreStatus({numbers if self.manifest else 'nothing was ingested'}; {self.location})"


class Reader(Protocol):
    """The queries of a store, also of one that is being written."""

    def manifest(self) -> Manifest | None:
        """Return the settings that the store was made with; None where nothing was ever stored."""
        ...

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """Search with all legs in one round trip; return one list per leg, best first, at most `limit` each. `where`
        holds for all legs, and for what they prefetch."""
        ...

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Point]:
        """Return the points with these ids, in the order of `ids`; those that do not exist are left out."""
        ...

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Point]:
        """Iterate over all matching points, in no particular order, page by page."""
        ...

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """Return the exact number of matching points."""
        ...

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """Count the chunks with each value of a payload field, most frequent first."""
        ...

    def frequencies(self) -> Frequencies:
        """Return in how many chunks each word occurs, from the records of the documents (`payloads.words_of`).

        The store does not weigh words by it: the caller does (`Frequencies.weigh`).
        """
        ...


class StoreView(Reader, Protocol):
    """A store in one state, which all its answers come from. A server has no such views: there, only the manifest and
    the stamp are those of the view's beginning."""

    @property
    def stamp(self) -> str:
        """A text that changes whenever the documents change; empty where nothing was ever stored."""
        ...


class Writer(Reader, Protocol):
    """A run of changes. Reads through it see the changes made so far; others see none of them before the end, if it
    `is_atomic`."""

    is_atomic: bool

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """Store points; existing ones with the same id are replaced completely."""
        ...

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the payload of points, by id; their vectors stay. An id that does not exist is an error."""
        ...

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """Remove points; ids that do not exist are no error."""
        ...


class WaitReporter:
    """How a store reports what it waits for."""

    _on_wait: Callable[[str], None] | None = None

    @contextmanager
    def reporting(self, on_wait: Callable[[str], None]) -> Iterator[None]:
        """See `Store.reporting`."""
        before, self._on_wait = self._on_wait, on_wait
        try:
            yield
        finally:
            self._on_wait = before

    def _report(self, sentence: str) -> None:
        if self._on_wait:
            self._on_wait(sentence)


class Store(Reader, Protocol):
    """A store that is open.

    Raises (from every method): children of `lmm_education.errors.StoreError`, never an engine's exception.
    """

    @property
    def location(self) -> str:
        """Where it is, for messages: a folder or an address."""
        ...

    def reporting(self, on_wait: Callable[[str], None]) -> AbstractContextManager[None]:
        """During the block, call `on_wait` with a sentence that says what a call waits for: a server, or another run.
        The call may come from another thread."""
        ...

    def view(self) -> AbstractContextManager[StoreView]:
        """Open the newest state for the time of the block; writers go on in the meantime."""
        ...

    def writing(self, manifest: Manifest, *, anew: bool = False) -> AbstractContextManager[Writer]:
        """Begin a run of changes; they are published if the block is left without an exception, else discarded.

        A server has no transactions: there each call takes effect when it returns, and the order of calls keeps the
        store usable at every moment. A new store is created to fit `manifest`. With `anew`, the run begins with an
        empty store; readers see the old one until the end (on a server, it is removed at once).

        Raises:
            StoreMismatch: the store was made with another manifest, and `anew` is not set.
            StoreBusy: another process writes and does not come to an end.
        """
        ...

    def check(self) -> str:
        """Compare everything stored with what was written; return how much that is, empty where there is no store.

        Raises:
            StoreDamaged: something differs, is missing, or cannot be read.
        """
        ...

    def records(self) -> Sequence[Mapping[str, Any]] | None:
        """Return the records of the documents, without their metadata, also from a damaged store; None if they cannot
        be read."""
        ...

    def status(self) -> StoreStatus:
        """Return the store's manifest, counts and size."""
        ...

    def close(self) -> None:
        """Release the store's resources; further calls are an error."""
        ...


# -- shared by the adapters ------------------------------------------------------------------------

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


def vectors_of(manifest: Manifest, collection: CollectionName) -> Vectors:
    """Return the vectors that points of a collection have. Without an embedding model, there are no dense ones.

    >>> vectors_of(Manifest("hybrid", "Builtin/wordllama", dimensions=256), "chunks")
    Vectors(dense=256, multi=0, sparse=True)
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


def refusal(message: str, reason: str, where: str) -> StoreError:
    """Return the error for an engine's refusal."""
    if any(words in reason.lower() for words in _OTHER_VECTORS):
        return StoreMismatch(reason, where=where, hint="encoding and embedding model must be those of the store")
    return StoreError(f"{message}: {reason}", where=where)


def numbers_in(point: Point) -> int:
    """Return how many numbers the vectors of a point contain."""
    found = 0
    for vector in point.vectors.values():
        if isinstance(vector, SparseVector):
            found += 2 * len(vector.indices)
        else:
            found += sum(map(len, vector)) if hasattr(vector[0], "__len__") else len(vector)  # type: ignore[arg-type]
    return found


def payload_size(payload: Mapping[str, Any]) -> int:
    """Return the bytes that a payload takes as JSON."""
    return len(msgspec.json.encode(payload, enc_hook=str))


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
    vectors = dict(record.vector) if isinstance(record.vector, Mapping) else {}
    for name, vector in vectors.items():
        if hasattr(vector, "indices"):
            pairs = sorted(zip(vector.indices, vector.values, strict=True))
            vectors[name] = SparseVector(tuple(index for index, _ in pairs), tuple(value for _, value in pairs))
    return Point(str(record.id), record.payload or {}, vectors)


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
