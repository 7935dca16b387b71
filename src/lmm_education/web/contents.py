"""What the page shows of the store: documents with their headings, types of material, a section with its passage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm_education.errors import RequestError, SearchError
from lmm_education.material import Hit, Lines, Section
from lmm_education.payloads import hit_of, section_of
from lmm_education.search.names import Names
from lmm_education.search.query import SearchOptions
from lmm_education.search.searcher import Searcher
from lmm_education.store.port import Match
from lmm_education.study.material import is_one_of
from lmm_education.web.rendering import Picture, lines_of, marked_html, title_html

_ORDINARY = ("text", "summary")  # what there is without anybody having marked it
_FIELDS = ("document", "order", "headings", "title", "level", "file")


@dataclass(slots=True)
class Contents:
    """The table of contents and the types of material but `hidden` ones, read again when the store has changed.

    Threads may share it.
    """

    searcher: Searcher
    language: str = "en"
    hidden: tuple[str, ...] = ()
    _names: Names | None = None
    _sections: tuple[SectionTitles, ...] = ()
    _values: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def as_json(self) -> dict[str, Any]:
        """For the page: titles are HTML.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            return self._values if self._read() else {"types": [], "documents": []}

    def sections(self) -> tuple[SectionTitles, ...]:
        """All sections, in the order of the files.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            return self._sections if self._read() else ()

    def _read(self) -> bool:
        """Read what is not known yet; whether there is a store."""
        store = self.searcher.store
        manifest = store.manifest()
        if manifest is None:
            return False
        if self._names is None or not self._names.hold(manifest):
            names = Names(manifest, store, self.language)
            points = store.scroll("documents", where=[Match("what", ("section",))], fields=_FIELDS)
            found = [section_titles(point.id, point.payload) for point in points]
            found.sort(key=lambda section: (section.file, section.document, section.order))
            types = sorted(name for name in names.types if not is_one_of(name, (*_ORDINARY, *self.hidden)))
            values = {"types": types, "documents": _documents(found)}
            self._names, self._sections, self._values = names, tuple(found), values
        return True


@dataclass(frozen=True, slots=True)
class SectionTitles:
    """A section, without its text, as the table of contents needs it."""

    id: str
    document: str
    file: str
    title: str
    order: int
    headings: tuple[str, ...]


def section_titles(id: str, payload: Any) -> SectionTitles:
    """The same from what a store keeps."""
    file, headings = payload.get("file", ""), tuple(payload.get("headings") or ())
    title = payload.get("title") or file
    return SectionTitles(id, payload.get("document", ""), file, title, payload.get("order", 0), headings)


def _documents(sections: Iterable[SectionTitles]) -> list[dict[str, Any]]:
    by_document: dict[str, list[SectionTitles]] = {}
    for section in sections:
        by_document.setdefault(section.document, []).append(section)
    return [
        {"title": title_html(found[0].title), "file": found[0].file, "sections": outline(found)}
        for found in by_document.values()
    ]


def outline(sections: Sequence[SectionTitles]) -> list[dict[str, Any]]:
    """The headings of a document in order, with the section under each; one that has no text of its own has none.

    >>> def titles(id, order, *headings): return SectionTitles(id, "d", "a.md", "A", order, headings)
    >>> entries = outline([titles("1", 0, "Leaves", "Colour"), titles("2", 1, "Roots")])
    >>> [(entry["title"], entry["depth"], entry["section"]) for entry in entries]
    [('Leaves', 0, ''), ('Colour', 1, '1'), ('Roots', 0, '2')]
    """
    entries: list[dict[str, Any]] = []
    above: tuple[str, ...] = ()
    for section in sections:
        path = section.headings or (section.title,)
        differ = (i for i, (one, other) in enumerate(zip(above, path, strict=False)) if one != other)
        shared = next(differ, min(len(above), len(path)))
        for depth in range(shared, len(path)):
            own = section.id if depth == len(path) - 1 else ""
            entries.append({"title": title_html(path[depth]), "depth": depth, "section": own})
        above = path
    return entries


@dataclass(frozen=True, slots=True)
class Hidden:
    """Types of material that are shown when one asks for them, and what one then asks for."""

    types: tuple[str, ...] = ()
    label: str = ""


def section_values(
    searcher: Searcher,
    id: str,
    *,
    passage: str = "",
    searched: str = "",
    hidden: Hidden = Hidden(),
    pictures: Callable[[str], Picture] | None = None,
) -> dict[str, Any]:
    """A section as HTML. The passage with that id is marked, else the one in it that fits what was searched best.

    Raises:
        RequestError: the store holds it no longer.
        StoreError: the store cannot be read.
    """
    stored = searcher.store.get("documents", [id])
    section = section_of(id, stored[0].payload) if stored else None
    hit = _passage(searcher, id, passage, searched)
    if section is None and hit is None:
        raise RequestError("there is no such section", status=404, param="section")
    title = stored[0].payload.get("title", "") if stored else ""
    chunks = searcher.store.scroll("chunks", where=[Match("section", (id,))], fields=("kind", "text"))
    secret = [hit_of(chunk.id, chunk.payload) for chunk in chunks] + ([hit] if hit else [])
    texts = [each.text for each in secret if is_one_of(each.kind, hidden.types)]
    return _shown(section, hit, title, texts, hidden.label, pictures)


def _lines_of_all(passages: Sequence[str], text: str) -> list[Lines]:
    """The lines of passages in a text; of one that is not in it as it is, those of its paragraphs."""
    found: list[Lines] = []
    for passage in dict.fromkeys(passages):
        whole = lines_of(passage, text)
        parts = [whole] if whole else [lines_of(part, text) for part in passage.split("\n\n")]
        found += [lines for lines in parts if lines]
    return sorted(set(found))


def _passage(searcher: Searcher, section: str, passage: str, searched: str) -> Hit | None:
    if passage:
        found = searcher.store.get("chunks", [passage])
        return hit_of(passage, found[0].payload) if found else None
    if not searched:
        return None
    try:
        result = searcher.search(searched, SearchOptions(limit=1, where={"section": (section,)}, sections=False))
    except SearchError:  # nothing is left of the question but its marks
        return None
    return result.hits[0] if result.hits else None


def _shown(
    section: Section | None,
    hit: Hit | None,
    title: str,
    secret: Sequence[str],
    label: str,
    pictures: Callable[[str], Picture] | None,
) -> dict[str, Any]:
    """The section, or where sections are not stored, the passage alone."""
    text = section.text if section else hit.text if hit else ""
    place = section.place if section else hit.place if hit else None
    assert place is not None
    path = dict.fromkeys(part for part in (title or (hit.title if hit else ""), *place.headings) if part)
    return {
        "title": title_html(" > ".join(path)),
        "place": str(place),
        "html": marked_html(
            text,
            lines_of(hit.text, text) if hit else None,
            _lines_of_all(secret, text),
            label,
            picture=pictures(place.file) if pictures else None,
        ),
    }
