"""Safe access to the files below a folder: links out of it are refused.

A folder may come from a stranger (a clone, a shared drive), and a link in it may lead anywhere. So all files that the
user did not name are opened through `Folder`: part by part, from the parent folder, following no link
(`lmm.disk.opened`). The rules for links:

- one that stays inside the folder is followed: authors use them, and it gives access to nothing new;
- one that leads out is refused as `LinkOutside`; a walk skips and reports it;
- below ``.lmm``, ``.chatmd`` and ``.md_index`` none are allowed: only our programs use these folders, and remove and
  replace files in them without asking.

Paths that the user typed are trusted, and only go through `check_named`.
"""

# pathlib has no open folders, and resolves links that must be checked.
# ruff: noqa: PTH100, PTH114

from __future__ import annotations

import contextlib
import os
import re
import secrets as random
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Literal

from lmm.disk import digest
from lmm.disk.names import IgnoreRule, comparable, is_ignored, is_secret_file, parse_ignore
from lmm.disk.opened import Mode, OpenFolder, make_folders, open_folder, read_errors, write_errors
from lmm.disk.swap import TEMPORARY, put_in_place
from lmm.errors import DocumentError, FileMissing, FileReadError, FileWriteError, LinkOutside

OURS = (".lmm", ".chatmd", ".md_index")
"""Folders that only our programs write into."""
INTERNAL = (*OURS, ".git", ".hg", ".svn")
"""Folders that belong to programs: files in them may be executed, or are records."""
SKIPPED = frozenset(
    ("node_modules", "bower_components", "__pycache__", "__MACOSX", ".venv", ".tox", ".nox", ".cache", *INTERNAL)
)
"""Folders that are listed but not entered."""
SUFFIXES = (".md", ".rmd", ".qmd", ".markdown")
"""The suffixes of documents, in lower case."""
DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Names that Windows treats as devices."""
EXPORTED = ".lmm-export"
"""The file in which an export lists what it wrote into a folder."""
_LARGEST_LIST = 5_000_000  # bytes
_MADE_BY_KNITR = (".knit.md", ".utf8.md")  # copies of a document that exist while it is rendered
_LARGEST_IGNORE = 200_000  # bytes
_Layers = tuple[tuple[int, tuple[IgnoreRule, ...]], ...]
Kind = Literal["file", "folder", "link", "other"]
Skip = Callable[[DocumentError], None]
Unreadable = Callable[[tuple[str, ...], OSError], None]


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder, given by the parts of its path below the folder that is walked; `size` is in bytes.

    `excluded` is whether it is hidden or ignored, so that it is found only when named. `closed` is whether it is a
    folder that is not entered for that reason.
    """

    parts: tuple[str, ...]
    kind: Kind
    size: int = 0
    excluded: bool = False
    closed: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.parts[-1]


class Folder:
    """A folder at the path `root`, with safe access to everything below it.

    Paths are relative to it; an absolute one has to be below it. With `secrets`, files whose names suggest
    keys or passwords may be read, too.

    Raises:
        LinkOutside: the path to `root` has a link at or below ``.lmm`` or a similar folder.
    """

    def __init__(self, root: Path, *, secrets: bool = False) -> None:
        self.root, self.secrets = root, secrets
        given = os.path.abspath(root)
        self.real = Path(os.path.realpath(root))
        parts = Path(given).parts
        ours = _ours(parts)
        for end in range(len(parts) if ours is None else ours, len(parts)):
            way = Path(*parts[: end + 1])
            if is_link(way):
                raise LinkOutside("links are not allowed here", where=str(way), hint="remove the link")

    def __repr__(self) -> str:
        return f"Folder({str(self.root)!r})"

    def path(self, relative: str | PurePath) -> Path:
        """Return the real path of `relative`; it need not exist.

        Raises:
            LinkOutside: it leads out of the folder, by a link or by ``..``, or over a link where none is allowed.
        """
        is_name = isinstance(relative, str) and relative == os.path.basename(relative) and "\0" not in relative  # noqa: PTH119
        if is_name and relative not in ("", ".", "..") and not is_link(given := self.real / relative):
            return given  # a file in the folder itself, as most are, needs no look at what is above
        parts = self._parts(relative)
        given = self.real.joinpath(*parts)
        try:
            real = Path(os.path.realpath(given))
        except (OSError, ValueError) as error:
            raise LinkOutside("this path does not exist", where=self._shown(relative), hint=str(error)) from error
        if os.path.islink(real):
            raise LinkOutside("this link leads back to itself", where=self._shown(relative))
        if not real.is_relative_to(self.real):
            told = f"this link leads out of {self.root}, to {real}"
            raise LinkOutside(told, where=self._shown(relative), hint=f"name {real} itself")
        if real != given and _ours(parts) is not None:
            raise LinkOutside(
                "links are not allowed below this folder", where=self._shown(relative), hint="remove the link"
            )
        return real

    def open(self, relative: str | PurePath, mode: Mode = "rb", *, private: bool = False) -> BinaryIO:
        """Open an ordinary file for reading, or by `mode` for writing, creating or appending.

        If it is created with `private`, only the user may read it.

        Raises:
            LinkOutside: see `path`.
            FileReadError: it is missing, not an ordinary file, or not readable, or its name is that of a secret.
            FileWriteError: the same for writing.
        """
        real, name = self.path(relative), self._shown(relative)
        if not self.secrets and is_secret_file(real.relative_to(self.real)):
            raise (FileReadError if mode == "rb" else FileWriteError)(
                "files of this name usually contain keys or passwords",
                where=name,
                hint="rename it, if it contains none",
            )
        with read_errors(name) if mode == "rb" else write_errors(name), open_folder(real.parent) as folder:
            return folder.open(real.name, mode, private=private)

    def read(self, relative: str | PurePath, *, most: int | None = None) -> bytes:
        """Read an ordinary file of at most `most` bytes.

        Raises:
            LinkOutside, FileReadError: as for `open`; or it is larger.
        """
        name = self._shown(relative)
        with self.open(relative) as file, read_errors(name):
            data = file.read() if most is None else file.read(most + 1)
        if most is not None and len(data) > most:
            raise FileReadError(f"it has more than {most:,} bytes", where=name, hint="split it into several files")
        return data

    def write(
        self, relative: str | PurePath, data: bytes | str, *, expected: bytes | None = None, private: bool = False
    ) -> None:
        """Write a file in one step, creating the folders above it; a file that is replaced keeps its mode.

        With `expected`, only if it contains that, and what somebody saves at that moment is kept (see `lmm.disk.swap`).
        If it is `private`, only the user may read it, and enter the folders that are created for it.

        Raises:
            LinkOutside: see `path`.
            Changed: the file does not contain `expected`.
            FileWriteError: the disk refuses, or the file is read-only; the old content is kept.
        """
        real, name = self.path(relative), self._shown(relative)
        content = data.encode() if isinstance(data, str) else data
        temporary = random.token_hex(8).join(TEMPORARY)
        with write_errors(name):
            make_folders(real.parent, mode=0o700 if private else 0o777)
            with open_folder(real.parent) as folder:
                like = _changeable(folder, real, name)
                folder.write_new(temporary, content, like, mode=0o600 if private else None)
                if expected is not None:
                    put_in_place(real.with_name(temporary), real, content, expected)
                else:
                    try:
                        folder.rename(temporary, real.name)
                    except BaseException:
                        folder.remove(temporary, missing_ok=True)
                        raise
                folder.sync()

    def check_writable(self, relative: str | PurePath) -> None:
        """Raise if a file could not be written.

        Raises:
            LinkOutside: see `path`.
            FileWriteError: it, or its folder, is write-protected or missing.
        """
        real, name = self.path(relative), self._shown(relative)
        with write_errors(name), open_folder(real.parent) as folder:
            _changeable(folder, real, name)

    def stat(self, relative: str | PurePath) -> os.stat_result | None:
        """Return the status of what a path leads to; None if nothing is there.

        Raises:
            LinkOutside: see `path`.
            FileReadError: a folder on the way may not be entered.
        """
        real = self.path(relative)
        with read_errors(self._shown(relative)):
            if real == self.real:
                return real.stat()
            try:
                with open_folder(real.parent) as folder:
                    return folder.stat(real.name)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def make(self, relative: str | PurePath = "", *, private: bool = False) -> Path:
        """Create a folder and those above it that are missing, and return its real path.

        If they are `private`, only the user may enter them.

        Raises:
            LinkOutside: see `path`.
            FileWriteError: a file is in the way, or the disk refuses.
        """
        real = self.path(relative)
        with write_errors(self._shown(relative)):
            make_folders(real, mode=0o700 if private else 0o777)
            with open_folder(real):
                return real

    def remove(self, relative: str | PurePath, *, missing_ok: bool = False) -> None:
        """Remove one file. A link does not count as a file.

        Raises:
            LinkOutside: it is a link, or lies beyond one that leads out.
            FileWriteError: it is missing, or may not be removed.
        """
        parts, name = self._parts(relative), self._shown(relative)
        if not parts:
            raise FileWriteError("this is a folder, not a file", where=name)
        parent = self.path(PurePath(*parts[:-1]))
        try:
            with write_errors(name), open_folder(parent) as folder:
                found = folder.stat(parts[-1])
                if found is not None and stat.S_ISLNK(found.st_mode):
                    raise LinkOutside(
                        "this is a link, not a file that lmm wrote", where=name, hint="remove it yourself"
                    )
                folder.remove(parts[-1], missing_ok=missing_ok)
        except FileWriteError as error:
            if not (missing_ok and isinstance(error.__cause__, FileNotFoundError)):
                raise

    def entries(self, relative: str | PurePath = "") -> Iterator[FolderEntry]:
        """Iterate over the entries of one folder, by name; links are reported as links.

        Raises:
            LinkOutside: see `path`.
            FileReadError: it is not a folder, or cannot be read.
        """
        with read_errors(self._shown(relative)), open_folder(self.path(relative)) as folder:
            found = [(name, folder.stat(name)) for name in sorted(folder.entries())]
        for name, status in found:
            if status is not None:
                yield FolderEntry((name,), _kind(status.st_mode), status.st_size)

    def documents(self, *, on_skip: Skip = lambda error: None) -> Iterator[Path]:
        """Iterate over the documents below, in order, with paths that begin with `root`, also those that a
        ``.gitignore`` names; linked folders are not entered.

        A link counts as a file if it leads to a file inside. One that leads out is skipped, and `on_skip` gets
        the `LinkOutside` that opening it would raise; a folder that cannot be read is, with a `FileReadError`. Files
        that an export wrote into a folder below do not count, unless somebody changed them.

        Raises:
            FileReadError: the folder cannot be read.
        """

        def unreadable(place: tuple[str, ...], error: OSError) -> None:
            on_skip(FileReadError(f"this folder cannot be read: {error.strerror}", where=self._shown(PurePath(*place))))

        # A user who names the folder of an export wants its files, except one that is beside its source.
        beside = {PurePath(name): hash for name, hash in self.exported().items() if name.startswith("./")}
        exported = {PurePath(): beside}
        with read_errors(str(self.root)):
            for entry in walk(self.real, self.real, depth=None, ignore=False, on_unreadable=unreadable):
                inside = PurePath(*entry.parts)
                fits = entry.name.casefold().endswith(SUFFIXES)
                if entry.excluded or not (fits if entry.kind == "file" else self._leads_to_file(entry, fits, on_skip)):
                    continue
                if is_document(inside):
                    written = self._exported_below(inside.parent, exported).get(inside)
                    if written is None or written != digest(self.read(inside), length=16):
                        yield self.root / inside

    def _exported_below(self, folder: PurePath, known: dict[PurePath, dict[PurePath, str]]) -> dict[PurePath, str]:
        """Return the files that exports wrote into a folder, or into those above it."""
        if folder not in known:
            above = self._exported_below(folder.parent, known)
            own = {folder / name: hash for name, hash in self.exported(folder).items()}
            known[folder] = {**above, **own} if own else above
        return known[folder]

    def exported(self, relative: str | PurePath = "") -> dict[str, str]:
        """Return the files that exports wrote into a folder: their paths in it, and the `digest` of what was written.

        The path of one that is beside its source begins with ./.
        """
        try:
            written = self.read(PurePath(relative, EXPORTED), most=_LARGEST_LIST)
        except DocumentError:
            return {}
        lines = (line.partition("  ") for line in written.decode("utf-8", "surrogateescape").splitlines())
        return {name: hash for hash, _, name in lines if name}

    def _leads_to_file(self, entry: FolderEntry, fits: bool, on_skip: Skip) -> bool:
        """Return whether it is a link to a file inside; one out is reported if it `fits`, or might hide a folder."""
        link = PurePath(*entry.parts)
        if entry.kind != "link":
            return False
        try:
            found = self.stat(link)
        except LinkOutside as error:
            if fits or (self.real / link).is_dir():
                on_skip(error)
            return False
        except DocumentError:
            return False
        return fits and found is not None and stat.S_ISREG(found.st_mode)

    def _shown(self, relative: str | PurePath) -> str:
        return str(self.root / relative)

    def _parts(self, relative: str | PurePath) -> tuple[str, ...]:
        """Return the parts of a path below the folder.

        Raises:
            LinkOutside: it leads out by ``..``, or is an absolute path elsewhere.
        """
        path = PurePath(relative)
        if "\0" in str(relative):
            raise LinkOutside(
                "a path cannot contain a NUL character", where=self._shown(str(relative).replace("\0", "\\0"))
            )
        if path.is_absolute():
            roots = (Path(os.path.abspath(self.root)), self.real)
            above = next((root for root in roots if path.is_relative_to(root)), None)
            if above is None:
                raise LinkOutside("this is outside of its folder", where=str(path), hint=f"which is {self.root}")
            path = path.relative_to(above)
        parts = PurePath(os.path.normpath(path)).parts
        if parts[:1] == ("..",) or PurePath(*parts).is_absolute():
            raise LinkOutside("this path leads out of its folder", where=self._shown(relative))
        return parts


def _changeable(folder: OpenFolder, real: Path, name: str) -> os.stat_result | None:
    """Return the status of a file to be replaced, None if there is none; raise if it or its folder is read-only."""
    like = folder.stat(real.name)
    folder.check_changeable(like, real.name)
    if not os.access(real.parent, os.W_OK):
        raise FileWriteError("its folder is read-only", where=name, hint=f"chmod u+w {real.parent}")
    return like


def _ours(parts: Sequence[str]) -> int | None:
    """Return the index of the part of a path that is a folder only our programs write into."""
    return next((at for at, part in enumerate(parts) if comparable(part) in OURS), None)


def is_link(path: Path) -> bool:
    """Return whether a path itself is a link, or a junction on Windows, which `islink` does not count; False if it does
    not exist."""
    if os.path.islink(path) or os.name != "nt":
        return os.path.islink(path)
    with contextlib.suppress(OSError):
        return getattr(os.lstat(path), "st_reparse_tag", 0) == 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT
    return False


def is_internal(parts: Sequence[str]) -> bool:
    """Return whether a path leads into a folder that belongs to a program.

    >>> is_internal(("course", ".GIT", "hooks")), is_internal(("git~1",)), is_internal((".github",))
    (True, True, False)
    """
    return any(comparable(part) in INTERNAL or re.fullmatch(r"git~\d", comparable(part)) for part in parts)


# -- walking folders -----------------------------------------------------------------------------------


def walk(
    top: Path,
    root: Path,
    *,
    depth: int | None = 1,
    ignore: bool = True,
    on_unreadable: Unreadable = lambda place, error: None,
) -> Iterator[FolderEntry]:
    """Iterate over entries of `top` and of folders below, `depth` folders deep, in order, folders before their content.

    `top` and `root` are real paths. All entries of `top` itself are reported. Further down, hidden files and those
    ignored by a ``.gitignore`` are left out, and folders such as ``node_modules`` stay closed. The rules of
    ``.gitignore`` are read from `root` down. ``ignore=False`` turns these exclusions off, except of hidden files.

    Raises:
        OSError: `top` cannot be read; folders below it that cannot be read count as empty, and `on_unreadable` gets
            their parts below `root`, and the error.
    """

    def below(
        folder: Path, parts: tuple[str, ...], place: tuple[str, ...], layers: _Layers, depth: int | None
    ) -> Iterator[FolderEntry]:
        """Iterate over the entries of one folder; `parts` lead to it from the top, `place` from the root."""
        with open_folder(folder) as opened:
            names = sorted(opened.entries(), key=lambda name: (comparable(name), name))
            found = [(name, opened.stat(name)) for name in names]
            if ignore and (rules := _rules_in(opened)):
                layers = (*layers, (len(place), rules))
        deeper = depth is None or depth > 1
        for name, status in found:
            if status is None or name.startswith(".lmm-"):
                continue
            kind = _kind(status.st_mode)
            is_folder, program = kind == "folder", name in SKIPPED or is_internal((name,))
            ignored = ignore and (program or is_ignored(layers, (*place, name), is_folder))
            excluded = name.startswith(".") or ignored
            if excluded and parts and not is_folder:
                continue
            yield FolderEntry((*parts, name), kind, status.st_size, excluded, is_folder and excluded and deeper)
            if is_folder and not excluded and deeper:
                try:
                    yield from below(folder / name, (*parts, name), (*place, name), layers, depth and depth - 1)
                except (FileNotFoundError, NotADirectoryError):  # it has disappeared
                    pass
                except OSError as error:
                    on_unreadable((*place, name), error)

    above = top.relative_to(root).parts
    layers: list[tuple[int, tuple[IgnoreRule, ...]]] = []
    for at in range(len(above)) if ignore else ():
        with open_folder(root.joinpath(*above[:at])) as opened:
            layers.append((at, _rules_in(opened)))
    yield from below(top, (), above, tuple(layers), depth)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_ISREG(mode) else "other"


def _rules_in(folder: OpenFolder) -> tuple[IgnoreRule, ...]:
    try:
        with folder.open(".gitignore") as file:
            return parse_ignore(file.read(_LARGEST_IGNORE).decode("utf-8", "replace"))
    except OSError:
        return ()


# -- paths that users name -----------------------------------------------------------------------------


def check_named(path: Path) -> Path:
    """Return a path that the user typed, unless a link in it leads out of the folder that contains the link.

    The user is trusted, but a shell's ``*.md`` also names links that a stranger put into the folder. The last part of
    a path is checked, and all of a relative one: the upper parts of an absolute path are the system's or the
    user's own (``/tmp``, a linked home). A link that stays in its folder is allowed.

    Raises:
        LinkOutside: a link leads out; the error has the real path, which can be named instead.
    """
    parts = path.parts
    first = len(parts) - 1 if path.is_absolute() else 0
    for end in range(max(first, 0), len(parts)):
        link = Path(*parts[: end + 1])
        if not is_link(link):
            continue
        folder, real = Path(os.path.realpath(link.parent)), Path(os.path.realpath(link))
        if not real.is_relative_to(folder):
            meant = Path(os.path.realpath(path))
            raise LinkOutside(
                f"this link leads out of its folder, to {meant}", where=str(path), hint=f"name {meant} itself"
            )
    return path


def configured(root: Path, named: str | PurePath) -> Path:
    """Return the path that a configuration in `root` names: one that appears to be in `root` has to be in it.

    A path that openly leads elsewhere is returned as it is: whether the configuration may name it is not checked.

    Raises:
        LinkOutside: a link on the way leads out.
    """
    path = Path(os.path.abspath(root / named))
    return Folder(root).path(path) if path.is_relative_to(os.path.abspath(root)) else path


def is_foreign(path: Path) -> bool:
    """Return whether a file, or its folder, belongs to another user: git's rule for trusting configuration.

    Root's files are not foreign, nor after ``sudo`` those of the user who called it, nor any where files have no
    owners.
    """
    if not hasattr(os, "geteuid"):
        return False
    mine = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        mine.add(int(os.environ["SUDO_UID"]))
    for each in (path, path.parent):
        with contextlib.suppress(OSError):
            if each.stat().st_uid not in mine:
                return True
    return False


# -- documents -----------------------------------------------------------------------------------------


def is_document(path: PurePath) -> bool:
    """Return whether a file is a document, by its path in a folder.

    Hidden files and folders, knitr's temporary files, and names of secrets are not.

    >>> [is_document(PurePath(p)) for p in ("a/b.Rmd", "b.md.unplaced", ".git/b.md", "b.knit.md", "b.chatmd")]
    [True, False, False, False, False]
    """
    name = path.name.lower()
    hidden = any(part.startswith(".") for part in path.parts)
    return name.endswith(SUFFIXES) and not name.endswith(_MADE_BY_KNITR) and not hidden and not is_secret_file(path)


def knitted_from(name: str, siblings: Container[str]) -> str:
    """Return the R Markdown or Quarto file among the files beside a markdown file that it seems to be made from.

    >>> knitted_from("a.md", ["a.md", "a.Rmd"]), knitted_from("a.md", ["b.Rmd"]), knitted_from("a.qmd", ["a.Rmd"])
    ('a.Rmd', '', '')
    """
    stem, suffix = os.path.splitext(name)  # noqa: PTH122  # a thousand times a second
    sources = [stem + ending for ending in (".Rmd", ".rmd", ".qmd")] if suffix.lower() in (".md", ".markdown") else []
    return next((source for source in sources if source in siblings), "")


def without_knitted(paths: Iterable[Path]) -> list[Path]:
    """Return the paths of documents but those that seem to be made from R Markdown or Quarto beside them."""
    names, own = dict[Path, set[str]](), list[Path]()
    for path in paths:
        if path.parent not in names:
            names[path.parent] = set(os.listdir(path.parent)) if path.parent.is_dir() else set()  # noqa: PTH208
        own += [] if knitted_from(path.name, names[path.parent]) else [path]
    return own


def documents_below(*paths: Path, on_skip: Skip = lambda error: None) -> Iterator[Path]:
    """Iterate over the documents at paths that the user named: files as they are, and all below folders, each once.

    Links that lead out of a folder, and folders that cannot be read, are skipped; `on_skip` gets the error.

    Raises:
        LinkOutside: a path that was named is a link out of its folder.
        FileReadError: there is nothing at one of the paths.
    """
    seen: set[Path] = set()
    for path in paths:
        check_named(path)
        if not os.path.lexists(path):
            raise FileMissing("there is no such file or folder", where=str(path), hint="check the path")
        for document in Folder(path).documents(on_skip=on_skip) if path.is_dir() else (path,):
            real = Path(os.path.realpath(document))
            if real not in seen:
                seen.add(real)
                yield document
