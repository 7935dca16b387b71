"""The server adapter against HTTP as it happens: busy and failing servers, keys, other servers, several writers."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.qdrant_server import QdrantServer, real_course, remove_course

from lmm.errors import ConfigError
from lmm_education import Course
from lmm_education.config import StorageSettings
from lmm_education.errors import StoreDamaged, StoreError, StoreMismatch, StoreUnavailable
from lmm_education.material import SparseVector
from lmm_education.options import SearchOptions
from lmm_education.search.search import CourseSearch
from lmm_education.store import server_requests
from lmm_education.store.open import open_store
from lmm_education.store.port import FORMAT, Leg, Manifest, Match, Point, Store, Vector
from lmm_education.store.server import MANIFEST_ID

MANIFEST = Manifest("hybrid", "test", 2, "Builtin/bm25")


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    """A server without points."""
    with QdrantServer() as running:
        yield running


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long requests would have waited before they were sent again."""
    waited: list[float] = []
    monkeypatch.setattr(server_requests, "pause", waited.append)
    return waited


def store_at(server: QdrantServer, **env: str) -> Store:
    """The store of that server."""
    return open_store(StorageSettings(url=server.url, course="course", timeout=5), env=env)


def point(number: int, text: str = "text") -> Point:
    """A chunk."""
    vectors: dict[str, Vector] = {"dense": (1.0, float(number)), "sparse": SparseVector((number,), (1.0,))}
    return Point(str(uuid.UUID(int=number)), {"text": text, "document": "d"}, vectors)


def fill(store: Store, *points: Point) -> None:
    """Store chunks."""
    with store.writing(MANIFEST) as writer:
        writer.upsert("chunks", points)


# -- failures that pass -------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 0])
def test_what_passes_is_waited_for(server: QdrantServer, waits: list[float], status: int) -> None:
    """Too many requests, a server that restarts, a connection that is cut: asked again, longer each time."""
    store = store_at(server)
    fill(store, point(1))
    server.fail(status, times=3)
    assert store.count("chunks") == 1
    assert len(waits) == 3
    assert 0.1 < waits[0] < waits[2]
    server.fail(status, times=2)
    fill(store, point(2))
    assert store.count("chunks") == 2
    store.close()


def test_the_server_says_how_long_to_wait(server: QdrantServer, waits: list[float]) -> None:
    """Retry-After counts, up to a minute."""
    store = store_at(server)
    fill(store, point(1))
    server.fail(429, {"Retry-After": "7"})
    server.fail(429, {"Retry-After": "7000"})
    assert store.count("chunks") == 1
    assert waits == [7, 60]
    store.close()


@pytest.mark.parametrize(("status", "words"), [(429, "too busy"), (500, "fails \\(500\\)"), (0, "does not answer")])
def test_what_does_not_pass_is_told(server: QdrantServer, status: int, words: str) -> None:
    """After six tries."""
    store = store_at(server)
    fill(store, point(1))
    server.fail(status, times=server_requests.TRIES)
    with pytest.raises(StoreUnavailable, match=words) as caught:
        store.count("chunks")
    assert caught.value.hint
    assert server.url in caught.value.where
    assert store.count("chunks") == 1
    store.close()


def test_nobody_listens(server: QdrantServer) -> None:
    """A refused connection names the address and the port that is meant without one."""
    store = open_store(StorageSettings(url="http://127.0.0.1:1", course="c"), env={})
    with pytest.raises(StoreUnavailable, match=r"does not answer.*6333"):
        store.manifest()
    store.close()


def test_another_kind_of_server(server: QdrantServer) -> None:
    """A web server answers 404 to everything: that is no empty store."""
    store = store_at(server)
    server.fail(404, body=b"<html>Not Found</html>")
    with pytest.raises(StoreUnavailable, match="no Qdrant server"):
        store.manifest()
    server.fail(200, body=b"<html>Welcome</html>", times=server_requests.TRIES)
    with pytest.raises(StoreUnavailable):
        store.manifest()
    store.close()


# -- several addresses ----------------------------------------------------------------------------------


@pytest.fixture
def nodes(server: QdrantServer) -> Iterator[tuple[QdrantServer, QdrantServer]]:
    """Two nodes of a cluster, with a chunk."""
    with QdrantServer(node_of=server) as other:
        store = store_at(server)
        fill(store, point(1))
        store.close()
        server.seen.clear()
        yield server, other


def cluster(*nodes: QdrantServer) -> Store:
    """The store of a cluster by all its addresses."""
    return open_store(StorageSettings(url=tuple(node.url for node in nodes), course="course", timeout=5), env={})


def test_a_node_that_is_down_is_not_waited_for(nodes: tuple[QdrantServer, QdrantServer], waits: list[float]) -> None:
    """The next one is asked at once, and from then on first; a run goes on with it."""
    first, second = nodes
    store = cluster(first, second)
    with store.writing(MANIFEST) as writer:
        writer.upsert("chunks", [point(2)])
        first.fail(0, times=99)
        writer.upsert("chunks", [point(3)])
        assert writer.count("chunks") == 3
    asked = len(first.seen)
    assert len(store.get("chunks", [point(3).id])) == 1
    assert (waits, len(first.seen)) == ([], asked)
    store.close()


def test_a_node_that_came_back_is_asked_first_again(
    nodes: tuple[QdrantServer, QdrantServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while."""
    first, second = nodes
    store = cluster(first, second)
    first.fail(503)
    for _ in range(2):  # the first fails, then it is left alone
        assert store.count("chunks") == 1
    assert (len(first.seen), len(second.seen)) == (1, 2)
    monkeypatch.setattr(server_requests, "RETRY", -1.0)
    first.fail(503)
    store = cluster(first, second)
    for _ in range(2):
        assert store.count("chunks") == 1
    assert (len(first.seen), len(second.seen)) == (3, 3)
    store.close()


def test_who_waits_is_told_for_what(
    nodes: tuple[QdrantServer, QdrantServer], monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    """A node that is frozen is left after a while; if none answers, the error names all."""
    monkeypatch.setattr(server_requests, "SILENCE", 0.05)
    monkeypatch.setattr(server_requests, "PATIENCE", 1)
    first, second = nodes
    store = cluster(first, second)
    first.answering.clear()
    told: list[str] = []
    with store.reporting(told.append):
        assert store.count("chunks") == 1
        assert told[0] == f"waiting for {first.url}, which has not answered for 0.05 seconds"
        second.fail(500, times=99)
        first.answering.set()
        first.fail(500, times=99)
        with pytest.raises(StoreUnavailable, match=r"fails \(500\)") as caught:
            store.count("chunks")
    assert caught.value.where == f"{first.url}, {second.url}"
    assert (len(waits), told[-1]) == (
        5,
        f"waiting for {first.url}, {second.url}: the server fails (500): scripted failure",
    )
    store.close()


# -- keys ---------------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment() -> None:
    """From the variable that the settings name; without it, or with another key, the server refuses."""
    with QdrantServer(api_key="secret") as server:
        settings = StorageSettings(url=server.url, api_key_env="MY_KEY")
        good = open_store(settings, env={"MY_KEY": "secret"})
        fill(good, point(1))
        assert {seen.key for seen in server.seen} == {"secret"}
        for env in ({}, {"MY_KEY": "wrong"}, {"QDRANT_API_KEY": "secret"}):
            store = open_store(settings, env=env)
            with pytest.raises(StoreUnavailable, match=r"refuses our key.*api_key_env") as caught:
                store.count("chunks")
            assert "secret" not in str(caught.value)
            store.close()
        good.close()


def test_a_key_never_leaves_the_machine_unencrypted() -> None:
    """Plain http is for this machine, and for servers without a key."""
    settings = StorageSettings(url="http://qdrant.example:6333")
    open_store(settings, env={}).close()
    for url in (settings.url, ("https://qdrant.example", "http://qdrant.example")):
        with pytest.raises(ConfigError, match=r"unencrypted.*https"):
            open_store(settings.replace(url=url), env={"QDRANT_API_KEY": "k"})
    open_store(settings.replace(url="https://qdrant.example"), env={"QDRANT_API_KEY": "k"}).close()


@pytest.mark.parametrize("url", ["qdrant.example:6333", "ftp://x", "https:/x"])
def test_addresses_that_are_none(url: str) -> None:
    """The error shows how one begins."""
    with pytest.raises(ConfigError, match="https://"):
        open_store(StorageSettings(url=url), env={})


@pytest.mark.parametrize("course", ["", "..", "a/b", ".hidden", "a" * 300, "a b"])
def test_courses_that_cannot_be(course: str) -> None:
    """A course is a folder's name and a collection's."""
    with pytest.raises(ConfigError, match="course"):
        open_store(StorageSettings(course=course), env={})


# -- collections --------------------------------------------------------------------------------------


def test_a_collection_of_somebody_else_is_refused(server: QdrantServer) -> None:
    """Other vectors under our name: nothing is written."""
    from qdrant_client import models

    wrong = models.VectorParams(size=7, distance=models.Distance.DOT)
    server.client.create_collection("course", vectors_config={"dense": wrong, "other": wrong})
    store = store_at(server)
    with pytest.raises(StoreMismatch, match=r"'dense' has 7 numbers.*, not 2.*'other'.*sparse"):
        fill(store, point(1))
    assert server.client.count("course").count == 0
    assert store.manifest() is None
    store.close()


def test_a_run_that_was_cut_off_while_collections_were_made_goes_on(server: QdrantServer) -> None:
    """The manifest comes last, so that nobody takes half a store for one."""
    store = store_at(server)
    with pytest.raises(StoreUnavailable):
        _cut_after(server, 4, store)
    assert store.manifest() is None
    fill(store, point(1))
    assert store.count("chunks") == 1
    store.close()


def _cut_after(server: QdrantServer, requests: int, store: Store) -> None:
    answer = server.answer

    def limited(method: str, path: str, body: bytes, key: str | None) -> object:
        if len(server.seen) >= requests:
            server.fail(503)
        return answer(method, path, body, key)

    server.answer = limited  # type: ignore[method-assign,assignment]
    try:
        fill(store, point(1))
    finally:
        server.answer = answer  # type: ignore[method-assign]
        server._failures.clear()


def test_manifests_that_are_not_ours(server: QdrantServer) -> None:
    """Other versions are refused; nonsense is damage."""
    store = store_at(server)
    fill(store, point(1))
    for manifest, kind in (({"format": FORMAT + 1}, StoreMismatch), ("nonsense", StoreDamaged)):
        server.client.set_payload("course_documents", {"manifest": manifest}, [MANIFEST_ID])
        with pytest.raises(kind):
            store.manifest()
    store.close()


def test_indexes_are_made_for_the_fields_that_we_filter_by(server: QdrantServer) -> None:
    """Each once, when a collection is made."""
    store = store_at(server)
    fill(store, Point(point(1).id, {"metadata": {"topic": "Cells"}}), Point(point(2).id, {"metadata": {"topic": "x"}}))
    assert sum(seen.path.endswith("/index") for seen in server.seen) == 8 + 4
    store.close()


def test_a_strict_server_filters_by_what_has_an_index() -> None:
    """A condition on another key says so, and names it."""
    with QdrantServer(strict=True) as server:
        store = store_at(server)
        fill(store, Point(point(1).id, {"type": "exercise", "metadata": {"topic": "Cells"}}))
        assert store.count("chunks", where=[Match("type", ("exercise",))]) == 1
        with pytest.raises(StoreError, match=r"strict mode and has no index for 'metadata\.topic'"):
            store.count("chunks", where=[Match("metadata.topic", ("Cells",))])
        server.indexes["course"]["metadata.topic"] = "keyword"
        assert store.count("chunks", where=[Match("metadata.topic", ("Cells",))]) == 1
        store.close()


def test_requests_are_bounded(server: QdrantServer) -> None:
    """By points, and by bytes."""
    store = store_at(server)
    fill(store, *(point(i) for i in range(1, 600)))
    assert sum(seen.path.endswith("/points") and seen.method == "PUT" for seen in server.seen) == 1 + 3
    server.seen.clear()
    fill(store, *(point(i, "x" * 3_000_000) for i in range(1, 7)))
    sent = [seen.size for seen in server.seen if seen.path == "/collections/course/points"]
    assert len(sent) == 3
    assert max(sent) < 10_000_000
    store.close()


def test_a_hybrid_question_is_one_request(server: QdrantServer) -> None:
    """Both legs travel together."""
    store = store_at(server)
    fill(store, point(1))
    server.seen.clear()
    legs = [Leg("sparse", SparseVector((1,), (1.0,)), 3), Leg("dense", (1.0, 1.0), 3)]
    assert [len(found) for found in store.search(legs)] == [1, 1]
    assert [seen.path for seen in server.seen] == ["/collections/course/points/query/batch"]
    store.close()


def test_a_question_sees_what_another_machine_stored_meanwhile(server: QdrantServer, tmp_path: Path) -> None:
    """As one that opens the store then."""
    (tmp_path / "config.toml").write_text(f'[storage]\nurl = "{server.url}"\n')
    note = "# Cells {0}\n\nMitosis {0} has phases.\n\n---\ntype: solution\n---\n\nIt has {0} of them.\n"
    for number in range(4):
        (tmp_path / f"{number}.md").write_text(note.format(number))
    options = SearchOptions(sections=True)
    with Course.open(tmp_path) as course, Course.open(tmp_path) as another:
        course.ingest()
        for for_students in (False, True):
            parts = course.for_students() if for_students else course
            searcher = CourseSearch(parts)
            found = searcher.search("What phases has mitosis 2?", options)
            assert (len(found.hits), len(found.sections)) == ((5, 5) if for_students else (8, 4))
            (tmp_path / f"more {for_students}.md").write_text(
                "# Phases of phases\n\nPhases, mitosis and 2 more phases.\n"
            )
            another.ingest()
            now = searcher.search("What phases has mitosis 2?", options)
            server.seen.clear()
            again = searcher.search("*solution* of mitosis 2", options)
            assert again.hits, "and asks three times: whether that is so, for passages with all scores, for sections"
            assert len(server.seen) == 3
            with Course.open(tmp_path) as fresh:
                opened = fresh.for_students() if for_students else fresh
                wanted = CourseSearch(opened).search("What phases has mitosis 2?", options)
            assert [(hit.id, hit.score) for hit in now.hits] == [(hit.id, hit.score) for hit in wanted.hits]
            assert now.relevance != found.relevance
            assert now.sections == wanted.sections


# -- several machines ---------------------------------------------------------------------------------

WRITER = """
import sys, uuid
from lmm_education.material import SparseVector
from lmm_education.config import StorageSettings
from lmm_education.store.port import Manifest
from lmm_education.store.open import open_store
from lmm_education.store.port import Point

url, course, name, embedding = sys.argv[1:]
store = open_store(StorageSettings(url=tuple(url.split(",")), course=course))
for run in range(3):
    with store.writing(Manifest("hybrid", embedding, 2, "Builtin/bm25")) as writer:
        ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}{i}")) for i in range(90)]
        vectors = {"dense": [1.0, 2.0], "sparse": SparseVector((1,), (1.0,))}
        writer.upsert("documents", [Point(ids[0], {"what": "document", "document": name})])
        writer.upsert("chunks", [Point(each, {"document": name, "run": run}, vectors) for each in ids])
        writer.delete("chunks", ids[30 * run : 30 * run + 10])
"""


def test_several_processes_write_different_documents_at_once(server: QdrantServer) -> None:
    """Into one new store, on a real server if there is one: every document is as its writer left it."""
    settings = real_course(server.url)
    writers = [start_writer(settings, name, "test") for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = open_store(settings)
    for name in "abc":
        assert store.count("chunks", where=[Match("document", (name,)), Match("run", (2,))]) == 80
    assert store.status().documents == 3
    assert store.manifest() == replace(MANIFEST)
    other = start_writer(settings, "d", "another model")
    assert other.wait(60) != 0
    assert store.count("chunks") == 240
    store.close()
    remove_course(settings)


def start_writer(settings: StorageSettings, name: str, embedding: str) -> subprocess.Popen[bytes]:
    """A process that stores a document three times."""
    command = [sys.executable, "-c", WRITER, ",".join(settings.addresses), settings.course, name, embedding]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def test_errors_of_the_client_are_told_as_ours(server: QdrantServer) -> None:
    """What the server refuses, in its own words."""
    store = store_at(server)
    fill(store, point(1))
    server.fail(400, body=b'{"status": {"error": "Wrong input: strict mode forbids it"}, "time": 0}')
    with pytest.raises(StoreError, match="strict mode forbids it"):
        store.count("chunks")
    store.close()


def test_pages_that_go_in_a_circle_end(server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that gives the same offset again and again is not read without end."""
    store = store_at(server)
    fill(store, point(1), point(2))
    monkeypatch.setattr(store, "_call", lambda *names, **arguments: ([], "the same"))
    with pytest.raises(StoreError, match="the same page of points repeatedly"):
        list(store.scroll("chunks"))
    store.close()
