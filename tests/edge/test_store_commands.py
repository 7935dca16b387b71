"""`lmm store` as people type it, and copies between stores."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes.forked import run_python
from fakes.qdrant_server import QdrantServer

from lmm.cli.main import main
from lmm_education import Course
from lmm_education.config import StorageSettings
from lmm_education.errors import StoreError, StoreMismatch, StoreMissing, StoreUnavailable
from lmm_education.ingestion.stored import find_stored
from lmm_education.material import SparseVector
from lmm_education.payloads import StoredDocument, document_point_id
from lmm_education.store import server_requests
from lmm_education.store.edge import EdgeStore
from lmm_education.store.open import Transfer, copy_store, open_store
from lmm_education.store.port import Manifest, Point, Store

RECORD = {"what": "document", "hash": "h", "language": "en", "chunks": 30, "sections": 1, "metadata": {}}
MANIFEST = Manifest("hybrid", "test", 2, "Builtin/bm25", annotations={"own": ["a"]})


def lmm(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the real command."""
    return run_python("-m", "lmm", "store", *words, cwd=cwd, env=os.environ | env)


def fill(store: Store, names: str = "ab", chunks: int = 30) -> None:
    """Store documents with a section each."""
    with store.writing(MANIFEST) as writer:
        for name in names:
            record = Point(
                document_point_id(name), RECORD | {"document": name, "file": f"{name}.md", "title": f"Document {name}"}
            )
            writer.upsert("documents", [record, section(name)])
            writer.upsert("chunks", [chunk(name, i) for i in range(chunks)])


def id_of(*parts: object) -> str:
    """An id from anything."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, repr(parts)))


def section(name: str) -> Point:
    """The section of a document."""
    return Point(id_of(name, "section"), {"what": "section", "document": name, "text": "Text, längs 😀"})


def chunk(name: str, i: int) -> Point:
    """A chunk of a document."""
    payload = {"document": name, "type": "text", "text": f"{name} {i}", "metadata": {"n": i}}
    return Point(id_of(name, i), payload, {"dense": (0.6, 0.8), "sparse": SparseVector((1, i + 2), (0.5, 2.0))})


def everything(store: Store) -> list[Any]:
    """All that is in a store, in order."""
    return [sorted(store.scroll(c, vectors=True), key=lambda point: point.id) for c in ("chunks", "documents")]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A folder with the store of a course in it."""
    store = EdgeStore(tmp_path / ".lmm" / "store" / "course")
    fill(store)
    store.close()
    return tmp_path


# -- commands -----------------------------------------------------------------------------------------


def test_status(course: Path) -> None:
    """Where it is, what it was made with, what is in it."""
    shown = lmm("status", cwd=course)
    assert shown.returncode == 0, shown.stderr
    assert "2 documents, 2 sections, 60 chunks" in shown.stdout
    assert "hybrid, test (2 numbers), Builtin/bm25, language en" in shown.stdout
    assert "a.md" in shown.stdout
    told = json.loads(lmm("status", "--json", cwd=course).stdout)
    assert (told["documents"], told["sections"], told["chunks"]) == (2, 2, 60)
    assert told["points"] == {"chunks": 60, "documents": 4}
    assert told["manifest"] == MANIFEST.as_json()
    assert told["size"] > 10_000
    assert told["files"][1] == {"file": "b.md", "document": "b", "title": "Document b"}


def test_status_keeps_a_document_on_one_line_of_a_terminal(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long titles are cut; in a file they are whole."""
    monkeypatch.chdir(course)
    monkeypatch.setenv("COLUMNS", "24")
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["store", "status"]) == 0
    rows = [line for line in screen.getvalue().splitlines() if line.startswith("document")]
    assert [len(row) for row in rows] == [23, 23]
    assert rows[0].endswith("…")


def test_status_of_nothing(tmp_path: Path) -> None:
    """Nothing is no error; it says how to begin, and makes no folder."""
    shown = lmm("status", "--course", "other", cwd=tmp_path)
    assert shown.returncode == 0
    assert "lmm ingest" in shown.stdout
    assert json.loads(lmm("status", "--json", cwd=tmp_path).stdout)["manifest"] is None
    assert list(tmp_path.iterdir()) == []


def test_delete(course: Path) -> None:
    """By id or by file; an unknown one is an error that names those there are."""
    removed = lmm("delete", "a.md", cwd=course)
    assert (removed.returncode, removed.stdout) == (0, "removed a.md from the store\n")
    told = json.loads(lmm("status", "--json", cwd=course).stdout)
    assert (told["documents"], told["sections"], told["chunks"]) == (1, 1, 30)
    again = lmm("delete", "a.md", cwd=course)
    assert again.returncode == 1
    assert "there are: b.md" in again.stderr
    assert lmm("delete", "b", cwd=course).returncode == 0


def test_what_a_document_is_named_by() -> None:
    """A folder, or the bare name of one file; the error has one hint."""
    known = [StoredDocument(f"id{n}", file, "") for n, file in enumerate(("x/a.md", "x/b.md", "y/b.md", "y/z/c.md"))]
    assert [each.file for each in find_stored("x", known, "")] == ["x/a.md", "x/b.md"]
    assert [each.file for each in find_stored("c.md", known, "")] == ["y/z/c.md"]
    with pytest.raises(StoreError, match=r"several documents are named 'b.md' \(there are: x/b.md, y/b.md; [^()]*\)$"):
        find_stored("b.md", known, "")


def test_push_and_pull(course: Path, tmp_path: Path) -> None:
    """To a server and back into another course, which a configuration file names."""
    with QdrantServer(api_key="secret") as server:
        pushed = lmm("push", "--to", server.url, cwd=course, QDRANT_API_KEY="secret")
        assert pushed.returncode == 0, pushed.stderr
        assert "64 points written, 0 there already, 0 removed" in pushed.stdout
        again = lmm("push", "--to", server.url, cwd=course, QDRANT_API_KEY="secret")
        assert "0 points written, 64 there already" in again.stdout
        config = tmp_path / "config.toml"
        config.write_text(f'[storage]\nurl = "{server.url}"\n')
        told = lmm("status", "--json", cwd=course, QDRANT_API_KEY="secret")
        assert json.loads(told.stdout)["chunks"] == 60
        config.write_text('[storage]\nfolder = "copy"\n')
        assert lmm("pull", "--from", server.url, cwd=course, QDRANT_API_KEY="secret").returncode == 0
        refused = lmm("pull", "--from", server.url, cwd=course)
        assert refused.returncode == 1
        assert "api_key_env" in refused.stderr
    old, new = EdgeStore(course / ".lmm/store/course"), EdgeStore(course / "copy" / "course")
    assert everything(new) == everything(old)
    assert new.manifest() == old.manifest() == MANIFEST
    old.close()
    new.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("push", "--to", "ftp://x"), "https://"),
        (("push", "--to", ".lmm/store"), "the store itself"),
        (("push", "--to", "http://qdrant.example"), "unencrypted"),
        (("status", "--course", "../x"), "course"),
        (("status", "--config", "none.toml"), "no such configuration file"),
    ],
)
def test_wrong_usage(course: Path, words: tuple[str, ...], message: str) -> None:
    """Exit code 2, and what to do."""
    done = lmm(*words, cwd=course, QDRANT_API_KEY="k")
    assert done.returncode == 2, done.stdout
    assert message in done.stderr


# -- copies -------------------------------------------------------------------------------------------


def test_a_copy_equals_its_source(course: Path, tmp_path: Path) -> None:
    """What changed is written, what is gone goes, the rest stays; the other way round too."""
    source, target = EdgeStore(course / ".lmm/store/course"), EdgeStore(tmp_path / "target")
    done: list[int] = []
    assert copy_store(source, target, on_points=done.append) == Transfer(64, 0, 0)
    assert sum(done) == 64
    with source.writing(MANIFEST) as writer:
        writer.upsert("chunks", [Point(id_of("a", 0), {"document": "a", "text": "new"}, chunk("a", 0).vectors)])
        writer.delete("chunks", [id_of("a", 1), id_of("a", 2)])
    assert copy_store(source, target) == Transfer(1, 61, 2)
    assert everything(target) == everything(source)
    assert copy_store(target, source) == Transfer(0, 62, 0)
    source.close()
    target.close()


def test_a_copy_that_was_cut_off_goes_on(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server, what had arrived is not sent again."""
    monkeypatch.setattr(server_requests, "pause", lambda seconds: None)
    source = EdgeStore(course / ".lmm/store/course")
    with source.writing(MANIFEST) as writer:
        writer.upsert("chunks", [chunk("c", i) for i in range(1500)])
    with QdrantServer() as server:
        target = open_store(StorageSettings(url=server.url, course="course"), env={})
        count = 0

        def cut(points: int) -> None:
            nonlocal count
            count += points
            if count > 1000:
                server.fail(503, times=99)

        with pytest.raises(StoreUnavailable):
            copy_store(source, target, on_points=cut)
        server._failures.clear()
        arrived = target.count("chunks") + target.count("documents")
        assert 0 < arrived < 1564
        assert copy_store(source, target) == Transfer(1564 - arrived, arrived, 0)
        assert everything(target) == everything(source)
        target.close()
    source.close()


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_a_backup_is_restored(tmp_path: Path, kind: str) -> None:
    """What was pushed to a folder is there again after all else was lost, and answers in the same way."""
    folder, backup = tmp_path / "notes", tmp_path / "backup"
    folder.mkdir()
    (folder / "cells.md").write_text("# Cells\n\nMitosis has four phases.\n\n# Leaves\n\nLeaves are green.\n")
    with QdrantServer() as server:
        (folder / "config.toml").write_text(f'[storage]\nurl = "{server.url}"\n' if kind == "server" else "")

        def found() -> list[tuple[str, float]]:
            with Course.open(folder) as course:
                return [(hit.text, hit.score) for hit in course.search("How many phases has mitosis?").hits]

        with Course.open(folder) as course:
            course.ingest()
            course.push(backup)
            stored = everything(course.store)
        before = found()
        if kind == "server":
            for name in server.courses():
                server.client.delete_collection(name)
        else:
            shutil.rmtree(folder / ".lmm")
        with Course.open(folder) as course:
            assert course.store.manifest() is None
            course.pull(backup)
            assert everything(course.store) == stored
            assert course.ingest().count("unchanged") == 1
        assert found() == before != []


def test_what_cannot_be_copied(capsys: pytest.CaptureFixture[str], course: Path, tmp_path: Path) -> None:
    """Nothing, and into a store with other settings."""
    source, empty = EdgeStore(course / ".lmm/store/course"), EdgeStore(tmp_path / "empty")
    with pytest.raises(StoreMissing, match="nothing has been ingested"):
        copy_store(empty, source)
    with empty.writing(Manifest("content", "test", 2)):
        pass
    with pytest.raises(StoreMismatch, match="other settings"):
        copy_store(source, empty)
    source.close()
    empty.close()
    ran = run_here(capsys, "store", "pull", "--from", "../nope")
    assert ran.code == 1
    assert ran.err.startswith(f"lmm: {Path('../nope/course')}: there is no store here (name ")
