"""What the book of a document knows of it: its place, its numbers, and what its references read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.books.bibliography import Citations, csl, read_bibliography
from lmm.books.executed import executed
from lmm.books.numbers import WORDS, FileNumbers, Numbering
from lmm.books.project import Book, BookFile, book_of
from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown.blocks import Block, HeaderBlock, HeadingBlock
from lmm.markdown.parse_markdown import parse_markdown_text

_MOST = 5_000_000  # bytes of a chapter


@dataclass(frozen=True, slots=True)
class BookChapter:
    """A document in its book, at a `position` from 0; one that is in none, or no chapter, has neither.

    `title` is what the contents call it; `labels` are what references to them read, by label, `words` what things are
    called in them; `citations` are who and when, by key. `cells` are what code showed when it was run, by its label or
    the code itself, `pictures` those that it drew, by label. `echo` tells whether code is shown unless it says
    otherwise, and `up` leads to the folder that paths in code start from.
    """

    book: Book | None = None
    position: int | None = None
    title: str = ""
    numbers: FileNumbers = field(default_factory=FileNumbers)
    labels: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=lambda: WORDS["en"])
    citations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cells: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        """What is different where something that is stored of it is."""
        known = (
            self.position,
            self.title,
            self.book_title,
            self.numbers.number,
            self.numbers.part,
            sorted(self.numbers.headings.items()),
        )
        return "" if self.position is None else repr(known)

    @property
    def left_out(self) -> bool:
        """Whether the book has no place for it."""
        return self.book is not None and self.book.whole and self.position is None


NO_BOOK = BookChapter()


def chapter_of(path: Path) -> BookChapter:
    """The document at a path in its book."""
    path = path.absolute()
    book = book_of(path)
    position = book.position(path) if book is not None else None
    blocks = list(_blocks(path.parent, path.name))
    header = _header(blocks)
    if book is None or position is None:
        alone = BookChapter(book, labels=_labels_of(path, blocks), words=_words(header))
        return _with_sources(alone, path.parent, path, [header])
    file = book.files[position]
    numbers, labels = _numbered(book, tuple(_state(book.folder / each.path) for each in book.files))
    settings = [header, _header(_blocks(book.folder, book.files[0].path)), book.settings]
    up = "../" * file.path.count("/") if book.file == "_bookdown.yml" else ""
    words = _words({**settings[1], **book.settings})
    labels = labels if book.counts_headings else _labels_of(path, blocks)
    chapter = BookChapter(book, position, file.title, numbers[position], labels=labels, words=words, up=up)
    return _with_sources(chapter, book.folder, path, settings)


def _with_sources(chapter: BookChapter, top: Path, path: Path, settings: Sequence[Mapping[str, Any]]) -> BookChapter:
    """With bibliographies, what code showed, and whether code is shown; the nearest `settings` come first."""
    citations: dict[str, tuple[str, str]] = {}
    for values, folder in zip(settings, [path.parent, top, top], strict=False):
        named = values.get("bibliography") or []
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            inside = os.path.relpath(folder / str(name), top)
            citations = {**_bibliography(top, inside, _state(top / inside)), **citations}
        citations = {**csl(values.get("references")), **citations}
    executes = (values.get("execute") for values in settings)
    echo = next((each["echo"] for each in executes if isinstance(each, Mapping) and "echo" in each), True)
    ran = executed(path, top, chapter.book.settings if chapter.book else {})
    return replace(chapter, citations=citations, echo=echo is not False, cells=ran.cells, pictures=ran.pictures)


@lru_cache(maxsize=32)
def _bibliography(folder: Path, name: str, state: tuple[int, int]) -> Citations:
    try:
        return read_bibliography(Folder(folder).read(name, most=_MOST).decode("utf-8", "replace"), name)
    except LmmError:
        return {}


def _header(blocks: Iterable[Block]) -> Mapping[str, Any]:
    first = next(iter(blocks), None)
    return first.values() if isinstance(first, HeaderBlock) else {}


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _numbered(book: Book, states: tuple[tuple[int, int], ...]) -> tuple[list[FileNumbers], Mapping[str, str]]:
    """The numbers in each file of a book, and what references in it read."""
    read = [list(_blocks(book.folder, file.path)) for file in book.files]
    if not book.counts_headings:
        return [_by_place(file, blocks) for file, blocks in zip(book.files, read, strict=True)], {}
    is_quarto = book.file.startswith("_quarto")
    sections = _switch(book.settings, "number-sections")
    numbering = Numbering(chapters=is_quarto, sections=sections is not False, words=_words(book.settings))
    return [numbering.add(file, blocks) for file, blocks in zip(book.files, read, strict=True)], numbering.labels


def _blocks(folder: Path, file: str) -> Iterable[Block]:
    try:
        return parse_markdown_text(Folder(folder).read(file, most=_MOST).decode("utf-8", "replace"))
    except (LmmError, RecursionError):
        return []


def _by_place(file: BookFile, blocks: Iterable[Block]) -> FileNumbers:
    """The number that the contents give: it is that of the first heading too."""
    line = next((block.line for block in blocks if isinstance(block, HeadingBlock)), 0)
    return FileNumbers(file.number, {line: file.number} if line and file.number else {}, file.part)


def _labels_of(path: Path, blocks: Sequence[Block]) -> Mapping[str, str]:
    """What references in a document read that is in no book."""
    if path.suffix.lower() not in (".qmd", ".rmd"):
        return {}
    header = _header(blocks)
    is_quarto = path.suffix.lower() == ".qmd"
    sections = _switch(header, "number-sections") is True
    numbering = Numbering(chapters=is_quarto, sections=sections, words=_words(header), book=False)
    numbering.add(BookFile(path.name), blocks)
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
