"""The store on a Qdrant server or cluster: two collections per course.

A server has no transactions, so each call holds when it returns, and is sent again when the connection fails:
ids come from content, so that storing twice is storing once. Several machines may write different documents at
once: no two of them touch one point, and the manifest is only ever written where there is none.
"""

from __future__ import annotations

import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lmm.hosts import is_loopback_url
from lmm_education.config import StorageSettings
from lmm_education.errors import StoreDamaged, StoreError, StoreMismatch, StoreMissing, StoreUnavailable
from lmm_education.frequencies import Frequencies
from lmm_education.payloads import WORDS, words_of
from lmm_education.store import server_values as values
from lmm_education.store.layout import (
    COLLECTIONS,
    INDEXED,
    as_stored,
    check_format,
    check_same,
    engine_path,
    fitting,
    index_kinds,
    metadata_kinds,
    most_first,
    tally,
    values_at,
    vectors_of,
)
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import (
    Among,
    CollectionName,
    Condition,
    Fields,
    Leg,
    Match,
    Point,
    Scored,
    Stored,
    StoreStatus,
    Where,
)
from lmm_education.store.server_requests import Requests, missing_extra

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

MANIFEST_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "lmm:manifest"))
STAMP_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "lmm:stamp"))
"""A point whose payload is another whenever the record of a document was written or removed."""
PAGE = 256
MOST_INDEXES = 100  # of a collection
POINTS, BYTES = 256, 8 << 20  # of one request; servers refuse more than 32 MB
_VISIBLE = Match("what", ("manifest", "stamp"), negate=True)
T = TypeVar("T")


class ServerReader:
    """Reading, the same in a store and in a run of changes."""

    def __init__(self, requests: Requests, settings: StorageSettings) -> None:
        self._requests, self._settings = requests, settings
        self._names = {"chunks": settings.course, "documents": f"{settings.course}_documents"}
        self._counted = "", Frequencies()

    @property
    def location(self) -> str:
        """Where it is: the server's address, and the course."""
        return f"{self._requests.address} ({self._settings.course})"

    def _call(self, name: str, collection: CollectionName, **arguments: Any) -> Any:
        """Call the client; None where the collection does not exist."""
        return self._requests.call(name, collection_name=self._names[collection], **arguments)

    def _ask(
        self, name: str, collection: CollectionName, where: Where, arguments: Callable[[Where], Mapping[str, Any]]
    ) -> Any:
        """Call the client with conditions. A server in strict mode filters by no field without an index: there, each
        gets one. What has an index has values of one kind only; others are left out of the conditions."""
        try:
            return self._call(name, collection, **arguments(where))
        except StoreError as error:
            if not where or "index required" not in error.message.lower():
                raise
        return self._call(name, collection, **arguments(self._indexed(collection, where)))

    def _indexed(self, collection: CollectionName, where: Where) -> list[Condition]:
        info = self._call("get_collection", collection)
        schema = {key: found.data_type.value for key, found in ((info and info.payload_schema) or {}).items()}
        found: list[Condition] = []
        for condition in where:
            if isinstance(condition, Among):  # by ids: no field
                found.append(condition)
                continue
            path = engine_path(condition.key)
            if path not in schema:
                kinds = index_kinds(condition)
                if len(kinds) > 1:
                    raise StoreError(
                        f"the server filters by no field without an index, and '{path}' has none: "
                        "no passage has it, or its values are of several kinds",
                        where=self.location,
                    )
                schema[path] = kinds.pop()
                self._make_index(collection, path, schema[path])
            found.append(fitting(condition, schema[path]))
        return found

    def _make_index(self, collection: CollectionName, path: str, kind: str) -> None:
        try:
            schema = values.index_schema(kind)
            self._call("create_payload_index", collection, field_name=path, field_schema=schema, wait=True)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreError(
                f"the server filters by no field without an index, and does not let us make one for '{path}': "
                f"{error.message}",
                where=self.location,
                hint="it may have as many as it allows (100), or the key may only be read with",
            ) from error

    def _there(self, answer: T | None) -> T:
        if answer is None:
            raise StoreMissing("there is no store yet", where=self.location, hint="make one with: lmm ingest PATH")
        return answer

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self._state()[0]

    def _state(self) -> tuple[Manifest | None, str]:
        """The manifest, and the stamp: another one whenever the record of a document was written or removed."""
        found = self._call("retrieve", "documents", ids=[MANIFEST_ID, STAMP_ID], with_payload=True) or []
        payloads = {str(record.id): record.payload or {} for record in found}
        if MANIFEST_ID not in payloads:
            return None, ""
        stamp = str(payloads.get(STAMP_ID, {}).get("stamp", "none"))
        return self._read_manifest(payloads[MANIFEST_ID].get("manifest")), stamp

    def _read_manifest(self, stored: Any) -> Manifest:
        try:
            check_format(stored["format"], self.location)
            return Manifest.from_json(stored)
        except (TypeError, KeyError) as error:
            raise StoreDamaged(
                "the collection's manifest is not ours",
                where=self.location,
                hint="name another 'course' under [storage]",
            ) from error

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        wanted = [leg for leg in legs if leg.limit > 0]

        def arguments(where: Where) -> Mapping[str, Any]:
            return {"requests": [one for leg in wanted for one in values.to_requests(leg, where, fields)]}

        found = iter(self._there(self._ask("query_batch_points", "chunks", where, arguments)) if wanted else [])
        return [values.to_scored(list(islice(found, 2 if leg.held else 1))) if leg.limit > 0 else [] for leg in legs]

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Stored]:
        """See `port.Reader.get`."""
        wanted = [each for each in map(_canonical, ids) if each]
        found: dict[str, Stored] = {}
        retrieve = partial(
            self._call, "retrieve", collection, with_payload=values.to_selector(fields), with_vectors=vectors
        )
        batches = values.batches(dict.fromkeys(wanted), PAGE, PAGE, lambda _: 1)
        calls = [partial(retrieve, ids=batch) for batch in batches]
        for records in self._requests.side_by_side(calls) if len(calls) > 1 else (call() for call in calls):
            found |= {str(record.id): values.to_stored(record) for record in records or []}
        return [found[each] for each in wanted if each in found]

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Stored]:
        """See `port.Reader.scroll`.

        Raises:
            StoreError: the server's pages go in a circle.
        """
        offset, before = None, set[str]()

        def arguments(where: Where) -> Mapping[str, Any]:
            return {
                "scroll_filter": values.to_filter(where),
                "limit": PAGE,
                "offset": offset,
                "with_payload": values.to_selector(fields),
                "with_vectors": vectors,
            }

        while True:
            page = self._ask("scroll", collection, _visible(collection, where), arguments)
            records, offset = page or ([], None)
            yield from map(values.to_stored, records)
            if offset is None:
                return
            if str(offset) in before:
                raise StoreError("the server gives the same page of points again and again", where=self.location)
            before.add(str(offset))

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `port.Reader.count`."""

        def arguments(where: Where) -> Mapping[str, Any]:
            return {"count_filter": values.to_filter(where), "exact": True}

        answer = self._ask("count", collection, _visible(collection, where), arguments)
        return answer.count if answer else 0

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `port.Reader.facet`. The server counts fields that always are texts; others are counted here.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        if key in INDEXED["chunks"] and INDEXED["chunks"][key].kind == "keyword":
            most = min(limit + 1, values.AT_ONCE)

            def arguments(where: Where) -> Mapping[str, Any]:
                return {"key": key, "facet_filter": values.to_filter(where), "limit": most, "exact": True}

            hits = self._there(self._ask("facet", "chunks", where, arguments)).hits
            if len(hits) < values.AT_ONCE:
                return most_first({str(hit.value): hit.count for hit in hits}, limit)
        self._there(self._call("count", "chunks"))
        found = self.scroll("chunks", where=where, fields=(key,))
        return tally((value for point in found for value in values_at(point.payload, key)), limit)

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`. They are read again when a document has changed."""
        return self._frequencies_at(self._state()[1])

    def _frequencies_at(self, stamp: str) -> Frequencies:
        if stamp != self._counted[0]:
            records = self.scroll("documents", where=[Match("what", ("document",))], fields=(WORDS,))
            self._counted = stamp, Frequencies().changed(words_of(record.payload) for record in records)
        return self._counted[1]


class ServerView(ServerReader):
    """A server's store, with the manifest and the stamp that it has; see `port.StoreView`."""

    far = True

    def __init__(self, store: ServerStore) -> None:
        super().__init__(store._requests, store._settings)
        self._store, self._asking = store, threading.Lock()
        self._asked = store.last is None
        self._now = store.last or store._state()

    def _ask_now(self) -> None:
        """Ask for the present state, if that was not done yet."""
        with self._asking:
            if not self._asked:
                self._now, self._asked = self._store._state(), True

    @property
    def stamp(self) -> str:
        """See `port.StoreView.stamp`."""
        self._ask_now()
        return self._now[1]

    @property
    def known_stamp(self) -> str:
        """See `port.StoreView.known_stamp`."""
        return self._now[1]

    def together(self, *reads: Callable[[], T]) -> list[T]:
        """See `port.StoreView.together`."""
        return list(self._requests.side_by_side(reads)) if len(reads) > 1 else [read() for read in reads]

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`. The state of the store is asked for at the same time."""
        found: list[list[Scored]] = []
        search = partial(super().search, legs, where=where, fields=fields)
        self.together(lambda: found.extend(search()), *(() if self._asked else (self._ask_now,)))
        return found

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self._now[0]

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        return self._store._frequencies_at(self.known_stamp)


class ServerWriter(ServerReader):
    """A run of changes; each holds when its call returns."""

    def __init__(self, requests: Requests, settings: StorageSettings) -> None:
        super().__init__(requests, settings)
        self._with_index: set[str] = set()  # fields of chunks
        self._waiting = Counter[tuple[str, str]]()  # metadata without an index, its kind: how many points have it
        self.unindexed: list[str] = []

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`. Points go in batches, each of which is stored whole; several are under way."""
        for _ in self._requests.side_by_side(self._upserts(collection, points)):
            pass

    def _upserts(self, collection: CollectionName, points: Iterable[Point]) -> Iterator[Callable[[], object]]:
        for batch in values.batches(points, POINTS, BYTES, values.point_size):
            if collection == "chunks":
                self._index([point.payload for point in batch])
            elif any(WORDS in point.payload for point in batch):
                batch.append(_stamp())
            yield partial(self._upsert, collection, batch)

    def _upsert(self, collection: CollectionName, batch: Sequence[Point]) -> None:
        self._call("upsert", collection, points=[values.to_point(point) for point in batch], wait=True)

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See `port.Writer.set_payload`.

        Raises:
            StoreError: there is no such point.
        """
        from qdrant_client import models

        missing = set(map(_canonical, payloads)) - {
            point.id for point in self.get(collection, list(payloads), fields=False)
        }
        if missing:
            raise StoreError(f"there is no point {sorted(map(str, missing))[0]}", where=self.location)
        for batch in values.batches(payloads.items(), POINTS, BYTES, lambda item: values.payload_size(item[1])):
            if collection == "chunks":
                self._index([payload for _, payload in batch])
            operations = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(payload=dict(payload), points=[each])
                )
                for each, payload in batch
            ]
            self._call("batch_update_points", collection, update_operations=operations, wait=True)

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        known = [each for each in map(_canonical, ids) if each]
        for batch in values.batches(known, 4 * POINTS, 4 * POINTS, lambda _: 1):
            self._call("delete", collection, points_selector=batch, wait=True)
        if known and collection == "documents":
            self._call("upsert", "documents", points=[values.to_point(_stamp())], wait=True)

    def prepare(self, manifest: Manifest, *, anew: bool) -> None:
        """Make the collections where they are not there, and see that they fit.

        The manifest comes last: while it is not there, nobody takes the store for one.

        Raises:
            StoreMismatch: a collection has other vectors, or the store was made with other settings.
        """
        if anew:
            for collection in COLLECTIONS[::-1]:
                self._call("delete_collection", collection)
        else:
            check_same(manifest, self.manifest(), self.location)
        for collection in COLLECTIONS:
            self._make(collection, manifest)
        self._there(self._write_manifest(manifest))
        check_same(manifest, self.manifest(), self.location)  # another machine may have been faster

    def _make(self, collection: CollectionName, manifest: Manifest) -> None:
        vectors = vectors_of(manifest, collection)
        info = self._call("get_collection", collection)
        if info is None:
            self._call("create_collection", collection, **values.creation(vectors, self._settings))
            info = self._there(self._call("get_collection", collection))
        wrong = values.misfits(info, vectors)
        if wrong:
            raise StoreMismatch(
                f"the collection '{self._names[collection]}' does not fit: {'; '.join(wrong)}",
                where=self.location,
                hint="name another 'course' under [storage], or remove the collection",
            )
        self.index_fields(collection, info.payload_schema or {})
        if collection == "chunks":
            self._with_index = {*INDEXED[collection], *(info.payload_schema or {})}

    def index_fields(self, collection: CollectionName, there: Collection[str]) -> None:
        """Make the indexes that are not there."""
        for field, index in INDEXED[collection].items():
            if field not in there:
                schema = values.index_schema(index.kind)
                self._call("create_payload_index", collection, field_name=field, field_schema=schema, wait=True)

    def _index(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Index the metadata that a tenth of these points have; other metadata waits until the end of the run. Some
        servers refuse to filter by a field without an index."""
        for path, kind in metadata_kinds(payloads).items():
            if path not in self._with_index:
                self._waiting[path, kind] += sum(bool(values_at(payload, path)) for payload in payloads)
                if 10 * self._waiting[path, kind] >= len(payloads):
                    self._index_metadata(path, kind)

    def finish(self) -> None:
        """Index the metadata that few points have, the most used first; what must do without is `unindexed`."""
        for (path, kind), _ in self._waiting.most_common():
            self._index_metadata(path, kind)
        self.unindexed = sorted({path for path, _ in self._waiting} - self._with_index)

    def _index_metadata(self, path: str, kind: str) -> None:
        if path in self._with_index or len(self._with_index) >= MOST_INDEXES:
            return
        try:
            self._make_index("chunks", path, kind)
        except StoreUnavailable:
            raise
        except StoreError:  # it may allow fewer
            return
        self._with_index.add(path)

    def _write_manifest(self, manifest: Manifest) -> Any:
        from qdrant_client import models

        payload = {"what": "manifest", "manifest": manifest.as_json()}
        point = values.to_point(Point(MANIFEST_ID, payload))
        return self._call("upsert", "documents", points=[point], wait=True, update_mode=models.UpdateMode.INSERT_ONLY)


class ServerStore(ServerReader):
    """The store on a server. `last` is the state in which it was when it was last asked for, if there was something."""

    last: tuple[Manifest, str] | None = None
    _unindexed: Sequence[str] = ()

    def _state(self) -> tuple[Manifest | None, str]:
        manifest, stamp = super()._state()
        self.last = (manifest, stamp) if manifest else None
        return manifest, stamp

    @property
    def notices(self) -> tuple[str, ...]:
        """See `port.Store.notices`: keys of metadata for which there is no index left."""
        keys = ", ".join(self._unindexed[:8]) + (", …" if len(self._unindexed) > 8 else "")
        told = f"a collection has {MOST_INDEXES} indexes at most, and these keys have none: {keys}"
        return (f"{told}; a server in strict mode refuses conditions on them",) if keys else ()

    def telling(self, told: Callable[[str], None]) -> AbstractContextManager[None]:
        """See `port.Store.telling`."""
        return self._requests.telling(told)

    @contextmanager
    def view(self) -> Iterator[ServerView]:
        """See `port.Store.view`."""
        yield ServerView(self)

    @contextmanager
    def writing(self, manifest: Manifest, *, anew: bool = False) -> Iterator[ServerWriter]:
        """See `port.Store.writing`. `anew` removes first what was there.

        Raises:
            StoreMismatch: the store was made with another manifest, or a collection does not fit.
            StoreUnavailable: the server does not answer, or does not let us in.
        """
        writer = ServerWriter(self._requests, self._settings)
        writer.prepare(as_stored(manifest), anew=anew)
        yield writer
        writer.finish()
        self._unindexed = writer.unindexed

    def compact(self) -> None:
        """See `port.Store.compact`. A server optimizes by itself; missing indexes are made."""
        writer = ServerWriter(self._requests, self._settings)
        for collection in COLLECTIONS:
            info = self._call("get_collection", collection)
            if info is not None:
                writer.index_fields(collection, info.payload_schema or {})

    def check(self) -> str:
        """See `port.Store.check`: every point is read; servers look after their files themselves."""
        if self.manifest() is None:
            return ""
        points = sum(1 for collection in COLLECTIONS for _ in self.scroll(collection, vectors=True))
        return f"{points:,} points can be read"

    def records(self) -> list[Mapping[str, Any]] | None:
        """See `port.Store.records`."""
        try:
            return [point.payload for point in self.scroll("documents", where=[Match("what", ("document",))])]
        except StoreDamaged:
            return None

    def status(self) -> StoreStatus:
        """See `port.Store.status`."""
        info = self._call("get_collection", "chunks")
        details: dict[str, Any] = {"engine": "Qdrant server"}
        if info is not None:
            details |= {"state": info.status.value, "segments": info.segments_count}
            details |= {"indexed vectors": info.indexed_vectors_count or 0}
            details |= {"shards": info.config.params.shard_number, "replicas": info.config.params.replication_factor}
        return StoreStatus(
            self.location,
            self.manifest(),
            documents=self.count("documents", where=[Match("what", ("document",))]),
            sections=self.count("documents", where=[Match("what", ("section",))]),
            chunks=self.count("chunks"),
            size=None,
            details={name: value for name, value in details.items() if value is not None},
        )

    def close(self) -> None:
        """See `port.Store.close`."""
        self._requests.close()


def open_server(settings: StorageSettings, api_key: str | None) -> ServerStore:
    """The store at ``settings.addresses``. Nothing is asked before it is used.

    Raises:
        StoreError: the package that talks to it is not installed, or an address is none.
    """

    def connect(address: str) -> QdrantClient:
        try:
            from qdrant_client import QdrantClient
        except ImportError as error:
            raise missing_extra(address) from error
        # What is on this machine is not asked through the company's proxy.
        options: dict[str, Any] = {"trust_env": False} if is_loopback_url(address) else {}
        with warnings.catch_warnings():  # a key over plain http is refused by `open_store`, but for this machine
            warnings.simplefilter("ignore")
            return QdrantClient(
                url=address,
                api_key=api_key,
                timeout=max(1, round(settings.timeout)),
                check_compatibility=False,
                **options,
            )

    return ServerStore(Requests(connect, settings.addresses), settings)


def store_on(client: QdrantClient, settings: StorageSettings) -> ServerStore:
    """The store behind a client that is there already, such as qdrant-client's in-memory mode."""
    return ServerStore(Requests(lambda address: client, ["memory"], at_once=1), settings)


def _visible(collection: CollectionName, where: Where) -> Where:
    """Without the manifest and the stamp, which are no document's."""
    return (*where, _VISIBLE) if collection == "documents" else where


def _stamp() -> Point:
    """The point at `STAMP_ID`, as it never was before."""
    return Point(STAMP_ID, {"what": "stamp", "stamp": uuid.uuid4().hex})


def _canonical(text: str) -> str | None:
    """An id as the server writes it; None for what cannot be one."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
