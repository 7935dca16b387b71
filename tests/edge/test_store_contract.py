"""What every store must do, on every store: embedded, qdrant-client's in-memory mode, the same behind real HTTP
as a strict server with three shards, and a Qdrant server if there is one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.qdrant_server import QdrantServer, real_course, remove_course

from lmm_education.config import StorageSettings
from lmm_education.errors import StoreError, StoreMismatch, StoreMissing
from lmm_education.frequencies import Frequencies
from lmm_education.material import SparseVector
from lmm_education.payloads import WORDS
from lmm_education.store.edge import EdgeStore
from lmm_education.store.open import open_store
from lmm_education.store.port import (
    Among,
    CollectionName,
    Fields,
    HasWords,
    Leg,
    Manifest,
    Match,
    Point,
    Store,
    Where,
    Writer,
)
from lmm_education.store.server import store_on

HYBRID = Manifest("hybrid", "test", 3, "Builtin/bm25", annotations={"own": ("a", "b")})
Open = Callable[[], Store]


def point_id(number: int) -> str:
    """The id of test point `number`."""
    return str(uuid.UUID(int=number))


def sparse(*indices: int) -> SparseVector:
    """A sparse vector with weight 1 for each index."""
    return SparseVector(indices, (1.0,) * len(indices))


def chunk(number: int, *words: int, dense: tuple[float, ...] = (1.0, 0.0, 0.0), **payload: object) -> Point:
    """A chunk with these words."""
    base = {"document": "d", "type": "text", "text": f"text {number}", "language": "en", "section": point_id(900)}
    return Point(point_id(number), base | payload, {"dense": dense, "sparse": sparse(*words)})


@pytest.fixture(params=["edge", "memory", "http", "server"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the store of this test; each call gives another reader of the same one."""
    kind = request.param
    if kind == "edge":
        yield lambda: EdgeStore(tmp_path / "course", timeout=5)
    elif kind == "memory":
        from qdrant_client import QdrantClient

        client = QdrantClient(":memory:")
        yield lambda: store_on(client, StorageSettings(course="course"))
    elif kind == "server":
        settings = real_course()
        if not settings.addresses:
            pytest.skip("LMM_TEST_QDRANT_URL names no Qdrant server")
        yield lambda: open_store(settings)
        remove_course(settings)
    else:
        env = {"QDRANT_API_KEY": "secret"}
        with QdrantServer(env["QDRANT_API_KEY"], strict=True, shards=3) as server:
            settings = StorageSettings(url=server.url, course="course")
            yield lambda: open_store(settings, env=env)
            remove_course(settings, env)
            assert not server.courses()


@pytest.fixture
def store(opening: Open) -> Iterator[Store]:
    """An open store in which there is nothing yet."""
    opened = opening()
    yield opened
    opened.close()


# In-memory mode knows no payload indexes, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


def fill(store: Store, *points: Point, manifest: Manifest = HYBRID, into: CollectionName = "chunks") -> None:
    """Store points in a run of their own."""
    with store.writing(manifest) as writer:
        writer.upsert(into, points)


def found(store: Store, where: Where = (), collection: CollectionName = "chunks") -> list[int]:
    """The numbers of the points that fit, ascending."""
    return sorted(uuid.UUID(p.id).int for p in store.scroll(collection, where=where, fields=False))


def leg_ids(store: Store, leg: Leg, where: Where = ()) -> list[int]:
    """The numbers of what a leg finds, best first."""
    return [uuid.UUID(each.id).int for each in store.search([leg], where=where, fields=False)[0]]


# -- nothing there ------------------------------------------------------------------------------------


def test_nothing_was_stored_yet(store: Store) -> None:
    """Everything can be asked of a store that does not exist; a question says how to make one."""
    assert store.manifest() is None
    assert (store.count("chunks"), list(store.scroll("documents")), store.get("chunks", [point_id(1)])) == (0, [], [])
    with pytest.raises(StoreMissing, match="lmm ingest"):
        store.search([Leg("sparse", sparse(1), 3)])
    with pytest.raises(StoreMissing, match="lmm ingest"):
        store.facet("type")
    status = store.status()
    assert (status.documents, status.sections, status.chunks, status.manifest) == (0, 0, 0, None)


def test_an_empty_run_makes_an_empty_store(store: Store) -> None:
    """A store without points answers with nothing, not with errors."""
    with store.writing(HYBRID) as writer:
        assert writer.count("chunks") == 0
        assert list(writer.scroll("chunks")) == []
    assert store.manifest() is not None
    assert store.search([Leg("sparse", sparse(1), 3), Leg("dense", (1, 0, 0), 3)]) == [[], []]
    assert store.facet("type") == {}


# -- searching ----------------------------------------------------------------------------------------


def test_legs_are_answered_each_in_its_place(store: Store) -> None:
    """One list per leg, best first, at most `limit`, with the payload fields that were asked for."""
    fill(store, chunk(1, 7), chunk(2, 8, dense=(0, 1, 0)), chunk(3, 7, 8, dense=(1, 1, 0), metadata={"a": 1, "b": 2}))
    dense, both = store.search(
        [Leg("dense", (0.0, 1.0, 0.0), 2), Leg("sparse", sparse(7, 8), 1)], fields=["text", "metadata.b"]
    )
    assert [uuid.UUID(each.id).int for each in dense] == [2, 3]
    assert dense[0].score == pytest.approx(1.0)
    assert dense[1].score == pytest.approx(0.7071, abs=1e-3)
    assert [uuid.UUID(each.id).int for each in both] == [3]
    assert both[0].payload == {"text": "text 3", "metadata": {"b": 2}}
    assert store.search([Leg("dense", (0.0, 1.0, 0.0), 0)]) == [[]]
    assert store.search([Leg("sparse", sparse(), 5)]) == [[]]


def test_words_weigh_what_the_question_says(store: Store) -> None:
    """A store adds up products, no more: how rare a word is, whoever asks knows from the course's frequencies."""
    fill(store, *(chunk(number, 1, 3) for number in range(1, 10)), chunk(10, 2))
    (hits,) = store.search([Leg("sparse", sparse(1, 2, 3), 20)])
    assert hits[-1].id == point_id(10)
    assert [hit.score for hit in hits] == [2.0] * 9 + [1.0]


def test_several_vectors_count_each_question_vector_once(store: Store) -> None:
    """`multi` scores by the best match of each of the question's vectors (MaxSim)."""
    manifest = Manifest("multivector", "test", 2)
    near = Point(point_id(1), {"text": "near"}, {"multi": [(1.0, 0.0), (0.0, 1.0)]})
    far = Point(point_id(2), {"text": "far"}, {"multi": [(-1.0, 0.0), (0.6, 0.8)]})
    fill(store, near, far, manifest=manifest)
    (hits,) = store.search([Leg("multi", [(1.0, 0.0), (0.0, 1.0)], 5)])
    assert [(hit.payload["text"], round(hit.score, 3)) for hit in hits] == [("near", 2.0), ("far", 1.4)]
    stored = store.get("chunks", [point_id(1)], vectors=True)[0].vectors["multi"]
    assert [list(row) for row in stored] == [[1.0, 0.0], [0.0, 1.0]]  # type: ignore[arg-type,union-attr]


def test_an_unknown_vector_or_length_is_a_mismatch(store: Store) -> None:
    """A question that was encoded in another way is refused in our words."""
    fill(store, chunk(1, 7), manifest=replace(HYBRID, encoding="hybrid_passages"))
    with pytest.raises(StoreMismatch):
        store.search([Leg("dense", (1.0, 0.0), 3)])
    with pytest.raises(StoreMismatch):
        store.search([Leg("multi", [(1.0, 0.0, 0.0)], 3)])


def test_points_need_not_have_every_vector(store: Store) -> None:
    """A leg finds only the points that have its vector."""
    fill(store, Point(point_id(1), {}, {"dense": (1.0, 0.0, 0.0)}), Point(point_id(2), {}, {"sparse": sparse(3)}))
    assert leg_ids(store, Leg("dense", (1.0, 0.0, 0.0), 5)) == [1]
    assert leg_ids(store, Leg("sparse", sparse(3), 5)) == [2]


def test_an_encoding_without_vectors_can_be_stored(store: Store) -> None:
    """With encoding `none`, chunks are found by id and by their fields."""
    fill(store, Point(point_id(1), {"type": "text"}), manifest=Manifest("none"))
    assert found(store, [Match("type", ("text",))]) == [1]


def test_points_among_some(store: Store) -> None:
    """Every leg scores just these, whatever else would come first."""
    fill(store, *(chunk(number, 1) for number in range(1, 6)))
    leg = Leg("sparse", sparse(1), 9)
    (hits,) = store.search([leg], where=[Among(frozenset(map(point_id, (2, 4, 99))))])
    assert {hit.id for hit in hits} == {point_id(2), point_id(4)}


def test_a_leg_scores_what_others_find(store: Store) -> None:
    """In one round trip: whatever a leg prefetches, under conditions of its own or not, is scored by all legs."""
    fill(
        store,
        *(chunk(1, 7, 8, dense=(0, 1, 0)), chunk(2, 7, dense=(1, 0, 0)), chunk(3, 9, dense=(0, 0, 1))),
        chunk(4, 9, dense=(0.6, 0.8, 0), type="exercise"),
        chunk(5, 7, 8, dense=(0, 1, 0), language="de"),
    )
    words, near = Leg("sparse", sparse(7, 8), 1), Leg("dense", (1.0, 0.0, 0.0), 1)
    some = [words, near, replace(near, where=[Match("type", ("exercise",))])]
    by_words, by_meaning, best = store.search(
        [replace(words, limit=9, prefetch=some, bare=True), replace(near, limit=9, prefetch=some),
         replace(words, stored=True)],
        where=[Match("language", ("de",), negate=True)],
        fields=["text"],
    )  # fmt: skip
    assert {each.id: each.score for each in by_words} == {point_id(1): 2.0, point_id(2): 1.0}
    found = {uuid.UUID(each.id).int: each for each in by_meaning}
    assert {1, 2, 4} <= found.keys() < {1, 2, 3, 4, 5}  # each shard of a collection may prefetch its own
    assert 5 not in found
    assert [found[n].score for n in (1, 2, 4)] == pytest.approx([0.0, 1.0, 0.6], abs=1e-6)
    assert [found[n].payload for n in (1, 2, 4)] == [{"text": f"text {n}"} for n in (1, 2, 4)]
    assert not any(each.payload for each in by_words)
    assert [(each.id, each.vector) for each in best] == [(point_id(1), sparse(7, 8))]
    assert all(each.vector is None for each in (*by_words, *by_meaning))


# -- conditions ---------------------------------------------------------------------------------------

CONDITIONS: list[tuple[Where, list[int]]] = [
    ([Match("document", ("d1",))], [1, 2]),
    ([Match("document", ("d1", "d2"))], [1, 2, 3]),
    ([Match("document", ("d1",), negate=True)], [3, 4]),
    ([Match("document", ("d1",)), Match("metadata.n", (2,))], [2]),
    ([Match("metadata.n", (1, 3))], [1, 3]),
    ([Match("metadata.flag", (True,))], [1]),
    ([Match("metadata.flag", (False, "yes"))], [2, 3]),
    ([Match("metadata.tags", ("b",))], [1, 2]),
    ([Match("metadata.tags", ("b",), negate=True)], [3, 4]),
    ([Match("metadata.tags", ("c", 3))], [2, 3]),
    ([Match("metadata.learning goal", ("Wörter",))], [4]),
    ([Match("metadata.nothing", ("x",))], []),
    ([Match("metadata.nothing", ("x",), negate=True)], [1, 2, 3, 4]),
    ([Match("document", ())], []),
    ([HasWords("text", "GREEN Leaf")], [1]),
    ([HasWords("text", "leaf green")], [1]),
    ([HasWords("text", "leaf of greens")], []),
    ([HasWords("text", "größe")], [3]),
    ([HasWords("text", "leaf"), Match("document", ("d2",))], [3]),
]


@pytest.fixture
def varied(store: Store) -> Store:
    """Four chunks that differ in what conditions ask."""
    fill(
        store,
        chunk(1, 1, document="d1", text="A green leaf.", metadata={"n": 1, "flag": True, "tags": ["a", "b"]}),
        chunk(2, 1, document="d1", text="Leaves green.", metadata={"n": 2, "flag": False, "tags": ["b", "c"]}),
        chunk(3, 1, document="d2", text="Die Größe of a leaf", metadata={"n": 3, "flag": "yes", "tags": [3]}),
        chunk(4, 1, document="d3", text="", metadata={"learning goal": "Wörter"}),
    )
    return store


def test_conditions(request: pytest.FixtureRequest, varied: Store) -> None:
    """A condition means the same when scrolling, counting and searching. A strict server filters by our own fields
    alone; the error names any other."""
    for where, expected in CONDITIONS:
        others = [each.key for each in where if isinstance(each, Match) and each.key.startswith("metadata.")]
        if request.node.callspec.params["opening"] == "http" and others:
            with pytest.raises(StoreError, match=f"strict mode and has no index for '{others[0]}'"):
                found(varied, where)
            continue
        assert found(varied, where) == expected
        assert varied.count("chunks", where=where) == len(expected)
        assert sorted(leg_ids(varied, Leg("sparse", sparse(1), 10), where)) == expected
        assert sorted(leg_ids(varied, Leg("dense", (1.0, 0.0, 0.0), 10), where)) == expected


def test_facets_count_chunks(varied: Store) -> None:
    """The values of a field, most first, then by name; items of lists one by one."""
    assert list(varied.facet("document").items()) == [("d1", 2), ("d2", 1), ("d3", 1)]
    assert varied.facet("document", limit=1) == {"d1": 2}
    assert list(varied.facet("metadata.tags").items()) == [("b", 2), ("3", 1), ("a", 1), ("c", 1)]
    assert varied.facet("metadata.flag") == {"false": 1, "true": 1, "yes": 1}
    assert varied.facet("metadata.n", where=[Match("document", ("d1",))]) == {"1": 1, "2": 1}
    assert varied.facet("metadata.nothing") == {}


# -- reading and changing -----------------------------------------------------------------------------


def test_get_keeps_the_order_and_leaves_out_what_is_not_there(store: Store) -> None:
    """Points come in the order of their ids; what cannot be an id is not there either."""
    fill(store, *(chunk(i, i) for i in range(1, 5)))
    ids = [point_id(3), point_id(77), "größer", point_id(1), point_id(3)]
    assert [uuid.UUID(point.id).int for point in store.get("chunks", ids)] == [3, 1, 3]
    assert store.get("chunks", [point_id(2).upper()])[0].id == point_id(2)
    assert store.get("chunks", []) == []


@pytest.mark.parametrize("fields", [True, False, ["text"], ["metadata.a b", "headings"], []])
def test_payload_fields(store: Store, fields: Fields) -> None:
    """All, none, or those named; names may have spaces."""
    payload: dict[str, object] = {
        "text": "t",
        "headings": ["A", "Bé 😀"],
        "metadata": {"a b": {"x": [1, None, 2.5]}, "c": 1},
    }
    fill(store, Point(point_id(1), payload))
    expected: dict[str, dict[str, object]] = {
        "True": payload,
        "['text']": {"text": "t"},
        "['metadata.a b', 'headings']": {"headings": ["A", "Bé 😀"], "metadata": {"a b": {"x": [1, None, 2.5]}}},
    }
    wanted = expected.get(str(fields), {})
    assert store.get("chunks", [point_id(1)], fields=fields)[0].payload == wanted
    assert next(store.scroll("chunks", fields=fields)).payload == wanted


def test_scroll_gives_every_point_once(store: Store) -> None:
    """Over many pages."""
    fill(store, *(chunk(i, i) for i in range(1, 1200)))
    assert found(store) == list(range(1, 1200))
    assert store.count("chunks") == 1199
    assert len(store.get("chunks", [point_id(i) for i in range(1, 1200)], fields=False)) == 1199


def test_vectors_come_back(store: Store) -> None:
    """Sparse vectors ascending; dense ones are of length 1, since they are compared by cosine."""
    unsorted = SparseVector((9, 2), (1.0, 3.0))
    fill(store, Point(point_id(1), {}, {"dense": (3.0, 4.0, 0.0), "sparse": unsorted}))
    vectors = store.get("chunks", [point_id(1)], vectors=True)[0].vectors
    assert vectors["sparse"] == SparseVector((2, 9), (3.0, 1.0))
    assert vectors["dense"] == pytest.approx([0.6, 0.8, 0.0])
    assert store.get("chunks", [point_id(1)])[0].vectors == {}


def test_upsert_replaces_points_whole(store: Store) -> None:
    """Payload and vectors of the same id go."""
    fill(store, chunk(1, 5, metadata={"old": 1}))
    fill(store, Point(point_id(1), {"text": "new"}, {"sparse": sparse(6)}))
    (point,) = store.scroll("chunks", vectors=True)
    assert (point.payload, dict(point.vectors)) == ({"text": "new"}, {"sparse": sparse(6)})
    assert leg_ids(store, Leg("dense", (1.0, 0.0, 0.0), 5)) == []


def test_set_payload_keeps_the_vectors(store: Store) -> None:
    """It replaces the payload whole, and nothing else."""
    fill(store, chunk(1, 5, metadata={"old": 1}), chunk(2, 6))
    with store.writing(HYBRID) as writer:
        writer.set_payload("chunks", {point_id(1): {"text": "new", "type": "exercise"}})
        assert found_in(writer, [Match("type", ("exercise",))]) == [1]
    assert store.get("chunks", [point_id(1)])[0].payload == {"text": "new", "type": "exercise"}
    assert leg_ids(store, Leg("sparse", sparse(5), 5)) == [1]
    assert sorted(leg_ids(store, Leg("dense", (1.0, 0.0, 0.0), 5))) == [1, 2]
    with pytest.raises(StoreError), store.writing(HYBRID) as writer:
        writer.set_payload("chunks", {point_id(77): {}})


def found_in(writer: Writer, where: Where) -> list[int]:
    """As `found`, for a writer."""
    return sorted(uuid.UUID(point.id).int for point in writer.scroll("chunks", where=where, fields=False))


def test_delete(store: Store) -> None:
    """Points go; ids that are not there, or cannot be, are no error."""
    fill(store, *(chunk(i, i) for i in range(1, 6)))
    with store.writing(HYBRID) as writer:
        writer.delete("chunks", [point_id(2), point_id(4), point_id(77), "nothing"])
        writer.delete("chunks", [])
        assert writer.count("chunks") == 3
    assert found(store) == [1, 3, 5]
    assert leg_ids(store, Leg("sparse", sparse(2), 5)) == []


def test_the_two_collections_are_apart(store: Store) -> None:
    """The same id may be in both; documents have no vectors, and the manifest is none of them."""
    fill(store, chunk(1, 1))
    fill(store, Point(point_id(1), {"what": "section", "text": "s"}), into="documents")
    fill(store, Point(point_id(2), {"what": "document", "document": "d"}), into="documents")
    assert (found(store), found(store, (), "documents")) == ([1], [1, 2])
    assert store.count("documents") == 2
    assert found(store, [Match("what", ("document",))], "documents") == [2]
    status = store.status()
    assert (status.documents, status.sections, status.chunks) == (1, 1, 1)


def test_a_writer_reads_what_it_wrote(store: Store) -> None:
    """In the same run, through every way of asking."""
    with store.writing(HYBRID) as writer:
        writer.upsert("chunks", [chunk(1, 5), chunk(2, 6)])
        assert writer.count("chunks") == 2
        assert [hit.id for hit in writer.search([Leg("sparse", sparse(6), 3)])[0]] == [point_id(2)]
        assert writer.facet("type") == {"text": 2}
        assert writer.get("chunks", [point_id(1)])[0].payload["text"] == "text 1"
        assert writer.manifest() == replace(HYBRID, annotations={"own": ["a", "b"]})


# -- manifest -----------------------------------------------------------------------------------------


def test_other_settings_are_refused(opening: Open, store: Store) -> None:
    """The error names what differs; nothing is changed. Lists and tuples are the same."""
    fill(store, chunk(1, 1))
    for other in (
        replace(HYBRID, embedding="other"),
        replace(HYBRID, encoding="content"),
        replace(HYBRID, dimensions=4),
    ):
        with pytest.raises(StoreMismatch, match="other settings"), store.writing(other) as writer:
            writer.delete("chunks", [point_id(1)])
    fill(store, chunk(2, 1), manifest=replace(HYBRID, annotations={"own": ["a", "b"]}))
    again = opening()
    assert again.manifest() == replace(HYBRID, annotations={"own": ["a", "b"]})
    assert found(again) == [1, 2]
    again.close()


def test_a_store_can_be_begun_anew(store: Store) -> None:
    """With other settings, from nothing."""
    fill(store, chunk(1, 1))
    other = Manifest("content", "other", 2)
    with store.writing(other, anew=True) as writer:
        assert writer.count("chunks") == 0
        writer.upsert("chunks", [Point(point_id(2), {}, {"dense": (1.0, 0.0)})])
    assert (store.manifest(), found(store)) == (other, [2])


def test_a_closed_store_says_so(store: Store) -> None:
    """After `close`, nothing can be asked."""
    fill(store, chunk(1, 1))
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.count("chunks")


def test_another_reader_sees_a_run_when_it_is_over(opening: Open, store: Store) -> None:
    """A reader that was open before finds what was written since."""
    fill(store, chunk(1, 1))
    reader = opening()
    assert found(reader) == [1]
    fill(store, chunk(2, 1))
    assert found(reader) == [1, 2]
    reader.close()


def test_ids_must_be_uuids(store: Store) -> None:
    """What is stored under another id would not be found again."""
    with pytest.raises(StoreError), store.writing(HYBRID) as writer:
        writer.upsert("chunks", [Point("größer", {})])


# -- document frequencies -----------------------------------------------------------------------------


def record(number: int, *vectors: SparseVector) -> Point:
    """The record of a document whose chunks have these words."""
    payload = {"what": "document", "document": f"d{number}", WORDS: Frequencies.of(vectors).to_text()}
    return Point(point_id(number), payload)


def test_frequencies_are_the_sum_of_the_records(opening: Open, store: Store) -> None:
    """Of what is stored now, whatever was replaced and removed; another reader has them too."""
    assert store.frequencies() == Frequencies()
    one, two, other = record(1, sparse(1, 2), sparse(2)), record(2, sparse(2, 7)), record(2, sparse(9), sparse(9))
    with store.writing(HYBRID) as writer:
        writer.upsert("documents", [one, two, Point(point_id(3), {"what": "section"})])
        assert writer.frequencies().chunks == 3
    assert [store.frequencies()[word] for word in (1, 2, 7, 8)] == [1, 3, 1, 0]
    reader = opening()
    assert reader.frequencies() == store.frequencies()
    fill(store, other, into="documents")
    assert [reader.frequencies()[word] for word in (2, 7, 9)] == [2, 0, 2]
    with store.writing(HYBRID) as writer:
        writer.delete("documents", [point_id(1), point_id(3), point_id(99)])
    assert reader.frequencies() == store.frequencies() == Frequencies.of([sparse(9), sparse(9)])
    reader.close()
