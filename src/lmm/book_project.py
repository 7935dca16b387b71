"""Books: their chapters and the order of these, read from the project file of a book.

Supported are Quarto's ``_quarto.yml`` (books and websites), bookdown's ``_bookdown.yml``, ``SUMMARY.md`` of mdBook and
GitBook, with mdBook's ``book.toml`` above it, and MkDocs' ``mkdocs.yml``.
"""

from __future__ import annotations

import posixpath
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown import yaml_core
from lmm.markdown.inline import SCHEME

_SETTLED = 2_000_000_000  # nanoseconds after which the modification time of a folder reveals its next change
_LOOK = 2  # seconds after which it is checked again which of a book's files exist
_MOST = 2_000_000  # bytes of a book's project file, or of one of its files
_ENDINGS = ("", ".qmd", ".Rmd", ".rmd", ".md", ".ipynb")


@dataclass(frozen=True, slots=True)
class BookFile:
    """A file of a book: its path there; its title, and the part that begins with it, if the contents have them.

    `depth` is the number of chapters above it; below 0, it is not numbered. `number` is set if the contents give it.
    """

    path: str
    title: str = ""
    part: str = ""
    depth: int = 0
    number: str = ""
    is_appendix: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """A book: its project `file`, in its `folder`; its `files` in order.

    `whole` says that only the named files belong to it; all pages of a website do, in any order. With
    `counts_headings`, the headings of its files are numbered, as by Pandoc. `settings` are those in the project file.
    """

    folder: Path
    file: str
    files: Sequence[BookFile]
    whole: bool = True
    counts_headings: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    pages: str = ""
    """The folder below `folder` that contains all of its files."""
    missing: Sequence[str] = ()
    """Chapters that the project file names, and that do not exist."""

    def position(self, path: Path) -> int | None:
        """Return the position of a file in the book, from 0; None if it is not a chapter.

        >>> book = Book(Path("/b"), "SUMMARY.md", (BookFile("intro.md"), BookFile("part/one.md")))
        >>> book.position(Path("/b/part/one.md"))
        1
        """
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        return next((i for i, file in enumerate(self.files) if file.path == name), None)


def book_of(path: Path) -> Book | None:
    """Return the book that contains a document: that of the nearest folder above it which has one."""
    for folder in path.parents:
        if (book := read_book(folder)) is not None and path.is_relative_to(folder / book.pages):
            return book
    return None


def read_book(folder: Path) -> Book | None:
    """Read the book defined by a project file in this folder, if at least one of its chapters exists."""
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return None
    settled = time.time_ns() - changed > _SETTLED
    for name in _names_in(folder, changed) if settled else _READERS:
        file = folder / name
        now = int(time.monotonic()) // _LOOK
        if file.is_file() and (book := _read(folder, name, file.stat().st_mtime_ns, now)) is not None:
            return book
    return None


@lru_cache(maxsize=256)
def _names_in(folder: Path, changed: int) -> tuple[str, ...]:
    """Return the project files in a folder. Cached: it is needed for each folder above every document of a course."""
    return tuple(name for name in _READERS if (folder / name).is_file())


@lru_cache(maxsize=256)
def _read(folder: Path, name: str, changed: int, now: int) -> Book | None:
    """Read a book, cached for a moment: a chapter may be created without a change of the project file."""
    try:
        text = Folder(folder).read(name, most=_MOST).decode("utf-8", "replace")
        made = _READERS[name](text, folder)
    except (LmmError, RecursionError):
        return None  # the tool that builds the book reports what is wrong with it
    existing = {
        found: replace(file, path=found) for file in reversed(made.files) if (found := _found(folder, file.path))
    }
    files = tuple(existing.values())[::-1]
    names = (file.path for file in made.files if made.whole and "." in file.path)  # else the title of a part
    missing = tuple(name for name in names if not _found(folder, name))
    # One link is not enough for a book: a folder of notes may have a SUMMARY.md, too.
    return replace(made, file=name, files=files, missing=missing) if len(files) > (name == "SUMMARY.md") else None


def text_in(folder: Path, name: str, *, most: int = 5_000_000) -> str:
    """Return the text of a file of at most `most` bytes; empty if it cannot be read, or is a link out of the folder."""
    try:
        return Folder(folder).read(name, most=most).decode("utf-8", "replace")
    except LmmError:
        return ""


def _found(folder: Path, name: str) -> str:
    """Return the file named in a table of contents, maybe without its suffix; empty if it does not exist."""
    return next((name + ending for ending in _ENDINGS if (folder / f"{name}{ending}").is_file()), "")


# -- project files ---------------------------------------------------------------------------------------


def _values(text: str) -> dict[str, Any]:
    values = yaml_core.to_value(yaml_core.compose(text))
    return values if isinstance(values, dict) else {}


def _quarto(text: str, folder: Path) -> Book:
    values = _values(text)
    book, website = values.get("book"), values.get("website")
    if isinstance(book, dict):
        chapters = _named(book.get("chapters"))
        appendices = [replace(file, is_appendix=True) for file in _named(book.get("appendices"))]
        return Book(folder, "", [*chapters, *appendices], counts_headings=True, settings=values)
    bars = [website.get("sidebar"), website.get("navbar")] if isinstance(website, dict) else []
    pages = [replace(page, path=page.path.lstrip("/")) for bar in bars for page in _named(bar)]
    return Book(folder, "", pages, whole=False, settings=values)


def _bookdown(text: str, folder: Path) -> Book:
    values = _values(text)
    files = values.get("rmd_files")
    if isinstance(files, dict):
        files = files.get("html") or next(iter(files.values()), [])
    found = [file for file in _named(files) if "." in file.path]
    return Book(folder, "", found or _beside_index(folder), counts_headings=True, settings=values)


def _beside_index(folder: Path) -> list[BookFile]:
    """Return the chapters of a book that does not name them: in the order of their names, ``index`` first."""
    names = [path.name for path in folder.iterdir() if path.suffix.lower() == ".rmd" and path.name[0] not in "_."]
    index = [name for name in names if name.lower() == "index.rmd"]
    return [BookFile(name) for name in (*index, *sorted(set(names) - set(index)))] if index else []


_SUMMARY_LINE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<item>[-*+][ \t]+|\d+[.)][ \t]+)?\[(?P<title>(?:\\.|[^\]\\\n])*+)\]"
    r"\(<?(?P<file>[^)\s>#]*+)[^)\n]*+\)|^#+[ \t]+(?P<part>.+)",
    re.MULTILINE,
)


def _summary(text: str, folder: Path) -> Book:
    files, part, indents = list[BookFile](), "", list[int]()
    for match in _SUMMARY_LINE.finditer(text):
        if match["part"] is not None:
            part = match["part"].strip(" #") if files else ""  # the first heading is the page's own
            continue
        indent = len(match["indent"].expandtabs(4))
        indents = [*(each for each in indents if each < indent), indent]
        depth = len(indents) - 1 if match["item"] else -1
        path, title = unquote(match["file"]).removeprefix("./"), re.sub(r"\\(\W)", r"\1", match["title"])
        files.append(BookFile(path, title, part, depth))
        part = ""
    return Book(folder, "", _counted(files))  # a draft, which has no file yet, is numbered, too


def read_mdbook(folder: Path) -> Book | None:
    """Read the contents of a whole book of mdBook from its ``book.toml`` in this folder; None if there is none."""
    if not (folder / "book.toml").is_file():
        return None
    try:
        settings = tomllib.loads(text_in(folder, "book.toml")).get("book")
    except ValueError:
        return None
    src = posixpath.normpath(str(settings.get("src", "src") if isinstance(settings, dict) else "src"))
    inner = _summary(text_in(folder, f"{src}/SUMMARY.md"), folder)
    paths = (posixpath.normpath(posixpath.join(src, file.path)) for file in inner.files if file.path)
    files = [BookFile(path) for path in paths if (folder / path).is_file()]
    return Book(folder, "book.toml", files) if files else None


def _mkdocs(text: str, folder: Path) -> Book:
    values = _values(re.sub(r"!!?[\w/:.]+", "", text))
    docs = str(values.get("docs_dir") or "docs")
    pages = _named(values.get("nav"), titled=True)
    pages = [replace(page, path=posixpath.normpath(posixpath.join(docs, page.path))) for page in pages]
    return Book(folder, "", pages, settings={"site_name": values.get("site_name")}, pages=posixpath.normpath(docs))


def _counted(files: Iterable[BookFile]) -> list[BookFile]:
    """Number files hierarchically: 4, 4.1, 4.2, 5.

    >>> [file.number for file in _counted(BookFile("", depth=depth) for depth in (-1, 0, 1, 1, 0))]
    ['', '1', '1.1', '1.2', '2']
    """
    counters, found = list[int](), list[BookFile]()
    for file in files:
        if file.depth >= 0:
            counters = [*counters[: file.depth], sum(counters[file.depth : file.depth + 1]) + 1]
        found.append(replace(file, number=".".join(map(str, counters)) if file.depth >= 0 else ""))
    return found


# These keys contain chapters, in this order; others contain titles, icons, settings.
_KEYS = ("part", "file", "href", "contents", "chapters", "left")
_TITLES = ("text", "title")
_PARTS = ("part", "section", "title")


def _named(value: Any, *, titled: bool = False, title: str = "", depth: int = 0) -> list[BookFile]:
    """Return the files named in a table of contents, in order; `titled` if its keys are titles."""
    if isinstance(value, str):
        is_file = titled or "/" in value or "." in value or " " not in value
        named = is_file and not SCHEME.match(value)
        return [BookFile(value.removeprefix("./"), title, depth=depth)] if named else []
    if isinstance(value, list):
        return [file for part in value for file in _named(part, titled=titled, depth=depth)]
    if not isinstance(value, dict):
        return []
    if titled:
        return [file for key, inner in value.items() for file in _in_part(str(key), inner, depth)]
    own = next((str(value[key]) for key in _TITLES if isinstance(value.get(key), str)), "")
    file = next((file for key in ("file", "href") for file in _named(value.get(key), title=own, depth=depth)), None)
    below = depth + (file is not None)
    inner = [each for key in _KEYS if key not in ("file", "href") for each in _named(value.get(key), depth=below)]
    names = (value[key] for key in _PARTS if isinstance(value.get(key), str))
    part = next((name for name in names if not name.endswith(_ENDINGS[1:])), "")
    return [file, *inner] if file else _as_part(part, inner)


def _in_part(title: str, value: Any, depth: int) -> list[BookFile]:
    """Return the files under a title: one file, or those of a part."""
    if isinstance(value, str):
        return _named(value, titled=True, title=title, depth=depth)
    return _as_part(title, _named(value, titled=True, depth=depth))


def _as_part(title: str, files: list[BookFile]) -> list[BookFile]:
    """Set the name of the part that begins with the first of these files."""
    return [replace(files[0], part=files[0].part or title), *files[1:]] if files and title else files


_READERS: dict[str, Callable[[str, Path], Book]] = {
    "_quarto.yml": _quarto,
    "_quarto.yaml": _quarto,
    "_bookdown.yml": _bookdown,
    "mkdocs.yml": _mkdocs,
    "SUMMARY.md": _summary,
}
