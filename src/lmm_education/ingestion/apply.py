"""Carry out a plan: prepare what changed, in groups; encode and write each; publish, again and again; report.

The order of the calls matters on a server, which has no transactions: there, the record of a document is marked as
unfinished first and completed last, so that a run that was cut off is done again; sections come before the
chunks that name them, and what is out of date goes when what replaces it is there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

from lmm.config import ANNOTATIONS
from lmm.disk.folder import Folder
from lmm.document import Document
from lmm.errors import ConfigError, Failure, LmmError, ModelError, ModelRejected
from lmm.markdown.parse_markdown import header_values
from lmm.messages import Waiting
from lmm.models.tokens import count_tokens
from lmm.notebook.problems import unread
from lmm.notebook.staleness import STALE
from lmm_education.audience import EVERYONE, TEACHER
from lmm_education.books.chapters import Books
from lmm_education.encode.bm25 import language_code
from lmm_education.encode.encoder import ENGLISH_ONLY, MULTILINGUAL, Vectors
from lmm_education.encodings import ENCODINGS, SPARSE
from lmm_education.errors import IngestError, StoreError, StoreMissing, UnreadableMetadata
from lmm_education.frequencies import Frequencies
from lmm_education.ingestion.findings import warnings
from lmm_education.ingestion.near_types import parsed
from lmm_education.ingestion.plan import (
    Annotating,
    DocumentFile,
    DocumentReport,
    Embedding,
    Ended,
    IngestPlan,
    IngestReport,
    Listener,
    Lost,
    PlannedDocument,
    Read,
    Skipped,
    State,
    changes,
    error_of,
    read_file,
)
from lmm_education.ingestion.prepare import Steps, prepare_steps
from lmm_education.ingestion.prepared import prepared_text, sealed, step_files, write_step_files
from lmm_education.ingestion.source_files import SourceFile
from lmm_education.material import PreparedDocument, SparseVector
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import Payload, StoredDocument, document_of, document_payload, document_point_id
from lmm_education.store.layout import check_same
from lmm_education.store.port import SECTIONS, CollectionName, Match, Point, Reader, Store, Writer

BATCH = 256  # chunks that are encoded at once; documents that are asked for at once
LARGE = 0.5  # MB of documents from which a model that reads sentences takes half a minute and more
GROUP = 512  # chunks of the documents that are written together
# A run publishes from time to time, so that little is lost if it is killed. Publishing costs the embedded store
# a copy of what is not shared; it should stay below a tenth of the run.
PUBLISH_EVERY, PUBLISH_SHARE = 5.0, 10.0  # seconds; times what publishing took
T = TypeVar("T")


@dataclass(slots=True)
class IngestRun:
    """The state shared by the steps of one ingestion.

    `stamp` goes into documents' hashes; `stored` are those in the store; `unannotated` counts annotations that are
    missing or stale; `languages` are those of the documents that were prepared; `model_error` is why the embedding
    model is not called any more; `unreadable` are the files that say who may read them in a form that cannot be read;
    `reads` are documents that were read to plan the run, by file, as far as there is room for their texts.
    """

    course: CourseParts
    options: IngestOptions
    listener: Listener
    stamp: str = ""
    stored: Collection[str] = ()
    books: Books = field(default_factory=Books)
    report: IngestReport = field(default_factory=IngestReport)
    unannotated: int = 0
    languages: set[str] = field(default_factory=set)
    model_error: ModelError | None = None
    unreadable: list[str] = field(default_factory=list)
    reads: dict[str, Read] = field(default_factory=dict)
    room: int = 50_000_000  # characters

    def keep(self, read: Read) -> None:
        """Keep a document until it is prepared, so that its file is not read again."""
        self.room -= len(read.text)
        if self.room > 0:
            self.reads[read.document.source.file] = read

    def end(self, document: DocumentReport) -> None:
        """Report a document that is done."""
        self.report.documents.append(document)
        self.listener(Ended(document))

    def fail(self, source: SourceFile, error: LmmError) -> None:
        """Report a document that cannot be ingested."""
        if isinstance(error, UnreadableMetadata):
            self.unreadable.append(source.file)
        self.end(DocumentReport(source.path, source.file, state="failed", error=error))

    def skip(self, source: SourceFile, reason: str) -> None:
        """Report a file that is skipped."""
        self.end(DocumentReport(source.path, source.file, state="skipped", reason=reason))


def apply(run: IngestRun, plan: IngestPlan) -> None:
    """Carry out the plan, and report; with `dry_run`, only report what would be done.

    Raises:
        StoreError: the store cannot be written; an embedded one then has the state that the run last published.
        IngestError: a store cannot be rebuilt, because some of its documents are gone.
    """
    options = run.options
    for document, error in plan.failed:
        run.fail(document.source, error)
    for document, prepared in plan.replaced:
        run.skip(document.source, f"{prepared.file}, made from it, is ingested in its place")
        if document.text_hash != prepared.made_of:
            run.report.notices.append(
                f"{document.file} has changed since {prepared.file} was made, which is ingested in its place: make it "
                f"again (lmm ingest --save-files --no-ingest {document.source.path}), or remove it"
            )
    for planned in plan.unchanged:
        _leave(run, planned)
    run.report.lost += [Lost(gone.id, gone.file, options.prune) for gone in plan.gone]
    if run.report.rebuilt and plan.gone and not options.prune:
        raise IngestError(
            f"the store cannot be rebuilt: of its documents, {len(plan.gone)} cannot be found",
            where=plan.gone[0].file,
            hint="--prune continues without them",
        )
    pruned = [gone.id for gone in plan.gone] if options.prune else []
    if not options.dry_run and not run.report.rebuilt:
        withhold(run)
    if options.dry_run:
        _estimate(run, plan.changed)
    elif plan.changed or pruned:
        size = sum(planned.document.source.path.stat().st_size for planned in plan.changed) / 1e6
        if size > LARGE and (faster := run.course.faster_note):  # told before it begins, with the line that spares it
            run.listener(Waiting(f"{size:.1f} MB to embed with {faster}"))
        _write(run, plan.changed, pruned)


def _leave(run: IngestRun, planned: PlannedDocument) -> None:
    """Report a document that is unchanged in the store, and write its prepared files if they are wanted."""
    document, stored = planned.document, planned.stored
    try:
        read = read_file(document.source, run.stamp, run.books) if run.options.save_files else None
        saved = save_steps(run, read, prepare(read, run.course)) if isinstance(read, Read) else ()
    except LmmError as error:
        run.fail(document.source, error)
        return
    chunks, sections = (stored.chunks, stored.sections) if stored else (0, 0)
    run.end(report_of(document, "unchanged", chunks=chunks, sections=sections, saved=saved))


def report_of(document: DocumentFile, state: State, **values: Any) -> DocumentReport:
    """Return the report of a document that was read."""
    return DocumentReport(document.source.path, document.file, document.id, state, **values)


# -- preparing -------------------------------------------------------------------------------------


def report_written(planned: PlannedDocument, state: State | None = None) -> DocumentReport:
    """Return the report of a document that was prepared, and perhaps written."""
    prepared = planned.prepared
    return report_of(
        planned.document,
        state or ("changed" if planned.stored or planned.replaces else "new"),
        chunks=len(prepared.chunks),
        sections=len(prepared.sections),
        embedded=planned.embedded,
        reused=planned.reused,
        updated=len(planned.changes.updated),
        removed=len(planned.changes.removed),
        moved_from=planned.moved_from,
        saved=planned.saved,
        withheld=prepared.withheld,
    )


def prepare_file(run: IngestRun, planned: PlannedDocument) -> bool:
    """Prepare a document from its current file, and write its prepared files; return False if that failed."""
    document = planned.document
    try:
        read = run.reads.pop(document.source.file, None) or read_file(document.source, run.stamp, run.books)
        if isinstance(read, Skipped) or read.document.id != document.id:
            hint = "run it again"
            raise IngestError("this file became another document during the run", where=document.file, hint=hint)
        steps, failures = prepare(read, run.course), list[Failure]()
        planned.document, planned.prepared = read.document, steps.document
        _take_note(run, read, planned.prepared)
        planned.saved = save_steps(run, read, steps, failures)
        for failure in failures:
            raise error_of(LmmError(f"{failure.what}: {failure.error}"), document.file)
    except LmmError as error:
        run.fail(document.source, error)
        return False
    return True


def prepare(read: Read, course: CourseParts) -> Steps:
    """Run the three steps on a document.

    Raises:
        LmmError: its header asks for something unknown, or its text cannot be cut.
    """
    try:
        return prepare_steps(
            read.text,
            docid=read.document.id,
            file=read.document.file,
            settings=course.settings.preparation,
            count=count_tokens,
            withholding=course.settings.withholding,
            chapter=read.chapter,
            original=read.original,
        )
    except LmmError as error:
        raise error_of(error, read.document.file) from error


def save_steps(run: IngestRun, read: Read, steps: Steps, failures: list[Failure] | None = None) -> tuple[Path, ...]:
    """Write the prepared files of a document, if the options ask for them, and return their paths.

    For a review, missing annotations are made in the prepared document; `failures` gets those that cannot be made.
    """
    document, path = read.document, read.document.source.path
    if not run.options.save_files or run.options.dry_run or document.made_from:
        return ()
    folder = path.parent
    if run.options.output is not None:  # documents of one name in several folders keep apart
        inside = PurePath(document.file.replace("../", "")).parent
        Folder(run.options.output).path(inside)  # or LinkOutside
        folder = run.options.output / inside
    source = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    pooled = prepared_text(steps, read.text, source)
    if failures is not None and run.options.is_review and _missing_annotations(read.text, run.course):
        run.listener(Annotating(path))
        pooled = _annotated(run, Document.from_text(pooled, path=path, config=run.course.config), failures)
        lists = prepare(read._replace(text=pooled), run.course)
    else:
        lists = steps
    written, notices = write_step_files(step_files(lists, pooled), folder, docid=document.id, source=source)
    run.report.notices += notices
    return written


def _annotated(run: IngestRun, document: Document, failures: list[Failure]) -> str:
    """Return the text of a prepared document with the missing annotations; collect those that could not be made."""
    try:
        report = document.annotate()
    except ConfigError as error:
        notice = f"only titles were made: {error.message}; set model under [minor] in config.toml"
        run.report.notices += [] if notice in run.report.notices else [notice]
        report = document.annotate(flags=dict.fromkeys(set(ANNOTATIONS) - {"titles"}, False))
    failures += report.failures
    return sealed(document.text)


# -- writing ---------------------------------------------------------------------------------------


class _NothingToWrite(Exception):
    """Raised if every document failed, or one that a rebuilt store needs."""


def _write(run: IngestRun, changed: Sequence[PlannedDocument], pruned: Sequence[str]) -> None:
    """Write what changed, and publish it from time to time; a rebuilt store is published once."""
    course, anew = run.course, run.report.rebuilt
    waiting, least = deque(changed), PUBLISH_EVERY
    while True:
        begun = ended = time.monotonic()
        with contextlib.suppress(_NothingToWrite), course.store.writing(course.manifest, anew=anew) as writer:
            opened, written = time.monotonic() - begun, 0
            if not anew:
                waiting = _not_stored(run, waiting)
            while waiting:
                written += _write_group(run, writer, _planned(run, writer, _next_group(run, waiting)))
                if not anew and time.monotonic() - begun > least:
                    break
            if anew and run.report.failed:
                run.report.notices.append("the store is unchanged, because some of its documents could not be ingested")
                raise _NothingToWrite
            if not waiting and not anew:
                remove(writer, pruned)
            ended = time.monotonic()
            if not written and (waiting or not pruned):
                raise _NothingToWrite  # an embedded store stays the generation that it is
        least = max(PUBLISH_EVERY, PUBLISH_SHARE * (opened + time.monotonic() - ended))
        if not waiting:
            return


def _not_stored(run: IngestRun, waiting: Iterable[PlannedDocument]) -> deque[PlannedDocument]:
    """Return the documents still to be written, now that the lock is held: another run may have stored some since the
    plan was made."""
    stored = {each.id: each for each in stored_documents(run.course.store)}
    missing = deque[PlannedDocument]()
    for planned in waiting:
        replaces = tuple(id for id in planned.replaces if id in stored)
        planned = replace(planned, stored=stored.get(planned.document.id), replaces=replaces)
        if planned.is_stored and not run.options.again:
            _leave(run, planned)
        else:
            missing.append(planned)
    return missing


def _next_group(run: IngestRun, waiting: deque[PlannedDocument]) -> list[PlannedDocument]:
    """Prepare the next documents, as many as are together worth a call of the embedding model."""
    group, chunks = list[PlannedDocument](), 0
    while waiting and chunks < GROUP and len(group) < BATCH:
        planned = replace(waiting.popleft())  # for the whole run, the plan keeps nothing of what is prepared
        if prepare_file(run, planned):
            group.append(planned)
            chunks += len(planned.prepared.chunks)
    return group


def _planned(run: IngestRun, reader: Reader, group: list[PlannedDocument]) -> list[PlannedDocument]:
    """Return the documents of a group, each with its changes; new ones are not looked up in the store."""
    known = [item.document.id for item in group if item.stored is not None and not run.report.rebuilt]
    stored = stored_parts(reader, known)
    encoder, again = run.course.encoder, run.options.again
    for item in group:
        prepared = item.prepared
        hashes = {chunk.id: encoder.hash_of(chunk, language=prepared.language) for chunk in prepared.chunks}
        item.changes = changes(prepared, stored.get(prepared.id, {}), hashes, again=again)
    if encoder.vectors:
        seen = set[str]()
        for item in group:
            first = {item.hash_of(chunk) for chunk in item.changes.encode} - seen
            seen |= first
            item.embedded, item.reused = len(first), len(item.changes.encode) - len(first)
    return group


def _estimate(run: IngestRun, changed: Sequence[PlannedDocument]) -> None:
    """Report what would be written, for a dry run."""
    store = run.course.store
    if not run.report.rebuilt:
        check_same(run.course.manifest, store.manifest(), store.location)
    waiting = deque(changed)
    while waiting:
        for item in _planned(run, store, _next_group(run, waiting)):
            run.end(report_written(item))


def _write_group(run: IngestRun, writer: Writer, group: Sequence[PlannedDocument]) -> int:
    """Write a group of documents, and return how many were written. If the model refuses some, the others go on."""
    if run.model_error is None:
        try:
            _encode_and_write(run, writer, group)
        except ModelError as error:
            if len(group) > 1 and isinstance(error, ModelRejected):
                return sum(_write_group(run, writer, [item]) for item in group)
            run.model_error = None if isinstance(error, ModelRejected) else error
            failed = error
        else:
            for item in group:
                run.end(report_written(item))
            return len(group)
    else:
        failed = run.model_error
    for item in group:
        run.fail(item.document.source, failed)
    return 0


def _encode_and_write(run: IngestRun, writer: Writer, group: Sequence[PlannedDocument]) -> None:
    """Encode and write documents, those of one group together.

    Raises:
        ModelError: the embedding model failed; nothing of the group was written that replaces what was there.
    """
    vectors = _encode(run, group)
    if not writer.is_atomic:
        _mark(writer, group)
    writer.upsert("documents", [Point(id, p) for item in group for id, p in item.changes.sections.items()])
    encoded = ((item, chunk) for item in group for chunk in item.changes.encode)
    points = (Point(c.id, item.changes.payloads[c.id], vectors[item.hash_of(c)]) for item, c in encoded)
    writer.upsert("chunks", points)
    writer.set_payload("chunks", {id: p for item in group for id, p in item.changes.updated.items()})
    writer.delete("chunks", [id for item in group for id in item.changes.removed])
    writer.delete("documents", [id for item in group for id in item.changes.removed_sections])
    remove(writer, [id for item in group for id in item.replaces])
    _mark(writer, group, _words_of(writer, group, vectors))


def _encode(run: IngestRun, group: Sequence[PlannedDocument]) -> dict[str, Vectors]:
    """Return the vectors of the chunks to encode, by the hash of what is embedded: equal chunks are encoded once."""
    path = group[0].document.source.path if group else Path()
    wanted = {item.hash_of(chunk): (chunk, item.prepared.language) for item in group for chunk in item.changes.encode}
    vectors = dict[str, Vectors]()
    for part in batches(list(wanted.items())):
        chunks, languages = [chunk for _, (chunk, _) in part], [language for _, (_, language) in part]
        before = len(vectors)

        def report_progress(done: int, texts: int, before: int = before, chunks: int = len(chunks)) -> None:
            run.listener(Embedding(path, before + chunks * done // texts, len(wanted)))

        made = run.course.encoder.encode(chunks, language=languages, on_progress=report_progress)
        vectors.update(zip((hash for hash, _ in part), made, strict=True))
        run.listener(Embedding(path, len(vectors), len(wanted)))
    return vectors


def _mark(writer: Writer, group: Sequence[PlannedDocument], finished: Mapping[str, Frequencies] | None = None) -> None:
    """Write the documents' records: as unfinished, or, with the document frequencies of each, as finished."""
    records = []
    for item in group:
        prepared = item.prepared
        words = Frequencies() if finished is None else finished[prepared.id]
        hash, stored = "" if finished is None else item.document.hash, item.stored
        if finished is None and stored is not None:  # what is there was written for other readers
            prepared = replace(prepared, withhold=stored.withhold)
        text_hash = item.document.text_hash
        payload = document_payload(prepared, hash=hash, text_hash=text_hash, words=words)
        records.append(Point(document_point_id(prepared.id), payload))
    writer.upsert("documents", records)


def _words_of(
    reader: Reader, group: Sequence[PlannedDocument], vectors: Mapping[str, Vectors]
) -> dict[str, Frequencies]:
    """Return the document frequencies of documents that are written, including unchanged chunks."""
    encoded = {chunk.id: vectors[item.hash_of(chunk)] for item in group for chunk in item.changes.encode}
    kept = [chunk.id for item in group for chunk in item.prepared.chunks if chunk.id not in encoded]
    stored = {point.id: point.vectors for point in reader.get("chunks", kept, fields=False, vectors=True)}
    found = dict[str, Frequencies]()
    for item in group:
        own = ((encoded.get(chunk.id) or stored.get(chunk.id) or {}).get(SPARSE) for chunk in item.prepared.chunks)
        found[item.prepared.id] = Frequencies.of(each for each in own if isinstance(each, SparseVector))
    return found


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split items into pieces of at most `BATCH`.

    >>> [len(piece) for piece in batches(range(600))]
    [256, 256, 88]
    """
    yield from (items[at : at + BATCH] for at in range(0, len(items), BATCH))


# -- what is stored --------------------------------------------------------------------------------


def stored_documents(store: Store) -> list[StoredDocument]:
    """Return the records of all documents in a store, sorted by file; their metadata may be left out."""
    records = store.records() if store.manifest() else None  # which raises if the store cannot be read
    return sorted(map(document_of, records or ()), key=lambda document: document.file)


def stored_parts(reader: Reader, docids: Sequence[str]) -> dict[str, dict[str, Payload]]:
    """Return the stored payloads of some documents' chunks and sections: by docid, then by id."""
    found: dict[str, dict[str, Payload]] = {docid: {} for docid in docids}
    for some in batches(docids):
        own = Match("document", tuple(some))
        sections = reader.scroll("documents", where=[own, SECTIONS])
        for point in chain(reader.scroll("chunks", where=[own]), sections):
            found[point.payload["document"]][point.id] = point.payload
    return found


def withhold(run: IngestRun) -> None:
    """Withhold from students what is stored of documents whose metadata cannot be read, until they are ingested again.

    Raises:
        StoreError: the store cannot be written.
    """
    store, manifest = run.course.store, run.course.store.manifest() if run.unreadable else None
    if manifest is None:
        return
    files = {each.id: each.file for each in stored_documents(store) if each.file in run.unreadable}
    shown = [Match("document", tuple(files)), Match("audience", (EVERYONE,))]
    if not files or not any(store.count(collection, where=shown) for collection in COLLECTIONS):
        return
    with store.writing(manifest) as writer:
        for collection in COLLECTIONS:
            points = {point.id: point.payload for point in writer.scroll(collection, where=shown)}
            writer.set_payload(collection, {id: _hidden(payload) for id, payload in points.items()})
    run.report.notices += [
        f"{file}: what is stored of it is withheld from students until it can be read" for file in files.values()
    ]


def _hidden(payload: Payload) -> Payload:
    """Return the payload of a point that only teachers may see; a record's, so that it is ingested again."""
    return {**payload, "audience": TEACHER, **({"hash": ""} if payload.get("what") == "document" else {})}


COLLECTIONS: tuple[CollectionName, ...] = ("chunks", "documents")


def remove(writer: Writer, docids: Sequence[str]) -> None:
    """Remove all points of some documents, their records last."""
    for some in batches(docids):
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


def is_made_otherwise(course: CourseParts) -> bool:
    """Return whether a store exists that was made with other settings than the current ones."""
    stored = course.store.manifest()
    return stored is not None and bool(stored.differences(course.manifest))


# -- notices for the author ------------------------------------------------------------------------


def _take_note(run: IngestRun, read: Read, prepared: PreparedDocument) -> None:
    """Collect the notices about a document that was prepared."""
    text, path = read.text, read.document.source.path
    run.languages.add(language_code(prepared.language))
    if run.options.ingest and (other := run.course.other_embedding(header_values(text), path)):
        run.report.notices.append(f"{path}: {other}")
    found = [*(unread(parsed(text)) if "---" in text or "\n===" in text else ())]
    found += warnings(read, prepared, run.course.settings.withholding.lasting)
    run.report.notices += [f"{path}:{one.line}: {one.message} ({one.hint})" for one in found]
    if not run.options.is_review:
        run.unannotated += _missing_annotations(text, run.course)


def _missing_annotations(text: str, course: CourseParts) -> int:
    """Count the enabled annotations that are missing or stale in a document; no model is called.

    Titles, made by code from the headings, count only where they add anything: not where headings are embedded anyway,
    or only the content is.
    """
    encoding = ENCODINGS[course.settings.encoding]
    titles = not {"merged", "annotations"}.isdisjoint({encoding.dense, encoding.sparse, *encoding.multi})
    on = {name for name in ANNOTATIONS if getattr(course.models.annotations, name)}
    if not ("RAG" in text or on - {"titles"} or (titles and on)):
        return 0
    visited = Document.from_text(text, config=course.config).annotate(estimate=True).results
    return sum(found.state in STALE and (titles or found.field != "titles") for found in visited)


def add_notices(run: IngestRun) -> None:
    """Add the notices about all documents: missing annotations, languages that the embedding model does not know
    (for the course's own, the encoder has a notice)."""
    if run.unannotated:
        run.report.notices.append(
            f"{run.unannotated} annotations are missing or out of date: make them with "
            "lmm annotate FILE, or ingest with --annotate"
        )
    course = language_code(run.course.settings.preparation.language)
    if not run.options.ingest or course != "en":
        return
    foreign = sorted(run.languages - {"en"})
    if foreign and run.course.encoder.space.startswith(ENGLISH_ONLY):
        run.report.notices.append(
            f"{run.course.encoder.space} supports English only, and there are documents in {', '.join(foreign)}; set a "
            f'multilingual model such as "{MULTILINGUAL}" under [embedding] in config.toml'
        )
