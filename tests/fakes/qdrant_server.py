"""A Qdrant server on 127.0.0.1: the REST requests that our store makes, answered by qdrant-client's in-memory mode.

So the real client, its JSON and real connections are between a test and the points. What memory mode cannot
show is scripted: the next requests can be made to fail.

>>> with QdrantServer() as server:
...     server.fail(429, {"Retry-After": "1"})
...     ...  # open a store at server.url
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter
from qdrant_client import QdrantClient
from qdrant_client import models as m


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

    In `strict` mode, as Qdrant's cloud has it, no filter may name a field without an index.
    """

    def __init__(self, api_key: str | None = None, *, strict: bool = False) -> None:
        self.api_key, self.client, self.strict = api_key, QdrantClient(":memory:"), strict
        self.indexes: dict[str, dict[str, str]] = {}
        self.seen: list[Seen] = []
        self._failures: deque[Failure] = deque()
        self._lock = threading.Lock()
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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, body: bytes, key: str | None) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content of the answer to a request."""
        self.seen.append(Seen(method, path, key, len(body)))
        if self._failures:
            failure = self._failures.popleft()
            return failure.status, failure.headers, failure.body
        if self.api_key and key != self.api_key:
            return 401, {}, b"Must provide an API key or an Authorization bearer token"
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
                    self.indexes.setdefault(name, {})[values["field_name"]] = kind
                elif self.strict:
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


# -- the requests -------------------------------------------------------------------------------------

Handle = Callable[[QdrantClient, str, Any], Any]
_FILTER: TypeAdapter[m.Filter | None] = TypeAdapter(m.Filter | None)
_OPERATIONS: TypeAdapter[list[m.UpdateOperation]] = TypeAdapter(list[m.UpdateOperation])
_DONE = {"operation_id": 0, "status": "completed"}


def _json(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


def _check_indexes(value: Any, indexes: Mapping[str, str]) -> None:
    """Refuse conditions on fields without an index that fits, in the words of Qdrant 1.18."""
    if isinstance(value, list):
        for each in value:
            _check_indexes(each, indexes)
    elif isinstance(value, dict):
        if "key" in value and "match" in value and indexes.get(value["key"]) != _kind_of(value["match"]):
            raise ValueError(
                f'Bad request: Index required but not found for "{value["key"]}" of one of the following types: '
                f"[{_kind_of(value['match'])}]. Help: Create an index for this key or use a different filter."
            )
        for inner in value.values():
            _check_indexes(inner, indexes)


def _kind_of(match: Mapping[str, Any]) -> str:
    if "phrase" in match:
        return "text"
    sample = match["value"] if "value" in match else next(iter(match["any"]), "")
    return "bool" if isinstance(sample, bool) else "integer" if isinstance(sample, int) else "keyword"


def _describe(client: QdrantClient, name: str, _: Any) -> Any:
    return _json(client.get_collection(name))


def _create(client: QdrantClient, name: str, body: Any) -> Any:
    request = m.CreateCollection.model_validate(body)
    client.create_collection(name, vectors_config=request.vectors or {}, sparse_vectors_config=request.sparse_vectors)
    return True


def _drop(client: QdrantClient, name: str, _: Any) -> Any:
    return client.delete_collection(name)


def _index(client: QdrantClient, name: str, body: Any) -> Any:
    client.get_collection(name)
    return _DONE


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    points = m.PointsList.model_validate(body)
    if points.update_mode == m.UpdateMode.INSERT_ONLY:
        known = {str(record.id) for record in client.retrieve(name, [point.id for point in points.points])}
        points.points = [point for point in points.points if str(point.id) not in known]
    if points.points:
        client.upsert(name, points.points)
    return _DONE


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    asked = m.PointRequest.model_validate(body)
    records = client.retrieve(
        name, asked.ids, with_payload=asked.with_payload or False, with_vectors=asked.with_vector or False
    )
    return [_json(record) for record in records]


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
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


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    return _json(client.count(name, _FILTER.validate_python(body.get("filter"))))


def _facet(client: QdrantClient, name: str, body: Any) -> Any:
    asked = m.FacetRequest.model_validate(body)
    return _json(client.facet(name, asked.key, asked.filter, asked.limit or 10, exact=True))


def _delete(client: QdrantClient, name: str, body: Any) -> Any:
    client.delete(name, m.PointIdsList.model_validate(body))
    return _DONE


def _batch(client: QdrantClient, name: str, body: Any) -> Any:
    client.batch_update_points(name, _OPERATIONS.validate_python(body["operations"]))
    return [_DONE for _ in body["operations"]]


def _query(client: QdrantClient, name: str, body: Any) -> Any:
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
