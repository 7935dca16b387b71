"""Find the documents at given paths: files, folders, patterns."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

from lmm.book_project import Book, book_of, read_mdbook
from lmm.disk import files
from lmm.disk.folder import SUFFIXES, Folder, check_named, is_document, knitted_from
from lmm.errors import DocumentError, FileMissing, FileReadError, LinkOutside, LmmError
from lmm.markdown.parse_markdown import first_block, header_values
from lmm_education.errors import IngestError
from lmm_education.material import reading_order

NO_CHAPTER = "not a chapter of"
OUR_OWN = "a prepared file of lmm ingest"
MARK = "~~prepared"
"""The key of the program by which its prepared files are known (see `prepared`)."""
POOLED = ".pooled.md"
"""How the name of a prepared document ends."""
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest. `path` is as it was named; `file` relative to the course's folder, with ``/``.

    `named` tells that the file itself was named, not a folder or a pattern that it lies in.
    """

    path: Path
    file: str
    named: bool = True


@dataclass(slots=True)
class SourceFiles:
    """What was found: documents in the order of their paths, in a book in its order; what is wrong; what was left out
    and why.

    `folders` are those that were looked through, relative to the course's folder; `missing` the files that
    were named and are not there.
    """

    documents: list[SourceFile] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    missing: dict[str, Path] = field(default_factory=dict)

    def allow_gone(self, stored: Iterable[str]) -> None:
        """Remove the errors about named files and folders that are gone, if stored documents were there.

        >>> sources = find_sources(["gone"], Path.cwd())
        >>> sources.allow_gone(["gone/a.md"])
        >>> sources.errors, sources.folders
        ([], ['gone'])
        """
        known = list(stored)
        for place, path in self.missing.items():
            if any(_is_inside(file, place) for file in known):
                self.errors = [error for error in self.errors if error.where != str(path)]
                self.folders.append(place)

    def covers(self, file: str) -> bool:
        """Return whether a file, by its path in the course, is in a place that was searched.

        >>> SourceFiles(folders=["notes"]).covers("notes/a/b.md"), SourceFiles(folders=["notes"]).covers("more/b.md")
        (True, False)
        """
        return file in self.missing or any(_is_inside(file, folder) for folder in self.folders)


def _is_inside(file: str, folder: str) -> bool:
    return not file.startswith("../") if folder == "." else PurePath(file).is_relative_to(folder)


def find_sources(paths: Iterable[str | Path], root: Path) -> SourceFiles:
    """Find the documents at some paths: files, folders with their subfolders, ``*`` patterns.

    In folders and patterns, hidden folders and knitr's outputs are skipped; a file counts once.
    Paths are named relative to `root`, so that a folder and a file in it give the same names.
    """
    sources, seen, places = SourceFiles(), set[str](), _Places(root)
    named = list[tuple[str, Path]]()
    for given in map(str, paths):
        is_folder = os.path.isdir(given)  # noqa: PTH112  # a path may be a pattern, which Path cannot hold on every system
        is_pattern = _PATTERN & set(given) and not os.path.lexists(given)
        named.append(("folder" if is_folder else "pattern" if is_pattern else "file", Path(given)))
    # Files that were named come first: what is named is ingested even where a folder would pass it over.
    for found, path in sorted(named, key=lambda item: item[0] != "file"):
        for source in _sources_at(path, found, places, sources):
            real = places.of(source.path).real
            if real not in seen:
                seen.add(real)
                sources.documents.append(source)
    _follow_books(sources, root)
    return sources


def _follow_books(sources: SourceFiles, root: Path) -> None:
    """Sort chapters as in their book, and leave out files in a book's folder that are no part of it."""
    searched = [(root / folder).absolute() for folder in sources.folders]
    books: dict[Path, tuple[Book | None, list[Book]]] = {}  # that of a folder, and those of mdBook around it
    looked_through: dict[Book, bool] = {}  # whether to name its files by relative paths
    places: list[tuple[list[list[str | int]], SourceFile]] = []
    for source in sources.documents:
        path = source.path.absolute()
        path = original(path) if path.name.endswith(POOLED) else path
        folder = path.parent
        if folder not in books:
            books[folder] = book_of(path), [*_mdbooks_above(folder, searched)]
        book, outer = books[folder]
        position = book.position(path) if book is not None else None
        if book is not None and not source.named:
            looked_through[book] = not source.path.is_absolute()
        others = [each for each in outer if each.position(path) is None]
        if book is not None and book.whole and position is None:
            others.append(book)
        if others and not source.named:
            sources.skipped.append((source.path, OUR_OWN if _is_ours(source) else f"{NO_CHAPTER} {others[0].file}"))
        else:
            places.append((reading_order(sort_key(source.file, book, position), source.file), source))
    sources.documents = [source for _, source in sorted(places, key=lambda place: place[0])]
    for book, relative in looked_through.items():
        no_markdown = [file.path for file in book.files if not is_document(Path(file.path))]
        left_out = dict.fromkeys(no_markdown, "a chapter, but not a markdown file (lmm import converts it)")
        left_out |= dict.fromkeys(book.missing, f"a chapter in {book.file}, but there is no such file")
        for name, why in left_out.items():
            path = Path(os.path.relpath(book.folder / name)) if relative else book.folder / name
            sources.skipped.append((path, why))


def _mdbooks_above(folder: Path, searched: Sequence[Path]) -> Iterator[Book]:
    """Iterate over the books of mdBook around a folder, in the folders that were searched: what such a book does not
    list, such as an older edition with contents of its own, is no part of it."""
    for above in (folder, *folder.parents):
        is_searched = any(above.is_relative_to(each) for each in searched)
        if is_searched and (book := read_mdbook(above)) is not None:
            yield book


def _is_ours(source: SourceFile) -> bool:
    try:
        return is_own_output(files.read_document(source.path))
    except LmmError:
        return False


def step_of(text: str) -> str | None:
    """Return the step that a prepared file shows, edited or not; None for other texts, and nothing for files of older
    versions."""
    first = first_block(text) if f"\n{MARK}:" in text else None
    if first is None or not first.content.startswith("---") or f"\n{MARK}:" not in first.content:
        return None
    found = re.search(r"^  step: (documents|chunks|pooled(?=\r?\n  text:))", first.content, re.MULTILINE)
    return found[1] if found else ""


def is_own_output(text: str) -> bool:
    """Return whether a text is a prepared file, edited or not."""
    return step_of(text) is not None


def own_stem(file: str) -> str:
    """Return the name of a document without its suffix, and without that of a prepared one.

    >>> own_stem("notes/leaves.pooled.md"), own_stem("leaves.md")
    ('leaves', 'leaves')
    """
    name = file.rpartition("/")[2]
    return (name.rpartition(".")[0] or name).removesuffix(POOLED.removesuffix(".md"))


def original(path: Path) -> Path:
    """Return the path of the document that the prepared one at a path was made from; that of another document."""
    if path.name.endswith(POOLED):
        with contextlib.suppress(LmmError):  # reported where the document is read
            return path.parent / str(header_values(files.read_document(path)).get("source", path.name))
    return path


def sort_key(file: str, book: Book | None, position: int | None) -> str:
    """Return the sort key of a chapter among the documents of the course; empty for files outside of books.

    >>> from lmm.book_project import BookFile
    >>> sort_key("notes/b/two.md", Book(Path("/c/notes"), "SUMMARY.md", (BookFile("b/two.md"),)), 0)
    'notes/\\t000000'
    """
    if book is None or position is None:
        return ""
    inside = len(PurePath(book.files[position].path).parts)
    return "/".join([*PurePath(file).parts[:-inside], f"\t{position:06}"])


def add_sources(sources: SourceFiles, files: Iterable[str], root: Path) -> None:
    """Add the files of the course that are not among the sources yet; those that are gone are noted as missing.

    A store may come from a stranger too: what it says lies outside of the course is not read before it is named.
    """
    known = {source.file for source in sources.documents}
    for file in files:
        if file in known:
            continue
        try:
            found = Folder(root).stat(file)
        except DocumentError as error:
            hint = f"to use it, give its name: {os.path.relpath(root / file)}"
            sources.errors.append(type(error)(error.message, where=error.where, hint=hint))
            continue
        if found is not None and stat.S_ISREG(found.st_mode):
            sources.documents.append(SourceFile(display_path(root / file), file))
        else:
            sources.missing[file] = root / file


def display_path(path: Path) -> Path:
    """Return a path as one would type it: relative to the current folder, if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _sources_at(path: Path, found: str, places: _Places, sources: SourceFiles) -> Iterator[SourceFile]:
    """Iterate over the documents at a path, which was `found` to be a file, a folder or a pattern."""
    try:
        check_named(path)
    except LinkOutside as error:
        sources.errors.append(error)
        return
    if found == "folder":
        sources.folders.append(file_name(path, places.root))
        yield from _in_folder(path, places, sources)
    elif found == "pattern":
        yield from _matching(str(path), places, sources)
    elif path.is_file() and path.suffix.lower() in SUFFIXES:
        yield SourceFile(path, places.of(path).name)
    elif not os.path.lexists(path):
        sources.missing[file_name(path, places.root)] = path
        sources.errors.append(FileMissing("there is no such file or folder", where=str(path), hint="check the path"))
    elif not path.is_file():
        sources.errors.append(
            FileReadError("this is not a file that can be read", where=str(path), hint="check the path")
        )
    else:
        hint = f"supported are {', '.join(SUFFIXES)}; lmm import reads others"
        sources.errors.append(IngestError("this is not a markdown file", where=str(path), hint=hint))


def _matching(pattern: str, places: _Places, sources: SourceFiles) -> Iterator[SourceFile]:
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # patterns may be absolute
    if not matches:
        sources.errors.append(FileMissing("no file matches this pattern", where=pattern, hint="check the path"))
    below = Folder(Path(*itertools.takewhile(lambda part: not _PATTERN & set(part), Path(pattern).parts)))
    for match in map(Path, matches):
        try:
            below.path(os.path.abspath(match))  # noqa: PTH100  # not to where it leads
        except LinkOutside as error:
            if match.is_dir() or is_document(PurePath(match.name)):
                sources.skipped.append((match, error.message))
            continue
        if match.is_dir():
            if not pattern.endswith("**"):
                yield from _in_folder(match, places, sources)
        elif is_document(PurePath(match.name)):
            yield from _unless_knitted(match, places, sources)


def _in_folder(folder: Path, places: _Places, sources: SourceFiles) -> Iterator[SourceFile]:
    def skip(error: DocumentError) -> None:
        if isinstance(error, LinkOutside):
            sources.skipped.append((Path(error.where), error.message))
        else:
            sources.errors.append(error)

    for path in Folder(folder).documents(on_skip=skip):
        yield from _unless_knitted(path, places, sources)


def _unless_knitted(path: Path, places: _Places, sources: SourceFiles) -> Iterator[SourceFile]:
    """Yield the document at a path, unless a file beside it seems to be the R Markdown or Quarto that made it."""
    place = places.of(path)
    if source := knitted_from(path.name, place.siblings):
        sources.skipped.append((path, f"made from {source}"))
    else:
        yield SourceFile(path, place.name, named=False)


class _Place(NamedTuple):
    """The real path of a file (for a link, that of its target), its name in the course, the names in its folder."""

    real: str
    name: str
    siblings: frozenset[str]


class _Places:
    """The places of files in a course: each folder is looked at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, _Place] = {}

    def of(self, path: Path) -> _Place:
        """Return the place of a file."""
        above, name = os.path.split(path)  # a thousand times a second
        folder = self._folders.get(above)
        if folder is None:
            inside = file_name(Path(above), self.root)
            names = frozenset[str]()
            with contextlib.suppress(OSError):
                names = frozenset(os.listdir(above or "."))  # noqa: PTH208
            folder = _Place(os.path.realpath(above), "" if inside == "." else f"{inside}/", names)
            self._folders[above] = folder
        file = os.path.join(folder.real, name)  # noqa: PTH118
        return _Place(os.path.realpath(file) if os.path.islink(file) else file, folder.name + name, folder.siblings)  # noqa: PTH114


def file_name(path: Path, root: Path) -> str:
    """Return a path relative to the course's folder, with ``/``: the same in every working directory."""
    place = path if path.is_dir() else path.parent
    real = place.resolve() if path.is_dir() else place.resolve() / path.name
    try:
        return Path(os.path.relpath(real, root.resolve())).as_posix()
    except ValueError:  # another drive
        return real.as_posix()
