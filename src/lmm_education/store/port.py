"""The port to vector stores: the values that are stored, the queries, and the interface of every store.

A store holds two collections: ``chunks``, whose points have vectors, and ``documents``, whose points have
none: the sections that may be retrieved whole, one record per document, and the manifest. Adapters turn
these values into an engine's; nothing else in the package knows an engine. Reading and writing are apart:
readers are never disturbed by a writer, and see all of a run's changes or none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol

from lmm.terminal import count
from lmm_education.errors import StoreMismatch
from lmm_education.frequencies import Frequencies
from lmm_education.material import Dense, SparseVector

# -- what a store was made with --------------------------------------------------------------------

FORMAT = 5
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
    differences = "; ".join(
        f"{key} was {_value_text(before)}, is {_value_text(after)}" for key, before, after in _changes(stored, now)
    )
    hint = "lmm ingest --again PATH, or change the setting back"
    return StoreMismatch(f"the store was made with other settings ({differences})", where=where, hint=hint)


def _changes(stored: Manifest, now: Manifest) -> Iterator[tuple[str, Any, Any]]:
    differ = stored.differences(now)
    if "embedding" in differ:  # another model has its own length
        differ.pop("dimensions", None)
    if "encoding" in differ:  # another encoding may need a model less, or one more
        differ = {name: pair for name, pair in differ.items() if name not in _MODELS or all(pair)}
    for name, (before, after) in differ.items():
        key = _KEYS.get(name, name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            names = [inner for inner in {**before, **after} if before.get(inner) != after.get(inner)]
            yield from ((f"{key} {inner}", before.get(inner), after.get(inner)) for inner in names)
        else:
            yield key, before, after


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
