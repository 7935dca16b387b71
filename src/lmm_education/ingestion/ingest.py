"""Ingest documents: find the files, read them, plan what must change, apply it.

A document that cannot be read, prepared or encoded is reported, and the others go on. A failure of the
store ends the run; an embedded store then has the state that the run last published.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import msgspec

from lmm import loop
from lmm.config import EmbeddingSettings
from lmm.disk import files
from lmm.disk.folder import SUFFIXES, check_named
from lmm.disk.watching import Signature, WatchedPaths, changes, signature
from lmm.document import Document
from lmm.errors import LmmError
from lmm.markdown.parse_markdown import header_values
from lmm.messages import Waiting
from lmm_education.books.chapters import Books
from lmm_education.encode.bm25 import WORDS_FORMAT
from lmm_education.errors import IngestError, StoreDamaged, StoreError, StoreMissing, StoreOutdated
from lmm_education.ingestion.apply import (
    IngestRun,
    add_notices,
    apply,
    is_made_otherwise,
    prepare,
    prepare_file,
    report_written,
    stored_documents,
)
from lmm_education.ingestion.plan import (
    Annotating,
    Begun,
    DocumentFile,
    Event,
    IngestReport,
    Listener,
    PlannedDocument,
    Skipped,
    error_of,
    held_by,
    ignore,
    plan_ingest,
    read_file,
)
from lmm_education.ingestion.prepare import PREPARED_FORMAT
from lmm_education.ingestion.source_files import POOLED, SourceFile, SourceFiles, add_sources, find_sources, original
from lmm_education.material import PreparedDocument
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument, document_of
from lmm_education.store.port import FORMAT


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
    with course.store.reporting(lambda sentence: listener(Waiting(sentence))) if options.ingest else nullcontext():
        if options.output is not None:
            check_named(options.output)
        return _ingest(IngestRun(course, options, listener), paths)


def _ingest(run: IngestRun, paths: Iterable[str | Path]) -> IngestReport:
    started, course, options = time.perf_counter(), run.course, run.options
    sources = _sources(course.root, paths, prepared=not options.save_files)
    if options.ingest:
        course.beginning = course.beginning or _first_embedding(course, sources.documents)
        run.stamp = _stamp_of(course)
    stored = _stored(run) if options.ingest else []
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
        _check_inside(others, course.root)
        add_sources(sources, others, course.root)
    run.listener(Begun(len(sources.documents)))
    documents = [document for source in sources.documents if (document := _read(run, source)) is not None]
    if options.ingest:
        run.report.location = course.store.location
        held = held_by(stored, documents, course.root)
        again = options.again or run.report.rebuilt
        apply(run, plan_ingest(documents, stored, held=held, covers=sources.covers, again=again))
    else:
        for planned in map(PlannedDocument, documents):
            if prepare_file(run, planned):
                run.end(report_written(planned, "prepared"))
    add_notices(run)
    if not (run.report.documents or run.report.errors or run.report.lost):
        run.report.notices.append(f"there is nothing to ingest here; names of documents end in {', '.join(SUFFIXES)}")
    run.report.documents.sort(key=lambda document: document.file)
    run.report.seconds = time.perf_counter() - started
    return run.report


def _sources(root: Path, paths: Iterable[str | Path], *, prepared: bool = True) -> SourceFiles:
    """Return the documents at some paths; with `prepared`, also the prepared ones beside those that were named."""
    sources = find_sources(paths, root)
    if prepared:
        named = [source.file for source in sources.documents if source.named]
        beside = {f"{PurePosixPath(file).with_suffix('')}{POOLED}": root / file for file in named}
        add_sources(sources, [each for each, path in beside.items() if original(root / each) == path], root)
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
    found = [read for read in reads if not isinstance(read, Skipped)]
    replaced = {read.document.made_from for read in found}
    return [prepare(read, course).document for read in found if read.document.file not in replaced]


def watch_course(
    course: CourseParts,
    paths: Iterable[str | Path],
    options: IngestOptions = IngestOptions(),
    *,
    quiet: float = 1.0,
    stop: threading.Event | None = None,
    listener: Listener = ignore,
    on_result: Callable[[IngestReport | LmmError], None] = lambda result: None,
    on_poll: Callable[[str], None] = lambda reason: None,
) -> None:
    """Ingest now, and after each save once nothing was saved for `quiet` seconds; until Ctrl-C or `stop`.

    `on_result` receives each report, or the error that ended a run: the user may fix it before the next save. `on_poll`
    receives the reason for polling the files, where the system gives no notifications.

    Raises:
        FileReadError: one of the paths does not exist.
    """
    paths = list(paths)
    roots, stopped = WatchedPaths.at(paths), threading.Event()

    def listening(event: Event) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        listener(event)

    def work() -> None:
        try:
            on_result(ingest_into(course, paths, options, listener=listening))
        except KeyboardInterrupt:
            return
        except LmmError as error:
            on_result(error)

    async def watch() -> None:
        stopping = asyncio.create_task(loop.cancel_when(stop, asyncio.current_task())) if stop else None
        try:
            await _watch(roots, changes(roots, on_poll=on_poll), work, quiet, stopped)
        finally:
            if stopping:
                stopping.cancel()

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        loop.run(watch())


async def _watch(
    roots: WatchedPaths,
    source: AsyncGenerator[Collection[Path]],
    work: Callable[[], None],
    quiet: float,
    stopped: threading.Event,
) -> None:
    """Do the work now and after saves have ceased. To cancel, set `stopped` and wait for the end of the work."""
    known: dict[Path, Signature | None] = {}  # how the documents are: not every notification is a change
    pause: float | None = 0.0  # seconds until there is work

    def is_changed(paths: Iterable[Path]) -> bool:
        now = {path: signature(path) for path in roots.documents(paths)}
        changed = now.items() - known.items()
        known.update(now)
        return bool(changed)

    async with contextlib.aclosing(source):
        is_changed(await anext(source, ()))  # what is there at first
        coming, working = asyncio.ensure_future(anext(source)), asyncio.ensure_future(asyncio.sleep(0))
        try:
            while True:
                if (await asyncio.wait({coming}, timeout=pause))[0]:
                    pause = quiet if is_changed(coming.result()) else pause
                    coming = asyncio.ensure_future(anext(source))
                else:
                    pause, working = None, asyncio.ensure_future(asyncio.to_thread(work))
                    await asyncio.shield(working)
        finally:
            stopped.set()
            coming.cancel()
            await loop.ended(coming)
            await loop.ended(working)


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
            run.report.rebuilt = bool(stored) and options.again and is_made_otherwise(course)
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


def _check_inside(files: Iterable[str], root: Path) -> None:
    """Raise if a store names a document outside of the course: the store may come from a stranger.

    Raises:
        IngestError: a file is not below the course's folder.
    """
    for file in files:
        if not (root / file).resolve().is_relative_to(root.resolve()):
            hint = "give it on the command line, with the folder of the others"
            raise IngestError("the store contains this document, which is outside of the course", where=file, hint=hint)


def _read(run: IngestRun, source: SourceFile) -> DocumentFile | None:
    """Read the document in a file, after annotating it if the options ask for that; None if there is none, or it
    cannot be read."""
    try:
        read = read_file(source, run.stamp, run.books, prepared=not run.options.save_files, stored=run.stored)
        if run.options.annotate and not run.options.dry_run and not isinstance(read, Skipped):
            run.listener(Annotating(source.path))
            _annotate(source, run.course)
            read = read_file(source, run.stamp, run.books)
    except LmmError as error:
        run.fail(source, error)
        return None
    if isinstance(read, Skipped):
        run.skip(source, read.reason)
        return None
    run.keep(read)
    return read.document


def _annotate(source: SourceFile, course: CourseParts) -> None:
    """Generate missing and stale annotations, and write them into the file.

    Raises:
        LmmError: one could not be made.
    """
    try:
        with Document.open(source.path, config=course.config) as document:
            try:
                report = document.annotate()
            finally:
                document.save()
        for failure in report.failures:
            raise LmmError(f"{failure.what}: {failure.error}")
    except LmmError as error:
        raise error_of(error, source.file, source.path) from error
