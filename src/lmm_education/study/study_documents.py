"""The documents for study material, read from files or from the store, and types of material.

The type of a text is given by ``type:`` in metadata: its own, else that of the nearest heading above it that has one,
else the header's, else ``text``. Texts of all other types are special material: they can be searched and asked for, but
are left out of the notes, unless their type is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from lmm.config_tables import Config
from lmm.errors import LmmError
from lmm.markdown.blocks import HeadingBlock
from lmm.markdown.spans import link_addresses
from lmm.type_names import is_one_of
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.books.chapters import NO_BOOK, BookChapter, Books
from lmm_education.catalogue import Catalogue, Entry as Entry
from lmm_education.config import CourseSettings, course_settings
from lmm_education.errors import StoreMissing
from lmm_education.ingestion.outline import Heading, Outline, read_outline, stored_outline
from lmm_education.ingestion.plan import docid_of, read_file
from lmm_education.ingestion.readers import readable
from lmm_education.ingestion.source_files import find_sources, own_stem
from lmm_education.material import Lines, Location, Passage
from lmm_education.parts import CourseParts, config_for
from lmm_education.payloads import OUTLINE
from lmm_education.store.port import RECORDS

TEXT = "text"


@dataclass(frozen=True, slots=True)
class StudyDocument:
    """A document for study material.

    `id` is its docid, or its path in the course; `file` is the path shown to users. The outline excludes what has
    ``skip: true``, and contains the old text of pending edits, as in ingestion.
    """

    id: str
    file: str
    outline: Outline

    @property
    def title(self) -> str:
        """The document's title."""
        return self.outline.title

    def number(self, heading: Heading) -> str:
        """Return the number of a heading, or of the document itself; empty if it has none."""
        return heading.numbers[-1] if heading.numbers else ""


def study_document(
    text: str,
    *,
    file: str,
    id: str = "",
    chapter: BookChapter = NO_BOOK,
    kinds: Withholding = DEFAULT,
) -> StudyDocument:
    """Return the document in a markdown text, with texts as readers see them. `id` is used if it has no docid; by
    default the file. For `kinds`, see `stretches`.

    Raises:
        IngestError: the header cannot be read.
    """
    chapter = replace(chapter, addresses=link_addresses(text))
    outline = read_outline(text, title=own_stem(file), kinds=kinds)
    outline = readable(outline, chapter, kinds)
    return StudyDocument(docid_of(text) or id or file, file, replace(outline, title=chapter.title or outline.title))


def texts_of(value: Any) -> list[str]:
    """Return the texts in a metadata value, which may be a single one or a list.

    >>> texts_of(["Why?", None, 7]), texts_of("Why?"), texts_of(None)
    (['Why?', '7'], ['Why?'], [])
    """
    items = value if isinstance(value, list) else [value]
    return [text for item in items if item is not None and (text := str(item).strip())]


def is_special(kind: str, keep: Collection[str] = ()) -> bool:
    """Return whether texts of this type are left out of the notes; case is ignored.

    >>> is_special("Definition"), is_special("definition", keep=["Definition"]), is_special("text")
    (True, False, False)
    """
    return not is_one_of(kind, (TEXT, *keep))


# -- from files ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reading:
    """Documents in the order of their paths; errors; files that were skipped, and why."""

    documents: list[StudyDocument] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def settings_at(path: str | Path, config: str | Path | Config | None = None) -> CourseSettings:
    """Return the settings for a document or a folder of documents.

    Raises:
        ConfigError: the configuration cannot be read, or contains an invalid value.
    """
    return course_settings(config_for(path, config))


def read_documents(paths: Iterable[str | Path], settings: CourseSettings) -> Reading:
    """Read the documents at some paths: files, folders, patterns. Errors are collected.

    Files for agents and our own output files are skipped, unless they are named.
    """
    sources = find_sources(paths, settings.root.resolve())
    reading, books = Reading(errors=list(sources.errors), skipped=list(sources.skipped)), Books()
    for source in sources.documents:
        file, kinds = source.path.as_posix(), settings.withholding
        try:
            read = read_file(replace(source, file=file), "", books, prepared=False)
            if isinstance(read, str):
                reading.skipped.append((source.path, read))
            else:
                document = study_document(read.text, file=file, id=source.file, chapter=read.chapter, kinds=kinds)
                reading.documents.append(document)
        except LmmError as error:
            reading.errors.append(error)
    return reading


def documents_at(paths: Iterable[str | Path], settings: CourseSettings) -> list[StudyDocument]:
    """Read the documents at some paths: files, folders, patterns.

    Raises:
        DocumentError: a document cannot be read.
    """
    reading = read_documents(paths, settings)
    if reading.errors:
        raise reading.errors[0]
    return reading.documents


# -- from the store --------------------------------------------------------------------------------


def stored_documents(course: CourseParts) -> list[StudyDocument]:
    """Return the stored documents of a course, in reading order; empty if nothing has been ingested.

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
    """Return the file name from a server's store as a path inside the course's folder, where pictures may be read.

    >>> _below("notes/a.md"), _below("../../home/a.md"), _below("/etc/a.md")
    ('notes/a.md', 'home/a.md', 'etc/a.md')
    """
    return "/".join(part for part in PurePosixPath(file).parts if part not in ("..", "/"))


def documents_in(catalogue: Catalogue) -> list[StudyDocument]:
    """Return the documents of a catalogue, in reading order, as they were ingested."""
    points = catalogue.reader.scroll("documents", where=[RECORDS], fields=("document", OUTLINE))
    outlines = {point.payload["document"]: stored_outline(json.loads(point.payload[OUTLINE])) for point in points}
    return [StudyDocument(each.id, each.file, outlines[each.id]) for each in catalogue.documents]


# -- the table of contents -------------------------------------------------------------------------


def table_of_contents(documents: Iterable[StudyDocument], *, depth: int = 6) -> list[Entry]:
    """Return the documents and their headings down to level `depth`, in order.

    >>> from lmm_education.study.study_documents import study_document
    >>> entries = table_of_contents([study_document("# Leaves\\n\\n## Colour\\n", file="leaves.md")])
    >>> [(entry.level, entry.title, entry.line) for entry in entries]
    [(0, 'Leaves', 1), (1, 'Leaves', 1), (2, 'Colour', 3)]
    """
    return [entry for document in documents for entry in _of(document) if entry.level <= depth]


def _of(document: StudyDocument) -> Iterator[Entry]:
    root = document.outline.root
    yield Entry(document.title, 0, document.file, 1, type=root.type, number=document.number(root))
    taken: dict[str, int] = {}
    for item in document.outline.items:
        if isinstance(item, Heading):
            anchor = _unique(anchor_of(item), taken)
            yield Entry(
                title=item.title,
                level=item.level,
                file=document.file,
                line=item.line,
                headings=item.path,
                type=item.type,
                anchor=anchor,
                number=document.number(item),
            )


def anchor_of(heading: Heading) -> str:
    """Return the id that Pandoc gives a heading, or that is written after it.

    >>> anchor_of(Heading("What is `R`, really?", 1, (), 1)), anchor_of(Heading("B", 1, (), 1, "# B {#b .x}"))
    ('what-is-r-really', 'b')
    """
    return HeadingBlock(heading.text or f"# {heading.title}", 1).anchor


def _unique(anchor: str, taken: dict[str, int]) -> str:
    """Return the anchor, with a number if it is taken; `taken` has the last number of each anchor."""
    chosen = anchor
    while chosen in taken:
        taken[anchor] += 1
        chosen = f"{anchor}-{taken[anchor]}"
    taken[chosen] = 0
    return chosen


# -- output formats --------------------------------------------------------------------------------


def toc_as_text(entries: Iterable[Entry]) -> str:
    """Return a table of contents for a terminal: line numbers, and titles indented by level.

    >>> print(toc_as_text([Entry("Leaves", 0, "leaves.md", 1), Entry("Colour", 1, "leaves.md", 3)]), end="")
    leaves.md: Leaves
        3  Colour
    """
    lines = []
    for entry in entries:
        if entry.level == 0:
            lines.append(f"{entry.file}: {entry.name}")
        else:
            type = f" [{entry.type}]" if entry.type != "text" else ""
            lines.append(f"{entry.line:>5}  {'  ' * (entry.level - 1)}{entry.name}{type}")
    return "".join(f"{line}\n" for line in lines)


def toc_as_markdown(entries: Iterable[Entry]) -> str:
    """Return a nested list with links to the sections of the rendered documents.

    >>> print(toc_as_markdown([Entry("A", 0, "a.md", 1), Entry("B", 1, "a.md", 3, anchor="b")]), end="")
    - [A](a.md)
      - [B](a.md#b)
    """
    lines = []
    for entry in entries:
        target = entry.file.replace(" ", "%20") + (f"#{entry.anchor}" if entry.level else "")
        lines.append(f"{'  ' * entry.level}- [{entry.name}]({target})")
    return "".join(f"{line}\n" for line in lines)


def toc_as_values(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return plain values: each document, and each heading with those below it."""
    found: list[dict[str, Any]] = []
    above: list[tuple[int, dict[str, Any]]] = []
    for entry in entries:
        value: dict[str, Any] = {"title": entry.title, "number": entry.number, "level": entry.level}
        value |= {"file": entry.file, "line": entry.line}
        value |= {"type": entry.type, "anchor": entry.anchor, "sections": []}
        while above and above[-1][0] >= entry.level:
            above.pop()
        (above[-1][1]["sections"] if above else found).append(value)
        above.append((entry.level, value))
    return found


# -- addresses of a published book -----------------------------------------------------------------
# Find the section of a course that a page of its published book shows.
#
# Quarto, mdBook and Pandoc name a page after its source document, bookdown after the id of its first heading. Heading
# ids are compared without punctuation, because these programs keep different parts of it.


_SUFFIXES = (".html", ".htm", ".md", ".markdown", ".qmd", ".rmd", ".ipynb")
_FIRST = {"readme": "index", "_index": "index"}
"""Documents that become the start page of their folder."""


@dataclass(frozen=True, slots=True)
class BookPage:
    """A document: its path, which ends with the file's name without suffix, and its headings by id and title; under the
    empty id, the document itself."""

    path: tuple[str, ...]
    headings: Mapping[str, Passage]


def section_at(catalogue: Catalogue, address: str) -> Passage | None:
    """Return the section that a page of the book shows, or a file of the course with the id or title of a heading,
    without its text; None if the address is not part of the course."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if not parts.path:
        return None
    page = _page(catalogue.once("pages of the book", lambda: list(_pages(catalogue))), unquote(parts.path))
    return page.headings.get(_key(unquote(parts.fragment)), page.headings[""]) if page else None


def _page(pages: Sequence[BookPage], path: str) -> BookPage | None:
    """Return the page whose path shares most parts with this one; None if there are several."""
    named = path_of(path)
    for wanted in (named, (*named, "index")) if path.endswith("/") else (named,):
        ranked = sorted(((_in_common(page.path, wanted), -len(page.path)) for page in pages), reverse=True)
        if ranked and ranked[0][0]:
            same = [page for page in pages if (_in_common(page.path, wanted), -len(page.path)) == ranked[0]]
            return same[0] if len(same) == 1 else None
    first = [(page, found) for page in pages if (found := page.headings.get(_key(named[-1]))) and found.depth == 1]
    return BookPage(named, {**first[0][0].headings, "": first[0][1]}) if len(first) == 1 else None


def path_of(path: str) -> tuple[str, ...]:
    """Return the normalized parts of a path, the same for a page and for its document.

    >>> path_of("/Book/a%20b/../ch04-01.HTML"), path_of("src/README.md"), path_of("")
    (('book', 'a%20b', 'ch04-01'), ('src', 'index'), ('index',))
    """
    *folders, last = [part for part in path.casefold().split("/") if part not in ("", ".", "..")] or ["index"]
    name = last.rpartition(".")[0] if last.endswith(_SUFFIXES) else last
    return (*folders, _FIRST.get(name, name))


def _in_common(path: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the number of equal parts at the ends of two paths."""
    pairs = zip(reversed(path), reversed(other), strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(path), len(other)))


def _key(id: str) -> str:
    return re.sub(r"[\W_]+", "", id.casefold())


def _pages(catalogue: Catalogue) -> Iterator[BookPage]:
    ids = {(each.file, each.headings): each.section for each in reversed(catalogue.contents)}
    for document in documents_in(catalogue):
        entries = table_of_contents([document])
        numbers = {entry.headings: entry.number for entry in reversed(entries)}
        titles, anchors = dict[str, Passage](), dict[str, Passage]()
        for entry in reversed(entries):  # of headings with the same title, the first one is kept
            above = tuple(numbers.get(entry.headings[:depth], "") for depth in range(len(entry.headings) + 1))
            place = Location(document.id, document.file, Lines(entry.line, entry.line), entry.headings, above)
            id = ids.get((document.file, entry.headings), "")
            passage = Passage(id, place, what="section", section=id, title=document.title, depth=entry.level)
            titles[_key(entry.title)] = anchors[_key(entry.anchor)] = passage
        yield BookPage(path_of(document.file), titles | anchors)
