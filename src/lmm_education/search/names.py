"""What the passages of a store are called by: types, languages, documents; read when first needed, and kept."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from lmm_education.search.query import StoredName
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import Match, Reader

_ALL = 10_000  # more different types or languages than a course has
_KEPT = 5.0  # seconds


class Names:
    """What can be named in a question, and the languages it is compared in; read when first needed."""

    def __init__(self, manifest: Manifest, store: Reader, language: str) -> None:
        self._manifest, self._store, self._language = manifest, store, language
        self._outlines: dict[str, dict[int, str]] = {}
        self._by_generation = store.manifest() is manifest
        self._until = time.monotonic() + _KEPT
        self._types: tuple[str, ...] | None = None
        self._documents: tuple[StoredName, ...] | None = None
        self._languages: tuple[str, ...] | None = None

    def hold(self, manifest: Manifest) -> bool:
        """Whether they are still true of a store with this manifest.

        The embedded store reads its manifest once with every generation, so that the same object means the same
        content; a server's is read anew every time, and we look at its names again after some seconds.
        """
        if self._by_generation:
            return manifest is self._manifest
        return manifest == self._manifest and time.monotonic() < self._until

    @property
    def types(self) -> tuple[str, ...]:
        """The types of passages that there are."""
        if self._types is None:
            self._types = tuple(self._store.facet("kind", limit=_ALL))
        return self._types

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the passages, most frequent first."""
        if self._languages is None:
            self._languages = tuple(self._store.facet("language", limit=_ALL)) or (self._language,)
        return self._languages

    @property
    def documents(self) -> tuple[StoredName, ...]:
        """The documents that there are."""
        if self._documents is None:
            where = [Match("what", ("document",))]
            points = self._store.scroll("documents", where=where, fields=("document", "file"))
            names = (StoredName(point.payload["document"], point.payload.get("file", "")) for point in points)
            self._documents = tuple(sorted(names, key=lambda name: name.file))
        return self._documents

    def outlines(self, documents: Collection[str]) -> Mapping[str, Mapping[int, str]]:
        """The headings of the sections of documents by their order; of a section without one, the document's title."""
        missing = tuple(document for document in documents if document not in self._outlines)
        if missing:
            found: dict[str, dict[int, str]] = {document: {} for document in missing}
            where = [Match("document", missing), Match("what", ("section",))]
            fields = ("document", "order", "headings", "title")
            for point in self._store.scroll("documents", where=where, fields=fields):
                headings = point.payload.get("headings") or [point.payload.get("title", "")]
                found[point.payload["document"]][point.payload["order"]] = headings[-1]
            self._outlines |= found
        return self._outlines
