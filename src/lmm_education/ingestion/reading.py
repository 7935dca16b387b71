"""Read a document: what it is, which one it is, and whether it has to be ingested at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from lmm.disk import files
from lmm.document import Document
from lmm.errors import LmmError
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.models.tokens import count_tokens
from lmm.notebook.fingerprints import STALE
from lmm_education.encode.bm25 import is_stemmed
from lmm_education.errors import IngestError
from lmm_education.ingestion.identity import Found, docid_of, error_of, is_chatmd
from lmm_education.ingestion.outline import parsed
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.prepared import MARK, is_own_output, read_prepared
from lmm_education.ingestion.report import OUR_OWN
from lmm_education.ingestion.sources import Source, find_sources
from lmm_education.material import PreparedDocument
from lmm_education.parts import CourseParts
from lmm_education.store.manifest import FORMAT

_HEADER_ROOM = 20_000  # characters


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A document that was read. `hash` is of its bytes and of all that decides what is made of them.

    `prepared` is the document as a prepared file gives it, if the file is one.
    """

    source: Source
    text: str
    id: str
    hash: str
    has_docid: bool = False
    prepared: PreparedDocument | None = None

    @property
    def file(self) -> str:
        """The path of the source, relative to the course's folder."""
        return self.prepared.file if self.prepared else self.source.file

    @property
    def prepared_file(self) -> str:
        """The path of the prepared file, if it is one."""
        return self.source.file if self.prepared else ""

    @property
    def found(self) -> Found:
        """The document's claim to an identity."""
        return Found(self.id, self.file, self.hash, self.has_docid)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is no document to ingest, and why."""

    source: Source
    reason: str


def read_source(source: Source, course: CourseParts, stamp: str, *, annotate: bool = False) -> DocumentFile | Skipped:
    """The document in a file. Agents' files and our own outputs are skipped, unless they were named.

    `stamp` goes into the document's hash (see `stamp_of`).

    Raises:
        LmmError: it cannot be read; the error says where and why.
    """
    try:
        return _read(source, course, stamp, annotate)
    except LmmError as error:
        raise error_of(error, source.file) from error


def _read(source: Source, course: CourseParts, stamp: str, annotate: bool) -> DocumentFile | Skipped:
    _check_name(source)
    text = files.read_document(source.path)
    if "\0" in text:
        raise IngestError("this is no text: it has NUL characters", hint="leave it out, or convert it")
    if is_own_output(text):
        return _prepared(source, text, stamp) if source.named else Skipped(source, OUR_OWN)
    if is_chatmd(text) and not source.named:
        return Skipped(source, "a prompt or transcript of an agent")
    if annotate:
        text = _annotated(source.path, course)
    docid = docid_of(first_blocks(text))
    return DocumentFile(source, text, docid or source.file, fingerprint(text, stamp), has_docid=bool(docid))


def first_blocks(text: str) -> list[Block]:
    """The first blocks of a text, the header whole if there is one: what follows need not be read for it.

    >>> len(first_blocks("---\\ntitle: x\\n---\\n" + "word\\n\\n" * 50_000)) < 50_000
    True
    """
    blocks = parse_markdown_text(text[:_HEADER_ROOM])
    return blocks if len(blocks) > 1 or len(text) <= _HEADER_ROOM else parse_markdown_text(text)


def _check_name(source: Source) -> None:
    try:
        source.file.encode("utf-8")
    except UnicodeEncodeError as error:
        raise IngestError("the name of this file is not UTF-8", hint="rename it") from error


def _prepared(source: Source, text: str, stamp: str) -> DocumentFile:
    prepared = read_prepared(text, count=count_tokens)
    return DocumentFile(source, text, prepared.id, fingerprint(text, stamp), True, prepared)


def fingerprint(text: str, stamp: str) -> str:
    """A hash of a document's text and of `stamp`, which stands for every setting that decides what is stored of it."""
    digest = hashlib.sha256(stamp.encode())
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def stamp_of(course: CourseParts) -> str:
    """What decides, besides its text, what is stored of a document.

    Raises:
        ModelError: the embedding model cannot be opened.
    """
    encoder, preparation = course.encoder, asdict(course.settings.preparation)
    sparse = encoder.sparse.name if encoder.sparse else ""
    made_by = [FORMAT, version("lmmarkdown")]  # another version may cut in another way
    return json.dumps([made_by, preparation, encoder.encoding.name, encoder.space, sparse], sort_keys=True)


def prepare(document: DocumentFile, course: CourseParts) -> PreparedDocument:
    """The document after the three steps.

    Raises:
        LmmError: its header asks for something that is not known, or its text cannot be cut.
    """
    if document.prepared is not None:
        return document.prepared
    try:
        return prepare_document(
            document.text,
            docid=document.id,
            file=document.file,
            settings=course.settings.preparation,
            count=count_tokens,
        )
    except LmmError as error:
        raise error_of(error, document.file) from error


def shows(text: str, document: DocumentFile) -> bool:
    """Whether a text is a prepared file of this document, edited or not; not of another with the same name."""
    if not is_own_output(text):
        return False
    header = first_blocks(text)[0]
    values = header.values() if isinstance(header, HeaderBlock) else {}
    mark = values.get(MARK)
    return values.get("docid") == document.id or (isinstance(mark, Mapping) and mark.get("file") == document.file)


def warnings_of(document: DocumentFile) -> list[str]:
    """What in a document's metadata was not understood, each with its place."""
    if document.prepared is not None or "---" not in document.text:
        return []
    blocks, path = parsed(document.text), document.source.path
    errors = [block for block in blocks if isinstance(block, ErrorBlock)]
    found = [
        f"{path}:{error.error_line or error.line}: this metadata cannot be read, and is taken for text: {error.reason} "
        f"(lmm scan {path} tells more)"
        for error in errors
    ]
    header = blocks[0].values() if isinstance(blocks[0], HeaderBlock) else {}
    docid, language = header.get("docid"), header.get("lang")
    if docid is not None and not isinstance(docid, str | int | float):
        found.append(f"{path}:1: 'docid' is not a text, and was passed over; lmm scan {path} writes one")
    if language is not None and not (isinstance(language, str) and is_stemmed(language)):
        found.append(f"{path}:1: 'lang: {language}' is no language that is known; words count as they are written")
    return found


# -- annotations -----------------------------------------------------------------------------------


def prepare_documents(course: CourseParts, paths: Iterable[str | Path]) -> list[PreparedDocument]:
    """The documents at some paths after the three steps; nothing is embedded or written.

    Raises:
        LmmError: one cannot be read or prepared; the error says which, and why.
    """
    sources = find_sources(paths, course.root)
    for error in sources.errors:
        raise error
    read = (read_source(source, course, "") for source in sources.documents)
    return [prepare(document, course) for document in read if isinstance(document, DocumentFile)]


def _annotated(path: Path, course: CourseParts) -> str:
    """The text with its missing and stale annotations, which are written into the file.

    Raises:
        LmmError: one could not be made.
    """
    with Document.open(path, config=course.config) as document:
        try:
            report = document.annotate()
        finally:
            document.save()
    for failure in report.failures:
        raise LmmError(f"{failure.what}: {failure.error}")
    return document.text


def missing_annotations(document: DocumentFile, course: CourseParts, *, titles: bool) -> int:
    """How many annotations that are switched on are missing or stale in a document; no model is asked.

    Those made by code from the headings count only with `titles`.
    """
    on = {name for name, wanted in course.models.annotations.items() if wanted}
    in_header = "RAG" in document.text
    if document.prepared is not None or not (in_header or on - {"titles"} or (titles and on)):
        return 0
    visited = Document.from_text(document.text, config=course.config).annotate(estimate=True).results
    return sum(found.state in STALE and (titles or found.field != "titles") for found in visited)
