"""Ingest documents: find the files, read them, plan what must change; prepare it in groups, encode and write each.

A document that cannot be read, prepared or encoded is reported, and the others go on. A failure of the
store ends the run; an embedded store then has the state that the run last published.

The order of the calls matters on a server, which has no transactions: there, the record of a document is marked as
unfinished first and completed last, so that a run that was cut off is done again; sections come before the
chunks that name them, and what is out of date goes when what replaces it is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath

import msgspec

from lmm.config import ANNOTATIONS, EmbeddingSettings
from lmm.disk import files
from lmm.disk.folder import SUFFIXES, Folder, check_named, walk
from lmm.document import Document
from lmm.errors import ConfigError, Failure, LmmError, ModelError, ModelRejected
from lmm.importing.formats import FORMATS, suffix_of
from lmm.markdown.parse_markdown import header_values
from lmm.messages import Waiting
from lmm.models.tokens import count_tokens
from lmm.notebook.problems import unread
from lmm.notebook.staleness import STALE
from lmm_education.audience import EVERYONE, TEACHER
from lmm_education.books.chapters import Books
from lmm_education.catalogue import source_state
from lmm_education.encode.bm25 import WORDS_FORMAT, language_code
from lmm_education.encode.encoder import ENGLISH_ONLY, MULTILINGUAL, Vectors
from lmm_education.encodings import ENCODINGS, SPARSE
from lmm_education.errors import (
    IngestError,
    StoreDamaged,
    StoreError,
    StoreMissing,
    StoreOutdated,
    UnreadableMetadata,
    other_courses,
)
from lmm_education.frequencies import Frequencies
from lmm_education.ingestion.findings import warnings
from lmm_education.ingestion.known_files import KnownFiles, state_of
from lmm_education.ingestion.near_types import parsed
from lmm_education.ingestion.plan import (
    DocumentFile,
    IngestPlan,
    PlannedDocument,
    changes,
    error_of,
    errors_naming,
    ids_by_file_of,
    plan_ingest,
    read_file,
)
from lmm_education.ingestion.prepare import PREPARED_FORMAT, prepare_document
from lmm_education.ingestion.prepared import prepared_text, sealed, step_files, write_step_files
from lmm_education.ingestion.reports import (
    Annotating,
    Begun,
    DocumentReport,
    Embedding,
    Ended,
    IngestReport,
    Listener,
    Lost,
    State,
    ignore,
)
from lmm_education.ingestion.source_files import (
    MARK,
    POOLED,
    SourceFile,
    SourceFiles,
    add_sources,
    display_path,
    find_sources,
    original,
)
from lmm_education.material import PreparedDocument, SparseVector, batches
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import Payload, StoredDocument, document_of, document_payload, document_point_id
from lmm_education.store.port import COLLECTIONS, FORMAT, SECTIONS, Match, Point, Reader, Store, Writer, check_same

BATCH = 256  # chunks that are encoded at once; documents that are asked for at once
LARGE = 0.5  # MB of documents from which a model that reads sentences takes half a minute and more
GROUP = 512  # chunks of the documents that are written together
# A run publishes from time to time, so that little is lost if it is killed. Publishing costs the embedded store
# a copy of what is not shared; it should stay below a tenth of the run.
PUBLISH_EVERY, PUBLISH_SHARE = 5.0, 10.0  # seconds; times what publishing took


@dataclass(slots=True)
class IngestRun:
    """The state shared by the steps of one ingestion.

    `stamp` goes into documents' hashes; `stored` are those in the store; `unannotated` counts annotations that are
    missing or stale; `languages` are those of the documents that were prepared; `model_error` is why the embedding
    model is not called any more; `known` are files that need not be read; `room` is how
    much text of documents may still be kept until they are prepared.
    """

    course: CourseParts
    options: IngestOptions
    listener: Listener = ignore
    known: KnownFiles | None = None
    stamp: str = ""
    stored: Collection[str] = ()
    books: Books = field(default_factory=Books)
    report: IngestReport = field(default_factory=IngestReport)
    unannotated: int = 0
    languages: set[str] = field(default_factory=set)
    model_error: ModelError | None = None
    room: int = 50_000_000  # characters

    def end(self, document: DocumentReport) -> None:
        """Report a document that is done."""
        self.report.documents.append(document)
        self.listener(Ended(document))

    def fail(self, source: SourceFile, error: LmmError) -> None:
        """Report a document that cannot be ingested."""
        self.end(DocumentReport(source.path, source.file, state="failed", error=error))

    def skip(self, source: SourceFile, reason: str) -> None:
        """Report a file that is skipped."""
        self.end(DocumentReport(source.path, source.file, state="skipped", reason=reason))


def ingest_into(
    course: CourseParts,
    paths: Iterable[str | Path],
    options: IngestOptions = IngestOptions(),
    *,
    listener: Listener = ignore,
) -> IngestReport:
    """Prepare the documents at some paths and store them.

    Raises:
        StoreError: the store cannot be read or written, or was made with other settings.
        LinkOutside: the folder for the files is a link that leads out of its parent folder.
    """
    with (
        course.store.reporting(lambda sentence: listener(Waiting(sentence)))
        if options.ingest
        else contextlib.nullcontext()
    ):
        if options.output is not None:
            check_named(options.output)
        return _ingest(IngestRun(course, options, listener), paths)


def _ingest(run: IngestRun, paths: Iterable[str | Path]) -> IngestReport:
    started, course, options = time.perf_counter(), run.course, run.options
    sources = _sources(course.root, paths, prepared=not options.save_files)
    if options.ingest:
        course.beginning = course.beginning or _first_embedding(course, sources.documents)
        run.stamp = _stamp_of(course)
        run.known = KnownFiles(course.root, run.stamp) if not options.annotate else None
    stored = _stored(run) if options.ingest else []
    if options.ingest and not stored and (beside := other_courses(course.store.location)):
        run.report.notices.append(
            f"'{course.settings.storage.course}' is new; there are stores of other courses: {', '.join(beside)}"
        )
    run.stored = {document.hash for document in stored}
    run.report.dry_run = options.dry_run
    if options.prune:
        sources.allow_gone(document.file for document in stored)
    run.report.errors += sources.errors
    for path, reason in sources.skipped:
        run.skip(SourceFile(path, str(path)), reason)
    if run.report.rebuilt:  # what is stored in another way is of no use: every document has to come along
        named = {source.file for source in sources.documents if source.named}
        others = [document.file for document in stored if document.file not in named]
        if not stored:
            run.report.notices.append(
                "it is not known which documents the damaged store had; those you gave are in it now"
            )
        for file in others:  # a store may come from a stranger
            if not (course.root / file).resolve().is_relative_to(course.root.resolve()):
                hint = "give it on the command line, with the folder of the others"
                raise IngestError(
                    "the store contains this document, which is outside of the course", where=file, hint=hint
                )
        add_sources(sources, others, course.root)
    run.listener(Begun(len(sources.documents)))
    documents = [document for source in sources.documents if (document := _read(run, source)) is not None]
    if run.known is not None:
        run.known.save()
    if options.ingest:
        run.report.location = course.store.location
        ids_by_file = ids_by_file_of(stored, documents, course.root)
        again = options.again or run.report.rebuilt
        apply(run, plan_ingest(documents, stored, ids_by_file=ids_by_file, covers=sources.covers, again=again))
    else:
        for planned in map(PlannedDocument, documents):
            if prepare_file(run, planned):
                end_written(run, planned, "prepared")
    add_notices(run)
    if not (run.report.documents or run.report.errors or run.report.lost):
        run.report.notices.append(_nothing_here(course.root, sources.folders))
    run.report.documents.sort(key=lambda document: document.file)
    run.report.seconds = time.perf_counter() - started
    return run.report


def _nothing_here(root: Path, folders: Iterable[str]) -> str:
    """Return a notice that folders contain no documents, with the files that `lmm import` would make some of."""
    tops = [(root / folder).resolve() for folder in folders]
    others = [
        shlex.quote(str(display_path(top.joinpath(*entry.parts))))
        for top in tops
        for entry in walk(top, top, depth=None)
        if entry.kind == "file" and not entry.excluded and suffix_of(entry.name) in FORMATS
    ]
    ending = f"there is nothing to ingest here; names of documents end in {', '.join(SUFFIXES)}"
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    return f"{ending}; lmm import turns others into documents: {', '.join(others[:5])}{more}" if others else ending


def _sources(root: Path, paths: Iterable[str | Path], *, prepared: bool = True) -> SourceFiles:
    """Return the documents at some paths; with `prepared`, also the prepared ones beside those that were named."""
    sources = find_sources(paths, root)
    if prepared:
        named = [source.file for source in sources.documents if source.named]
        prepared_files = {f"{PurePosixPath(file).with_suffix('')}{POOLED}": root / file for file in named}
        add_sources(sources, [each for each, path in prepared_files.items() if original(root / each) == path], root)
    return sources


def _first_embedding(course: CourseParts, sources: Iterable[SourceFile]) -> EmbeddingSettings | None:
    """Return the first embedding model in the headers of documents that begin a course; None if it has begun, or if its
    model was chosen."""
    if course.embedder is not None or course.models.is_chosen("embedding"):
        return None
    with contextlib.suppress(StoreError):  # reported where the store is used
        for source in sources if course.store.manifest() is None else ():
            with contextlib.suppress(LmmError):  # reported where the document is read
                header = header_values(files.read_document(source.path))
                if found := course.embedding_in(header, source.path):
                    return found
    return None


def prepare_documents(course: CourseParts, paths: Iterable[str | Path]) -> list[PreparedDocument]:
    """Prepare the documents at some paths; nothing is embedded or written.

    Raises:
        LmmError: one cannot be read or prepared; the error says which, and why.
    """
    sources = _sources(course.root, paths)
    for error in sources.errors:
        raise error
    books = Books()
    reads = [read_file(source, "", books) for source in sources.documents]
    found = [read for read in reads if not isinstance(read, str)]
    replaced = {document.made_from for document in found}
    return [prepare(document, course) for document in found if document.file not in replaced]


def _stamp_of(course: CourseParts) -> str:
    """Return a stamp of everything besides its text that decides what is stored of a document.

    Raises:
        ModelError: the embedding model cannot be opened.
    """
    encoder, preparation = course.encoder, msgspec.to_builtins(course.settings.preparation)
    sparse = encoder.sparse.name if encoder.sparse else ""
    made_by = [FORMAT, version("lmmarkdown"), WORDS_FORMAT, PREPARED_FORMAT]  # another version may cut in another way
    sentences = ["sentences"] if encoder.reads_sentences else []
    study = course.settings.study
    types = [*course.settings.withholding.withheld, "", *study.solutions, "", *study.exercises]
    how = [made_by, preparation, encoder.encoding.name, encoder.space, sparse, *sentences, types]
    return json.dumps(how, sort_keys=True)


def _stored(run: IngestRun) -> list[StoredDocument]:
    """Return the documents in the store, and note in the report whether the store has to be rebuilt.

    Raises:
        StoreDamaged: the store cannot be read, and the run may not rebuild it.
    """
    course, options = run.course, run.options
    if not options.repair:
        try:
            if options.again:
                course.store.check()
            stored = stored_documents(course.store)
            run.report.rebuilt = bool(stored) and options.again and has_other_settings(course)
            return stored
        except StoreMissing:
            return []
        except StoreOutdated as error:
            run.report.notices.append(f"the store is rebuilt from its documents: {error.message}")
        except StoreDamaged:
            if not options.again or options.dry_run:
                raise
    run.report.rebuilt = True
    return [document_of(record) for record in course.store.records() or ()]


def _read(run: IngestRun, source: SourceFile) -> DocumentFile | None:
    """Read the document in a file, after annotating it if the options ask for that; None if there is none, or it
    cannot be read."""
    state = state_of(source) if run.known is not None else ()
    known = run.known.find(source, state) if run.known is not None else None
    if known is not None and run.books.book_of(source.path.absolute()) is None:
        return known
    try:
        read = read_file(source, run.stamp, run.books, prepared=not run.options.save_files, stored=run.stored)
        if run.options.annotate and not run.options.dry_run and not isinstance(read, str):
            run.listener(Annotating(source.path))
            with (
                errors_naming(source.file, source.path),
                Document.open(source.path, config=run.course.config) as document,
            ):
                try:
                    report = document.annotate()
                finally:
                    document.save()
                for failure in report.failures:
                    raise LmmError(f"{failure.what}: {failure.error}")
            read = read_file(source, run.stamp, run.books)
    except LmmError as error:
        run.fail(source, error)
        return None
    if isinstance(read, str):
        run.skip(source, read)
        return None
    if run.known is not None:
        run.known.add(read, state)
    source_is = source_state(read.made_from, read.made_of, run.course.root) if read.made_from else ""
    if source_is == "newer":
        path = shlex.quote(str(display_path(run.course.root / read.made_from)))
        run.report.notices.append(
            f"{read.made_from} has changed since {read.file} was made, which is ingested in its place: make it again "
            f"(lmm ingest --save-files --no-ingest {path}), or remove it"
        )
    elif source_is == "gone":
        run.report.notices.append(
            f"{read.file} was made from {read.made_from}, which is not there: correct 'source' in its header, or "
            f"remove '{MARK}' from it to make it a document of its own"
        )
    run.room -= len(read.text)
    return read if run.room > 0 else replace(read, text="")


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
    for planned in plan.unchanged:
        _report_unchanged(run, planned)
    run.report.lost += [Lost(lost.id, lost.file, options.prune) for lost in plan.missing]
    if run.report.rebuilt and plan.missing and not options.prune:
        raise IngestError(
            f"the store cannot be rebuilt: of its documents, {len(plan.missing)} cannot be found",
            where=plan.missing[0].file,
            hint="--prune continues without them",
        )
    pruned = [lost.id for lost in plan.missing] if options.prune else []
    if not options.dry_run and not run.report.rebuilt:
        withhold(run)
    pending, plan.changed = deque(plan.changed), []  # nothing is kept of what was prepared and written
    if options.dry_run:
        if not run.report.rebuilt:
            check_same(run.course.manifest, run.course.store.manifest(), run.course.store.location)
        while pending:
            for item in _next_group(run, run.course.store, pending):
                end_written(run, item)
    elif pending or pruned:
        size = sum(planned.document.source.path.stat().st_size for planned in pending) / 1e6
        if size > LARGE and (faster := run.course.faster_note):  # told before it begins, with the line that spares it
            run.listener(Waiting(f"{size:.1f} MB to embed with {faster}"))
        _write(run, pending, pruned)


def _report_unchanged(run: IngestRun, planned: PlannedDocument) -> None:
    """Report a document that is unchanged in the store, and write its prepared files if they are wanted."""
    document, stored = planned.document, planned.stored
    try:
        read = read_file(document.source, run.stamp, run.books) if run.options.save_files else ""
        saved = () if isinstance(read, str) else save_steps(run, read, prepare(read, run.course))
    except LmmError as error:
        run.fail(document.source, error)
        return
    chunks, sections = (stored.chunks, stored.sections) if stored else (0, 0)
    done = DocumentReport(
        document.source.path, document.file, document.id, chunks=chunks, sections=sections, saved=saved
    )
    run.end(done)


# -- preparing -------------------------------------------------------------------------------------


def end_written(run: IngestRun, planned: PlannedDocument, state: State | None = None) -> None:
    """Report a document that was prepared, and perhaps written."""
    document, prepared = planned.document, planned.prepared
    run.end(
        DocumentReport(
            document.source.path,
            document.file,
            document.id,
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
    )


def prepare_file(run: IngestRun, planned: PlannedDocument) -> bool:
    """Prepare a document, whose file is read again if its text was not kept, and write its prepared files; return False
    if that failed."""
    document, read = planned.document, planned.document
    try:
        if not document.text:
            again = read_file(document.source, run.stamp, run.books)
            if isinstance(again, str) or again.id != document.id:
                hint = "run it again"
                raise IngestError("this file became another document during the run", where=document.file, hint=hint)
            read = again
        failures = list[Failure]()
        planned.document, planned.prepared = replace(read, text=""), prepare(read, run.course)
        with errors_naming(document.file):
            _collect_notices(run, read, planned.prepared)
        planned.saved = save_steps(run, read, planned.prepared, failures)
        for failure in failures:
            raise error_of(LmmError(f"{failure.what}: {failure.error}"), document.file)
    except LmmError as error:
        run.fail(document.source, error)
        return False
    return True


def prepare(document: DocumentFile, course: CourseParts) -> PreparedDocument:
    """Prepare a document with the settings of a course.

    Raises:
        LmmError: its header asks for something unknown, or its text cannot be cut.
    """
    with errors_naming(document.file):
        return prepare_document(
            document.text,
            docid=document.id,
            file=document.file,
            settings=course.settings.preparation,
            count=count_tokens,
            withholding=course.settings.withholding,
            chapter=document.chapter,
            original=document.original,
        )


def save_steps(
    run: IngestRun, document: DocumentFile, prepared: PreparedDocument, failures: list[Failure] | None = None
) -> tuple[Path, ...]:
    """Write the prepared files of a document, if the options ask for them, and return their paths.

    For a review, missing annotations are made in the prepared document; `failures` gets those that cannot be made.
    """
    path = document.source.path
    if not run.options.save_files or run.options.dry_run:
        return ()
    folder = path.parent
    if run.options.output is not None:  # documents of one name in several folders keep apart
        inside = PurePath(document.file.replace("../", "")).parent
        Folder(run.options.output).path(inside)  # or LinkOutside
        folder = run.options.output / inside
    source = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    kinds = run.course.settings.withholding
    pooled = ""  # of a prepared document, only the lists are written
    if not document.made_from:
        pooled = prepared_text(document.text, source, docid=document.id, file=document.file, kinds=kinds)
    if pooled and failures is not None and run.options.is_review and _missing_annotations(document.text, run.course):
        run.listener(Annotating(path))
        pooled = _annotated(run, Document.from_text(pooled, path=path, config=run.course.config), failures)
        prepared = prepare(replace(document, text=pooled), run.course)
    written, notices = write_step_files(step_files(prepared, pooled), folder, docid=document.id, source=source)
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


def _write(run: IngestRun, pending: deque[PlannedDocument], pruned: Sequence[str]) -> None:
    """Write what changed, and publish it from time to time; a rebuilt store is published once."""
    course, anew, least = run.course, run.report.rebuilt, PUBLISH_EVERY
    while True:
        begun = ended = time.monotonic()
        with contextlib.suppress(_NothingToWrite), course.store.writing(course.manifest, anew=anew) as writer:
            opened, written = time.monotonic() - begun, 0
            if not anew:
                _report_stored(run, pending)
            while pending:
                written += _write_group(run, writer, _next_group(run, writer, pending))
                if not anew and time.monotonic() - begun > least:
                    break
            if anew and run.report.failed:
                run.report.notices.append("the store is unchanged, because some of its documents could not be ingested")
                raise _NothingToWrite
            if not pending and not anew:
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
            _report_unchanged(run, planned)
        else:
            pending.append(planned)


def _next_group(run: IngestRun, reader: Reader, pending: deque[PlannedDocument]) -> list[PlannedDocument]:
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
            end_written(run, item)
        else:
            run.fail(item.document.source, failed)
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
    remove(writer, [id for item in group for id in item.replaces])
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


# -- what is stored --------------------------------------------------------------------------------


def stored_documents(store: Store) -> list[StoredDocument]:
    """Return the records of all documents in a store, sorted by file; their metadata may be left out."""
    records = store.records() if store.manifest() else None  # which raises if the store cannot be read
    return sorted(map(document_of, records or ()), key=lambda document: document.file)


def withhold(run: IngestRun) -> None:
    """Withhold from students what is stored of documents whose metadata cannot be read, until they are ingested again.

    Raises:
        StoreError: the store cannot be written.
    """
    unreadable = [each.file for each in run.report.documents if isinstance(each.error, UnreadableMetadata)]
    store, manifest = run.course.store, run.course.store.manifest() if unreadable else None
    if manifest is None:
        return
    files = {each.id: each.file for each in stored_documents(store) if each.file in unreadable}
    display_path = [Match("document", tuple(files)), Match("audience", (EVERYONE,))]
    if not files or not any(store.count(collection, where=display_path) for collection in COLLECTIONS):
        return
    with store.writing(manifest) as writer:
        for collection in COLLECTIONS:
            hidden = dict[str, Payload]()
            for point in writer.scroll(collection, where=display_path):
                outdated = {"hash": ""} if point.payload.get("what") == "document" else {}  # to be ingested again
                hidden[point.id] = {**point.payload, "audience": TEACHER, **outdated}
            writer.set_payload(collection, hidden)
    run.report.notices += [
        f"{file}: what is stored of it is withheld from students until it can be read" for file in files.values()
    ]


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


# -- notices for the author ------------------------------------------------------------------------


def _collect_notices(run: IngestRun, document: DocumentFile, prepared: PreparedDocument) -> None:
    """Collect the notices about a document that was prepared."""
    text, path = document.text, document.source.path
    run.languages.add(language_code(prepared.language))
    named = run.options.ingest and "embedding" in text
    if named and (other := run.course.other_embedding(header_values(text), path)):
        run.report.notices.append(f"{path}: {other}")
    found = [*(unread(parsed(text)) if "---" in text or "\n===" in text else ())]
    found += warnings(document, prepared, run.course.settings.withholding)
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
