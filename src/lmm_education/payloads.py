"""Convert chunks, sections and documents to payloads, the JSON that a store keeps with a point, and back.

A payload contains everything that can be shown or filtered by; vectors are not part of it. What is prepared is `plain`
already.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from lmm.disk import digest
from lmm.terminal import count
from lmm.type_names import types_in
from lmm_education.frequencies import Frequencies
from lmm_education.material import Chunk, Inner, Lines, Location, Passage, PreparedDocument, Section

Payload = Mapping[str, Any]
_LARGEST = 2**63
WORDS = "words"
"""The field of a document's record with the document frequencies of its chunks."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The record of a document: its source, and the number of its chunks and sections.

    `file` is the source's path; `hash` covers its content and everything else that affects the result; it is empty
    while the document is being written. `withhold` are the types that were withheld from students when it was ingested.
    `text_hash` is the `hash_of_text`
    of the file that was ingested, empty in older stores. `sort_key`, `part` and `book` are those of a
    `PreparedDocument`.
    """

    id: str
    file: str
    hash: str
    title: str = ""
    language: str = "en"
    chunks: int = 0
    sections: int = 0
    sort_key: str = ""
    part: str = ""
    book: str = ""
    withhold: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    text_hash: str = ""

    def __repr__(self) -> str:
        parts = f"{count(self.sections, 'section')}, {count(self.chunks, 'chunk')}"
        return f"StoredDocument({self.file!r}, {self.title!r}, {parts})"


OUTLINE = "outline"
"""The field of a document's record with its headings and texts in order, as JSON, for study material."""
STUDENTS = "for_students"
"""The field with the replacements of other fields for students."""
RECORD = ("document", *StoredDocument.__slots__[1:])
"""The fields of a document's record that a `StoredDocument` is made from."""


_OF_A_DOCUMENT = ("file", "title", "language", "sort_key", "part", "book", "withhold", "metadata")


# -- to payloads -----------------------------------------------------------------------------------


def chunk_payload(chunk: Chunk, *, language: str, hash: str) -> dict[str, Any]:
    """Return the payload of a chunk; `hash` covers what was embedded. Overlap and annotations are not stored.

    >>> chunk = Chunk("1", Location("d", "a.md", Lines(3, 4), ("Leaves",)), "s", 0, "Green.", metadata={"n": 1})
    >>> payload = chunk_payload(chunk, language="en", hash="h")
    >>> payload["headings"], payload["first_line"], payload["metadata"]
    (['Leaves'], 3, {'n': 1})
    """
    types = types_in(chunk.metadata)
    return {
        **_place(chunk.place),
        "title": chunk.title,
        "section": chunk.section,
        "order": chunk.order,
        "type": list(types) if len(types) > 1 and types[0] == chunk.type else chunk.type,  # each can be searched for
        "text": chunk.text,
        **({"above": list(chunk.above)} if chunk.above else {}),
        "language": language,
        "hash": hash,
        "metadata": chunk.metadata,
        **_audience(chunk),
    }


def _audience(of: Chunk | Section | PreparedDocument) -> dict[str, Any]:
    """Return the fields that say who may read it, and the replacements for students."""
    shown = of.for_students if of.audience == "everyone" else {}
    return {"audience": of.audience, **({STUDENTS: shown} if shown else {})}


def texts_of(value: Any) -> Iterator[str]:
    """Iterate over the texts in a metadata value, each on one line.

    >>> list(texts_of(["two  words", 3, True, {"a": None}]))
    ['two words', '3', 'true']
    """
    if isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, Mapping):
        yield from texts_of(list(value.values()))
    elif value is not None:
        text = " ".join(("true" if value is True else "false" if value is False else str(value)).split())
        if text:
            yield text


def section_payload(section: Section, *, title: str) -> dict[str, Any]:
    """Return the payload of a section; `title` is its document's."""
    return {
        "what": "section",
        **_place(section.place),
        "depth": section.depth,
        "parent": section.parent or None,
        **({"goes_on": True} if section.goes_on else {}),
        "order": section.order,
        "title": title,
        "text": section.text,
        **({"above": list(section.above)} if section.above else {}),
        "metadata": section.metadata,
        **_audience(section),
    }


def document_payload(
    document: PreparedDocument,
    *,
    hash: str,
    text_hash: str = "",
    words: Frequencies = Frequencies(),
) -> dict[str, Any]:
    """Return the record of a document; see `StoredDocument`. `words` are the frequencies of its chunks."""
    shown = document.for_students
    if OUTLINE in shown:
        document = replace(document, for_students={**shown, OUTLINE: json.dumps(shown[OUTLINE])})
    return {
        "what": "document",
        "document": document.id,
        **{name: _listed(getattr(document, name)) for name in _OF_A_DOCUMENT},
        OUTLINE: json.dumps(document.outline),  # nested values would take the engine three times as long
        "hash": hash,
        "text_hash": text_hash,
        "chunks": len(document.chunks),
        "sections": len(document.sections),
        **_audience(document),
        WORDS: words.to_text(),
    }


def hash_of_text(text: str) -> str:
    """Return a hash of a file's text, by which it is recognised as the one that was ingested."""
    return digest(text.encode("utf-8", "surrogatepass"), length=16)


def words_of(payload: Payload) -> Frequencies:
    """Return the document frequencies in a document's record; empty for any other payload."""
    return Frequencies.from_text(payload.get(WORDS, ""))


# Every field of a `Location` is a field of the payload, the lines as two; those with a default may be missing.
_STORED = tuple(each.name for each in fields(Location) if each.name != "lines")
PLACE = (*_STORED, "first_line", "last_line")


def _place(place: Location) -> dict[str, Any]:
    rare = ("numbers", "inner", "page", "original")
    values = {name: _listed(value) for name in _STORED if (value := getattr(place, name)) or name not in rare}
    return {**values, "first_line": place.lines.first, "last_line": place.lines.last}


def _listed(value: Any) -> Any:
    """Return a value with lists for tuples, as JSON has them."""
    if not isinstance(value, tuple):
        return value
    return [*value] if not value or isinstance(value[0], str) else [_listed(each) for each in value]


def plain(value: Any) -> Any:
    """Return a metadata value in a form that JSON and every store can hold.

    Values without a JSON equivalent become text: infinity, numbers beyond 64 bits, dates, lone surrogates.

    >>> plain({1: (2, 2**70), "x": float("inf"), "y": None})
    {'1': [2, '1180591620717411303424'], 'x': 'inf', 'y': None}
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else plain(str(value))


# -- from payloads ---------------------------------------------------------------------------------


def place_of(payload: Payload) -> Location:
    """Return the place of a chunk or a section; fields that were not requested are empty."""
    there = ((name, value) for name in _STORED if (value := payload.get(name)) is not None)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in there}
    if inner := values.get("inner"):
        values["inner"] = tuple(Inner(line, number, tuple(headings)) for line, number, headings in inner)
    lines = Lines(payload.get("first_line", 0), payload.get("last_line", 0))
    return Location(**{"document": "", "file": "", "lines": lines} | values)


def hit_of(
    id: str,
    payload: Payload,
    *,
    score: float = 0.0,
    legs: Mapping[str, float] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Passage:
    """Return a search result from a point's payload, of a chunk or of a section (``what: section``).

    >>> chunk = Chunk("1", Location("d", "a.md", Lines(3, 4)), "s", 0, "Green.")
    >>> hit = hit_of("1", chunk_payload(chunk, language="en", hash=""), score=0.5)
    >>> hit.what, hit.text, str(hit.place), hit.section
    ('chunk', 'Green.', 'a.md:3-4', 's')
    """
    what: Literal["chunk", "section"] = "section" if payload.get("what") == "section" else "chunk"
    type = payload.get("type", "text")
    return Passage(
        id,
        place_of(payload),
        payload.get("text", ""),
        score=score,
        what=what,
        section=id if what == "section" else payload.get("section", ""),
        type=str(type[0] if isinstance(type, list) and type else type),
        title=payload.get("title", ""),
        legs=dict(legs or {}),
        payload=dict(fields or {}),
        language=payload.get("language", ""),
        depth=payload.get("depth", 0),
        parent=payload.get("parent") or "",
        above=tuple(payload.get("above", ())),
    )


def section_of(id: str, payload: Payload) -> Section:
    """Return the section that `section_payload` made this payload from."""
    return Section(
        id=id,
        place=place_of(payload),
        depth=payload.get("depth", 0),
        parent=payload.get("parent") or "",
        goes_on=payload.get("goes_on", False),
        order=payload.get("order", 0),
        text=payload.get("text", ""),
        metadata=payload.get("metadata", {}),
        above=tuple(payload.get("above", ())),
    )


def document_of(payload: Payload) -> StoredDocument:
    """Return the record that `document_payload` made; fields that were not requested are empty."""
    known = {name: payload[name] for name in StoredDocument.__slots__ if name in payload}
    known["withhold"] = tuple(payload.get("withhold", ()))
    return StoredDocument(
        id=payload.get("document", ""), file=known.pop("file", ""), hash=known.pop("hash", ""), **known
    )


# -- ids -------------------------------------------------------------------------------------------

# They depend on the content, not on when or in which order it was stored: UUIDs of version 5, so that the same text in
# the same document has the same id in every store.


_NAMESPACE = uuid.UUID("6f1c4f0e-9f0b-5c1d-8a53-2d0f3f7f5e21")


def document_point_id(docid: str) -> str:
    """Return the id of a document's record."""
    return _uuid("document", docid)


class Ids:
    """Makes the ids of one document's sections and chunks, in order: a section's from its headings, so that it stays
    the same when the text is edited; a part cut by size from its beginning; a chunk's from its type and text.

    Duplicates are distinguished by a counter.

    >>> ids = Ids("botany")
    >>> first, second = ids.of("section", "Leaves"), ids.of("section", "Leaves")
    >>> first == second, first == Ids("botany").of("section", "Leaves"), first == Ids("zoology").of("section", "Leaves")
    (False, True, False)
    """

    def __init__(self, docid: str) -> None:
        self._docid = docid
        self._seen: Counter[str] = Counter()

    def of(self, kind: Literal["section", "part", "chunk"], *what: str) -> str:
        """Return the next id for this content."""
        name = _uuid(self._docid, kind, *what)
        rank = self._seen[name]
        self._seen[name] += 1
        return _uuid(name, str(rank)) if rank else name


def _uuid(*parts: str) -> str:
    # As `uuid.uuid5` does it, without its objects.
    digest = hashlib.sha1(_NAMESPACE.bytes + json.dumps(parts).encode()).hexdigest()
    variant = f"{int(digest[16], 16) & 3 | 8:x}"
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
