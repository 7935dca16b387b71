"""A Qdrant server on 127.0.0.1: the REST requests that our store makes, answered by qdrant-client's in-memory mode.

So the real client, its JSON and real connections are between a test and the points. What memory mode cannot
show is scripted: the next requests can be made to fail.

>>> with QdrantServer() as server:
...     server.fail(429, {"Retry-After": "1"})
...     ...  # open a store at server.url
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models as m
from qdrant_client.http.models import QueryResponse

from lmm_education.config import StorageSettings
from lmm_education.store.open import open_store
from lmm_education.store.server import ServerStore


@dataclass(frozen=True, slots=True)
class Failure:
    """What the server answers instead; status 0 cuts the connection."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"status": {"error": "scripted failure"}, "time": 0}'


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    key: str | None
    size: int


class QdrantServer:
    """The server; `api_key` must come with every request, if one is set. Requests are recorded in `seen`.

    In `strict` mode, as Qdrant's cloud has it, no filter may name a field without an index, a collection has no more
    than `MOST_INDEXES`, and nobody asks for more than `MOST_AT_ONCE`. With several `shards`, each has points and
    statistics of its own. `node_of` is another node of the same cluster: what one holds, the other does. Until
    `answering` is set again, requests are not answered; after `hold`, those that belong together only when all are
    there. `delay` is the way there and back, in seconds.
    """

    client: Any

    def __init__(
        self,
        api_key: str | None = None,
        *,
        strict: bool = False,
        shards: int = 1,
        node_of: QdrantServer | None = None,
        delay: float = 0.0,
    ) -> None:
        self.api_key, self.strict, self.delay = api_key, strict, delay
        self.client = QdrantClient(":memory:") if shards == 1 else Shards(shards)
        self.indexes: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        if node_of is not None:
            self.client, self.indexes, self._lock = node_of.client, node_of.indexes, node_of._lock
        self.seen: list[Seen] = []
        self.answering = threading.Event()
        self.answering.set()
        self._held: deque[threading.Barrier] = deque()
        self._failures: deque[Failure] = deque()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, status: int, headers: Mapping[str, str] | None = None, *, times: int = 1, body: bytes = b"") -> None:
        """Let the next requests fail."""
        failure = Failure(status, headers or {}, body) if body else Failure(status, headers or {})
        self._failures.extend([failure] * times)

    def courses(self) -> list[str]:
        """The collections that there are."""
        return [each.name for each in self.client.get_collections().collections]

    def hold(self, *together: int) -> None:
        """Answer the next requests only when so many are there at once, then so many, …; else, after 5 s, with 500."""
        for number in together:
            self._held.extend([threading.Barrier(number)] * number)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.answering.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, body: bytes, key: str | None) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content of the answer to a request."""
        held = self._held.popleft() if self._held else None
        self.seen.append(Seen(method, path, key, len(body)))
        if held is not None:
            try:
                held.wait(5)
            except threading.BrokenBarrierError:
                return 500, {}, b'{"status": {"error": "came alone"}, "time": 0}'
        time.sleep(self.delay)
        self.answering.wait()
        if self._failures:
            failure = self._failures.popleft()
            return failure.status, failure.headers, failure.body
        if self.api_key and key != self.api_key:
            return 401, {}, b"Must provide an API key or an Authorization bearer token"
        if path == "/":
            return 200, {}, b'{"title": "qdrant", "version": "1.18.2"}'
        for route_method, pattern, handle in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == route_method:
                return self._handled(handle, unquote(match[1]), body)
        return 404, {}, b""

    def _handled(self, handle: Handle, name: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        try:
            with self._lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = json.loads(body or b"null")
                if handle is _index:
                    schema = values["field_schema"]
                    kind = schema if isinstance(schema, str) else schema["type"]
                    self._make_index(self.indexes.setdefault(name, {}), values["field_name"], kind)
                elif self.strict and self.client.collection_exists(name):  # else it is not found, as on a real server
                    _check_indexes(values, self.indexes.get(name, {}))
                result = handle(self.client, name, values)
                if handle is _describe:
                    known = self.indexes.get(name, {})
                    result["payload_schema"] = {key: {"data_type": kind, "points": 0} for key, kind in known.items()}
        except ValueError as error:
            missing = "not found" in str(error) and "Collection" in str(error)
            text = f"Not found: Collection `{name}` doesn't exist!" if missing else f"Wrong input: {error}"
            return (404 if missing else 400), {}, json.dumps({"status": {"error": text}, "time": 0}).encode()
        return 200, {}, json.dumps({"result": result, "status": "ok", "time": 0}).encode()

    def _make_index(self, indexes: dict[str, str], field: str, kind: str) -> None:
        if self.strict and field not in indexes and len(indexes) >= MOST_INDEXES:
            raise ValueError(f"Forbidden: Collection already has the maximum number of payload indices {MOST_INDEXES}")
        indexes[field] = kind

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = urlsplit(self.path).path
                status, headers, content = server.answer(self.command, path, body, self.headers.get("api-key"))
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


class Shards:
    """Several in-memory clients, each with some of the points: what `QdrantClient` offers, as far as we ask for it."""

    def __init__(self, number: int) -> None:
        self.shards = [QdrantClient(":memory:") for _ in range(number)]

    def _of(self, id: Any) -> QdrantClient:
        return self.shards[uuid.UUID(str(id)).int % 9973 % len(self.shards)]

    def _each(self, name: str, *arguments: Any, **options: Any) -> list[Any]:
        return [getattr(shard, name)(*arguments, **options) for shard in self.shards]

    def get_collection(self, name: str) -> Any:
        first, *others = self._each("get_collection", name)
        first.points_count += sum(each.points_count for each in others)
        first.config.params.shard_number = len(self.shards)
        return first

    def get_collections(self) -> Any:
        return self.shards[0].get_collections()

    def collection_exists(self, name: str) -> bool:
        return self.shards[0].collection_exists(name)

    def create_collection(self, name: str, **options: Any) -> Any:
        return self._each("create_collection", name, **options)[0]

    def delete_collection(self, name: str) -> Any:
        return self._each("delete_collection", name)[0]

    def upsert(self, name: str, points: Sequence[m.PointStruct]) -> None:
        for shard in self.shards:
            if own := [point for point in points if self._of(point.id) is shard]:
                shard.upsert(name, own)
            else:
                shard.get_collection(name)

    def retrieve(self, name: str, ids: Sequence[Any], **options: Any) -> list[Any]:
        return [record for found in self._each("retrieve", name, ids, **options) for record in found]

    def scroll(self, name: str, filter: Any, limit: int, *, offset: Any, **options: Any) -> tuple[list[Any], Any]:
        pages = self._each("scroll", name, filter, limit + 1, offset=offset, **options)
        found = sorted((record for page, _ in pages for record in page), key=lambda record: uuid.UUID(str(record.id)))
        return found[:limit], found[limit].id if len(found) > limit else None

    def count(self, name: str, filter: Any) -> Any:
        return m.CountResult(count=sum(each.count for each in self._each("count", name, filter)))

    def facet(self, name: str, key: str, filter: Any, limit: int, *, exact: bool) -> Any:
        counts = Counter[Any]()
        for found in self._each("facet", name, key, filter, 10_000, exact=exact):
            counts.update({hit.value: hit.count for hit in found.hits})
        most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]
        return m.FacetResponse(hits=[m.FacetValueHit(value=value, count=count) for value, count in most])

    def delete(self, name: str, points: Any) -> None:
        self._each("delete", name, points)

    def batch_update_points(self, name: str, operations: Sequence[m.OverwritePayloadOperation]) -> None:
        for operation in operations:
            points = operation.overwrite_payload.points or []
            self._of(points[0]).batch_update_points(name, [operation])

    def query_batch_points(self, name: str, searches: Sequence[m.QueryRequest]) -> list[Any]:
        merged = []
        for asked, found in zip(
            searches, zip(*self._each("query_batch_points", name, searches), strict=True), strict=True
        ):
            points = sorted((point for each in found for point in each.points), key=lambda point: -point.score)
            merged.append(QueryResponse(points=points[: asked.limit]))
        return merged


# -- the requests -------------------------------------------------------------------------------------

Handle = Callable[[Any, str, Any], Any]
MOST_INDEXES, MOST_AT_ONCE = 100, 1000
_FILTER: TypeAdapter[m.Filter | None] = TypeAdapter(m.Filter | None)
_OPERATIONS: TypeAdapter[list[m.UpdateOperation]] = TypeAdapter(list[m.UpdateOperation])
_DONE = {"operation_id": 0, "status": "completed"}


def _json(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


def _check_indexes(value: Any, indexes: Mapping[str, str]) -> None:
    """Refuse conditions on fields without an index that fits, and too much at once, in the words of Qdrant 1.18."""
    if isinstance(value, list):
        for each in value:
            _check_indexes(each, indexes)
    elif isinstance(value, dict):
        if (value.get("limit") or 0) > MOST_AT_ONCE:
            raise ValueError(f'Forbidden: Limit exceeded {value["limit"]} > {MOST_AT_ONCE} for "limit"')
        if "key" in value and "match" in value and indexes.get(value["key"]) != _kind_of(value["match"]):
            raise ValueError(
                f'Bad request: Index required but not found for "{value["key"]}" of one of the following types: '
                f"[{_kind_of(value['match'])}]. Help: Create an index for this key or use a different filter."
            )
        for inner in value.values():
            _check_indexes(inner, indexes)


def _kind_of(match: Mapping[str, Any]) -> str:
    if "text" in match:
        return "text"
    sample = match["value"] if "value" in match else next(iter(match["any"]), "")
    return "bool" if isinstance(sample, bool) else "integer" if isinstance(sample, int) else "keyword"


def _describe(client: Any, name: str, _: Any) -> Any:
    return _json(client.get_collection(name))


def _create(client: Any, name: str, body: Any) -> Any:
    request = m.CreateCollection.model_validate(body)
    client.create_collection(name, vectors_config=request.vectors or {}, sparse_vectors_config=request.sparse_vectors)
    return True


def _drop(client: Any, name: str, _: Any) -> Any:
    return client.delete_collection(name)


def _index(client: Any, name: str, body: Any) -> Any:
    client.get_collection(name)
    return _DONE


def _upsert(client: Any, name: str, body: Any) -> Any:
    points = m.PointsList.model_validate(body)
    if points.update_mode == m.UpdateMode.INSERT_ONLY:
        known = {str(record.id) for record in client.retrieve(name, [point.id for point in points.points])}
        points.points = [point for point in points.points if str(point.id) not in known]
    if points.points:
        client.upsert(name, points.points)
    return _DONE


def _retrieve(client: Any, name: str, body: Any) -> Any:
    asked = m.PointRequest.model_validate(body)
    records = client.retrieve(
        name, asked.ids, with_payload=asked.with_payload or False, with_vectors=asked.with_vector or False
    )
    return [_json(record) for record in records]


def _scroll(client: Any, name: str, body: Any) -> Any:
    asked = m.ScrollRequest.model_validate(body)
    records, offset = client.scroll(
        name,
        asked.filter,
        asked.limit or 10,
        offset=asked.offset,
        with_payload=asked.with_payload or False,
        with_vectors=asked.with_vector or False,
    )
    return {"points": [_json(record) for record in records], "next_page_offset": offset and str(offset)}


def _count(client: Any, name: str, body: Any) -> Any:
    return _json(client.count(name, _FILTER.validate_python(body.get("filter"))))


def _facet(client: Any, name: str, body: Any) -> Any:
    asked = m.FacetRequest.model_validate(body)
    return _json(client.facet(name, asked.key, asked.filter, asked.limit or 10, exact=True))


def _delete(client: Any, name: str, body: Any) -> Any:
    client.delete(name, m.PointIdsList.model_validate(body))
    return _DONE


def _batch(client: Any, name: str, body: Any) -> Any:
    client.batch_update_points(name, _OPERATIONS.validate_python(body["operations"]))
    return [_DONE for _ in body["operations"]]


def _query(client: Any, name: str, body: Any) -> Any:
    asked = m.QueryRequestBatch.model_validate(body)
    return [_json(each) for each in client.query_batch_points(name, asked.searches)]


ROUTES: tuple[tuple[str, str, Handle], ...] = (
    ("GET", r"/collections/([^/]+)", _describe),
    ("PUT", r"/collections/([^/]+)", _create),
    ("DELETE", r"/collections/([^/]+)", _drop),
    ("PUT", r"/collections/([^/]+)/index", _index),
    ("PUT", r"/collections/([^/]+)/points", _upsert),
    ("POST", r"/collections/([^/]+)/points", _retrieve),
    ("POST", r"/collections/([^/]+)/points/scroll", _scroll),
    ("POST", r"/collections/([^/]+)/points/count", _count),
    ("POST", r"/collections/([^/]+)/points/delete", _delete),
    ("POST", r"/collections/([^/]+)/points/batch", _batch),
    ("POST", r"/collections/([^/]+)/points/query/batch", _query),
    ("POST", r"/collections/([^/]+)/facet", _facet),
)


# -- a real server ----------------------------------------------------------------------------------


def real_course(otherwise: str = "") -> StorageSettings:
    """A course of its own on the server that ``LMM_TEST_QDRANT_URL`` names (of a cluster: addresses with commas between
    them), else on another one. The key is that of ``QDRANT_API_KEY``."""
    named = os.environ.get("LMM_TEST_QDRANT_URL") or otherwise
    return StorageSettings(url=tuple(named.split(",")), course=f"lmm-test-{uuid.uuid4().hex}")


def remove_course(settings: StorageSettings, env: Mapping[str, str] | None = None) -> None:
    """Remove what a test stored, with the address and the key that it was stored with."""
    store = open_store(settings, env=env)
    assert isinstance(store, ServerStore)
    for name in store._names.values():
        store._requests.call("delete_collection", collection_name=name)
    store.close()
