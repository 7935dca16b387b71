"""A document's chapter in its book: its position, its numbers, and the texts of its references."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.bibliography import Citations, csl, read_bibliography
from lmm.book_project import Book, BookFile, book_of, text_in
from lmm.disk import files
from lmm.disk.folder import Folder
from lmm.markdown import Span, spans
from lmm.markdown.blocks import HeaderBlock, HeadingBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import header_values, iter_blocks, parse_markdown_text
from lmm.notebook.outputs import CellOutputs, cell_outputs, environments, read_cell
from lmm_education.books.numbers import WORDS, FileNumbers, Numbering

# -- inclusions ------------------------------------------------------------------------------------

_MOST_INCLUDED = 1_000_000  # bytes of a file
INCLUSION = re.compile(
    r"\{\{#(?:rustdoc_)?include (?P<path>[^{}\s:]+)(?::(?P<lines>[^{}\s]+))?[ \t]*\}\}"
    r"|(?<![;\w`-])-+8<-+[ \t]+(?P<quote>['\"])(?P<snippet>[^'\"\n:]+)(?::(?P<part>[^'\"\n]+))?(?P=quote)"
)
"""What mdBook and MkDocs replace by a file, or by some of its lines."""
INCLUDED_LINE = re.compile(rf"^[ \t]*(?P<written>{INCLUSION.pattern})[ \t]*$", re.MULTILINE)
_DOCUMENTS = (".qmd", ".md", ".rmd", ".markdown")
_OF_READERS = frozenset({"type", "solution"})  # keys that may hide a text from students
_PROJECTS = ("book.toml", "mkdocs.yml"), ("config.toml",)
_DEEPEST = 4  # nested inclusions
_ANCHOR = re.compile(r"(?:\bANCHOR(?:_END)?:\s*|(?<!-)-+8<-+[ \t]*\[[ \t]*(?:start|end)[ \t]*:[ \t]*)([\w-]+)")


def included(path: Path, text: str) -> Mapping[str, str]:
    """Return the content of each inclusion in a document at a path, if the file is in the book's folder.

    That is the nearest folder above with a `book.toml` or `mkdocs.yml`, else that of the course, or else the document's
    own. MkDocs' paths begin there, or in its folder of documents.
    """
    of = (folder for names in _PROJECTS for folder in path.parents if any((folder / name).is_file() for name in names))
    top, shown = next(of, path.parent), dict[str, str]()
    for match in INCLUSION.finditer(text):
        name, lines = match["path"] or match["snippet"], match["lines"] or match["part"] or ""
        places = (path.parent,) if match["path"] else (top, top / "docs", path.parent)
        found = next(filter(None, (_read(top, place / name) for place in places)), "")
        body = _body(name, found)
        shown[match[0]] = lines_of(found if body and lines else body, lines)
    return {written: lines for written, lines in shown.items() if lines}


def with_inclusions(path: Path, text: str) -> str:
    """Return a document with the files that it includes in place of these lines, unless a book's program does that."""
    folders = [path.parent, *path.parent.parents] if "{{#" in text or "8<-" in text else []
    if not folders or any((folder / name).is_file() for folder in folders for name in (*_PROJECTS[0], "SUMMARY.md")):
        return text
    found = included(path, text)
    return INCLUDED_LINE.sub(lambda match: found.get(match["written"], ""), text)


def included_documents(path: Path, text: str, top: Path, depth: int = 0) -> Mapping[str, str]:
    """Return the documents that a document includes, by name: Quarto's ``{{< include a.qmd >}}``, knitr's ``child``.

    Documents outside of `top` are left out, and so are those with metadata on who may see them, since these would not
    apply to the including document.
    """
    has_any = "include" in text or "child" in text
    names = {name for span in spans(text) for name in _included_by(span)} if has_any else ()
    found: dict[str, str] = {}
    for name in sorted(names) if depth < _DEEPEST else ():
        inner = top / name.lstrip("/") if name.startswith("/") else path.parent / name
        inner = inner if inner.is_file() else top / name.lstrip("/")
        if name.lower().endswith(_DOCUMENTS) and (body := _body(name, _read(top, inner))):
            found[name] = body
            found = {**included_documents(inner, found[name], top, depth + 1), **found}
    return found


def _included_by(span: Span) -> list[str]:
    if span.kind == "shortcode" and span.target == "include":
        return [span.text.removeprefix("include").strip(" \"'")]
    cell = read_cell(span)
    return cell.children if cell is not None else []


def _body(name: str, text: str) -> str:
    """Return the text of a file; for a document, the part below its header, or nothing if it contains solutions or
    metadata on who may see it."""
    if not name.lower().endswith(_DOCUMENTS):
        return text
    shown = parse_markdown_text(text)
    if shown and isinstance(shown[0], HeaderBlock) and _OF_READERS.isdisjoint(shown[0].values()):
        del shown[0]
    texts = [block for block in shown if not isinstance(block, HeadingBlock)]
    plain = (isinstance(block, TextBlock) and "solution" not in environments(block.source) for block in texts)
    return serialize(shown) if all(plain) else ""


def _read(top: Path, path: Path) -> str:
    name = os.path.relpath(path, top)
    return "" if name.startswith("..") else text_in(top, name, most=_MOST_INCLUDED)


def lines_of(text: str, which: str) -> str:
    """Return selected lines: a line, a range, or those of an anchor; by default, all lines except anchors.

    >>> code = "fn a() {}\\n// ANCHOR: b\\nfn b() {}\\n// ANCHOR_END: b\\nfn c() {}\\n"
    >>> lines_of(code, ""), lines_of(code, "b"), lines_of(code, "1"), lines_of(code, "4:"), lines_of(code, ":3")
    ('fn a() {}\\nfn b() {}\\nfn c() {}', 'fn b() {}', 'fn a() {}', 'fn c() {}', 'fn a() {}\\nfn b() {}')
    """
    lines = text.splitlines()
    first, colon, last = which.partition(":")
    if not re.fullmatch(r"[0-9]{0,9}(?::[0-9]{0,9})?", which):
        ends = [number for number, line in enumerate(lines) if (at := _ANCHOR.search(line)) and at[1] == which]
        lines = lines[ends[0] : ends[1] if len(ends) > 1 else None] if ends else []
    elif which:
        start = max(int(first or 1), 1)
        lines = lines[start - 1 : (int(last) if last else None) if colon else start]
    return "\n".join(line for line in lines if not _ANCHOR.search(line))


# -- a document in its book ------------------------------------------------------------------------

_State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class BookChapter:
    """A document in its book, at a `position` from 0; None if it is not a chapter, and `book` is None if there is none.

    `title` is its title in the table of contents; `labels` are the texts of references, by label, `words` the names of
    things in them; `citations` are author and year, by key. `ran` are the outputs of its code; `included` are the
    contents of inclusions; `addresses` are those that the document defines for links, by label. `echo` says whether
    code is shown by default, and `up` is the path to the folder that paths in code are relative to.
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
    addresses: Mapping[str, str] = field(default_factory=dict)
    echo: bool = True
    up: str = ""

    @property
    def book_title(self) -> str:
        """The title of the book, from its project file."""
        settings = self.book.settings if self.book is not None else {}
        inner = [settings.get(name) for name in ("book", "website", "project")]
        found = [each.get("title") for each in inner if isinstance(each, Mapping)] + [settings.get("site_name")]
        return next((each for each in found if isinstance(each, str) and each), "")

    @property
    def stamp(self) -> str:
        """What affects the stored text, except for the texts of references."""
        if self.book is None:
            return ""
        known = (self.position, self.title, self.book_title, self.numbers, self.echo, self.up, self.words)
        return self.book.file if self.position is None else f"{self.book.file}{known}"

    @property
    def refers(self) -> bool:
        """Whether the rendered text may change even if neither the source nor `stamp` does."""
        return bool(self.labels or self.citations or self.included or self.ran != CellOutputs())


NO_BOOK = BookChapter()


class Books:
    """The books of documents that are read together: each is read once, so that the cost of a chapter does not depend
    on the length of its book; and the folder of each is looked at once."""

    def __init__(self) -> None:
        self._of: dict[Path, Book | None] = {}
        self._states: dict[Book, list[_State]] = {}
        self._folders: dict[Path, Folder] = {}

    def read(self, path: Path) -> str:
        """Return the text of a document, as `files.read_document` does."""
        above = path.parent
        folder = self._folders.get(above) or self._folders.setdefault(above, files.folder_of(path))
        return files.decode_document(folder.read(path.name, most=files.MOST), str(path))

    def book_of(self, path: Path) -> Book | None:
        """Return the book that contains a document at an absolute path."""
        if path.parent not in self._of:
            self._of[path.parent] = book_of(path)
        return self._of[path.parent]

    def chapter(self, path: Path, text: str | None = None) -> BookChapter:
        """Return the chapter of a document; `text` is its content, if it was read."""
        path = path.absolute()
        text = text_in(path.parent, path.name) if text is None else text
        book, header = self.book_of(path), header_values(text)
        position = book.position(path) if book is not None else None
        if book is None or position is None:
            alone = BookChapter(book, labels=_labels_of(path, text, header), words=_words(header))
            return _with_sources(alone, path.parent, path, text, [header])
        file = book.files[position]
        if book not in self._states:
            self._states[book] = [_state(book.folder / each.path) for each in book.files]
        states = self._states[book]
        states[position] = _state(book.folder / file.path)  # a fresh one for this file
        if book.counts_headings:
            each, labels = _numbered(book, tuple(states))
            numbers = each[position]
        else:
            numbers, labels = _by_place(file, text), _labels_of(path, text, header)
        settings = [header, _first_header(book.folder, book.files[0].path, states[0]), book.settings]
        up = "../" * file.path.count("/") if book.file == "_bookdown.yml" else ""
        words = _words({**settings[1], **book.settings})
        title = file.title or ("" if header.get("title") else numbers.title)
        chapter = BookChapter(book, position, title, numbers, labels=labels, words=words, up=up)
        return _with_sources(chapter, book.folder, path, text, settings)

    def chapter_of_prepared(self, path: Path, text: str) -> BookChapter:
        """Return the chapter of a document at a path, for a `text` made from it: headings are numbered as there."""
        chapter = self.chapter(path)
        if not chapter.numbers.headings:
            return chapter
        there = _headings(text_in(path.parent, path.name))
        known = {title: chapter.numbers.headings.get(line, "") for line, title in there.items()}
        numbers = {line: known.get(title, "") for line, title in _headings(text).items()}
        return replace(chapter, numbers=replace(chapter.numbers, headings=numbers))


def _headings(text: str) -> dict[int, str]:
    return {block.line: block.title for block in iter_blocks(text) if isinstance(block, HeadingBlock)}


def _with_sources(
    chapter: BookChapter, top: Path, path: Path, text: str, settings: Sequence[Mapping[str, Any]]
) -> BookChapter:
    """Add bibliographies, included documents, outputs of code, and whether code is shown; the nearest `settings` come
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
    if path.suffix.lower() in (".qmd", ".rmd"):
        shown = included_documents(path, text, top)
    elif "8<-" in text or "{{#" in text:
        shown = included(path, text)
    else:
        shown = {}
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
    """Return the numbers in each file of a book that numbers headings, and the texts of references."""
    is_quarto = book.file.startswith("_quarto")
    sections = _switch(book.settings, "number-sections")
    numbering = Numbering(chapters=is_quarto, sections=sections is not False, words=_words(book.settings))
    return [numbering.add(file, iter_blocks(text_in(book.folder, file.path))) for file in book.files], numbering.labels


def _by_place(file: BookFile, text: str) -> FileNumbers:
    """Return the number from the table of contents, which is also that of the first heading."""
    headings = (block.line for block in iter_blocks(text) if isinstance(block, HeadingBlock))
    line = next(headings, 0) if file.number else 0
    return FileNumbers(file.number, {line: file.number} if line and file.number else {}, file.part)


def _labels_of(path: Path, text: str, header: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the texts of references in a document that belongs to no book."""
    if path.suffix.lower() not in (".qmd", ".rmd"):
        return {}
    is_quarto = path.suffix.lower() == ".qmd"
    sections = _switch(header, "number-sections") is True
    numbering = Numbering(chapters=is_quarto, sections=sections, words=_words(header), book=False)
    numbering.add(BookFile(path.name), iter_blocks(text))
    return numbering.labels


def _switch(settings: Mapping[str, Any], name: str) -> bool | None:
    """Return a setting from the top level or below a format; Pandoc's options may be written with ``_``."""
    formats = settings.get("format") or settings.get("output")
    inner = formats.values() if isinstance(formats, Mapping) else ()
    for values in (settings, *(each for each in inner if isinstance(each, Mapping))):
        for key in (name, name.replace("-", "_")):
            if isinstance(values.get(key), bool):
                return bool(values[key])
    return None


def _words(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the names of things in references: in the language of the settings, or as they define them."""
    words = dict(WORDS.get(str(settings.get("lang") or "en")[:2], WORDS["en"]))
    prefixes = settings.get("crossref")
    if not isinstance(prefixes, Mapping):
        return words
    for kind in words:
        prefix = prefixes.get(f"{'ch' if kind == 'chapter' else 'apx' if kind == 'appendix' else kind}-prefix")
        words[kind] = str(prefix) if prefix else words[kind]
    return words
