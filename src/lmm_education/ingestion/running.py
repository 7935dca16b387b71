"""What the steps of one ingestion share: the course, the options, the report that grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePath

from lmm.disk.folder import Folder
from lmm.errors import LmmError, ModelError
from lmm.models.tokens import count_tokens
from lmm_education.encode.bm25 import language_code
from lmm_education.encode.encoder import MULTILINGUAL
from lmm_education.encodings import ENCODINGS
from lmm_education.ingestion import report as happened
from lmm_education.ingestion.prepared import is_edited, step_files
from lmm_education.ingestion.reading import (
    DocumentFile,
    Skipped,
    missing_annotations,
    prepare,
    read_source,
    shows,
    warnings_of,
)
from lmm_education.ingestion.report import DocumentReport, IngestReport, Listener
from lmm_education.ingestion.settling import Ask
from lmm_education.ingestion.sources import Source
from lmm_education.ingestion.step_files import write_step_files
from lmm_education.material import PreparedDocument
from lmm_education.parts import CourseParts

_ENGLISH_ONLY = "Builtin/wordllama"


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How documents are ingested.

    `save_files` writes what each step made, into `output` or beside the document; without `ingest`, that is
    all. `prune` removes stored documents whose files are gone. `moved` decides about files that may be a
    stored document under another name or docid; None asks. `annotate` makes annotations first. `again`
    embeds everything again, and makes the store anew where its settings differ or it is damaged; `repair` does that
    in any case, without opening it. `dry_run` changes nothing.
    """

    save_files: bool = False
    output: Path | None = None
    ingest: bool = True
    prune: bool = False
    moved: bool | None = None
    annotate: bool = False
    again: bool = False
    dry_run: bool = False
    repair: bool = False


@dataclass(slots=True)
class Run:
    """What the steps of one ingestion share.

    `stamp` goes into documents' hashes; `unannotated` counts annotations that are missing or stale; `languages` are
    those of the documents that were prepared;
    `model_error` is why the embedding model is not asked any more.
    """

    course: CourseParts
    options: IngestOptions
    listener: Listener
    ask: Ask | None
    stamp: str = ""
    report: IngestReport = field(default_factory=IngestReport)
    unannotated: int = 0
    languages: set[str] = field(default_factory=set)
    model_error: ModelError | None = None

    def end(self, document: DocumentReport) -> None:
        """A document is done."""
        self.report.documents.append(document)
        self.listener(happened.Ended(document))

    def fail(self, source: Source, error: LmmError) -> None:
        """A document cannot be ingested."""
        self.end(DocumentReport(source.path, source.file, state="failed", error=error))

    def skip(self, source: Source, reason: str) -> None:
        """A file is no document, or another stands for it."""
        self.end(DocumentReport(source.path, source.file, state="skipped", reason=reason))


def read_document(run: Run, source: Source) -> DocumentFile | None:
    annotate = run.options.annotate and not run.options.dry_run
    if annotate:
        run.listener(happened.Annotating(source.path))
    try:
        read = read_source(source, run.course, run.stamp, annotate=annotate)
    except LmmError as error:
        run.fail(source, error)
        return None
    if isinstance(read, Skipped):
        run.skip(source, read.reason)
        return None
    return read


def prepare_document(run: Run, document: DocumentFile) -> PreparedDocument | None:
    """The document after the three steps; None if that failed."""
    try:
        prepared = prepare(document, run.course)
    except LmmError as error:
        run.fail(document.source, error)
        return None
    run.report.notices += warnings_of(document)
    run.languages.add(language_code(prepared.language))
    run.unannotated += missing_annotations(document, run.course, titles=_uses_titles(run.course))
    return prepared


def only_prepare(run: Run, document: DocumentFile) -> None:
    prepared = prepare_document(run, document)
    if prepared is None:
        return
    try:
        saved = save_steps(run, document)
    except LmmError as error:
        run.fail(document.source, error)
        return
    chunks, sections = len(prepared.chunks), len(prepared.sections)
    run.end(DocumentReport(document.source.path, document.file, document.id, "prepared", chunks, sections, saved=saved))


def save_steps(run: Run, document: DocumentFile) -> tuple[Path, ...]:
    """Write the files that show what each step made of a document, where that was asked for."""
    if not run.options.save_files or run.options.dry_run or document.prepared is not None:
        return ()
    settings = run.course.settings.preparation
    texts = step_files(document.text, docid=document.id, file=document.file, settings=settings, count=count_tokens)
    folder = document.source.path.parent
    if run.options.output is not None:  # documents of one name in several folders keep apart
        inside = PurePath(document.file.replace("../", "")).parent
        Folder(run.options.output).path(inside)  # or LinkOutside
        folder = run.options.output / inside
    written = write_step_files(texts, folder, is_ours=lambda text: shows(text, document), is_edited=is_edited)
    run.report.notices += [
        f"{file.path} was edited by hand; that version is kept as {file.backup.name}"
        for file in written
        if file.backup is not None
    ]
    return tuple(file.path for file in written)


def _uses_titles(course: CourseParts) -> bool:
    """Whether titles, which say where a text stands, add anything: not where headings are embedded anyway, or nothing
    but the content is."""
    encoding = ENCODINGS[course.settings.encoding]
    return not {"merged", "annotations"}.isdisjoint({encoding.dense, encoding.sparse, *encoding.multi})


def tell_of_languages(run: Run) -> None:
    """Documents in a language that the embedding model does not know; of the course's own, the encoder tells."""
    if not run.options.ingest or language_code(run.course.settings.preparation.language) != "en":
        return
    foreign = sorted(run.languages - {"en"})
    if foreign and run.course.encoder.space.startswith(_ENGLISH_ONLY):
        run.report.notices.append(
            f"{_ENGLISH_ONLY} knows English only, and there are documents in {', '.join(foreign)}; set a multilingual "
            f'model such as "{MULTILINGUAL}" under [embedding] in config.toml'
        )


def tell_of_annotations(run: Run) -> None:
    if run.unannotated:
        run.report.notices.append(
            f"{run.unannotated} annotations that are switched on are missing or out of date: make them with "
            "lmm annotate FILE, or ingest with --annotate"
        )
