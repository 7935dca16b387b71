"""Documents on disk: read exactly, replaced whole, locked.

Reading keeps every byte: newlines, a byte order mark, a missing final newline. Replacing is `Folder.write`: a crash
leaves the old file or the new one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lmm.disk import digest
from lmm.disk.folder import Folder, check_named
from lmm.errors import DocumentBusy, FileReadError, FileWriteError

MOST = 64_000_000
"""Bytes of a text: nobody writes more, and a file may say that it has any number."""


def state_folder() -> Path:
    """Where the journal, locks and approvals live: ``$LMM_STATE_DIR``, else the user's state folder."""
    from platformdirs import user_state_path

    return Path(os.environ.get("LMM_STATE_DIR") or user_state_path("lmmarkdown", appauthor=False))


def cache_folder() -> Path:
    """Where that lives which can be made again, such as vectors: ``$LMM_CACHE_DIR``, else the user's cache folder."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("LMM_CACHE_DIR") or user_cache_path("lmmarkdown", appauthor=False))


def read_document(path: Path) -> str:
    """The text of a UTF-8 file, every character as it is on disk.

    Raises:
        FileReadError: it is missing, no ordinary file, not readable, or not UTF-8.
    """
    return decode_document(read_bytes(path), str(path))


def read_settled(path: Path, base: str | None = None) -> str:
    """The same; what is missing, torn or emptied is waited for, up to a second: an editor may be about to write it.

    `base` is what the file may hold even if that is nothing.

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
    """Where a path leads; a link that leads round in a circle leads to itself, and cannot be opened."""
    return Path(os.path.realpath(path))


def shown(path: str | Path) -> str:
    """A path as text that can be written anywhere: bytes in it that are not UTF-8 are spelled out.

    >>> print(shown("notes/caf\\udce9.md"))
    notes/caf\\xe9.md
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def title_of(path: Path) -> str:
    """The name of a file without its ending, for a document that has no title."""
    return shown(path.stem)


def decode_document(data: bytes, name: str) -> str:
    """The text of a document's bytes; `name` stands for it in messages.

    Raises:
        FileReadError: they are not UTF-8.
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
    """The bytes of an ordinary file: a pipe would let us wait for ever, a device need not end.

    Raises:
        FileReadError: it is missing, a folder, something else than a file, too large, or not readable.
        LinkOutside: it is a link that leads out of its folder (see `lmm.disk.folder.check_named`).
    """
    return folder_of(path).read(path.name, most=MOST)


def check_writable(path: Path) -> None:
    """Fail early, before a model is paid, if `path` could not be replaced.

    Raises:
        FileWriteError: the file or its folder is write-protected.
        LinkOutside: it is a link that leads out of its folder.
    """
    folder_of(path).check_writable(path.name)


def replace(path: Path, data: str | bytes, *, expected: bytes | None = None, private: bool = False) -> None:
    """Replace a file's content in one step, keeping its mode; a link inside its folder is followed, not replaced.

    With `expected`, only if that is what the file holds; what its author saves in that very moment stays (see
    `lmm.disk.swap`). A new file that is `private` is nobody else's to read.

    Raises:
        Changed: the file does not hold `expected`.
        FileWriteError: the disk is full, or the folder may not be written to; the old content stays.
        LinkOutside: it is a link that leads out of its folder.
    """
    folder = folder_of(path)
    if not folder.real.is_dir():
        hint = f"make it: mkdir -p {path.parent}"
        raise FileWriteError("cannot be written: its folder does not exist", where=str(path), hint=hint)
    folder.write(path.name, data, expected=expected, private=private)


def folder_of(path: Path) -> Folder:
    """The folder of a file that the user named: he may name what seems to hold keys."""
    return Folder(check_named(path).parent, secrets=True)


@contextlib.contextmanager
def document_lock(path: Path, *, on_wait: Callable[[], None] = lambda: None, timeout: float = -1) -> Iterator[None]:
    """Hold the advisory lock of one document; `on_wait` is called once if another process has it.

    `timeout` is in seconds; negative waits for ever. The lock goes with the process, however it ends.

    Raises:
        DocumentBusy: the lock was not free within `timeout`.
        FileWriteError: the user's state folder cannot be written.
    """
    from filelock import FileLock, Timeout

    folder = state_folder() / "locks"
    name = digest(str(real(path)), length=32)
    lock = FileLock(folder / f"{name}.lock", thread_local=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire(timeout=timeout)
    except Timeout as error:
        raise DocumentBusy(
            "another lmm command is working on this document", where=str(path), hint="try again later"
        ) from error
    except OSError as error:
        raise FileWriteError(
            f"locks cannot be written to this folder: {error.strerror or error}",
            where=str(folder),
            hint="choose another folder: export LMM_STATE_DIR=…",
        ) from error
    try:
        yield
    finally:
        lock.release()
