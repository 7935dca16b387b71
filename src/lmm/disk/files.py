"""Read documents exactly, replace them whole, and lock them.

Reading keeps every byte: newlines, a byte order mark, a missing final newline. Replacing is `Folder.write`: a crash
leaves the old file or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lmm.disk import digest
from lmm.disk.folder import Folder, check_named
from lmm.errors import DocumentBusy, FileReadError, FileWriteError

MOST = 64_000_000
"""The largest size of a text in bytes: no author writes more, and a file may claim any size."""


def state_folder() -> Path:
    """Return the folder of the journal, locks and approvals: ``$LMM_STATE_DIR``, else the user's state folder."""
    from platformdirs import user_state_path

    return Path(os.environ.get("LMM_STATE_DIR") or user_state_path("lmmarkdown", appauthor=False))


def cache_folder() -> Path:
    """Return the folder of reproducible data such as vectors: ``$LMM_CACHE_DIR``, else the user's cache folder."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("LMM_CACHE_DIR") or user_cache_path("lmmarkdown", appauthor=False))


def read_document(path: Path) -> str:
    """Return the text of a UTF-8 file, every character as it is on disk.

    Raises:
        FileReadError: the file is missing, not an ordinary file, not readable, or not UTF-8.
    """
    return decode_document(read_bytes(path), str(path))


def read_settled(path: Path, base: str | None = None) -> str:
    """Read as `read_document`, but wait up to a second if the file is missing, torn or empty: it may be being saved.

    `base` is a content that is accepted even if it is empty.

    Raises:
        FileReadError: as `read_document`.
    """
    for _ in range(20):
        with contextlib.suppress(FileReadError):
            if (text := read_document(path)) == base or text.strip():
                return text
        time.sleep(0.05)
    return read_document(path)


def real(path: Path) -> Path:
    """Resolve the links of a path; a circular link resolves to itself, and cannot be opened."""
    return Path(os.path.realpath(path))


def shown(path: str | Path) -> str:
    """Return a path as text that can be written anywhere: bytes that are not UTF-8 are escaped.

    >>> print(shown("notes/caf\\udce9.md"))
    notes/caf\\xe9.md
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def title_of(path: Path) -> str:
    """Return the name of a file without its suffix, for a document that has no title."""
    return shown(path.stem)


def decode_document(data: bytes, name: str) -> str:
    """Decode a document's bytes; `name` is its name in messages.

    Raises:
        FileReadError: the bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        encoding = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        raise FileReadError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            where=f"{name}:{line}:{column}",
            hint=f"convert it, for example with: iconv -f {encoding} -t UTF-8",
        ) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of an ordinary file: a pipe may block for ever, and a device need not end.

    Raises:
        FileReadError: the file is missing, a folder, not an ordinary file, too large, or not readable.
        LinkOutside: it is a link that leads out of its folder (see `lmm.disk.folder.check_named`).
    """
    return folder_of(path).read(path.name, most=MOST)


def check_writable(path: Path) -> None:
    """Raise early, before a model is paid, if `path` could not be replaced.

    Raises:
        FileWriteError: the file or its folder is write-protected.
        LinkOutside: it is a link that leads out of its folder.
    """
    folder_of(path).check_writable(path.name)


def replace(path: Path, data: str | bytes, *, expected: bytes | None = None, private: bool = False) -> None:
    """Replace a file's content in one step, keeping its mode; a link inside its folder is followed, not replaced.

    With `expected`, only if the file contains that; what its author saves at that very moment is kept (see
    `lmm.disk.swap`). A new file that is `private` can be read by the user only.

    Raises:
        Changed: the file does not contain `expected`.
        FileWriteError: the disk is full, or the folder may not be written to; the old content stays.
        LinkOutside: it is a link that leads out of its folder.
    """
    folder = folder_of(path)
    if not folder.real.is_dir():
        hint = f"make it: mkdir -p {path.parent}"
        raise FileWriteError("cannot be written: its folder does not exist", where=str(path), hint=hint)
    folder.write(path.name, data, expected=expected, private=private)


def folder_of(path: Path) -> Folder:
    """Return the folder of a file that the user named; files with names of secrets may be read, too."""
    return Folder(check_named(path).parent, secrets=True)


@contextlib.contextmanager
def document_lock(path: Path, *, timeout: float = -1) -> Iterator[None]:
    """Hold the advisory lock of one document; it is released when the process ends in any way.

    `timeout` is in seconds; negative waits for ever.

    Raises:
        DocumentBusy: the lock was not free within `timeout`.
        FileWriteError: the user's state folder cannot be written.
    """
    from filelock import FileLock, Timeout

    folder = state_folder() / "locks"
    name = digest(str(real(path)), length=32)
    lock = FileLock(folder / f"{name}.lock", thread_local=False)
    with state_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=timeout)
        except Timeout as error:
            reason = "another lmm command is working on this document"
            raise DocumentBusy(reason, where=str(path), hint="try again later") from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def state_errors(folder: Path) -> Iterator[None]:
    """Name a folder in the state folder that cannot be written to, and how to choose another one.

    Raises:
        FileWriteError: it cannot be written to.
    """
    try:
        yield
    except (OSError, FileWriteError) as error:
        cause = error.__cause__ or error
        full = "free some space, or " if getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT) else ""
        raise FileWriteError(
            f"cannot write to {folder}: {getattr(cause, 'strerror', None) or cause}",
            hint=f"{full}choose another folder: export LMM_STATE_DIR=…",
        ) from error
