"""Documents on disk: read exactly, replaced whole, locked.

Reading keeps every byte: newlines, a byte order mark, a missing final newline. Replacing writes a
temporary file in the same folder, flushes it to the disk and renames it, so that a crash leaves the old
file or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lmm.disk.folder import check_named
from lmm.disk.swap import put_in_place
from lmm.errors import DocumentBusy, FileReadError, FileWriteError

MOST = 64_000_000
"""Bytes of a text: nobody writes more, and a file may say that it has any number."""
LEFT_AFTER = 60.0
"""Seconds after which nobody writes a temporary file any more."""
_TEMPORARY = (".lmm-", ".tmp")
_EXCHANGED = re.compile(r"\.lmm-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.(?:tmp|old)")


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
        raise FileReadError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            where=f"{name}:{line}:{column}",
            hint=f"convert it, for example with: iconv -f {_guess_encoding(data)} -t UTF-8",
        ) from error


def _guess_encoding(data: bytes) -> str:
    return "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"


def read_bytes(path: Path) -> bytes:
    """The bytes of an ordinary file: a pipe would let us wait for ever, a device need not end.

    Raises:
        FileReadError: it is missing, a folder, something else than a file, or not readable.
        LinkOutside: it is a link that leads out of its folder (see `lmm.disk.folder.check_named`).
    """
    check_named(path)
    try:
        # Without blocking, as opening a pipe waits for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileReadError("this is no ordinary file", where=str(path), hint="save what it gives in a file")
            if status.st_size > MOST:
                most = f"it has {status.st_size / 1e6:,.0f} MB, and a text at most {MOST / 1e6:,.0f}"
                raise FileReadError(most, where=str(path), hint="part it into several files")
            return file.read()
    except FileNotFoundError as error:
        raise FileReadError("there is no such file", where=str(path), hint="check the path") from error
    except IsADirectoryError as error:
        raise _folder(path) from error
    except PermissionError as error:
        if path.is_dir():  # Windows
            raise _folder(path) from error
        raise FileReadError("you may not read this file", where=str(path), hint=f"chmod u+r {path}") from error
    except OSError as error:
        raise FileReadError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def _folder(path: Path) -> FileReadError:
    return FileReadError("this is a folder, not a file", where=str(path), hint=f"name its files: {path}/*.md")


def check_writable(path: Path) -> None:
    """Fail early, before a model is paid, if `path` could not be replaced.

    Raises:
        FileWriteError: the file or its folder is write-protected.
        LinkOutside: it is a link that leads out of its folder.
    """
    check_named(path)
    target = real(path)
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise FileWriteError("the file is read-only", where=str(path), hint=f"chmod u+w {path}")
    if not os.access(target.parent, os.W_OK):
        raise FileWriteError("its folder is read-only", where=str(path), hint=f"chmod u+w {target.parent}")


def replace(path: Path, data: str | bytes, *, expected: bytes | None = None, mode: int = 0o666) -> None:
    """Replace a file's content in one step, keeping its mode; a link inside its folder is followed, not replaced.

    With `expected`, only if that is what the file holds; what its author saves in that very moment stays (see
    `lmm.disk.swap`). A new file gets `mode`, less what the umask takes.

    Raises:
        Changed: the file does not hold `expected`.
        FileWriteError: the disk is full, or the folder may not be written to; the old content stays.
        LinkOutside: it is a link that leads out of its folder.
    """
    check_named(path)
    target = real(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary = None
    try:
        descriptor, temporary = _temporary(target, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _copy_ownership(target, temporary)
        if expected is None:
            temporary.replace(target)
        else:
            temporary = _named_for_exchange(temporary, content, expected)
            written, temporary = temporary, None  # from here on it may hold what the author saved
            put_in_place(written, target, content, expected)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        raise _unwritten(path, target, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _unwritten(path: Path, target: Path, error: OSError) -> FileWriteError:
    if not target.parent.exists():
        return FileWriteError(
            "cannot be written: its folder does not exist", where=str(path), hint=f"make it: mkdir -p {path.parent}"
        )
    state = "the file is as it was" if target.exists() else "no such file was made"
    return FileWriteError(
        f"cannot be written: {error.strerror or error}",
        where=str(path),
        hint=f"{state}; free some space or check the folder's permissions, then run again",
    )


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove temporary files that a killed process left in `folder`: those no longer being written.

    One that stood for an exchange may hold what the author saved in that moment, and nobody has seen: unless it is the
    text that was read, or the one to be written, it is kept as ``recovered-….md``. The names of these.
    """
    kept = []
    for path in [*folder.glob("*".join(_TEMPORARY)), *folder.glob(f"{_TEMPORARY[0]}*.old")]:
        with contextlib.suppress(OSError):
            status, exchanged = path.lstat(), _EXCHANGED.fullmatch(path.name)
            # What was exchanged has the time of its author's last save: only the other time tells of the exchange.
            if time.time() - max(status.st_mtime, status.st_ctime) <= LEFT_AFTER or not stat.S_ISREG(status.st_mode):
                continue
            if exchanged and _digest_of(path) not in exchanged.group(2, 3):
                kept.append(_recovered(path, exchanged[1]))
            elif exchanged or path.suffix == _TEMPORARY[1]:  # other .old ones are those of a patch, which mends itself
                path.unlink()
    return kept


def _named_for_exchange(temporary: Path, content: bytes, expected: bytes) -> Path:
    """Give a file that is whole a name that says what it may hold when its process was killed."""
    digests = "-".join(hashlib.sha256(data).hexdigest()[:16] for data in (content, expected))
    named = temporary.with_name(f"{temporary.stem}-{digests}{_TEMPORARY[1]}")
    temporary.rename(named)
    return named


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _recovered(path: Path, token: str) -> Path:
    """Give a file a name under which a person finds it; nothing is replaced."""
    named = path.with_name(f"recovered-{token}.md")
    if named.exists():
        raise FileExistsError(str(named))
    path.rename(named)
    return named


def _temporary(target: Path, mode: int) -> tuple[int, Path]:
    """A new file beside `target`, open for writing: nobody else's to read, or with `mode` if there is no `target` yet.

    The system applies the umask; to ask for it, a process has to change it, for all threads.
    """
    mode = 0o600 if target.exists() else mode
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        # The name does not contain the target's, which may be as long as names can be.
        path = target.parent / f"{_TEMPORARY[0]}{secrets.token_hex(8)}{_TEMPORARY[1]}"
        with contextlib.suppress(FileExistsError):
            return os.open(path, flags, mode), path


def _copy_ownership(target: Path, temporary: Path) -> None:
    """Give the new file the mode and, where allowed, the owner of the old one, if there is one."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):  # only a superuser may give files away; no chown on Windows
        os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
    name = hashlib.sha256(os.fsencode(real(path))).hexdigest()[:32]
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
            "another lmm is working on this document", where=str(path), hint="try again later"
        ) from error
    except OSError as error:
        raise FileWriteError(
            f"locks cannot be written to this folder: {error.strerror or error}",
            where=str(folder),
            hint="name another one: export LMM_STATE_DIR=…",
        ) from error
    try:
        yield
    finally:
        lock.release()
