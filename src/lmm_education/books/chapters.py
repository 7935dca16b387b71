"""What the book of a document knows of it: its place, its numbers, and what its references read."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.book_project import Book, BookFile, book_of, text_in
from lmm.markdown.blocks import HeadingBlock, TextBlock
from lmm.markdown.parse_markdown import header_values, iter_blocks
from lmm_education.books.bibliography import Citations, csl, read_bibliography
from lmm_education.books.cell_outputs import CellOutputs, cell_outputs
from lmm_education.books.inclusions import included, included_documents
from lmm_education.books.numbers import WORDS, FileNumbers, Numbering

_State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class BookChapter:
    """A document in its book, at a `position` from 0; one that is in none, or no chapter, has neither.

    `title` is what the contents call it; `labels` are what references to them read, by label, `words` what things are
    called in them; `citations` are who and when, by key. `ran` is what code showed when it was run; `included` is what
    inclusions show. `echo` tells whether code is shown unless it says otherwise, and `up` leads to the folder that
    paths in code start from.
    """

    book: Book | None = None
    position: int | None = None
    title: str = ""
    numbers: FileNumbers = field(default_factory=FileNumbers)
    labels: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=lambda: WORDS["en"])
    citations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    ran: CellOutputs = field(default_factory=CellOutputs)
    included: Mapping[str, str] = field(default_factory=dict)
    echo: bool = True
    up: str = ""

    @property
    def book_title(self) -> str:
        """What the book is called, where the file that makes it says so."""
        settings = self.book.settings if self.book is not None else {}
        inner = [settings.get(name) for name in ("book", "website", "project")]
        found = [each.get("title") for each in inner if isinstance(each, Mapping)] + [settings.get("site_name")]
        return next((each for each in found if isinstance(each, str) and each), "")

    @property
    def stamp(self) -> str:
        """What is different where something that is stored of it is, besides what its references read."""
        if self.book is None:
            return ""
        known = (self.position, self.title, self.book_title, self.numbers, self.echo, self.up, self.words)
        return self.book.file if self.position is None else f"{self.book.file}{known}"

    @property
    def refers(self) -> bool:
        """Whether anything in the text may read in another way where neither the text nor `stamp` has changed."""
        return bool(self.labels or self.citations or self.included or self.ran != CellOutputs())

    @property
    def left_out(self) -> bool:
        """Whether the book has no place for it."""
        return self.book is not None and self.book.whole and self.position is None


NO_BOOK = BookChapter()


class Books:
    """The books of documents that are read together: each is looked at once, so that a chapter of a long one costs what
    one of a short one does."""

    def __init__(self) -> None:
        self._of: dict[Path, Book | None] = {}
        self._states: dict[Book, list[_State]] = {}

    def chapter(self, path: Path, text: str | None = None) -> BookChapter:
        """The document at a path in its book; `text` is what was read there, if it was."""
        path = path.absolute()
        text = text_in(path.parent, path.name) if text is None else text
        book, header = self._book(path), header_values(text)
        position = book.position(path) if book is not None else None
        if book is None or position is None:
            alone = BookChapter(book, labels=_labels_of(path, text, header), words=_words(header))
            return _with_sources(alone, path.parent, path, text, [header])
        file, states = book.files[position], self._look(book, position)
        if book.counts_headings:
            each, labels = _numbered(book, tuple(states))
            numbers = each[position]
        else:
            numbers, labels = _by_place(file, text), _labels_of(path, text, header)
        if book.file in _OF_MYST:
            titles, targets = _named_places(book, tuple(states))
            labels = {**_paths_from(file.path, titles), **targets}
        settings = [header, _first_header(book.folder, book.files[0].path, states[0]), book.settings]
        up = "../" * file.path.count("/") if book.file == "_bookdown.yml" else ""
        words = _words({**settings[1], **book.settings})
        title = file.title or ("" if header.get("title") else numbers.title)
        shown = included(path, text) if book.file == "SUMMARY.md" else {}
        chapter = BookChapter(book, position, title, numbers, labels=labels, words=words, up=up, included=shown)
        return _with_sources(chapter, book.folder, path, text, settings)

    def _book(self, path: Path) -> Book | None:
        if path.parent not in self._of:
            self._of[path.parent] = book_of(path)
        return self._of[path.parent]

    def _look(self, book: Book, position: int) -> list[_State]:
        """How the files of a book look, this one as it looks now."""
        if book not in self._states:
            self._states[book] = [_state(book.folder / each.path) for each in book.files]
        self._states[book][position] = _state(book.folder / book.files[position].path)
        return self._states[book]


def _with_sources(
    chapter: BookChapter, top: Path, path: Path, text: str, settings: Sequence[Mapping[str, Any]]
) -> BookChapter:
    """With bibliographies, included documents, what code showed, and whether code is shown; the nearest `settings` come
    first."""
    citations: dict[str, tuple[str, str]] = {}
    for values, folder in zip(settings, [path.parent, top, top], strict=False):
        named = values.get("bibliography") or []
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            inside = os.path.relpath(folder / str(name), top)
            citations = {**_bibliography(top, inside, _state(top / inside)), **citations}
        citations = {**csl(values.get("references")), **citations}
    executes = (values.get("execute") for values in settings)
    echo = next((each["echo"] for each in executes if isinstance(each, Mapping) and "echo" in each), True)
    shown = included_documents(path, text, top) if path.suffix.lower() in (".qmd", ".rmd") else chapter.included
    ran = cell_outputs(path, top, chapter.book.settings if chapter.book else {})
    return replace(chapter, citations=citations, echo=echo is not False, included=shown, ran=ran)


@lru_cache(maxsize=32)
def _bibliography(folder: Path, name: str, state: _State) -> Citations:
    return read_bibliography(text_in(folder, name), name)


@lru_cache(maxsize=32)
def _first_header(folder: Path, file: str, state: _State) -> Mapping[str, Any]:
    return header_values(text_in(folder, file))


def _state(path: Path) -> _State:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _numbered(book: Book, states: tuple[_State, ...]) -> tuple[list[FileNumbers], Mapping[str, str]]:
    """The numbers in each file of a book that counts headings, and what references in it read."""
    is_quarto = book.file.startswith("_quarto")
    sections = _switch(book.settings, "number-sections")
    numbering = Numbering(chapters=is_quarto, sections=sections is not False, words=_words(book.settings))
    return [numbering.add(file, iter_blocks(text_in(book.folder, file.path))) for file in book.files], numbering.labels


# -- MyST ------------------------------------------------------------------------------------------

_OF_MYST = ("_toc.yml", "myst.yml")
_TARGET = re.compile(r"^\(([^()\s][^()\n]*)\)=[ \t]*$", re.MULTILINE)


@lru_cache(maxsize=8)
def _named_places(book: Book, states: tuple[_State, ...]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The titles of the files of a book, by path, and of what stands below targets, by target."""
    found = [(file.path, _headings(book, file)) for file in book.files]
    titles = {path: headings[0][0] for path, headings in found if headings}
    return titles, {target: title for _, headings in found for title, targets in headings for target in targets}


def _headings(book: Book, file: BookFile) -> list[tuple[str, list[str]]]:
    """The titles in a file, with the targets that stand above each."""
    found: list[tuple[str, list[str]]] = []
    above: list[str] = []
    for block in iter_blocks(text_in(book.folder, file.path)):
        if isinstance(block, HeadingBlock):
            found.append((block.title, above))
        above = _TARGET.findall(block.content) if isinstance(block, TextBlock) else []
    return found


def _paths_from(file: str, titles: Mapping[str, str]) -> dict[str, str]:
    """Titles by the paths that a file may name the others by: from its folder or the book's, with a suffix or without.

    >>> sorted(_paths_from("a/b.md", {"c.md": "C"}))
    ['../c', '../c.md', '/c', '/c.md']
    """
    folder = posixpath.dirname(file) or "."
    paths = {way: title for path, title in titles.items() for way in (posixpath.relpath(path, folder), f"/{path}")}
    return {each: title for path, title in paths.items() for each in (path, posixpath.splitext(path)[0])}


def _by_place(file: BookFile, text: str) -> FileNumbers:
    """The number that the contents give: it is that of the first heading too."""
    headings = (block.line for block in iter_blocks(text) if isinstance(block, HeadingBlock))
    line = next(headings, 0) if file.number else 0
    return FileNumbers(file.number, {line: file.number} if line and file.number else {}, file.part)


def _labels_of(path: Path, text: str, header: Mapping[str, Any]) -> Mapping[str, str]:
    """What references in a document read that is in no book."""
    if path.suffix.lower() not in (".qmd", ".rmd"):
        return {}
    is_quarto = path.suffix.lower() == ".qmd"
    sections = _switch(header, "number-sections") is True
    numbering = Numbering(chapters=is_quarto, sections=sections, words=_words(header), book=False)
    numbering.add(BookFile(path.name), iter_blocks(text))
    return numbering.labels


def _switch(settings: Mapping[str, Any], name: str) -> bool | None:
    """What settings say at their top, or under a format; Pandoc's options may be written with ``_``."""
    formats = settings.get("format") or settings.get("output")
    inner = formats.values() if isinstance(formats, Mapping) else ()
    for values in (settings, *(each for each in inner if isinstance(each, Mapping))):
        for key in (name, name.replace("-", "_")):
            if isinstance(values.get(key), bool):
                return bool(values[key])
    return None


def _words(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """What things are called in references: in the language of the settings, unless they say how."""
    words = dict(WORDS.get(str(settings.get("lang") or "en")[:2], WORDS["en"]))
    said = settings.get("crossref")
    if not isinstance(said, Mapping):
        return words
    for kind in words:
        prefix = said.get(f"{'ch' if kind == 'chapter' else 'apx' if kind == 'appendix' else kind}-prefix")
        words[kind] = str(prefix) if prefix else words[kind]
    return words
