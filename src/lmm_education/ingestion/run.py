"""One run of `lmm ingest`: what its steps share, and how each of its documents is read, prepared and reported."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from lmm.config import ANNOTATIONS
from lmm.disk.folder import Folder
from lmm.errors import ConfigError, Failure, LmmError, ModelError
from lmm.markdown.parse_markdown import header_values
from lmm.models.tokens import count_tokens
from lmm.notebook.problems import unread
from lmm.notebook.staleness import STALE
from lmm_education.books.chapters import Books
from lmm_education.catalogue import source_state
from lmm_education.encode.bm25 import language_code
from lmm_education.encodings import ENCODINGS
from lmm_education.errors import IngestError
from lmm_education.ingestion.findings import warnings
from lmm_education.ingestion.known_files import KnownFiles, state_of
from lmm_education.ingestion.near_types import parsed
from lmm_education.ingestion.plan import DocumentFile, PlannedDocument, error_of, errors_naming, read_file
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.prepared import prepared_text, sealed, step_files, write_step_files
from lmm_education.ingestion.reports import Annotating, DocumentReport, Ended, IngestReport, Listener, State, ignore
from lmm_education.ingestion.source_files import MARK, SourceFile, display_path
from lmm_education.material import PreparedDocument
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts


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

    def end(self, source: SourceFile, state: State, **values: Any) -> None:
        """Report a document that is done, with other `values` of its report."""
        self.report.documents.append(DocumentReport(source.path, source.file, state=state, **values))
        self.listener(Ended(self.report.documents[-1]))


# -- reading ---------------------------------------------------------------------------------------


def read_source(run: IngestRun, source: SourceFile) -> DocumentFile | None:
    """Read the document in a file, after annotating it if the options ask for that; None if there is none, or it
    cannot be read."""
    state = state_of(source) if run.known is not None else ()
    known = run.known.find(source, state) if run.known is not None else None
    if known is not None and run.books.book_of(source.path.absolute()) is None:
        return known
    try:
        read = read_file(source, run.stamp, run.books, prepared=not run.options.save_files, stored=run.stored)
        if run.options.annotate and not run.options.dry_run and not isinstance(read, str):
            from lmm.document import Document  # which loads all that asks models

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
        run.end(source, "failed", error=error)
        return None
    if isinstance(read, str):
        run.end(source, "skipped", reason=read)
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


# -- preparing -------------------------------------------------------------------------------------


def end_prepared(run: IngestRun, planned: PlannedDocument, state: State | None = None) -> None:
    """Report a document that was prepared, and perhaps written."""
    document, prepared, changes = planned.document, planned.prepared, planned.changes
    run.end(
        document.source,
        state or ("changed" if planned.stored or planned.replaces else "new"),
        id=document.id,
        chunks=len(prepared.chunks),
        sections=len(prepared.sections),
        embedded=planned.embedded,
        reused=planned.reused,
        updated=len(changes.payloads) - len(changes.encode),
        removed=len(changes.removed),
        moved_from=planned.moved_from,
        saved=planned.saved,
        withheld=prepared.withheld,
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
        if run.options.save_files and not run.options.dry_run:
            planned.saved = save_steps(run, read, planned.prepared, failures)
        for failure in failures:
            raise error_of(LmmError(f"{failure.what}: {failure.error}"), document.file)
    except LmmError as error:
        run.end(document.source, "failed", error=error)
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
    """Write the prepared files of a document, and return their paths.

    For a review, missing annotations are made in the prepared document; `failures` gets those that cannot be made.
    """
    path = document.source.path
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
        pooled = _annotated(run, pooled, path, failures)
        prepared = prepare(replace(document, text=pooled), run.course)
    written, notices = write_step_files(step_files(prepared, pooled), folder, docid=document.id, source=source)
    run.report.notices += notices
    return written


def _annotated(run: IngestRun, text: str, path: Path, failures: list[Failure]) -> str:
    """Return the text of a prepared document with the missing annotations; collect those that could not be made."""
    from lmm.document import Document

    document = Document.from_text(text, path=path, config=run.course.config)
    try:
        report = document.annotate()
    except ConfigError as error:
        notice = f"only titles were made: {error.message}; set model under [minor] in config.toml"
        run.report.notices += [] if notice in run.report.notices else [notice]
        report = document.annotate(flags=dict.fromkeys(set(ANNOTATIONS) - {"titles"}, False))
    failures += report.failures
    return sealed(document.text)


def end_unchanged(run: IngestRun, planned: PlannedDocument) -> None:
    """Report a document that is unchanged in the store, and write its prepared files if they are wanted."""
    document, stored = planned.document, planned.stored
    try:
        writes = run.options.save_files and not run.options.dry_run
        read = read_file(document.source, run.stamp, run.books) if writes else ""
        saved = () if isinstance(read, str) else save_steps(run, read, prepare(read, run.course))
    except LmmError as error:
        run.end(document.source, "failed", error=error)
        return
    chunks, sections = (stored.chunks, stored.sections) if stored else (0, 0)
    run.end(document.source, "unchanged", id=document.id, chunks=chunks, sections=sections, saved=saved)


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
    from lmm.document import Document

    visited = Document.from_text(text, config=course.config).annotate(estimate=True).results
    return sum(found.state in STALE and (titles or found.field != "titles") for found in visited)
