"""What was read of files that have not changed since, so that a run need not read them again.

As in git's index, a file is the same if its size, times, and number on the disk are. The time of its last change, which
the system sets and no program can, tells an edit that keeps the size and the time of modification. A file that was
changed just before it was read could change again within the same tick of the clock: it is read once more.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

import msgspec

from lmm.disk import digest, files
from lmm.errors import LmmError
from lmm_education.ingestion.plan import DocumentFile
from lmm_education.ingestion.source_files import SourceFile

_TICK, _COARSE = 100_000_000, 2_000_000_000  # nanoseconds; the latter where the disk keeps no parts of a millisecond
_State = tuple[int, ...]
_Entry = tuple[_State, str, str, str]


class _Cache(msgspec.Struct):
    """The file in the cache: the `stamp` of the settings, and by file its state, id, hash and hash of its text."""

    stamp: str = ""
    entries: dict[str, _Entry] = msgspec.field(default_factory=dict)


class KnownFiles:
    """The documents of a course in a folder that were read with the settings of a `stamp`."""

    def __init__(self, root: Path, stamp: str) -> None:
        self._path = files.cache_folder() / "documents" / f"{digest(str(root), length=32)}.json"
        self._cache, self._is_changed = _Cache(digest(stamp, length=32)), False
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found = msgspec.json.decode(self._path.read_bytes(), type=_Cache)
            self._cache = found if found.stamp == self._cache.stamp else self._cache

    def find(self, source: SourceFile, state: _State) -> DocumentFile | None:
        """Return the document in a file, without its text, if it was read in this state."""
        entry = self._cache.entries.get(source.file) if state else None
        if entry is None or entry[0] != state:
            return None
        return DocumentFile(source, entry[1], entry[2], text_hash=entry[3])

    def add(self, document: DocumentFile, state: _State) -> None:
        """Remember a document whose file was in this state before it was read."""
        if state and document.is_alone:
            self._cache.entries[document.file] = (state, document.id, document.hash, document.text_hash)
            self._is_changed = True

    def save(self) -> None:
        """Write what was read for the next run."""
        if self._is_changed:
            with contextlib.suppress(OSError, LmmError):  # it is a cache
                self._path.parent.mkdir(parents=True, exist_ok=True)
                files.replace(self._path, msgspec.json.encode(self._cache), private=True)


def state_of(source: SourceFile) -> _State:
    """Return the state of a file; empty if it may change without one that differs."""
    try:
        found = os.lstat(source.path)
    except OSError:
        return ()
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    settled = time.time_ns() - changed > (_TICK if changed % 1_000_000 else _COARSE)
    if not settled or not stat.S_ISREG(found.st_mode) or os.name == "nt":  # which has no time of the last change
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, int(source.named)
