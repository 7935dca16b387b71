"""Write prepared documents into a store: what is missing is embedded, what is known is moved, the rest goes.

The order of the calls matters on a server, which has no transactions: the record of a document is marked as
unfinished first and completed last, so that a run that was cut off is done again; sections come before the
chunks that name them, and what is out of date goes when what replaces it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from typing import TypeVar

from lmm_education.encode.encoder import Encoder
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.frequencies import Frequencies
from lmm_education.ingestion.changes import Plan, Stored, plan_changes
from lmm_education.ingestion.ids import document_point_id
from lmm_education.material import Chunk, PreparedDocument, SparseVector
from lmm_education.payloads import RECORD, StoredDocument, document_of, document_payload
from lmm_education.store.port import Match, Point, Reader, Store, Vector, Writer

BATCH = 256  # chunks that are encoded and written at once
# A look for known vectors goes through all points of a store, 2 µs each; the fastest model embeds a chunk in 0.5 ms.
_POINTS_A_CHUNK = 250
Vectors = Mapping[str, Vector]
T = TypeVar("T")


@dataclass(slots=True)
class Pending:
    """A document on its way into the store. `replaces` is the identity that it had before, if that changed."""

    document: PreparedDocument
    hash: str
    prepared: str = ""
    replaces: str = ""
    plan: Plan = field(default_factory=lambda: Plan((), {}, (), {}, ()))
    embedded: int = 0
    reused: int = 0


# -- what is stored --------------------------------------------------------------------------------


def stored_documents(reader: Reader) -> list[StoredDocument]:
    """The records of all documents in a store, by file."""
    points = reader.scroll("documents", where=[Match("what", ("document",))], fields=RECORD)
    return sorted((document_of(point.payload) for point in points), key=lambda document: document.file)


def stored_parts(reader: Reader, docid: str) -> Stored:
    """What a store has of a document."""
    own = Match("document", (docid,))
    chunks = {point.id: point.payload for point in reader.scroll("chunks", where=[own])}
    sections = reader.scroll("documents", where=[own, Match("what", ("section",))])
    return Stored(chunks, {point.id: point.payload for point in sections})


def plan_document(reader: Reader, pending: Pending, encoder: Encoder, *, again: bool) -> None:
    """Find out what is to be written for a document."""
    document = pending.document
    hashes = {chunk.id: encoder.hash_of(chunk, language=document.language) for chunk in document.chunks}
    pending.plan = plan_changes(stored_parts(reader, document.id), document, hashes, again=again)


def find_stored(name: str, known: Sequence[StoredDocument], location: str) -> list[StoredDocument]:
    """The documents with this id or file, or in this folder; else the one whose file has this name.

    Raises:
        StoreError: there is none, or there are several of that file name.
    """
    if exact := [each for each in known if name in (each.id, each.file)]:
        return exact
    if inside := [each for each in known if PurePosixPath(each.file).is_relative_to(name)]:
        return inside
    alike = [each for each in known if PurePosixPath(each.file).name == name]
    if len(alike) == 1:
        return alike
    message = f"several documents are called '{name}'" if alike else f"there is no document '{name}'"
    names = ", ".join(each.file for each in (alike or known)[:5]) or "none"
    more = ", …" if len(alike or known) > 5 else ""
    raise StoreError(message, where=location, hint=f"there are: {names}{more}; lmm store status lists them")


def remove_documents(store: Store, names: Iterable[str]) -> list[StoredDocument]:
    """Remove documents from a store, by docid, file, folder or the file's name; those that were removed.

    Raises:
        StoreMissing: nothing was ingested.
        StoreError: there is no document of a name, or there are several.
    """
    manifest = store.manifest()
    if manifest is None:
        hint = "make a store with: lmm ingest PATH"
        raise StoreMissing("nothing was ingested yet", where=store.location, hint=hint)
    known = stored_documents(store)
    chosen = list({each.id: each for name in names for each in find_stored(name, known, store.location)}.values())
    with store.writing(manifest) as writer:
        for each in chosen:
            remove_document(writer, each.id)
    return chosen


# -- writing ---------------------------------------------------------------------------------------


def write_documents(
    writer: Writer,
    group: Sequence[Pending],
    encoder: Encoder,
    *,
    again: bool = False,
    on_embedded: Callable[[int], None] = lambda count: None,
) -> None:
    """Write documents that have a plan, those of one group together.

    Raises:
        ModelError: the embedding model failed; nothing of the group was written that replaces what was there.
    """
    known = {} if again else known_vectors(writer, group)
    vectors = _encode(group, known, encoder, on_embedded)
    _mark(writer, group)
    writer.upsert("documents", [Point(id, p) for item in group for id, p in item.plan.sections.items()])
    writer.upsert("chunks", _points(group, vectors))
    writer.set_payload("chunks", {id: p for item in group for id, p in item.plan.updated.items()})
    writer.delete("chunks", [id for item in group for id in item.plan.removed])
    writer.delete("documents", [id for item in group for id in item.plan.removed_sections])
    for item in group:
        if item.replaces:
            remove_document(writer, item.replaces)
    _mark(writer, group, {item.document.id: _words_of(writer, item, vectors) for item in group})


def remove_document(writer: Writer, docid: str) -> None:
    """Remove everything of a document, its record last."""
    parts = stored_parts(writer, docid)
    writer.delete("chunks", list(parts.chunks))
    writer.delete("documents", list(parts.sections))
    writer.delete("documents", [document_point_id(docid)])


def _mark(writer: Writer, group: Sequence[Pending], finished: Mapping[str, Frequencies] | None = None) -> None:
    """Write the documents' records: as unfinished, or, with the document frequencies of each, as finished."""
    records = []
    for item in group:
        if finished is None:
            payload = document_payload(item.document, hash="", prepared=item.prepared)
        else:
            words = finished[item.document.id]
            payload = document_payload(item.document, hash=item.hash, prepared=item.prepared, words=words)
        records.append(Point(document_point_id(item.document.id), payload))
    writer.upsert("documents", records)


def _words_of(reader: Reader, item: Pending, vectors: Mapping[str, Vectors]) -> Frequencies:
    """The document frequencies of a document that is written, of chunks that stay as they were too."""
    encoded = {chunk.id: vectors[item.plan.payloads[chunk.id]["hash"]] for chunk in item.plan.encode}
    kept = [chunk.id for chunk in item.document.chunks if chunk.id not in encoded]
    stored = (point.vectors for point in reader.get("chunks", kept, fields=False, vectors=True))
    words = (each.get("sparse") for each in chain(encoded.values(), stored))
    return Frequencies.of(each for each in words if isinstance(each, SparseVector))


def _points(group: Sequence[Pending], vectors: Mapping[str, Vectors]) -> Iterator[Point]:
    for item in group:
        for chunk in item.plan.encode:
            payload = item.plan.payloads[chunk.id]
            yield Point(chunk.id, payload, vectors[payload["hash"]])


# -- vectors ---------------------------------------------------------------------------------------


def _wanted(group: Sequence[Pending]) -> dict[str, tuple[Chunk, str]]:
    """The chunks to encode with their language, by the hash of what is embedded: one of each that are alike."""
    return {
        item.plan.payloads[chunk.id]["hash"]: (chunk, item.document.language)
        for item in group
        for chunk in item.plan.encode
    }


def known_vectors(reader: Reader, group: Sequence[Pending]) -> dict[str, Vectors]:
    """The vectors, by hash, that stored chunks have and chunks to encode will have, wherever they stand.

    In a large store that is looked for only where it is less work than embedding the chunks anew; among the
    chunks of a document that got another identity, always.
    """
    wanted, found = sorted(_wanted(group)), dict[str, Vectors]()
    replaced = tuple(item.replaces for item in group if item.replaces)
    everywhere = 0 < reader.count("chunks") <= _POINTS_A_CHUNK * len(wanted)
    if not everywhere and not replaced:
        return found
    within = () if everywhere else (Match("document", replaced),)
    for some in batches(wanted):
        where = [Match("hash", tuple(some)), *within]
        for point in reader.scroll("chunks", where=where, fields=("hash",), vectors=True):
            found[point.payload["hash"]] = point.vectors
    return found


def _encode(
    group: Sequence[Pending], known: Mapping[str, Vectors], encoder: Encoder, on_embedded: Callable[[int], None]
) -> dict[str, Vectors]:
    vectors = dict(known)
    missing = {hash: chunk for hash, chunk in _wanted(group).items() if hash not in known}
    for part in batches(list(missing.items())):
        chunks, languages = [chunk for _, (chunk, _) in part], [language for _, (_, language) in part]
        vectors.update(zip((hash for hash, _ in part), encoder.encode(chunks, language=languages), strict=True))
        on_embedded(len(part))
    if encoder.vectors:
        count_embedded(group, known)
    return vectors


def count_embedded(group: Sequence[Pending], known: Mapping[str, Vectors]) -> None:
    """Note with each document how many of its chunks have to be embedded, and of how many the vectors are known."""
    seen = set(known)
    for item in group:
        hashes = [item.plan.payloads[chunk.id]["hash"] for chunk in item.plan.encode]
        first = set(hashes) - seen
        seen |= first
        item.embedded, item.reused = len(first), len(hashes) - len(first)


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in pieces of at most `BATCH`.

    >>> [len(piece) for piece in batches(range(600))]
    [256, 256, 88]
    """
    yield from (items[at : at + BATCH] for at in range(0, len(items), BATCH))
