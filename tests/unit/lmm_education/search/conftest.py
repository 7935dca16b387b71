"""A small course whose answers are known, in stores of every kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from memory import temporary_folder

from lmm.config import load_settings
from lmm.config_tables import Config
from lmm.testing import HashEmbedder
from lmm_education.config import CourseSettings, SearchSettings, StorageSettings, course_settings
from lmm_education.encode.encoder import Encoder, open_encoder
from lmm_education.frequencies import Frequencies
from lmm_education.material import Chunk, Lines, Location, PreparedDocument, Section, SparseVector
from lmm_education.parts import CourseParts
from lmm_education.payloads import chunk_payload, document_payload, document_point_id, section_payload
from lmm_education.search.search import CourseSearch
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import Manifest, Point, Store
from lmm_education.store.server import store_on

EMBEDDER = HashEmbedder(256)
Open = Callable[..., CourseSearch]


def id_of(name: str) -> str:
    """The id of the point that the tests call so."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


class Writing:
    """A document in the making: sections with their passages, in order."""

    def __init__(self, name: str, language: str = "en") -> None:
        self.name, self.language = name, language
        self.sections: list[Section] = []
        self.chunks: list[Chunk] = []

    def section(self, heading: str, **passages: str | Mapping[str, object]) -> Writing:
        """A section with passages by name: a text, or the fields of a chunk."""
        section, texts = id_of(f"{self.name}/{heading}"), []
        for name, given in passages.items():
            fields: Mapping[str, object] = {"text": given} if isinstance(given, str) else given
            line = 10 * len(self.chunks) + 1
            place = Location(self.name, f"notes/{self.name}.md", Lines(line, line + 3), (heading,))
            values = {"title": self.name.title(), **fields}
            self.chunks.append(Chunk(id_of(name), place, section, len(self.chunks), **values))  # type: ignore[arg-type]
            texts.append(str(fields["text"]))
        whole = Location(self.name, f"notes/{self.name}.md", Lines(1, 99), (heading,))
        self.sections.append(Section(section, whole, 1, len(self.sections), "\n\n".join(texts)))
        return self

    def made(self) -> PreparedDocument:
        """The document."""
        title, file = self.name.title(), f"notes/{self.name}.md"
        return PreparedDocument(self.name, file, title, self.language, tuple(self.sections), tuple(self.chunks))


def course() -> list[PreparedDocument]:
    """Botany and law: what is asked for is said in one passage only."""
    botany = (
        Writing("botany")
        .section(
            "Leaves",
            green={
                "text": "Chlorophyll makes leaves green, for it absorbs red light.",
                "annotations": ("What makes leaves green?",),
                "metadata": {"topic": "colour", "week": 3, "exam": True, "tags": ["light", "pigment"]},
            },
            autumn={
                "text": "In autumn chlorophyll decays, and carotenoids show.",
                "annotations": ("Why do trees turn yellow in autumn?",),
                "metadata": {"topic": "seasons", "week": 4},
            },
            alcohol={
                "text": "Put a leaf into alcohol and describe the chlorophyll.",
                "annotations": ("How is chlorophyll extracted?",),
                "type": "exercise",
            },
        )
        .section(
            "Roots",
            hairs={"text": "Root hairs take up water and minerals.", "annotations": ("What takes up water?",)},
            dig={"text": "Dig out a root and count its hairs.", "annotations": ("How many?",), "type": "exercise"},
        )
        .section("Stems", xylem={"text": "Water rises in the xylem.", "annotations": ("Where does water rise?",)})
    )
    law = Writing("law").section(
        "Tax",
        joint={"text": "The tax of a couple is computed jointly.", "annotations": ("How are couples taxed?",)},
        brief={"text": "Tax law for couples, in brief.", "annotations": ("Tax in brief",), "type": "summary"},
    )
    return [botany.made(), law.made()]


def fill(store: Store, encoder: Encoder, documents: Sequence[PreparedDocument]) -> None:
    """Store documents as ingestion does."""
    with store.writing(Manifest(**encoder.manifest_parts)) as writer:
        for document in documents:
            vectors = encoder.encode(document.chunks, language=document.language)
            payloads = [chunk_payload(chunk, language=document.language, hash="") for chunk in document.chunks]
            found = zip(document.chunks, payloads, vectors, strict=True)
            writer.upsert("chunks", [Point(chunk.id, payload, own) for chunk, payload, own in found])
            sections = [Point(s.id, section_payload(s, title=document.title)) for s in document.sections]
            words = Frequencies.of(v for own in vectors if isinstance(v := own.get("sparse"), SparseVector))
            record = Point(document_point_id(document.id), document_payload(document, hash="", words=words))
            writer.upsert("documents", [*sections, record])


def encoder_for(encoding: str, language: str = "en", embedder: HashEmbedder | None = EMBEDDER) -> Encoder:
    """An encoder whose embedding model compares words."""
    settings = course_settings(Config(text=f'[RAG]\nencoding_model = "{encoding}"\nlanguage = "{language}"'))
    return open_encoder(settings, load_settings(env={}).embedding, embedder=embedder)


def search_of(store: Store, encoder: Encoder, settings: SearchSettings = SearchSettings()) -> CourseSearch:
    """A search in a store, with an encoder."""
    parts = CourseParts(CourseSettings(search=settings), load_settings(env={}), Path(), given_store=store)
    parts.once("encoder", lambda: encoder)
    return CourseSearch(parts)


@pytest.fixture(scope="session")
def store_folder() -> Iterator[Path]:
    """Where the stores are."""
    with temporary_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def course_stores() -> Iterator[dict[object, Store]]:
    """Stores of the course that tests have made, to be read only."""
    stores: dict[object, Store] = {}
    yield stores
    for store in stores.values():
        store.close()


@pytest.fixture(params=["edge", "memory"])
def open_search(request: pytest.FixtureRequest, store_folder: Path, course_stores: dict[object, Store]) -> Open:
    """Make a store of some documents, by default the course, and a searcher of it."""

    def new_store() -> Store:
        if request.param == "edge":
            return EdgeStore(store_folder / uuid.uuid4().hex)
        from qdrant_client import QdrantClient

        return store_on(QdrantClient(":memory:"), StorageSettings(course="course"))

    def opening(
        encoding: str = "hybrid",
        documents: Sequence[PreparedDocument] | None = None,
        *,
        language: str = "en",
        embedder: HashEmbedder | None = EMBEDDER,
        **settings: object,
    ) -> CourseSearch:
        encoder = encoder_for(encoding, language, embedder)
        key: object = (request.param, encoding, language) if documents is None else object()
        if key not in course_stores:
            course_stores[key] = new_store()
            fill(course_stores[key], encoder, course() if documents is None else documents)
        return search_of(course_stores[key], encoder, SearchSettings(**settings))  # type: ignore[arg-type]

    return opening
