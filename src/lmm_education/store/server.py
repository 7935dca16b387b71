"""The store on a Qdrant server or cluster: two collections per course.

A server has no transactions, so each call holds when it returns, and is sent again when the connection fails:
ids come from content, so that storing twice is storing once. Several machines may write different documents at
once: no two of them touch one point, and the manifest is only ever written where there is none.
"""

from __future__ import annotations

import copy
import functools
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from lmm.extras import check_installed
from lmm.hosts import is_loopback_url
from lmm_education.config import StorageSettings
from lmm_education.errors import StoreDamaged, StoreError, StoreMismatch, StoreMissing, StoreUnavailable
from lmm_education.frequencies import Frequencies
from lmm_education.material import batches
from lmm_education.payloads import RECORD, WORDS, words_of
from lmm_education.store.port import (
    COLLECTIONS,
    INDEXED,
    RECORDS,
    SECTIONS,
    Among,
    CollectionName,
    EngineDialect,
    Fields,
    Leg,
    Manifest,
    Match,
    Point,
    Scored,
    StoreStatus,
    Vectors,
    Where,
    as_stored,
    check_format,
    check_same,
    known_ids,
    most_first,
    numbers_in,
    payload_size,
    tally,
    to_scored,
    to_selector,
    to_stored,
    values_at,
    vectors_of,
)
from lmm_education.store.server_requests import Requests

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

MANIFEST_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "lmm:manifest"))
STAMP_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "lmm:stamp"))
"""A point whose payload is another whenever the record of a document was written or removed."""
PAGE = 256
POINTS, BYTES = 256, 8 << 20  # of one request; servers refuse more than 32 MB
_VISIBLE = Match("what", ("manifest", "stamp"), negate=True)
AT_ONCE = 1000  # values or points that are asked for: servers with a `max_query_limit` refuse more
T = TypeVar("T")


# -- our values as qdrant-client's, which takes 0.9 s to import: on first use only -------------------


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

    params, cosine = {}, models.Distance.COSINE
    if vectors.dense:
        params["dense"] = models.VectorParams(size=vectors.dense, distance=cosine)
    if vectors.multi:
        several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        no_graph = models.HnswConfigDiff(m=0)
        params["multi"] = models.VectorParams(
            size=vectors.multi, distance=cosine, multivector_config=several, hnsw_config=no_graph
        )
    return params


def misfits(info: models.CollectionInfo, vectors: Vectors) -> list[str]:
    """Describe how an existing collection differs from what is needed."""
    found = info.config.params.vectors or {}
    found = found if isinstance(found, Mapping) else {"(unnamed)": found}
    shown, asked = (
        {
            name: f"{each.size} numbers ({each.distance.value}{', several a point' if each.multivector_config else ''})"
            for name, each in some.items()
        }
        for some in (found, vector_params(vectors))
    )
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


def to_point(point: Point) -> models.PointStruct:
    """Convert a point to the client's."""
    from qdrant_client import models

    vectors: Any = {name: dialect().vector(vector) for name, vector in point.vectors.items()}
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def _query_of(leg: Leg, condition: models.Filter | None) -> dict[str, Any]:
    from qdrant_client import models

    conditions = [each for each in (condition, dialect().where(leg.where)) if each]
    return {
        "query": dialect().vector(leg.query),
        "using": leg.vector,
        "limit": min(leg.limit, AT_ONCE),
        "filter": models.Filter(must=conditions) if len(conditions) > 1 else next(iter(conditions), None),
    }


# -- the store -------------------------------------------------------------------------------------


class ServerStore:
    """The store on a server: reader, writer and view, which keeps the manifest and the stamp of its beginning."""

    is_atomic = False
    _state: tuple[Manifest | None, str] | None = None  # of a view

    def __init__(self, requests: Requests, settings: StorageSettings) -> None:
        self._requests, self._settings = requests, settings
        self._names = {"chunks": settings.course, "documents": f"{settings.course}_documents"}

    @property
    def location(self) -> str:
        """Where it is: the server's address, and the course."""
        return f"{self._requests.address} ({self._settings.course})"

    def _call(self, name: str, collection: CollectionName, **arguments: Any) -> Any:
        """Call the client; None where the collection does not exist."""
        return self._requests.call(name, collection_name=self._names[collection], **arguments)

    def _filtered(
        self, name: str, collection: CollectionName, where: Where, arguments: Callable[[Any], Mapping[str, Any]]
    ) -> Any:
        """Call the client with a filter.

        Raises:
            StoreError: the server is strict, and filters by no field without an index.
        """
        try:
            return self._call(name, collection, **arguments(dialect().where(where)))
        except StoreError as error:
            keys = sorted({each.key for each in where if not isinstance(each, Among)} - INDEXED[collection].keys())
            if not keys or "index required" not in error.message.lower():
                raise
            raise StoreError(
                f"the server is in strict mode and has no index for {' and '.join(map(repr, keys))}",
                where=self.location,
                hint="make a payload index there, or filter by one of: " + ", ".join(sorted(INDEXED[collection])),
            ) from error

    def _required(self, answer: T | None) -> T:
        if answer is None:
            raise StoreMissing(self.location)
        return answer

    # -- reading -----------------------------------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[ServerStore]:
        """See `port.Store.view`."""
        view = copy.copy(self)
        view._state = self._read_state()
        yield view

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return (self._state or self._read_state())[0]

    @property
    def stamp(self) -> str:
        """See `port.StoreView.stamp`."""
        return (self._state or self._read_state())[1]

    def _read_state(self) -> tuple[Manifest | None, str]:
        found = self._call("retrieve", "documents", ids=[MANIFEST_ID, STAMP_ID], with_payload=True) or []
        payloads = {str(record.id): record.payload or {} for record in found}
        if MANIFEST_ID not in payloads:
            return None, ""
        try:
            stored = payloads[MANIFEST_ID]["manifest"]
            check_format(stored["format"], self.location)
            return Manifest.from_json(stored), str(payloads.get(STAMP_ID, {}).get("stamp", "none"))
        except (TypeError, KeyError) as error:
            raise StoreDamaged(
                "the collection's manifest was not written by lmm",
                where=self.location,
                hint="choose another 'course' under [storage]",
            ) from error

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        from qdrant_client import models

        wanted = [leg for leg in legs if leg.limit > 0]

        def requests(condition: Any) -> Mapping[str, Any]:
            asked = [
                models.QueryRequest(
                    **_query_of(leg, condition),
                    prefetch=[models.Prefetch(**_query_of(each, condition)) for each in leg.prefetch],
                    with_payload=to_selector(not leg.bare and fields),
                    with_vector=[leg.vector] if leg.stored else False,
                )
                for leg in wanted
            ]
            return {"requests": asked}

        asked = self._filtered("query_batch_points", "chunks", where, requests) if wanted else []
        found = iter(self._required(asked))
        return [to_scored(next(found).points, leg) if leg.limit > 0 else [] for leg in legs]

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Point]:
        """See `port.Reader.get`."""
        wanted = known_ids(ids)
        options: dict[str, Any] = {"with_payload": to_selector(fields), "with_vectors": vectors}
        pages_of_ids = batches(dict.fromkeys(wanted), PAGE)
        pages = (self._call("retrieve", collection, ids=batch, **options) for batch in pages_of_ids)
        found = {str(record.id): to_stored(record) for page in pages for record in page or []}
        return [found[each] for each in wanted if each in found]

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Point]:
        """See `port.Reader.scroll`.

        Raises:
            StoreError: the server's pages go in a circle.
        """
        options: dict[str, Any] = {"limit": PAGE, "with_payload": to_selector(fields), "with_vectors": vectors}
        offset, before = None, set[str]()
        while True:
            options["offset"] = offset
            page = self._filtered(
                "scroll", collection, _visible(collection, where), lambda asked: {"scroll_filter": asked, **options}
            )
            records, offset = page or ([], None)
            yield from map(to_stored, records)
            if offset is None:
                return
            if str(offset) in before:
                raise StoreError("the server returns the same page of points repeatedly", where=self.location)
            before.add(str(offset))

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `port.Reader.count`."""
        asked = _visible(collection, where)
        answer = self._filtered(
            "count", collection, asked, lambda condition: {"count_filter": condition, "exact": True}
        )
        return answer.count if answer else 0

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `port.Reader.facet`. The server counts fields that always are texts; others are counted here.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        if key in INDEXED["chunks"] and INDEXED["chunks"][key].kind == "keyword":
            options = {"key": key, "limit": min(limit + 1, AT_ONCE), "exact": True}
            hits = self._required(
                self._filtered("facet", "chunks", where, lambda condition: {"facet_filter": condition, **options})
            ).hits
            if len(hits) < AT_ONCE:
                return most_first({str(hit.value): hit.count for hit in hits}, limit)
        self._required(self._call("count", "chunks"))
        found = self.scroll("chunks", where=where, fields=(key,))
        return tally((value for point in found for value in values_at(point.payload, key)), limit)

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        records = self.scroll("documents", where=[RECORDS], fields=(WORDS,))
        return Frequencies.total(words_of(record.payload) for record in records)

    # -- writing -----------------------------------------------------------------------------------

    @contextmanager
    def writing(self, manifest: Manifest, *, anew: bool = False) -> Iterator[ServerStore]:
        """See `port.Store.writing`. `anew` removes first what was there.

        Raises:
            StoreMismatch: the store was made with another manifest, or a collection does not fit.
            StoreUnavailable: the server does not answer, or does not let us in.
        """
        from qdrant_client import models

        now = as_stored(manifest)
        if anew:
            for collection in COLLECTIONS[::-1]:
                self._call("delete_collection", collection)
        else:
            check_same(now, self.manifest(), self.location)
        for collection in COLLECTIONS:
            self._make(collection, vectors_of(now, collection))
        # The manifest comes last: while it is not there, nobody takes the store for one.
        written = [to_point(Point(MANIFEST_ID, {"what": "manifest", "manifest": now.as_json()}))]
        how = {"wait": True, "update_mode": models.UpdateMode.INSERT_ONLY}
        self._required(self._call("upsert", "documents", points=written, **how))
        check_same(now, self.manifest(), self.location)  # another machine may have been faster
        yield copy.copy(self)

    def _make(self, collection: CollectionName, vectors: Vectors) -> None:
        """Make a collection if it is not there, see that it fits, and make missing indexes on the fields that we filter
        by, as far as the server has room for them. Queries come with weighed words: the server's own IDF differs by
        shard.

        Raises:
            StoreMismatch: it has other vectors.
        """
        from qdrant_client import models

        if (info := self._call("get_collection", collection)) is None:
            self._call(
                "create_collection",
                collection,
                vectors_config=vector_params(vectors),
                sparse_vectors_config={"sparse": models.SparseVectorParams()} if vectors.sparse else None,
                replication_factor=self._settings.replication_factor,
                shard_number=self._settings.shard_number,
            )
            info = self._required(self._call("get_collection", collection))
        if wrong := misfits(info, vectors):
            raise StoreMismatch(
                f"the collection '{self._names[collection]}' does not fit: {'; '.join(wrong)}",
                where=self.location,
                hint="choose another 'course' under [storage], or remove the collection",
            )
        words = models.TextIndexParams(
            type=models.TextIndexType.TEXT, tokenizer=models.TokenizerType.WORD, lowercase=True
        )
        for field in INDEXED[collection].keys() - (info.payload_schema or {}).keys():
            kind = INDEXED[collection][field].kind
            schema = words if kind == "text" else models.PayloadSchemaType(kind)
            try:
                self._call("create_payload_index", collection, field_name=field, field_schema=schema, wait=True)
            except StoreUnavailable:
                raise
            except StoreError:
                continue

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`. Points go in batches, each of which is stored whole; several are under way."""

        def send(batch: list[Point]) -> None:
            changed = collection == "documents" and any(WORDS in point.payload for point in batch)
            sent = list(map(to_point, [*batch, _stamp()] if changed else batch))
            self._call("upsert", collection, points=sent, wait=True)

        def size(point: Point) -> int:
            return payload_size(point.payload) + 20 * numbers_in(point)

        with ThreadPoolExecutor(self._requests.at_once) as pool:
            for some in batches(batches(points, POINTS, BYTES, size), self._requests.at_once):
                for _ in pool.map(send, some):
                    pass

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See `port.Writer.set_payload`.

        Raises:
            StoreError: there is no such point.
        """
        from qdrant_client import models

        missing = set(payloads) - {point.id for point in self.get(collection, list(payloads), fields=False)}
        if missing:
            raise StoreError(f"there is no point {min(missing)}", where=self.location)
        for batch in batches(payloads.items(), POINTS, BYTES, lambda item: payload_size(item[1])):
            operations = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(payload=dict(payload), points=[each])
                )
                for each, payload in batch
            ]
            self._call("batch_update_points", collection, update_operations=operations, wait=True)

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        known = known_ids(ids)
        for batch in batches(known, 4 * POINTS):
            self._call("delete", collection, points_selector=batch, wait=True)
        if known and collection == "documents":
            self._call("upsert", "documents", points=[to_point(_stamp())], wait=True)

    # -- upkeep ------------------------------------------------------------------------------------

    def reporting(self, on_wait: Callable[[str], None]) -> AbstractContextManager[None]:
        """See `port.Store.reporting`."""
        return self._requests.reporting(on_wait)

    def check(self) -> str:
        """See `port.Store.check`: every point is read; servers look after their files themselves."""
        if self.manifest() is None:
            return ""
        points = sum(1 for collection in COLLECTIONS for _ in self.scroll(collection, vectors=True))
        return f"{points:,} points can be read"

    def records(self) -> list[Mapping[str, Any]] | None:
        """See `port.Store.records`."""
        try:
            return [point.payload for point in self.scroll("documents", where=[RECORDS], fields=RECORD)]
        except StoreDamaged:
            return None

    def status(self) -> StoreStatus:
        """See `port.Store.status`."""
        info = self._call("get_collection", "chunks")
        details: dict[str, Any] = {"engine": "Qdrant server"}
        if info is not None:
            params = info.config.params
            details |= {"state": info.status.value, "segments": info.segments_count}
            details |= {"indexed vectors": info.indexed_vectors_count or 0}
            details |= {"shards": params.shard_number, "replicas": params.replication_factor}
        return StoreStatus(
            self.location,
            self.manifest(),
            documents=self.count("documents", where=[RECORDS]),
            sections=self.count("documents", where=[SECTIONS]),
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
        check_installed("qdrant", "Qdrant servers need", "qdrant_client", kind=StoreError, where=address)
        from qdrant_client import QdrantClient

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
    """Open the store behind an existing client, such as qdrant-client's in-memory mode."""
    return ServerStore(Requests(lambda address: client, ["memory"], at_once=1), settings)


def _visible(collection: CollectionName, where: Where) -> Where:
    """Without the manifest and the stamp, which are no document's."""
    return (*where, _VISIBLE) if collection == "documents" else where


def _stamp() -> Point:
    """Return the point at `STAMP_ID` with a new, unique payload."""
    return Point(STAMP_ID, {"what": "stamp", "stamp": uuid.uuid4().hex})
