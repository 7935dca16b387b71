"""Our last changes to each file, so that they can be taken back.

They lie in the user's state folder, readable by the user only: the newest of each file, for some weeks.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lmm.disk.diff import Conflict, hunks, three_way
from lmm.disk.digest import digest
from lmm.disk.files import check_writable, document_lock, read_settled, real, replace, state_folder
from lmm.disk.folder import check_named
from lmm.errors import Changed, LmmError

KEEP_CHANGES = 50  # of one file
KEEP_DAYS = 30
KEEP_BYTES = 200_000_000  # of all files
_TIDY_EVERY = 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """A change that was taken back: when it was made, how many lines it had changed, and how many are before it."""

    made: datetime
    lines: int
    left: int


def remember(path: Path, before: str, after: str) -> None:
    """Keep what we changed in a file. On return it is on the disk.

    Raises:
        FileWriteError, OSError: the state folder cannot be written.
    """
    folder = _folder(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    change = json.dumps({"path": str(real(path)), "before": before, "after": after})
    replace(folder / f"{time.time_ns():020}", zlib.compress(change.encode("ascii"), 1), private=True)
    for old in sorted(folder.iterdir())[:-KEEP_CHANGES]:
        old.unlink(missing_ok=True)
    _tidy()


def take_back(path: Path) -> UndoneChange:
    """Undo the last change that we made to a file, byte for byte; what its author wrote elsewhere since stays.

    What the author has undone is passed over, so that every call goes further back.

    Raises:
        LmmError: no change is remembered, or the same place was changed since.
        FileReadError, FileWriteError: the file cannot be read or written.
    """
    with document_lock(check_named(path)):
        now = read_settled(path)
        check_writable(path)
        for record in sorted(_records(path), reverse=True):
            before, after = _read(record)
            while (text := _without(path, before, after, now)) != now:
                try:
                    replace(path, text, expected=now.encode("utf-8"))
                except Changed:
                    now = read_settled(path)
                    continue
                record.unlink(missing_ok=True)
                changes = hunks(now.splitlines(), text.splitlines())
                changed = sum(max(end - start, last - first) for start, end, first, last in changes)
                return UndoneChange(datetime.fromtimestamp(int(record.name) / 1e9), changed, len(list(_records(path))))
            record.unlink(missing_ok=True)
    raise LmmError(
        "there is no change of ours to take back",
        where=str(path),
        hint=f"the last {KEEP_CHANGES} of a file are kept, for {KEEP_DAYS} days, under the path it had",
    )


def _without(path: Path, before: str, after: str, now: str) -> str:
    """`now` as it would be without the change from `before` to `after`."""
    if now == after:
        return before
    try:
        return three_way(after, before, now)
    except Conflict as conflict:
        raise LmmError(
            "what we changed here was changed again since, so it cannot be taken back",
            where=f"{path}:{conflict.line}",
            hint="undo your own change of this place first, then run lmm undo again",
        ) from conflict


def _records(path: Path) -> Iterator[Path]:
    folder = _folder(path)
    return (found for found in folder.iterdir() if found.name.isdecimal()) if folder.is_dir() else iter(())


def _read(record: Path) -> tuple[str, str]:
    """What a change began with and what it made; nothing to nothing if the record is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
        change = json.loads(zlib.decompress(record.read_bytes()))
        return str(change["before"]), str(change["after"])
    return "", ""


def _root() -> Path:
    return state_folder() / "undo"


def _folder(path: Path) -> Path:
    return _root() / digest(str(real(path)), length=32)


def _tidy() -> None:
    """Delete what is too old, and the oldest of what is too much; once an hour, as it looks at all there is."""
    stamp = _root() / "tidied"
    with contextlib.suppress(OSError):
        if time.time() - stamp.stat().st_mtime < _TIDY_EVERY:
            return
    stamp.touch()
    limit, room = (time.time() - KEEP_DAYS * 86400) * 1e9, KEEP_BYTES
    for record in sorted(_root().glob("*/*"), key=lambda found: found.name, reverse=True):
        with contextlib.suppress(OSError, ValueError):
            room -= record.stat().st_size
            if int(record.name) < limit or room < 0:
                record.unlink()
    for folder in _root().glob("*/"):
        with contextlib.suppress(OSError):
            folder.rmdir()  # those that are empty
