"""Writing into stores without transactions: whatever was cut off, and wherever, the next run mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fakes.courses import Course
from memory import temporary_folder
from qdrant_client import QdrantClient

from lmm_education.config import StorageSettings
from lmm_education.store.port import Manifest, Store, Writer
from lmm_education.store.server import ServerStore, store_on

OLD = "# One\n\nThe first.\n\n# Two\n\nThe second.\n\n# Three\n\nThe third.\n"
NEW = "# One\n\nThe first.\n\n\n# Zero\n\nThe new one.\n\n# Three\n\nThe third.\n"
OTHER = "---\ndocid: other\n---\n# Other\n\nAnother text.\n"

# In-memory mode knows no payload indexes, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


class Cut(Exception):
    """The power went."""


class CuttingStore:
    """A server's store whose writer gives up after so many calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls_left: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def writing(self, manifest: Manifest, *, anew: bool = False) -> Iterator[Writer]:
        """As the store's, until the calls are used up."""
        with self._store.writing(manifest, anew=anew) as writer:
            for name in ("upsert", "set_payload", "delete"):
                setattr(writer, name, self._counted(getattr(writer, name)))
            yield writer

    def _counted(self, call: Callable[..., None]) -> Callable[..., None]:
        def counted(*args: Any) -> None:
            if self.calls_left is not None:
                if not self.calls_left:
                    raise Cut
                self.calls_left -= 1
            call(*args)

        return counted


def memory() -> ServerStore:
    """A server's store without a server."""
    return store_on(QdrantClient(":memory:"), StorageSettings(course="course"))


@pytest.fixture
def course() -> Iterator[Course]:
    """A course on a store that may be cut off, with two documents in it."""
    with temporary_folder() as folder:
        course = Course(folder, store=CuttingStore(memory()))
        course.write("a.md", OLD)
        course.write("b.md", OTHER)
        course.ingest()
        yield course


def contents(course: Course) -> dict[str, dict[str, Any]]:
    """What is in the store; in-memory mode gives dense vectors a length of one again and again, and so rounds them."""
    return {
        name: {id: (payload, _rounded(vectors)) for id, (payload, vectors) in points.items()}
        for name, points in course.contents().items()
    }


def _rounded(vectors: dict[str, Any]) -> dict[str, Any]:
    return vectors | {"dense": [round(x, 5) for x in vectors["dense"]]} if "dense" in vectors else vectors


def scratch(course: Course) -> dict[str, dict[str, Any]]:
    """What a first ingest would make."""
    other = Course(course.folder, course.embedder, store=memory())
    other.ingest()
    return contents(other)


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("calls", range(7))
def test_the_next_run_mends_what_was_cut_off(course: Course, calls: int, undone: bool) -> None:
    """Also when the author has undone the change meanwhile, so that the document is what it was before."""
    assert isinstance(course.store, CuttingStore)
    course.write("a.md", NEW)
    (course.folder / "b.md").rename(course.folder / "c.md")
    course.store.calls_left = calls
    with pytest.raises(Cut):
        course.ingest()
    course.store.calls_left = None
    if undone:
        course.write("a.md", OLD)
        (course.folder / "c.md").rename(course.folder / "b.md")
    assert not course.ingest().failed
    assert contents(course) == scratch(course)
    course.ingest()
    assert course.embedder.seen == []


@pytest.mark.parametrize("calls", range(4))
def test_what_was_cut_off_while_it_was_removed_goes_with_the_next_prune(course: Course, calls: int) -> None:
    """The record of a document goes last, so that it is known as long as something of it is there."""
    assert isinstance(course.store, CuttingStore)
    (course.folder / "a.md").unlink()
    course.store.calls_left = calls
    try:
        course.ingest(prune=True)
    except Cut:
        assert calls < 3
    course.store.calls_left = None
    course.ingest(prune=True)
    assert contents(course) == scratch(course)


def test_everything_that_is_done_to_the_embedded_store_is_done_to_a_server(course: Course) -> None:
    """Changes, a moved document, another identity, settings that differ."""
    course.write("a.md", f"---\ndocid: a\n---\n{NEW}")
    assert not course.ingest().failed
    assert contents(course) == scratch(course)
    course.config.write_text('[RAG]\nencoding_model = "content"\n')
    assert course.ingest(again=True).rebuilt
    assert contents(course) == scratch(course)
