"""Open, list, replace and remove files by their real paths, following no link on the way.

After a path was checked, somebody may replace a folder by a link. So each folder on the way is opened from the one
above it and refused if it is a link, and the file is used through the open folder. Where the system cannot do that
(Windows), the real path is compared again. Only ordinary files are opened: a pipe would wait for ever, and opening a
device may have effects.
"""

# pathlib has no open folders.
# ruff: noqa: PTH101, PTH208

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from lmm.errors import FileMissing, FileReadError, FileWriteError, LinkOutside

WALKS = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_QUIET = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_QUIET |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
Mode = Literal["rb", "r+b", "wb", "ab", "a+b", "xb"]
_FLAGS: Mapping[Mode, int] = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "wb": os.O_WRONLY | os.O_CREAT,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "a+b": os.O_RDWR | os.O_CREAT | os.O_APPEND,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
_PERMISSIONS = 0o777  # the bits of a mode that are kept: not setuid, as a file that was rewritten must not run so


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """An open folder. Names are those of its entries, never paths; `real` is its path when it was opened."""

    real: Path
    descriptor: int | None

    def _at(self, name: str) -> str:
        """Return the path by which functions of `os` find an entry, given the descriptor."""
        return str(self.real / name) if self.descriptor is None else name

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, without following links; None if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._at(name), follow_symlinks=False, dir_fd=self.descriptor)
        return None

    def open(self, name: str, mode: Mode = "rb", *, private: bool = False) -> BinaryIO:
        """Open an ordinary file to read, or by `mode` to write or create; only the user can read a new `private` one.

        Raises:
            OSError: it is missing, not an ordinary file, or may not be opened.
        """
        found = self.stat(name)
        if found is not None or mode in ("rb", "r+b"):
            self._check_ordinary(found, name)
        permissions = 0o600 if private else 0o666
        descriptor = os.open(self._at(name), _FLAGS[mode] | _QUIET, permissions, dir_fd=self.descriptor)
        try:
            self._check_ordinary(os.fstat(descriptor), name)  # it may be another one by now
            if mode == "wb":  # only now is it known what would be emptied
                os.ftruncate(descriptor, 0)
            return os.fdopen(descriptor, "wb" if mode == "xb" else mode)
        except BaseException:
            os.close(descriptor)
            raise

    def _check_ordinary(self, found: os.stat_result | None, name: str) -> None:
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "this is a folder, not a file", name)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "this has been replaced by a link", name)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "this is a device or a pipe, not a file", name)

    def check_changeable(self, found: os.stat_result | None, name: str) -> None:
        """Raise if a file is read-only: its folder's permission alone would allow it to be replaced.

        Raises:
            OSError: it is read-only, or not an ordinary file.
        """
        if found is None:
            return
        self._check_ordinary(found, name)
        if not (found.st_mode & 0o222 and os.access(self._at(name), os.W_OK, dir_fd=self.descriptor)):
            raise OSError(errno.EACCES, "the file is read-only", name)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[int]:
        """Open a descriptor of the folder itself, for calls that need to read it."""
        readable = os.open(".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0), dir_fd=self.descriptor)
        try:
            yield readable
        finally:
            os.close(readable)

    def entries(self) -> list[str]:
        """Return the names of all entries."""
        if self.descriptor is None:
            return os.listdir(self.real)
        with self._readable() as readable:
            return os.listdir(readable)

    def write_new(self, name: str, data: bytes, like: os.stat_result | None, *, mode: int | None = None) -> None:
        """Create a file that contains `data`, and wait until it is on the disk.

        It has the mode and, where allowed, the owner of the file `like`; else `mode`, or that of any new file.

        Raises:
            OSError: the file exists, or the disk refuses; then no file is left.
        """
        # The system takes the umask off: asking for it would change it for a moment, for all threads.
        first = 0o600 if like is not None else 0o666 if mode is None else mode
        descriptor = os.open(self._at(name), _FLAGS["xb"] | _QUIET, first, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if like is not None:
                    with contextlib.suppress(OSError, AttributeError):  # only a superuser may give files away
                        os.fchown(file.fileno(), like.st_uid, like.st_gid)
                    there = file.fileno() if os.chmod in os.supports_fd else self._at(name)
                    os.chmod(there, like.st_mode & _PERMISSIONS)
                os.fsync(file.fileno())
        except BaseException:
            self.remove(name, missing_ok=True)
            raise

    def rename(self, name: str, new: str) -> None:
        """Rename an entry, replacing any that has the new name."""
        fd = self.descriptor
        os.replace(self._at(name), self._at(new), src_dir_fd=fd, dst_dir_fd=fd)

    def remove(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        with contextlib.suppress(*([FileNotFoundError] if missing_ok else [])):
            os.unlink(self._at(name), dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make renames and removals durable, where folders can be synced."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError), self._readable() as readable:
                os.fsync(readable)


@contextlib.contextmanager
def open_folder(real: Path) -> Iterator[OpenFolder]:
    """Open the folder at a real path.

    Raises:
        OSError: it is missing, or there is now a link on the way.
    """
    if not WALKS:
        if Path(os.path.realpath(real)) != real:
            raise OSError(errno.ELOOP, "this has been replaced by a link", str(real))
        if not real.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(real))
        yield OpenFolder(real, None)
        return
    descriptor = os.open(real.anchor, _PASS)
    try:
        for part in real.parts[1:]:
            below = os.open(part, _PASS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield OpenFolder(real, descriptor)
    finally:
        os.close(descriptor)


def make_folders(real: Path, *, mode: int = 0o777) -> list[Path]:
    """Create a folder and those above it that are missing; return the created ones, outermost first.

    Raises:
        OSError: a file or a link is in the way, or the disk refuses; created folders are removed again.
    """
    missing: list[Path] = []
    for folder in (real, *real.parents):
        if os.path.lexists(folder):
            break
        missing.insert(0, folder)
    made: list[Path] = []
    try:
        for folder in missing:
            with open_folder(folder.parent) as parent, contextlib.suppress(FileExistsError):
                os.mkdir(parent._at(folder.name), mode, dir_fd=parent.descriptor)
                made.append(folder)
    except OSError:
        remove_folders(made)
        raise
    return made


def remove_folders(made: Sequence[Path]) -> None:
    """Remove those of the created folders that are empty."""
    for folder in reversed(made):
        with contextlib.suppress(OSError), open_folder(folder.parent) as parent:
            os.rmdir(parent._at(folder.name), dir_fd=parent.descriptor)


@contextlib.contextmanager
def read_errors(
    name: str, *, look: str = "", kind: type[FileReadError | FileWriteError] = FileReadError
) -> Iterator[None]:
    """Turn the system's errors while a file is read into `FileReadError`; `look` is the hint if the file is missing.

    Raises:
        LinkOutside: there is now a link on the way.
        FileReadError: anything else.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LinkOutside("a link leads back to itself, or was created just now", where=name) from error
        said = error.strerror or str(error)
        words, hint = _WORDS.get(error.errno or 0, ("cannot be {done}: {said}", ""))
        if said != os.strerror(error.errno or 0):  # it was raised in this module, and says more
            words = "{said}"
        verb, done, right = ("read", "read", "r") if kind is FileReadError else ("write", "written", "w")
        spoken = partial(str.format, name=name, said=said, verb=verb, done=done, right=right)
        if kind is FileReadError and error.errno == errno.ENOENT:
            kind = FileMissing
        elsewhere = look and error.errno in (errno.ENOENT, errno.EISDIR, errno.ENOTDIR)
        raise kind(spoken(words), where=name, hint=look if elsewhere else spoken(hint)) from error


write_errors = partial(read_errors, kind=FileWriteError)
"""The same for writing, as a `FileWriteError`."""


_FULL = ("the disk is full; nothing was changed", "free some space, then run again")
_WORDS = {  # what happened, and what to do
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.EISDIR: ("this is a folder, not a file", "name the files in it"),
    errno.ENOTDIR: ("part of this path is not a folder", "check the path"),
    errno.EACCES: ("you may not {verb} this file", "chmod u+{right} {name}"),
    errno.EROFS: ("the file system is read-only", ""),
    errno.ENAMETOOLONG: ("this name is too long", ""),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
}
