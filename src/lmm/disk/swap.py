"""Replace a file by another one so that no save at that moment is lost.

Between comparing and renaming there is a moment in which somebody's save would be lost. So the two files
are exchanged in one step, and the old content is then compared: if it is not what we had read, somebody saved, and
the exchange is undone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
import sys
import time
from pathlib import Path

from lmm.disk import digest
from lmm.errors import Changed

_WAIT = 2.0  # seconds for a program that has the old file open to write it
_LOOK_EVERY = 0.005
_BLIND_WAIT = 0.03  # where the system does not report whether the file is open
_IMPOSSIBLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
_AT_FDCWD, _RENAME_EXCHANGE, _RENAME_SWAP = -100, 2, 2
LEFT_AFTER = 60.0
"""The age in seconds after which a temporary file is no longer being written."""
TEMPORARY = (".lmm-", ".tmp")
"""The prefix and suffix of the names of temporary files."""
_EXCHANGED = re.compile(r"\.lmm-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.(?:tmp|old)")


def put_in_place(new: Path, target: Path, data: bytes, expected: bytes) -> None:
    """Replace `target` by the file `new`, which contains `data`, if it contains `expected`; `new` is then gone.

    A save by renaming is never lost. Nor is one by a program that opens the file and writes into it, if it
    opened it before the exchange and writes within two seconds; Linux reports whether any has it open for
    writing, and we wait only then. If a program keeps a file open and writes later, it writes into the replaced
    file, and that save is lost. Where the file system cannot exchange (NFS, FAT, some containers), the old file is
    linked aside first: then a save by renaming between our last look and our renaming, some microseconds, is lost.

    Raises:
        Changed: `target` contains something else, which its author saved in the meantime; it is kept, or put back.
        OSError: neither is possible. `target` is as it was.
    """
    # Its name identifies what it may contain if its process is killed.
    digests = "-".join(digest(text, length=16) for text in (data, expected))
    new = new.rename(new.with_name(f"{new.stem}-{digests}{TEMPORARY[1]}"))
    try:
        if (found := content(target)) != expected:
            raise Changed(found, target)
        exchange(new, target)
    except (OSError, Changed) as error:
        if isinstance(error, OSError) and error.errno in _IMPOSSIBLE:
            _replace_linked(new, target, data, expected)
            return
        new.unlink()
        if isinstance(error, FileNotFoundError):  # an editor is about to put another file there
            raise Changed(content(target), target) from None
        raise
    interrupted = None
    try:
        took = _final_content(new, expected)
    except KeyboardInterrupt as error:
        took, interrupted = new.read_bytes(), error
    theirs = None if took == expected else _put_back(new, target, data, took)
    new.unlink()
    if interrupted is not None:
        raise interrupted
    if theirs is not None:
        raise Changed(theirs, target)


def _put_back(new: Path, target: Path, data: bytes, took: bytes) -> bytes:
    """Exchange until `target` has the author's content and our own comes out; return the author's."""
    last, put = data, took
    while True:
        try:
            exchange(new, target)
        except FileNotFoundError:  # they removed ours
            with contextlib.suppress(FileExistsError):
                os.link(new, target)
                return put
            continue
        took = _final_content(new, last)
        if took == last:
            return put
        last, put = put, took


def _replace_linked(new: Path, target: Path, data: bytes, expected: bytes) -> None:
    aside = new.with_suffix(".old")
    with contextlib.suppress(OSError):  # a file system without links
        os.link(target, aside)
    try:
        if content(target) != expected or (aside.exists() and not aside.samefile(target)):
            raise Changed(content(target), target)
        new.replace(target)
        took = _final_content(aside, expected) if aside.exists() else expected
        if took == expected:
            return
        if (now := content(target)) != data:  # and saved once more, over ours
            raise Changed(now, target)
        aside.replace(target)
        raise Changed(took, target)
    finally:
        new.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)


def content(path: Path) -> bytes | None:
    """Return the bytes of a file; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _final_content(path: Path, expected: bytes) -> bytes:
    """Return the bytes of a file that was replaced, once no program can write to it; at once if they differ."""
    end = time.monotonic() + _WAIT
    while True:
        still_open = _open_elsewhere(path)
        found = path.read_bytes()  # read after asking: a program that had it open may have written before
        if found != expected or still_open is False or time.monotonic() > end:
            return found
        time.sleep(_LOOK_EVERY if still_open else _BLIND_WAIT)
        end = end if still_open else 0.0


def _open_elsewhere(path: Path) -> bool | None:
    """Return whether some program has a file open for writing; None where the system does not report it."""
    if sys.platform != "linux":
        return None
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        # If another name of this file were opened now, we would get a signal, which by default ends the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)  # granted only if nobody has it open for writing
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    finally:
        os.close(descriptor)
    return False


# -- the three systems -----------------------------------------------------------------------------


def exchange(one: Path, two: Path) -> None:
    """Exchange two files in one step.

    Raises:
        FileNotFoundError: one of them is missing.
        OSError: the file system cannot, among other reasons.
    """
    import ctypes

    if sys.platform == "win32":
        backup = one.with_suffix(".old")
        windows = ctypes.WinDLL("kernel32", use_last_error=True)
        if not windows.ReplaceFileW(str(two), str(one), str(backup), 0, None, None):
            raise ctypes.WinError(ctypes.get_last_error())
        backup.rename(one)
        return
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(os.fsencode(one), os.fsencode(two), _RENAME_SWAP)
        else:
            failed = library.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(two), _RENAME_EXCHANGE)
    except AttributeError as error:
        raise OSError(errno.ENOSYS, "this system cannot exchange files") from error
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(two))


# -- what a killed process leaves -------------------------------------------------------------------


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove temporary files that a killed process left in `folder`: those no longer being written.

    One that was part of an exchange may contain what the author saved at that moment: unless it is the text that was
    read, or the one to be written, it is kept as ``recovered-….md``. Returns the paths of these.
    """
    kept = []
    for path in [*folder.glob("*".join(TEMPORARY)), *folder.glob(f"{TEMPORARY[0]}*.old")]:
        with contextlib.suppress(OSError):
            status, exchanged = path.lstat(), _EXCHANGED.fullmatch(path.name)
            # An exchanged file has the time of its author's last save: only the other time shows the exchange.
            if time.time() - max(status.st_mtime, status.st_ctime) <= LEFT_AFTER or not stat.S_ISREG(status.st_mode):
                continue
            if exchanged and digest(path.read_bytes(), length=16) not in exchanged.group(2, 3):
                named = path.with_name(f"recovered-{exchanged[1]}.md")  # for a person to find
                if not named.exists():
                    kept.append(path.rename(named))
            elif exchanged or path.suffix == TEMPORARY[1]:  # other .old files belong to a patch, which repairs itself
                path.unlink()
    return kept
