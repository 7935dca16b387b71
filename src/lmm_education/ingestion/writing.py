"""Write documents to a store: prepared in groups, encoded together, published from time to time.

The order of the calls matters on a server, which has no transactions: there, the record of a document is marked as
unfinished first and completed last, so that a run that was cut off is done again; sections come before the
chunks that name them, and what is out of date goes when what replaces it is there.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from lmm.errors import ModelError, ModelRejected
from lmm_education.encode.encoder import Vectors
from lmm_education.encodings import SPARSE
from lmm_education.frequencies import Frequencies
from lmm_education.ingestion.plan import PlannedDocument, changes
from lmm_education.ingestion.reports import Embedding
from lmm_education.ingestion.run import IngestRun, end_prepared, end_unchanged, prepare_file
from lmm_education.ingestion.stored import BATCH, remove, stored_documents
from lmm_education.material import SparseVector, batches
from lmm_education.payloads import Payload, document_payload, document_point_id
from lmm_education.store.port import SECTIONS, Match, Point, Reader, Writer

GROUP = 512  # chunks of the documents that are written together
# A run publishes from time to time, so that little is lost if it is killed. Publishing costs the embedded store
# a copy of what is not shared; it should stay below a tenth of the run.
PUBLISH_EVERY, PUBLISH_SHARE = 5.0, 10.0  # seconds; times what publishing took


class _NothingToWrite(Exception):
    """Raised if every document failed, or one that a rebuilt store needs."""


def write(run: IngestRun, pending: deque[PlannedDocument], pruned: Sequence[str]) -> None:
    """Write what changed, and publish it from time to time; a rebuilt store is published once."""
    course, anew, least = run.course, run.report.rebuilt, PUBLISH_EVERY
    while True:
        begun = ended = time.monotonic()
        with contextlib.suppress(_NothingToWrite), course.store.writing(course.manifest, anew=anew) as writer:
            opened, written = time.monotonic() - begun, 0
            if not anew:
                _report_stored(run, pending)
            while pending:
                written += _write_group(run, writer, next_group(run, writer, pending))
                if not anew and time.monotonic() - begun > least:
                    break
            if anew and run.report.failed:
                run.report.notices.append("the store is unchanged, because some of its documents could not be ingested")
                raise _NothingToWrite
            if pruned and not pending and not anew:
                remove(writer, pruned)
            ended = time.monotonic()
            if not written and (pending or not pruned):
                raise _NothingToWrite  # an embedded store stays the generation that it is
        least = max(PUBLISH_EVERY, PUBLISH_SHARE * (opened + time.monotonic() - ended))
        if not pending:
            return


def _report_stored(run: IngestRun, pending: deque[PlannedDocument]) -> None:
    """Report and drop pending documents that need not be written, now that the lock is held: another run may
    have stored some since the plan was made."""
    stored = {each.id: each for each in stored_documents(run.course.store)}
    for _ in range(len(pending)):
        planned = pending.popleft()
        planned.stored = stored.get(planned.document.id)
        planned.replaces = tuple(id for id in planned.replaces if id in stored)
        if planned.is_stored and not run.options.again:
            end_unchanged(run, planned)
        else:
            pending.append(planned)


def next_group(run: IngestRun, reader: Reader, pending: deque[PlannedDocument]) -> list[PlannedDocument]:
    """Prepare the next documents, as many as are together worth a call of the embedding model, and compare them with
    what is stored of them."""
    group, chunks = list[PlannedDocument](), 0
    while pending and chunks < GROUP and len(group) < BATCH:
        planned = pending.popleft()
        if prepare_file(run, planned):
            group.append(planned)
            chunks += len(planned.prepared.chunks)
    # New documents are not looked up in the store.
    known = [item.document.id for item in group if item.stored is not None and not run.report.rebuilt]
    stored: dict[str, dict[str, Payload]] = {docid: {} for docid in known}
    for some in batches(known, BATCH):
        own = Match("document", tuple(some))
        for point in chain(reader.scroll("chunks", where=[own]), reader.scroll("documents", where=[own, SECTIONS])):
            stored[point.payload["document"]][point.id] = point.payload
    encoder, seen = run.course.encoder, set[str]()
    for item in group:
        prepared = item.prepared
        hashes = {chunk.id: encoder.hash_of(chunk, language=prepared.language) for chunk in prepared.chunks}
        item.changes = changes(prepared, stored.get(prepared.id, {}), hashes, again=run.options.again)
        first = {item.hash_of(chunk) for chunk in item.changes.encode if encoder.vectors} - seen
        seen |= first
        item.embedded, item.reused = len(first), len(item.changes.encode) - len(first) if encoder.vectors else 0
    return group


def _write_group(run: IngestRun, writer: Writer, group: Sequence[PlannedDocument]) -> int:
    """Write a group of documents, and return how many were written. If the model refuses some, the others go on."""
    failed = run.model_error
    if failed is None:
        try:
            _encode_and_write(run, writer, group)
        except ModelError as error:
            if len(group) > 1 and isinstance(error, ModelRejected):
                return sum(_write_group(run, writer, [item]) for item in group)
            run.model_error, failed = None if isinstance(error, ModelRejected) else error, error
    for item in group:
        if failed is None:
            end_prepared(run, item)
        else:
            run.end(item.document.source, "failed", error=failed)
    return 0 if failed else len(group)


def _encode_and_write(run: IngestRun, writer: Writer, group: Sequence[PlannedDocument]) -> None:
    """Encode and write documents, those of one group together; equal chunks are encoded once.

    Raises:
        ModelError: the embedding model failed; nothing of the group was written that replaces what was there.
    """
    path = group[0].document.source.path if group else Path()
    to_embed = {item.hash_of(chunk): (chunk, item.prepared.language) for item in group for chunk in item.changes.encode}
    vectors = dict[str, Vectors]()  # by the hash of what is embedded
    for part in batches(to_embed.items(), BATCH):
        before = len(vectors)

        def report_progress(done: int, texts: int, before: int = before, chunks: int = len(part)) -> None:
            run.listener(Embedding(path, before + chunks * done // texts, len(to_embed)))

        chunks, languages = [chunk for _, (chunk, _) in part], [language for _, (_, language) in part]
        made = run.course.encoder.encode(chunks, language=languages, on_progress=report_progress)
        vectors.update(zip((hash for hash, _ in part), made, strict=True))
        run.listener(Embedding(path, len(vectors), len(to_embed)))
    if not writer.is_atomic:
        _mark(writer, group)
    writer.upsert("documents", [Point(id, p) for item in group for id, p in item.changes.sections.items()])
    encoded = {chunk.id: vectors[item.hash_of(chunk)] for item in group for chunk in item.changes.encode}
    payloads = {id: payload for item in group for id, payload in item.changes.payloads.items()}
    writer.upsert("chunks", (Point(id, payloads[id], made) for id, made in encoded.items()))
    writer.set_payload("chunks", {id: payload for id, payload in payloads.items() if id not in encoded})
    writer.delete("chunks", [id for item in group for id in item.changes.removed])
    writer.delete("documents", [id for item in group for id in item.changes.removed_sections])
    if replaced := [id for item in group for id in item.replaces]:
        remove(writer, replaced)
    unembedded = [chunk.id for item in group for chunk in item.prepared.chunks if chunk.id not in encoded]
    known = encoded | {
        point.id: point.vectors for point in writer.get("chunks", unembedded, fields=False, vectors=True)
    }
    words = dict[str, Frequencies]()
    for item in group:
        sparse = (known.get(chunk.id, {}).get(SPARSE) for chunk in item.prepared.chunks)
        words[item.prepared.id] = Frequencies.of(each for each in sparse if isinstance(each, SparseVector))
    _mark(writer, group, words)


def _mark(writer: Writer, group: Sequence[PlannedDocument], finished: Mapping[str, Frequencies] | None = None) -> None:
    """Write the documents' records: as unfinished, or, with the document frequencies of each, as finished."""
    records = []
    for item in group:
        prepared, text_hash = item.prepared, item.document.text_hash
        if finished is not None:
            hash, words = item.document.hash, finished[prepared.id]
        else:
            hash, words = "", Frequencies()
            if item.stored is not None:  # what is there was written for other readers
                prepared = replace(prepared, withhold=item.stored.withhold)
        payload = document_payload(prepared, hash=hash, text_hash=text_hash, words=words)
        records.append(Point(document_point_id(prepared.id), payload))
    writer.upsert("documents", records)
