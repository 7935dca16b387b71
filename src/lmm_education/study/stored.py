"""The documents of a course as its store knows them, for study material without the files.

What was ingested is what students get: nothing that is only in a file yet. Headings come from the sections and paths
that are stored, texts from the chunks, metadata from both. A heading without a text of its own was not stored, so
what its metadata said is taken from the texts below it, which inherited it; its summary is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm_education.ingestion.outline import Heading, Item, Outline, Text
from lmm_education.material import Chunk, Lines, Section
from lmm_education.payloads import RECORD, StoredDocument, chunk_of, document_of, section_of
from lmm_education.store.port import Match, Reader
from lmm_education.study.material import StudyDocument, type_in

_RECORDS = (Match("what", ("document",)),)
_SUMMARY = "summary"
_MISSING = object()
_BLOCK = 4  # lines from a heading to its text, if there is a metadata block between them
Path = tuple[str, ...]


def stored_documents(store: Reader) -> list[StudyDocument]:
    """The documents of a store, in the order of their files.

    Raises:
        StoreError: it cannot be read.
    """
    documents = [document_of(p.payload) for p in store.scroll("documents", where=_RECORDS, fields=RECORD)]
    held = {document.id: ([], []) for document in documents}  # type: dict[str, tuple[list[Section], list[Chunk]]]
    for point in store.scroll("documents", where=[Match("what", ("section",))]):
        section = section_of(point.id, point.payload)
        if section.place.document in held:
            held[section.place.document][0].append(section)
    for point in store.scroll("chunks"):
        chunk = chunk_of(point.id, point.payload)
        if chunk.place.document in held:
            held[chunk.place.document][1].append(chunk)
    return [stored_document(each, *held[each.id]) for each in sorted(documents, key=lambda each: each.file)]


def stored_document(record: StoredDocument, sections: Iterable[Section], chunks: Iterable[Chunk]) -> StudyDocument:
    """A document from what is stored of it.

    >>> from lmm_education.material import Place
    >>> chunk = Chunk("1", Place("d", "a.md", Lines(3, 3), ("Leaves",)), "s", 0, "Green.", kind="exercise")
    >>> items = stored_document(StoredDocument("d", "a.md", ""), [], [chunk]).outline.items
    >>> [(type(item).__name__, item.own) for item in items]
    [('Heading', {'type': 'exercise'}), ('Text', {})]
    """
    texts = [chunk for chunk in sorted(chunks, key=lambda chunk: chunk.order) if chunk.kind != _SUMMARY]
    header = dict(record.metadata or {})
    title = record.title or record.file
    root = Heading(title, 0, (), 1, own=header, all=_inherited({}, header))
    parts = _parts(sorted(sections, key=lambda section: section.order), texts)
    return StudyDocument(record.id, record.file, Outline(title, root, tuple(_items(parts, root))))


@dataclass(slots=True)
class _Part:
    """A heading, or what stands above the first: the section that begins with it, if it is stored, and its texts."""

    path: Path
    section: Section | None = None
    chunks: list[Chunk] = field(default_factory=list)


def _parts(sections: Sequence[Section], chunks: Sequence[Chunk]) -> list[_Part]:
    """The headings in the order in which they stand, with those above them that are only known by name."""
    parts: dict[Path, _Part] = {}
    first = {section.id: section for section in reversed(sections)}
    whose: dict[Path, Section] = {}
    for section in first.values():
        whose[section.place.headings] = section
    placed = sorted(
        [(section.place.lines.first, section.place.headings) for section in sections]
        + [(chunk.place.lines.first, chunk.place.headings) for chunk in chunks]
    )
    for _, path in placed:
        for depth in range(len(path) + 1):
            parts.setdefault(path[:depth], _Part(path[:depth], whose.get(path[:depth])))
    for chunk in chunks:
        parts[chunk.place.headings].chunks.append(chunk)
    return list(parts.values())


def _items(parts: Sequence[_Part], root: Heading) -> Iterator[Item]:
    headings: dict[Path, Heading] = {(): root}
    for part in parts:
        if part.path:
            headings[part.path] = _heading(part, headings[part.path[:-1]], parts)
            yield headings[part.path]
        yield from _texts(part.chunks, headings[part.path])


def _heading(part: _Part, above: Heading, parts: Sequence[_Part]) -> Heading:
    inside = [chunk for each in parts if each.path[: len(part.path)] == part.path for chunk in each.chunks]
    if part.section is not None:
        own, level = dict(part.section.metadata), part.section.level
        if not _is_typed(part):
            own.pop("type", None)
    else:
        own, level = _shared([_own(chunk, above) for chunk in inside]), above.level + 1
    line = part.section.place.lines.first if part.section else min((c.place.lines.first for c in inside), default=1)
    return Heading(part.path[-1], level, part.path, line, own=own, all=_inherited(above.all, own))


def _is_typed(part: _Part) -> bool:
    """Whether a type in a section's metadata is its heading's: it may be that of all its texts. Then the first of them
    stands some lines below the heading, because a metadata block is between them."""
    assert part.section is not None
    first = min((chunk.place.lines.first for chunk in part.chunks), default=0)
    return first - part.section.place.lines.first < _BLOCK


def _texts(chunks: Sequence[Chunk], heading: Heading) -> Iterator[Text]:
    """The texts, those put together again that were cut for being long."""
    last: Text | None = None
    for chunk in chunks:
        own, lines = _own(chunk, heading), chunk.place.lines
        if last is not None and last.own == own and lines.first <= last.lines.last + 2:  # a blank line between them
            whole = f"{last.text}\n\n{chunk.text}"
            last = Text(whole, Lines(last.lines.first, lines.last), heading, 0, own, own)
            continue
        if last is not None:
            yield last
        last = Text(chunk.text, lines, heading, 0, own, own)
    if last is not None:
        yield last


def _own(chunk: Chunk, heading: Heading) -> dict[str, Any]:
    """What a text's metadata say beyond what it inherits."""
    own = {name: value for name, value in chunk.metadata.items() if heading.all.get(name, _MISSING) != value}
    if chunk.kind != type_in(own, type_in(heading.all)):
        own["type"] = chunk.kind
    return own


def _shared(of: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them say."""
    first, *others = of or [{}]
    return {name: value for name, value in first.items() if all(other.get(name, _MISSING) == value for other in others)}


def _inherited(above: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    return {**above, **{name: value for name, value in own.items() if name != _SUMMARY}}
