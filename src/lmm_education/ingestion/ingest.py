"""Ingest documents: find the files, read them, plan what must change; prepare it in groups, encode and write each.

A document that cannot be read, prepared or encoded is reported, and the others go on. A failure of the
store ends the run; an embedded store then has the state that the run last published.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections import deque
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import msgspec

from lmm.config import EmbeddingSettings
from lmm.disk import files
from lmm.disk.folder import SUFFIXES, check_named, walk
from lmm.errors import LmmError
from lmm.importing.formats import FORMATS, suffix_of
from lmm.markdown.parse_markdown import header_values
from lmm.messages import Waiting
from lmm_education.books.chapters import Books
from lmm_education.encode.bm25 import WORDS_FORMAT, language_code
from lmm_education.encode.encoder import ENGLISH_ONLY, MULTILINGUAL
from lmm_education.errors import (
    IngestError,
    StoreDamaged,
    StoreError,
    StoreMissing,
    StoreOutdated,
    UnreadableMetadata,
    other_courses,
)
from lmm_education.ingestion.known_files import KnownFiles
from lmm_education.ingestion.plan import (
    DocumentFile,
    IngestPlan,
    ids_by_file_of,
    plan_ingest,
    read_file,
)
from lmm_education.ingestion.prepare import PREPARED_FORMAT
from lmm_education.ingestion.reports import Begun, IngestReport, Listener, Lost, ignore
from lmm_education.ingestion.run import IngestRun, end_prepared, end_unchanged, prepare, prepare_file, read_source
from lmm_education.ingestion.source_files import (
    POOLED,
    SourceFile,
    SourceFiles,
    add_sources,
    display_path,
    find_sources,
    original,
)
from lmm_education.ingestion.stored import has_other_settings, stored_documents, withhold_documents
from lmm_education.ingestion.writing import next_group, write
from lmm_education.material import PreparedDocument
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument, document_of
from lmm_education.store.port import FORMAT, check_same

LARGE = 0.5  # MB of documents from which a model that reads sentences takes half a minute and more


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
    stored = _open_store(run, sources) if options.ingest else []
    run.report.dry_run = options.dry_run
    run.report.errors += sources.errors
    for path, reason in sources.skipped:
        run.end(SourceFile(path, str(path)), "skipped", reason=reason)
    run.listener(Begun(len(sources.documents)))
    documents = [document for source in sources.documents if (document := read_source(run, source)) is not None]
    if run.known is not None:
        run.known.save()
    if not options.save_files:
        documents += _prepared_elsewhere(run, documents, stored)
    ids_by_file = ids_by_file_of(stored, documents, course.root)
    again = options.again or run.report.rebuilt
    plan = plan_ingest(documents, stored, ids_by_file=ids_by_file, covers=sources.covers, again=again)
    for document, error in plan.failed:
        run.end(document.source, "failed", error=error)
    for document, prepared in plan.replaced:
        run.end(document.source, "skipped", reason=f"{prepared.file}, made from it, is ingested in its place")
    if options.ingest:
        apply(run, plan)
    for planned in plan.changed if not options.ingest else ():
        if prepare_file(run, planned):
            end_prepared(run, planned, "prepared")
    add_notices(run)
    if not (run.report.documents or run.report.errors or run.report.lost):
        run.report.notices.append(_nothing_here(course.root, sources.folders))
    run.report.documents.sort(key=lambda document: document.file)
    run.report.seconds = time.perf_counter() - started
    return run.report


def _open_store(run: IngestRun, sources: SourceFiles) -> list[StoredDocument]:
    """Return the documents in the store; if it has to be rebuilt, add their files to the sources."""
    course, options = run.course, run.options
    course.beginning = course.beginning or _first_embedding(course, sources.documents)
    run.stamp = _stamp_of(course)
    run.known = KnownFiles(course.root, run.stamp) if not options.annotate else None
    stored = _stored(run)
    run.stored = {document.hash for document in stored}
    if options.prune:
        sources.allow_gone(document.file for document in stored)
    if not stored and (beside := other_courses(course.store.location)):
        run.report.notices.append(
            f"'{course.settings.storage.course}' is new; there are stores of other courses: {', '.join(beside)}"
        )
    if run.report.rebuilt:  # what is stored in another way is of no use: every document has to come along
        if not stored:
            notice = "it is not known which documents the damaged store had; those you gave are in it now"
            run.report.notices.append(notice)
        named = {source.file for source in sources.documents if source.named}
        others = [document.file for document in stored if document.file not in named]
        for file in others:  # a store may come from a stranger
            if not (course.root / file).resolve().is_relative_to(course.root.resolve()):
                message = "the store contains this document, which is outside of the course"
                raise IngestError(
                    message, where=file, hint="give it on the command line, with the folder of the others"
                )
        add_sources(sources, others, course.root)
    return stored


def _prepared_elsewhere(
    run: IngestRun, documents: Iterable[DocumentFile], stored: Iterable[StoredDocument]
) -> list[DocumentFile]:
    """Return the stored prepared documents, under any name, that are ingested in place of some of these documents."""
    ids, found = {each.file: each.id for each in documents}, list[DocumentFile]()
    for file in (each.file for each in stored if each.file not in ids and each.id in ids.values()):
        with contextlib.suppress(LmmError):  # it is no longer there, or another document
            read = read_file(SourceFile(run.course.root / file, file, named=False), run.stamp, run.books)
            found += [read] if isinstance(read, DocumentFile) and read.made_from in ids else []
    return found


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
                text = files.read_document(source.path)
                if "embedding" in text and (found := course.embedding_in(header_values(text), source.path)):
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


def apply(run: IngestRun, plan: IngestPlan) -> None:
    """Carry out the plan in the store, and report; with `dry_run`, only report what would be done.

    Raises:
        StoreError: the store cannot be written; an embedded one then has the state that the run last published.
        IngestError: a store cannot be rebuilt, because some of its documents are gone.
    """
    options, run.report.location = run.options, run.course.store.location
    for planned in plan.unchanged:
        end_unchanged(run, planned)
    run.report.lost += [Lost(lost.id, lost.file, options.prune) for lost in plan.missing]
    if run.report.rebuilt and plan.missing and not options.prune:
        raise IngestError(
            f"the store cannot be rebuilt: of its documents, {len(plan.missing)} cannot be found",
            where=plan.missing[0].file,
            hint="--prune continues without them",
        )
    pruned = [lost.id for lost in plan.missing] if options.prune else []
    unreadable = [each.file for each in run.report.documents if isinstance(each.error, UnreadableMetadata)]
    if unreadable and not options.dry_run and not run.report.rebuilt:
        run.report.notices += [
            f"{file}: what is stored of it is withheld from students until it can be read"
            for file in withhold_documents(run.course.store, unreadable)
        ]
    pending, plan.changed = deque(plan.changed), []  # nothing is kept of what was prepared and written
    if options.dry_run:
        if not run.report.rebuilt:
            check_same(run.course.manifest, run.course.store.manifest(), run.course.store.location)
        while pending:
            for item in next_group(run, run.course.store, pending):
                end_prepared(run, item)
    elif pending or pruned:
        size = sum(planned.document.source.path.stat().st_size for planned in pending) / 1e6
        if size > LARGE and (faster := run.course.faster_note):  # told before it begins, with the line that spares it
            run.listener(Waiting(f"{size:.1f} MB to embed with {faster}"))
        write(run, pending, pruned)


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
