"""The documents that study material is made from, read from files or from the store; types of material.

The type of a text is what ``type:`` in metadata says: its own, else that of the nearest heading above it that has
one, else the header's, else ``text``. Texts of every other type are special material: they are found and asked for, and
stay out of the notes, unless their type is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from lmm.config_files import CONFIG, find_config
from lmm.config_tables import Config
from lmm.disk import files
from lmm.errors import LmmError
from lmm_education.books.chapters import NO_BOOK, BookChapter, Books
from lmm_education.books.rendered_text import rendered_text
from lmm_education.catalogue import Catalogue
from lmm_education.config import CourseSettings, course_settings
from lmm_education.errors import StoreMissing
from lmm_education.ingestion.outline import Heading, Item, Outline, Text, read_outline
from lmm_education.ingestion.plan import docid_of, error_of, is_chatmd
from lmm_education.ingestion.prepared import is_own_output
from lmm_education.ingestion.source_files import SourceFile, find_sources
from lmm_education.ingestion.stretches import SOLUTION
from lmm_education.material import Chunk, Lines, Section
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument, chunk_of, is_one_of, section_of, types_in
from lmm_education.store.port import Match

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
    items = (replace(i, text=rendered_text(i.text, chapter)) if isinstance(i, Text) else i for i in outline.items)
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


def type_of(item: Heading | Text) -> str:
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
    return course_settings(config_at(Path(path), config))


def config_at(path: Path, config: str | Path | Config | None) -> Config:
    """This configuration, or else the one that holds for a document or a folder of documents."""
    beside = path / CONFIG if path.is_dir() else path
    return config if isinstance(config, Config) else find_config(Path(config) if config else None, beside)


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


def passed_over(source: SourceFile, text: str) -> str:
    """Why a file in a folder is no document of the course; empty if it is one, or if the file itself was named."""
    if source.named:
        return ""
    if is_own_output(text):
        return "a prepared file"
    return "a prompt or transcript of an agent" if is_chatmd(text) else ""


# -- from the store --------------------------------------------------------------------------------

# What was ingested is what students get: nothing that is only in a file yet. Headings come from the sections and paths
# that are stored, texts from the chunks, metadata from both. A heading without a text of its own was not stored, so
# what its metadata said is taken from the texts below it, which inherited it; its summary is lost.


_SUMMARY = "summary"
_MISSING = object()
_BLOCK = 4  # lines from a heading to its text, if there is a metadata block between them
Headings = tuple[str, ...]


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
    """The documents of a catalogue, in the order of reading."""
    documents, store = catalogue.documents, catalogue.reader
    held = {document.id: ([], []) for document in documents}  # type: dict[str, tuple[list[Section], list[Chunk]]]
    for point in store.scroll("documents", where=[Match("what", ("section",))]):
        section = section_of(point.id, point.payload)
        if section.place.document in held:
            held[section.place.document][0].append(section)
    for point in store.scroll("chunks"):
        chunk = chunk_of(point.id, point.payload)
        if chunk.place.document in held:
            held[chunk.place.document][1].append(chunk)
    return [stored_document(each, *held[each.id]) for each in documents]


def stored_document(record: StoredDocument, sections: Iterable[Section], chunks: Iterable[Chunk]) -> StudyDocument:
    """A document from what is stored of it.

    >>> from lmm_education.material import Place
    >>> chunk = Chunk("1", Place("d", "a.md", Lines(3, 3), ("Leaves",)), "s", 0, "Green.", kind="exercise")
    >>> items = stored_document(StoredDocument("d", "a.md", ""), [], [chunk]).outline.items
    >>> [(type(item).__name__, item.own) for item in items]
    [('Heading', {'type': 'exercise'}), ('Text', {})]
    """
    texts = [chunk for chunk in sorted(chunks, key=lambda chunk: chunk.order) if chunk.kind != _SUMMARY]
    header = dict(record.metadata or {})
    title = record.title or record.file
    root = Heading(title, 0, (), 1, own=header, all=_inherited({}, header))
    sections = sorted(sections, key=lambda section: section.order)
    items = tuple(_items(_parts(sections, texts), root))
    return StudyDocument(record.id, record.file, Outline(title, root, items), _numbers_in([*sections, *texts], items))


def _numbers_in(stored: Iterable[Section | Chunk], items: Iterable[Item]) -> dict[int, str]:
    by_path = {each.place.headings[:end]: number for each in stored for end, number in enumerate(each.place.numbers)}
    found = {item.line: by_path.get(item.path, "") for item in items if isinstance(item, Heading)}
    return {line: number for line, number in {0: by_path.get((), ""), **found}.items() if number}


@dataclass(slots=True)
class _Part:
    """A heading, or what stands above the first: the section that begins with it, if it is stored, and its texts."""

    path: Headings
    section: Section | None = None
    chunks: list[Chunk] = field(default_factory=list)


def _parts(sections: Sequence[Section], chunks: Sequence[Chunk]) -> list[_Part]:
    """The headings in the order in which they stand, with those above them that are only known by name."""
    parts: dict[Headings, _Part] = {}
    first = {section.id: section for section in reversed(sections)}
    whose = {section.place.headings: section for section in first.values()}
    places = [each.place for each in sections] + [each.place for each in chunks]
    for _, path in sorted((place.lines.first, place.headings) for place in places):
        for depth in range(len(path) + 1):
            parts.setdefault(path[:depth], _Part(path[:depth], whose.get(path[:depth])))
    for chunk in chunks:
        parts[chunk.place.headings].chunks.append(chunk)
    return list(parts.values())


def _items(parts: Sequence[_Part], root: Heading) -> Iterator[Item]:
    headings: dict[Headings, Heading] = {(): root}
    for part in parts:
        if part.path:
            headings[part.path] = _heading(part, headings[part.path[:-1]], parts)
            yield headings[part.path]
        yield from _texts(part.chunks, headings[part.path])


def _heading(part: _Part, above: Heading, parts: Sequence[_Part]) -> Heading:
    inside = [chunk for each in parts if each.path[: len(part.path)] == part.path for chunk in each.chunks]
    if part.section is not None:
        own, level = dict(part.section.metadata), part.section.level
        if not _is_typed(part):
            own.pop("type", None)
    else:
        own, level = _shared([_own(chunk, above) for chunk in inside]), above.level + 1
    line = part.section.place.lines.first if part.section else min((c.place.lines.first for c in inside), default=1)
    return Heading(part.path[-1], level, part.path, line, own=own, all=_inherited(above.all, own))


def _is_typed(part: _Part) -> bool:
    """Whether a type in a section's metadata is its heading's: it may be that of all its texts. Then the first of them
    stands some lines below the heading, because a metadata block is between them."""
    assert part.section is not None
    first = min((chunk.place.lines.first for chunk in part.chunks), default=0)
    return first - part.section.place.lines.first < _BLOCK


def _texts(chunks: Sequence[Chunk], heading: Heading) -> list[Text]:
    """The texts, those put together again that were cut for being long."""
    texts: list[Text] = []
    for chunk in chunks:
        own, lines = _own(chunk, heading), chunk.place.lines
        last = texts[-1] if texts else None
        if (
            last and (last.own, last.owner) == (own, chunk.owner) and lines.first <= last.lines.last + 2
        ):  # a blank line between them
            whole = f"{last.text}\n\n{chunk.text}"
            texts[-1] = replace(last, text=whole, lines=Lines(last.lines.first, lines.last))
        else:
            text = Text(chunk.text, lines, heading=heading, key=0, values=own, own=own, owner=chunk.owner)
            texts.append(text)
    return texts


def _own(chunk: Chunk, heading: Heading) -> dict[str, Any]:
    """What a text's metadata say beyond what it inherits."""
    own = {name: value for name, value in chunk.metadata.items() if heading.all.get(name, _MISSING) != value}
    if chunk.kind != type_in(own, type_in(heading.all)):
        own["type"] = chunk.kind
    return own


def _shared(of: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them say."""
    first, *others = of or [{}]
    return {name: value for name, value in first.items() if all(other.get(name, _MISSING) == value for other in others)}


def _inherited(above: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    return {**above, **{name: value for name, value in own.items() if name != _SUMMARY}}
