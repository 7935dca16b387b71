"""Ingest documents: read, prepare, find out what changed, encode that, and write it in one store run.

A document that cannot be read, prepared or encoded is reported, and the others go on. What fails in the
store ends the run; an embedded store is then what it was before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from lmm.disk.folder import SUFFIXES, check_named
from lmm.errors import LmmError
from lmm_education.errors import IngestError, StoreDamaged, StoreMissing, StoreOutdated
from lmm_education.ingestion import report as happened
from lmm_education.ingestion.reading import stamp_of
from lmm_education.ingestion.report import DocumentReport, IngestReport, Listener, ignore
from lmm_education.ingestion.running import (
    IngestOptions,
    Run,
    only_prepare,
    read_document,
    tell_of_annotations,
    tell_of_languages,
)
from lmm_education.ingestion.settling import Ask
from lmm_education.ingestion.sources import add_sources, find_sources
from lmm_education.ingestion.storing import is_made_otherwise, store_documents
from lmm_education.ingestion.watching import watch
from lmm_education.ingestion.writing import stored_documents
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument, document_of


def ingest_into(
    course: CourseParts,
    paths: Iterable[str | Path],
    options: IngestOptions = IngestOptions(),
    *,
    listener: Listener = ignore,
    ask: Ask | None = None,
    only: Collection[Path] | None = None,
) -> IngestReport:
    """Prepare the documents at some paths and store them; `ask` decides what `options.moved` leaves open.

    With `only`, of the documents at `paths` no others are looked at.

    Raises:
        StoreError: the store cannot be read or written, or was made with other settings.
        LinkOutside: the folder for the files is a link that leads out of the folder that it lies in.
    """
    started = time.perf_counter()
    if options.output is not None:
        check_named(options.output)
    run = Run(course, options, listener, ask, stamp_of(course) if options.ingest else "")
    run.report.dry_run = options.dry_run
    sources = find_sources(paths, course.root)
    if only is not None:
        sources.keep(only)
    stored, run.report.rebuilt = _stored(course, options, run.report.notices) if options.ingest else ([], False)
    if options.prune:
        sources.allow_gone(document.file for document in stored)
    run.report.errors += sources.errors
    for path, reason in sources.skipped:
        run.end(DocumentReport(path, str(path), state="skipped", reason=reason))
    if run.report.rebuilt:  # what is stored in another way is of no use: every document has to come along
        named = {source.file for source in sources.documents if source.named}
        others = [document.prepared or document.file for document in stored if document.file not in named]
        if not stored:
            run.report.notices.append(
                "which documents the damaged store had cannot be told; what was named is in it now"
            )
        _check_inside(others, course.root)
        add_sources(sources, others, course.root)
    listener(happened.Begun(len(sources.documents)))
    documents = [document for source in sources.documents if (document := read_document(run, source)) is not None]
    if options.ingest:
        run.report.location = course.store.location
        store_documents(run, documents, stored, sources)
    else:
        for document in documents:
            only_prepare(run, document)
    tell_of_annotations(run)
    tell_of_languages(run)
    if not (run.report.documents or run.report.errors or run.report.lost):
        run.report.notices.append(f"there is nothing to ingest here; documents end in {', '.join(SUFFIXES)}")
    run.report.documents.sort(key=lambda document: document.file)
    run.report.seconds = time.perf_counter() - started
    return run.report


def watch_course(
    course: CourseParts,
    paths: Iterable[str | Path],
    options: IngestOptions = IngestOptions(),
    *,
    quiet: float = 1.0,
    stop: threading.Event | None = None,
    listener: Listener = ignore,
    told: Callable[[IngestReport | LmmError], None] = lambda result: None,
    on_poll: Callable[[str], None] = lambda reason: None,
) -> None:
    """Ingest now, and what is saved later, until Ctrl-C or `stop`; see `watching.watch`.

    `told` gets each report, or the error that ended a run: it may be mended until the next save.
    """
    paths = list(paths)

    def work(documents: Collection[Path] | None, stopped: threading.Event) -> None:
        def listening(event: happened.Event) -> None:
            if stopped.is_set():
                raise KeyboardInterrupt
            listener(event)

        try:
            told(ingest_into(course, paths, options, listener=listening, only=documents))
        except KeyboardInterrupt:
            return
        except LmmError as error:
            told(error)

    watch(paths, work, quiet=quiet, on_poll=on_poll, stop=stop)


def _stored(course: CourseParts, options: IngestOptions, notices: list[str]) -> tuple[list[StoredDocument], bool]:
    """The documents that the store has, and whether it has to be made anew.

    Raises:
        StoreDamaged: the store cannot be read, and the run is not to make it anew.
    """
    if not options.repair:
        try:
            if options.again:
                course.store.check()
            stored = stored_documents(course.store)
            return stored, bool(stored) and options.again and is_made_otherwise(course)
        except StoreOutdated as error:
            notices.append(f"the store is made anew from its documents: {error.message}")
        except StoreMissing:
            return [], False
        except StoreDamaged:
            if not options.again or options.dry_run:
                raise
    return [document_of(record) for record in course.store.records() or ()], True


def _check_inside(files: Iterable[str], root: Path) -> None:
    """Refuse to read what a store says is one of its documents, if it lies elsewhere: the store may be a stranger's.

    Raises:
        IngestError: a file is not below the course's folder.
    """
    for file in files:
        if not (root / file).resolve().is_relative_to(root.resolve()):
            hint = "name it on the command line, with the folder of the others"
            raise IngestError("the store names this document, which lies outside of the course", where=file, hint=hint)
