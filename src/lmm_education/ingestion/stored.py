"""The documents in a store: listed, found by name, removed, and withheld from students."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath

from lmm_education.audience import EVERYONE, TEACHER
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.material import batches
from lmm_education.parts import CourseParts
from lmm_education.payloads import Payload, StoredDocument, document_of, document_point_id
from lmm_education.store.port import COLLECTIONS, Match, Store, Writer

BATCH = 256  # documents that are asked for at once


def stored_documents(store: Store) -> list[StoredDocument]:
    """Return the records of all documents in a store, sorted by file; their metadata may be left out."""
    records = store.records() if store.manifest() else None  # which raises if the store cannot be read
    return sorted(map(document_of, records or ()), key=lambda document: document.file)


def withhold_documents(store: Store, files: Collection[str]) -> list[str]:
    """Withhold from students what is stored of the documents in files, until they are ingested again; return those of
    which students could read something.

    Raises:
        StoreError: the store cannot be written.
    """
    manifest = store.manifest()
    documents = {each.id: each.file for each in stored_documents(store) if each.file in files}
    shown = [Match("document", tuple(documents)), Match("audience", (EVERYONE,))]
    if not documents or not manifest or not any(store.count(each, where=shown) for each in COLLECTIONS):
        return []
    with store.writing(manifest) as writer:
        for collection in COLLECTIONS:
            hidden = dict[str, Payload]()
            for point in writer.scroll(collection, where=shown):
                outdated = {"hash": ""} if point.payload.get("what") == "document" else {}  # to be ingested again
                hidden[point.id] = {**point.payload, "audience": TEACHER, **outdated}
            writer.set_payload(collection, hidden)
    return list(documents.values())


def remove(writer: Writer, docids: Sequence[str]) -> None:
    """Remove all points of some documents, their records last."""
    for some in batches(docids, BATCH):
        own = [Match("document", tuple(some))]
        records = [document_point_id(docid) for docid in some]
        sections = (point.id for point in writer.scroll("documents", where=own, fields=False))
        writer.delete("chunks", [point.id for point in writer.scroll("chunks", where=own, fields=False)])
        writer.delete("documents", [id for id in sections if id not in records])
        writer.delete("documents", records)


def find_stored(name: str, known: Sequence[StoredDocument], location: str) -> list[StoredDocument]:
    """Find the documents with this id or file, or in this folder; else the one whose file has this name.

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
    message = f"several documents are named '{name}'" if alike else f"there is no document '{name}'"
    names = ", ".join(each.file for each in (alike or known)[:5]) or "none"
    more = ", …" if len(alike or known) > 5 else ""
    raise StoreError(message, where=location, hint=f"there are: {names}{more}; lmm store status lists them")


def remove_documents(store: Store, names: Iterable[str]) -> list[StoredDocument]:
    """Remove documents from a store, by docid, file, folder or file name, and return them.

    Raises:
        StoreMissing: nothing was ingested.
        StoreError: there is no document of a name, or there are several.
    """
    manifest = store.manifest()
    if manifest is None:
        raise StoreMissing(store.location)
    known = stored_documents(store)
    chosen = list({each.id: each for name in names for each in find_stored(name, known, store.location)}.values())
    with store.writing(manifest) as writer:
        remove(writer, [each.id for each in chosen])
    return chosen


def has_other_settings(course: CourseParts) -> bool:
    """Return whether a store exists that was made with other settings than the current ones."""
    stored = course.store.manifest()
    return stored is not None and bool(stored.differences(course.manifest))
