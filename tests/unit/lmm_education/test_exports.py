"""The same chunks, for other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.courses import Course
from memory import temporary_folder

import lmm_education
from lmm.errors import ConfigError, FileReadError
from lmm_education import to_langchain_documents, to_llama_index_nodes
from lmm_education.material import PreparedDocument

TEXT = (
    "---\ntitle: Leaves\ndocid: leaves\n---\n# Colour\n\nLeaves are green.\n\n"
    "---\ntopic: exam\n---\n## Why\n\nChlorophyll is.\n"
)


@pytest.fixture
def course() -> Iterator[Course]:
    """A course with one document."""
    with temporary_folder() as folder:
        course = Course(folder)
        course.write("leaves.md", TEXT)
        yield course


def prepared(course: Course, *paths: Path) -> list[PreparedDocument]:
    """What `Course.prepare` makes of the course's folder, or of some paths."""
    with lmm_education.Course.open(config=course.config) as opened:
        return opened.prepare(*paths)


def test_points_are_what_ingest_stores(course: Course) -> None:
    """The same ids, payloads and, but for rounding, vectors; and JSON can hold them."""
    course.ingest()
    with lmm_education.Course.open(config=course.config, embedder=course.embedder) as opened:
        points = list(opened.points(opened.prepare()))
    assert json.loads(json.dumps(points)) == points
    stored = course.contents()["chunks"]
    assert {point["id"]: point["payload"] for point in points} == {id: payload for id, (payload, _) in stored.items()}
    for point in points:
        vectors = stored[point["id"]][1]
        assert point["vector"]["dense"] == pytest.approx(list(vectors["dense"]), abs=1e-6)
        assert point["vector"]["sparse"]["indices"] == list(vectors["sparse"].indices)


def test_points_fit_qdrants_client(course: Course) -> None:
    """Its own type takes them."""
    models = pytest.importorskip("qdrant_client.models")
    with lmm_education.Course.open(config=course.config, embedder=course.embedder) as opened:
        points = list(opened.points(opened.prepare()))
    for point in points:
        assert models.PointStruct(**point).id == point["id"]


def test_chunks_are_grouped_by_their_sections_in_a_second_collection(course: Course) -> None:
    """As Qdrant's `group_by` and `with_lookup` want it; a section says its depth, and which one is above."""
    qdrant = pytest.importorskip("qdrant_client")
    models, client = qdrant.models, qdrant.QdrantClient(":memory:")
    long = "They are tall. " * 150  # not a small entry
    course.write("trees.md", f"# Trees\n\nTall.\n\n## Oaks\n\nThey have acorns.\n\n### Red oaks\n\n{long}\n")
    with lmm_education.Course.open(config=course.config, embedder=course.embedder) as opened:
        documents = opened.prepare()
        chunks, sections = (list(opened.points(documents, what=what)) for what in ("chunks", "sections"))
    size = models.VectorParams(size=len(chunks[0]["vector"]["dense"]), distance="Cosine")
    client.create_collection("chunks", vectors_config={"dense": size}, sparse_vectors_config={"sparse": {}})
    client.create_collection("sections", vectors_config={})
    for name, points in {"chunks": chunks, "sections": sections}.items():
        client.upsert(name, [models.PointStruct(**point) for point in points])
    acorns = next(point for point in chunks if "acorns" in point["payload"]["text"])
    (group,) = client.query_points_groups(
        "chunks", query=acorns["vector"]["dense"], using="dense", group_by="section", limit=1, with_lookup="sections"
    ).groups
    assert (group.id, group.lookup.payload["title"]) == (acorns["payload"]["section"], "Trees")
    found = {point["id"]: point["payload"] for point in sections if point["payload"]["document"] == "trees.md"}
    tree = [(each["headings"][-1], each["depth"], each["parent"]) for each in found.values()]
    trees, oaks, _ = found
    assert tree == [("Trees", 1, None), ("Oaks", 2, trees), ("Red oaks", 3, oaks)]


def test_a_document_that_cannot_be_read_is_an_error(course: Course) -> None:
    """Nothing is left out in silence."""
    (course.folder / "bad.md").write_bytes(b"\xff")
    with pytest.raises(FileReadError, match=r"bad\.md"):
        prepared(course)
    with pytest.raises(FileReadError, match="no such file"):
        prepared(course, course.folder / "missing.md")


def test_prepared_files_and_agents_are_passed_over(course: Course) -> None:
    """As by ingest: the prepared document is there in place of its source."""
    course.ingest(save_files=True, ingest=False)
    course.write("agent.md", "<user>Hello</user>\n")
    assert [document.id for document in prepared(course)] == ["leaves"]


def test_langchain_documents(course: Course) -> None:
    """Text, id, and where it comes from; the author's own properties beside."""
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    documents = prepared(course)
    chunks = to_langchain_documents(documents)
    assert [document.page_content for document in chunks] == ["Leaves are green.", "Chlorophyll is."]
    assert chunks[1].metadata["headings"] == ["Colour", "Why"]
    assert (chunks[1].metadata["topic"], chunks[1].metadata["file"]) == ("exam", "leaves.md")
    assert chunks[1].id == documents[0].chunks[1].id
    sections = to_langchain_documents(documents, what="sections")
    assert chunks[1].metadata["section"] == sections[-1].id


def test_llama_index_nodes(course: Course) -> None:
    """They know their neighbours, their section and their document."""
    schema = pytest.importorskip("llama_index.core.schema", reason="the extra llama-index is not installed")
    documents = prepared(course)
    first, second = to_llama_index_nodes(documents)
    assert (first.text, first.next_node.node_id) == ("Leaves are green.", second.node_id)
    assert (second.prev_node.node_id, second.source_node.node_id) == (first.node_id, "leaves")
    assert second.parent_node.node_id == documents[0].sections[1].id
    shown = second.get_content(metadata_mode=schema.MetadataMode.LLM)
    assert "exam" in shown
    assert "first_line" not in shown


@pytest.mark.parametrize(
    ("module", "extra", "export"),
    [
        ("langchain_core", "langchain", to_langchain_documents),
        ("llama_index.core", "llama-index", to_llama_index_nodes),
    ],
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, export: Callable[[list[PreparedDocument]], object]
) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"lmmarkdown\[{extra}\]"):
        export([])
