"""The documents that study material is made from, read from files or from the store; types of material.

The type of a text is what ``type:`` in metadata says: its own, else that of the nearest heading above it that has
one, else the header's, else ``text``. Texts of every other type are special material: they are found and asked for, and
stay out of the notes, unless their type is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from lmm.config_tables import Config
from lmm.disk import files
from lmm.errors import LmmError
from lmm_education.books.chapters import NO_BOOK, BookChapter, Books
from lmm_education.books.rendered_text import rendered_text
from lmm_education.catalogue import RECORDS, Catalogue
from lmm_education.config import CourseSettings, course_settings
from lmm_education.errors import StoreMissing
from lmm_education.ingestion.outline import Heading, Outline, TextItem, read_outline, stored_outline
from lmm_education.ingestion.plan import docid_of, error_of, passed_over
from lmm_education.ingestion.source_files import find_sources
from lmm_education.ingestion.stretches import SOLUTION
from lmm_education.parts import CourseParts, config_for
from lmm_education.payloads import OUTLINE, StoredDocument, is_one_of, types_in

TEXT = "text"


@dataclass(frozen=True, slots=True)
class StudyDocument:
    """A document to make study material from.

    `id` is its docid, or its path in the course; `file` is the path to show. The outline leaves out what has
    ``skip: true``, and shows the old text where an edit waits, as in ingestion. `numbers` are those of its headings, by
    line, and under 0 its own; what has none is not there.
    """

    id: str
    file: str
    outline: Outline
    numbers: Mapping[int, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The document's title."""
        return self.outline.title

    def number(self, heading: Heading) -> str:
        """The number of a heading, or of the document itself."""
        return self.numbers.get(heading.line if heading.level else 0, "")


def study_document(
    text: str, *, file: str, id: str = "", chapter: BookChapter = NO_BOOK, lasting: Collection[str] = SOLUTION
) -> StudyDocument:
    """The document in a markdown text, with the texts that readers see; `id` is for one that has no docid, by default
    the file; for `lasting`, see `stretches`.

    Raises:
        IngestError: its header cannot be read.
    """
    stem = file.rpartition("/")[2].rpartition(".")[0] or file
    outline = read_outline(text, title=stem, lasting=lasting)
    items = (replace(i, text=rendered_text(i.text, chapter)) if isinstance(i, TextItem) else i for i in outline.items)
    seen = tuple(item for item in items if isinstance(item, Heading) or item.text)
    outline = replace(outline, title=chapter.title or outline.title, items=seen)
    numbers = {0: chapter.numbers.number, **chapter.numbers.headings} if chapter.numbers.number else {}
    return StudyDocument(docid_of(text) or id or file, file, outline, numbers)


def type_in(values: Mapping[str, Any], inherited: str = TEXT) -> str:
    """The type that these properties give, the first if several, else the inherited one.

    >>> type_in({"type": "exercise"}), type_in({}, "topic"), type_in({"type": None})
    ('exercise', 'topic', 'text')
    """
    return next(iter(types_in(values)), inherited)


def type_of(item: Heading | TextItem) -> str:
    """The type of a text, or what a heading gives the texts under it."""
    if isinstance(item, Heading):
        return type_in(item.all)
    return type_in(item.own, type_in(item.heading.all))


def texts_of(value: Any) -> list[str]:
    """The texts in a value of metadata, which may be one or a list of them.

    >>> texts_of(["Why?", None, 7]), texts_of("Why?"), texts_of(None)
    (['Why?', '7'], ['Why?'], [])
    """
    items = value if isinstance(value, list) else [value]
    return [text for item in items if item is not None and (text := str(item).strip())]


def is_special(kind: str, keep: Collection[str] = ()) -> bool:
    """Whether texts of this type stay out of the notes; upper and lower case are the same.

    >>> is_special("Definition"), is_special("definition", keep=["Definition"]), is_special("text")
    (True, False, False)
    """
    return not is_one_of(kind, (TEXT, *keep))


# -- from files ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reading:
    """Documents in the order of their paths; what could not be read; files that are no documents, and why."""

    documents: list[StudyDocument] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def settings_at(path: str | Path, config: str | Path | Config | None = None) -> CourseSettings:
    """The settings that hold for a document or a folder of documents.

    Raises:
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    return course_settings(config_for(path, config))


def read_documents(paths: Iterable[str | Path], settings: CourseSettings) -> Reading:
    """The documents at some paths: files, folders, patterns. One that cannot be read does not stop the others.

    Agents' files and our own outputs are passed over, unless they were named.
    """
    sources = find_sources(paths, settings.root.resolve())
    reading, books = Reading(errors=list(sources.errors), skipped=list(sources.skipped)), Books()
    for source in sources.documents:
        try:
            text = files.read_document(source.path)
            if reason := passed_over(source, text):
                reading.skipped.append((source.path, reason))
            else:
                chapter = books.chapter(source.path, text)
                file = source.path.as_posix()
                lasting = settings.withholding.lasting
                document = study_document(text, file=file, id=source.file, chapter=chapter, lasting=lasting)
                reading.documents.append(document)
        except LmmError as error:
            reading.errors.append(error_of(error, str(source.path)))
    return reading


def read_course(paths: str | Path | Iterable[str | Path], config: str | Path | None = None) -> list[StudyDocument]:
    """`documents_at` with the settings that hold there.

    Raises:
        DocumentError: one cannot be read.
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    return documents_at(paths, settings_at(paths[0] if paths else ".", config))


def documents_at(paths: Iterable[str | Path], settings: CourseSettings) -> list[StudyDocument]:
    """The documents at some paths: files, folders, patterns.

    Raises:
        DocumentError: one cannot be read.
    """
    reading = read_documents(paths, settings)
    if reading.errors:
        raise reading.errors[0]
    return reading.documents


# -- from the store --------------------------------------------------------------------------------


def stored_documents(course: CourseParts) -> list[StudyDocument]:
    """The documents that a course holds, in the order of reading; none where nothing was ingested.

    Raises:
        StoreError: the store cannot be read.
    """
    try:
        with course.view() as catalogue:
            found = documents_in(catalogue)
    except StoreMissing:
        return []
    if not course.settings.storage.addresses:
        return found
    return [replace(document, file=_below(document.file)) for document in found]


def _below(file: str) -> str:
    """The file that a server's store names, as one below the course's folder: pictures beside it may be read.

    >>> _below("notes/a.md"), _below("../../home/a.md"), _below("/etc/a.md")
    ('notes/a.md', 'home/a.md', 'etc/a.md')
    """
    return "/".join(part for part in PurePosixPath(file).parts if part not in ("..", "/"))


def documents_in(catalogue: Catalogue) -> list[StudyDocument]:
    """The documents of a catalogue, in the order of reading, as they were ingested."""
    points = catalogue.reader.scroll("documents", where=[RECORDS], fields=("document", OUTLINE))
    outlines = {point.payload["document"]: point.payload[OUTLINE] for point in points}
    return [_stored(record, outlines[record.id]) for record in catalogue.documents]


def _stored(record: StoredDocument, values: Sequence[Mapping[str, Any]]) -> StudyDocument:
    headings = (each for each in values if "text" not in each)
    numbers = {each["line"] if each["level"] else 0: each["number"] for each in headings if each["number"]}
    return StudyDocument(record.id, record.file, stored_outline(values), numbers)
