"""Courses in a temporary folder, with a real store and an embedder that counts what it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import lmm_education
from lmm.models.port import Progress
from lmm.testing import HashEmbedder
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.reports import IngestReport, Listener, ignore
from lmm_education.options import IngestOptions
from lmm_education.store.port import Store


class CountingEmbedder(HashEmbedder):
    """A `HashEmbedder` that remembers the documents it was asked to embed."""

    def __init__(self, dimensions: int = 16) -> None:
        super().__init__(dimensions)
        self.name = self.space = f"Model2Vec/hash-{dimensions}"  # it adds up words: a passage has one vector
        self.seen: list[str] = []

    def embed(
        self, texts: Sequence[str], *, kind: Literal["query", "document"], on_progress: Progress | None = None
    ) -> list[list[float]]:
        self.seen += texts if kind == "document" else ()
        return super().embed(texts, kind=kind, on_progress=on_progress)


@dataclass
class Course:
    """A folder with documents, and its store; `name` tells its stores apart."""

    folder: Path
    embedder: CountingEmbedder = field(default_factory=CountingEmbedder)
    name: str = "course"
    store: Store | None = None

    def write(self, name: str, text: str) -> Path:
        """Write a file of the course."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def ingest(self, *paths: str, listener: Listener = ignore, **options: Any) -> IngestReport:
        """Ingest paths of the course, by default all of it; counting begins anew."""
        self.embedder.seen.clear()
        with lmm_education.Course.open(
            config=self.config, course=self.name, embedder=self.embedder, store=self.store
        ) as opened:
            named = [self.folder / path for path in paths or (".",)]
            return ingest_into(opened, named, IngestOptions(**options), listener=listener)

    def open(self) -> lmm_education.Course:
        """The course itself."""
        return lmm_education.Course.open(config=self.config, course=self.name, embedder=self.embedder, store=self.store)

    @property
    def config(self) -> Path:
        """Its configuration file, written when it is first asked for."""
        path = self.folder / "config.toml"
        if not path.exists():
            path.write_text("", encoding="utf-8")
        return path

    def contents(self) -> dict[str, dict[str, Any]]:
        """All points of the store: payloads and vectors by collection and id."""
        with lmm_education.Course.open(
            config=self.config, course=self.name, embedder=self.embedder, store=self.store
        ) as opened:
            return contents_of(opened.store)

    def files(self) -> list[str]:
        """The files of the documents that are stored."""
        return sorted(p["file"] for p, _ in self.contents()["documents"].values() if p["what"] == "document")

    def texts(self) -> list[str]:
        """The texts of all chunks."""
        return sorted(p["text"] for p, _ in self.contents()["chunks"].values())


def contents_of(store: Store) -> dict[str, dict[str, Any]]:
    """All points of a store: payloads and vectors by collection and id."""
    collections: Iterable[Literal["chunks", "documents"]] = ("chunks", "documents")
    return {
        name: {point.id: (dict(point.payload), dict(point.vectors)) for point in store.scroll(name, vectors=True)}
        for name in collections
    }
