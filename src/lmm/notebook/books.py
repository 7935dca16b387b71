"""Books: which files are their chapters, and in which order, as the file says that makes a book of them.

Read are Quarto's ``_quarto.yml`` (books and websites), bookdown's ``_bookdown.yml``, ``SUMMARY.md`` of mdBook and
GitBook, Jupyter Book's ``_toc.yml``, MyST's ``myst.yml`` and MkDocs' ``mkdocs.yml``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown import yaml_core

_LINK = re.compile(r"^\s*(?:[-*+]\s+)?\[(?:\\.|[^\]\\])*\]\(<?(?P<file>[^)\s>#]+)[^)]*\)", re.MULTILINE)
_MOST = 2_000_000  # bytes of a file that makes a book
_ENDINGS = ("", ".qmd", ".Rmd", ".rmd", ".md", ".ipynb")


@dataclass(frozen=True, slots=True)
class Book:
    """A book: the `file` that makes it, in its `folder`; its `chapters` by their paths there, in order.

    `whole` tells that what it does not name is no part of it; pages of a website are, in whatever order.
    """

    folder: Path
    file: str
    chapters: tuple[str, ...]
    whole: bool = True

    def position(self, path: Path) -> int | None:
        """Where a file stands in the book, from 0; None if it is no chapter.

        >>> Book(Path("/b"), "SUMMARY.md", ("intro.md", "part/one.md")).position(Path("/b/part/one.md"))
        1
        """
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        stem = posixpath.splitext(name)[0]
        return next((i for i, chapter in enumerate(self.chapters) if chapter in (name, stem)), None)


def book_of(path: Path) -> Book | None:
    """The book that a document lies in: that of the nearest folder above it which has one."""
    return next((book for folder in path.parents if (book := read_book(folder)) is not None), None)


@lru_cache(maxsize=256)
def _read(folder: Path, name: str, changed: int) -> Book | None:
    try:
        text = Folder(folder).read(name, most=_MOST).decode("utf-8", "replace")
        chapters, whole = _READERS[name](text)
    except (LmmError, RecursionError):
        return None  # it is for those who build the book to say what is wrong with it
    here = tuple(chapter for chapter in dict.fromkeys(chapters) if _exists(folder, chapter))
    # One link makes no book: a folder of notes may have a SUMMARY.md too.
    return Book(folder, name, here, whole) if len(here) > (name == "SUMMARY.md") else None


def read_book(folder: Path) -> Book | None:
    """The book that a file in this folder makes, if at least one of its chapters is there."""
    for name in _READERS:
        file = folder / name
        if file.is_file() and (book := _read(folder, name, file.stat().st_mtime_ns)) is not None:
            return book
    return None


def _exists(folder: Path, chapter: str) -> bool:
    return any((folder / f"{chapter}{ending}").is_file() for ending in _ENDINGS)


# -- what makes a book -----------------------------------------------------------------------------------

Chapters = tuple[list[str], bool]


def _values(text: str) -> dict[str, Any]:
    values = yaml_core.to_value(yaml_core.compose(text))
    return values if isinstance(values, dict) else {}


def _quarto(text: str) -> Chapters:
    values = _values(text)
    book, website = values.get("book"), values.get("website")
    if isinstance(book, dict):
        return [name for key in ("chapters", "appendices") for name in _named(book.get(key))], True
    bars = [website.get("sidebar"), website.get("navbar")] if isinstance(website, dict) else []
    return [name.lstrip("/") for bar in bars for name in _named(bar)], False


def _bookdown(text: str) -> Chapters:
    files = _values(text).get("rmd_files")
    if isinstance(files, dict):
        files = files.get("html") or next(iter(files.values()), [])
    return list(_named(files)), True


def _summary(text: str) -> Chapters:
    return [match["file"].removeprefix("./") for match in _LINK.finditer(text)], True


def _jupyter_book(text: str) -> Chapters:
    values = _values(text)
    parts = ("parts", "chapters", "sections")
    return [name for key in ("root", *parts) for name in _named(values.get(key))], True


def _myst(text: str) -> Chapters:
    project = _values(text).get("project")
    return list(_named(project.get("toc"))) if isinstance(project, dict) else [], True


def _mkdocs(text: str) -> Chapters:
    values = _values(re.sub(r"!!?[\w/:.]+", "", text))
    folder = str(values.get("docs_dir") or "docs")
    return [posixpath.normpath(posixpath.join(folder, name)) for name in _named(values.get("nav"), titled=True)], True


# Under these keys stand chapters, in this order; under others titles, icons, settings.
_KEYS = ("part", "file", "href", "contents", "chapters", "sections", "children", "left")


def _named(value: Any, *, titled: bool = False) -> Iterator[str]:
    """The files that a table of contents names, in order; `titled` if its keys are titles."""
    if isinstance(value, str):
        if not re.match(r"[a-z][a-z+.-]*:", value) and (titled or "/" in value or "." in value or " " not in value):
            yield value.removeprefix("./")
    elif isinstance(value, list):
        for part in value:
            yield from _named(part, titled=titled)
    elif isinstance(value, dict):
        for key in value if titled else (key for key in _KEYS if key in value):
            yield from _named(value[key], titled=titled)


_READERS: dict[str, Callable[[str], Chapters]] = {
    "_quarto.yml": _quarto,
    "_quarto.yaml": _quarto,
    "_bookdown.yml": _bookdown,
    "_toc.yml": _jupyter_book,
    "myst.yml": _myst,
    "mkdocs.yml": _mkdocs,
    "SUMMARY.md": _summary,
}
