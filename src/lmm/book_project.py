"""Books: which files are their chapters, and in which order, as the file says that makes a book of them.

Read are Quarto's ``_quarto.yml`` (books and websites), bookdown's ``_bookdown.yml``, ``SUMMARY.md`` of mdBook and
GitBook, Jupyter Book's ``_toc.yml``, MyST's ``myst.yml`` and MkDocs' ``mkdocs.yml``.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown import yaml_core
from lmm.markdown.inline import SCHEME

_SETTLED = 2_000_000_000  # nanoseconds since a folder changed, after which its time tells of the next change
_LOOK = 2  # seconds after which it is looked anew which of the files that a book names are there
_MOST = 2_000_000  # bytes of a file that makes a book, or is one of it
_ENDINGS = ("", ".qmd", ".Rmd", ".rmd", ".md", ".ipynb")


@dataclass(frozen=True, slots=True)
class BookFile:
    """A file of a book: its path there; what the contents call it, and the part that begins with it, where they say.

    `depth` counts the chapters above it; below 0, it is not counted. `number` is set where the contents give it.
    """

    path: str
    title: str = ""
    part: str = ""
    depth: int = 0
    number: str = ""
    is_appendix: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """A book: the `file` that makes it, in its `folder`; its `files` in order.

    `whole` tells that what it does not name is no part of it; pages of a website are, in whatever order. With
    `counts_headings`, the headings of its files are numbered, as Pandoc does it. `settings` are those in the file.
    """

    folder: Path
    file: str
    files: Sequence[BookFile]
    whole: bool = True
    counts_headings: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    pages: str = ""
    """The folder below `folder` in which all of its files are."""

    def position(self, path: Path) -> int | None:
        """Where a file stands in the book, from 0; None if it is no chapter.

        >>> book = Book(Path("/b"), "SUMMARY.md", (BookFile("intro.md"), BookFile("part/one.md")))
        >>> book.position(Path("/b/part/one.md"))
        1
        """
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        return next((i for i, file in enumerate(self.files) if file.path == name), None)


def book_of(path: Path) -> Book | None:
    """The book that a document lies in: that of the nearest folder above it which has one."""
    for folder in path.parents:
        if (book := read_book(folder)) is not None and path.is_relative_to(folder / book.pages):
            return book
    return None


def read_book(folder: Path) -> Book | None:
    """The book that a file in this folder makes, if at least one of its chapters is there."""
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
    """Which of the files are there that may make a book. Every document of a course asks that of each folder above."""
    return tuple(name for name in _READERS if (folder / name).is_file())


@lru_cache(maxsize=256)
def _read(folder: Path, name: str, changed: int, now: int) -> Book | None:
    """The book, for a moment: a chapter that it names may come without a change of the file that names it."""
    try:
        text = Folder(folder).read(name, most=_MOST).decode("utf-8", "replace")
        made = _READERS[name](text, folder)
    except (LmmError, RecursionError):
        return None  # it is for those who build the book to say what is wrong with it
    here = {there: replace(file, path=there) for file in reversed(made.files) if (there := _found(folder, file.path))}
    files = tuple(here.values())[::-1]
    # One link makes no book: a folder of notes may have a SUMMARY.md too.
    return replace(made, file=name, files=files) if len(files) > (name == "SUMMARY.md") else None


def text_in(folder: Path, name: str, *, most: int = 5_000_000) -> str:
    """The text of a file of at most so many bytes; nothing if it cannot be read, or a link to it leads out."""
    try:
        return Folder(folder).read(name, most=most).decode("utf-8", "replace")
    except LmmError:
        return ""


def _found(folder: Path, name: str) -> str:
    """The file that a table of contents names, which may leave out its ending; nothing if it is not there."""
    return next((name + ending for ending in _ENDINGS if (folder / f"{name}{ending}").is_file()), "")


# -- what makes a book -----------------------------------------------------------------------------------


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
    """The chapters of a book that does not name them: in the order of their names, ``index`` first."""
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
        path, title = match["file"].removeprefix("./"), re.sub(r"\\(\W)", r"\1", match["title"])
        files.append(BookFile(path, title, part, depth))
        part = ""
    return Book(folder, "", _counted(files))  # a draft, which has no file yet, counts too


def _jupyter_book(text: str, folder: Path) -> Book:
    values = _values(text)
    parts = [values, *(part for part in values.get("parts") or [] if isinstance(part, dict))]
    options = [part["options"] for part in parts if isinstance(part.get("options"), dict)]
    numbered = any(part.get("numbered") for part in (*parts, *options))
    chapters = [file for key in ("parts", "chapters", "sections") for file in _named(values.get(key))]
    return Book(folder, "", [*_named(values.get("root")), *(_counted(chapters) if numbered else chapters)])


def _myst(text: str, folder: Path) -> Book:
    project = _values(text).get("project")
    return Book(
        folder, "", _named(project.get("toc")) if isinstance(project, dict) else [], settings={"project": project}
    )


def _mkdocs(text: str, folder: Path) -> Book:
    values = _values(re.sub(r"!!?[\w/:.]+", "", text))
    docs = str(values.get("docs_dir") or "docs")
    pages = _named(values.get("nav"), titled=True)
    pages = [replace(page, path=posixpath.normpath(posixpath.join(docs, page.path))) for page in pages]
    return Book(folder, "", pages, settings={"site_name": values.get("site_name")}, pages=posixpath.normpath(docs))


def _counted(files: Iterable[BookFile]) -> list[BookFile]:
    """Files with the numbers of their places: 4, 4.1, 4.2, 5.

    >>> [file.number for file in _counted(BookFile("", depth=depth) for depth in (-1, 0, 1, 1, 0))]
    ['', '1', '1.1', '1.2', '2']
    """
    counters, found = list[int](), list[BookFile]()
    for file in files:
        if file.depth >= 0:
            counters = [*counters[: file.depth], sum(counters[file.depth : file.depth + 1]) + 1]
        found.append(replace(file, number=".".join(map(str, counters)) if file.depth >= 0 else ""))
    return found


# Under these keys stand chapters, in this order; under others titles, icons, settings.
_KEYS = ("part", "file", "href", "contents", "chapters", "sections", "children", "left")
_TITLES = ("text", "title")
_PARTS = ("part", "caption", "section", "title")


def _named(value: Any, *, titled: bool = False, title: str = "", depth: int = 0) -> list[BookFile]:
    """The files that a table of contents names, in order; `titled` if its keys are titles."""
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
    """What stands under a title: a file, or the files of a part."""
    if isinstance(value, str):
        return _named(value, titled=True, title=title, depth=depth)
    return _as_part(title, _named(value, titled=True, depth=depth))


def _as_part(title: str, files: list[BookFile]) -> list[BookFile]:
    """Files, with the name of the part that begins with the first."""
    return [replace(files[0], part=files[0].part or title), *files[1:]] if files and title else files


_READERS: dict[str, Callable[[str, Path], Book]] = {
    "_quarto.yml": _quarto,
    "_quarto.yaml": _quarto,
    "_bookdown.yml": _bookdown,
    "_toc.yml": _jupyter_book,
    "myst.yml": _myst,
    "mkdocs.yml": _mkdocs,
    "SUMMARY.md": _summary,
}
