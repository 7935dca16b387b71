"""Records of our last changes to each file, to undo them.

They are kept in the user's state folder, readable by the user only: the newest of each file, for some weeks. A turn of
a conversation counts as one change of each file that it changes, and as one of the conversation, which lists them.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace as with_values
from datetime import datetime
from pathlib import Path
from typing import Any

from lmm.disk import digest
from lmm.disk.diff import Conflict, hunks, three_way
from lmm.disk.files import document_lock, read_settled, real, replace, state_errors, state_folder
from lmm.disk.folder import check_named
from lmm.disk.opened import make_folders, open_folder, write_errors
from lmm.errors import Changed, FileMissing, LmmError

KEEP_CHANGES = 50  # of one file
KEEP_DAYS = 30
KEEP_BYTES = 200_000_000  # of all files
_UNDONE = "undone"  # the name of a record
_TIDY_EVERY = 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """An undone change: when it was made, how many lines it had changed, and how many changes are before it.

    That of a conversation's turn has the `files` in which it was undone, and the `failures`: files left unchanged.
    """

    made: datetime
    lines: int
    left: int
    files: tuple[Path, ...] = ()
    failures: tuple[LmmError, ...] = ()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A change of a conversation in progress: its record, and the last record of each file that it has changed."""

    record: Path
    path: Path
    message: str
    changes: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)


@contextlib.contextmanager
def as_one_change(path: Path, message: str = "") -> Iterator[None]:
    """Record the changes inside the block as one change of the conversation in `path`; a nested block has no effect.

    `changed_files` finds it by the `message` that the turn answers.
    """
    turn = _turn.get() or _Turn(_new_record(path), real(path), message)
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)


def remember(
    path: Path,
    before: str | bytes | None,
    after: str | bytes | None,
    *,
    mode: int | None = None,
    moved_from: Path | None = None,
) -> None:
    """Record our change of a file, which had that `mode`; None means no file. On return the record is on the disk.

    A file that was `moved_from` elsewhere is not removed while the one there cannot be restored.

    Raises:
        FileWriteError: the state folder cannot be written to.
    """
    path, turn = real(path), _turn.get()
    change = {"path": str(path), "before": _text(before), "after": _text(after), "mode": mode}
    change |= {"from": str(real(moved_from))} if moved_from is not None else {}
    if turn is None:
        _write(_new_record(path), change)
        return
    change["conversation"] = str(turn.path)
    with turn.lock:
        record = _folder(path) / turn.changes.get(str(path), "none")
        last = _read(record)
        if last and last["after"] == change["before"]:
            change = last | {"after": change["after"]}
        else:
            record = _new_record(path)
        _write(record, change)
        if turn.changes.get(str(path)) != record.name:
            turn.changes[str(path)] = record.name
            listed = [*_read(turn.record).get("changes", ()), [str(path), record.name]]
            _write(turn.record, {"path": str(turn.path), "message": turn.message, "changes": listed})


def _text(content: str | bytes | None) -> str | None:
    return content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content


def _new_record(path: Path) -> Path:
    return _folder(path) / f"{time.time_ns():020}"


def _write(record: Path, change: Mapping[str, Any]) -> None:
    folder = record.parent
    with state_errors(_root()):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(record, zlib.compress(json.dumps(change).encode("ascii"), 1), private=True)
    for old in sorted(folder.iterdir())[:-KEEP_CHANGES]:
        old.unlink(missing_ok=True)
    _tidy()


def take_back(path: Path) -> UndoneChange:
    """Undo our last change of a file, byte for byte; what its author has since written elsewhere in it stays.

    The last change of a conversation is that of its last turn that changed files, and is undone in each of them.
    Changes that the author has undone are skipped, so that every call goes further back.

    Raises:
        LmmError: no change is left, or the same place has been changed since.
        FileReadError, FileWriteError: the file cannot be read or written.
    """
    check_named(path)
    for record in sorted(_records(path), reverse=True):
        change = _read(record)
        listed, conversation = change.get("changes"), change.get("conversation")
        undone = _undo(path, record) if listed is None else _undo_turn(record, listed)
        if undone is not None and conversation is not None:
            _remember_undone(_folder(Path(conversation)), [real(path)])
        if undone is not None:
            return with_values(undone, left=len(list(_records(path))))
    if not os.path.lexists(path):
        raise FileMissing("there is no such file", where=str(path), hint="check the path")
    raise LmmError(
        "no change by lmm is left here to take back",
        where=str(path),
        hint=f"the last {KEEP_CHANGES} of a file are kept, for {KEEP_DAYS} days, under the file's path",
    )


def _undo_turn(record: Path, listed: list[list[str]]) -> UndoneChange | None:
    """Undo each change of a turn, last first; those that cannot be undone stay listed."""
    made = datetime.fromtimestamp(int(record.name) / 1e9)
    lines = 0
    files: list[Path] = []
    failures: list[LmmError] = []
    kept: list[list[str]] = []
    moved = {name: source for name, number in listed if (source := _read(_folder(Path(name)) / number).get("from"))}
    listed.reverse()
    listed.sort(key=lambda change: change[0] in moved)  # where they came from first
    for name, number in listed:
        path = Path(name)
        try:
            if any(moved.get(name) == other for other, _ in kept):
                raise LmmError(f"it was moved from {moved[name]}, which is not restored, so it stays", where=name)
            if real(path) != path:
                raise LmmError("a link leads elsewhere from here since", where=name, hint="remove the link")
            undone = _undo(path, _folder(path) / number)
        except LmmError as error:
            if Path(moved.get(name, "")) in files:
                error.message += f"; it was moved from {moved[name]}, which is restored: the move is half undone"
            failures.append(error)
            kept.insert(0, [name, number])
            continue
        if undone is not None:
            files.append(path)
            lines += undone.lines
    if kept:
        _write(record, _read(record) | {"changes": kept})
    else:
        record.unlink(missing_ok=True)
    if files:
        _remember_undone(record.parent, files)
    return UndoneChange(made, lines, 0, tuple(dict.fromkeys(files)), tuple(failures)) if files or failures else None


def _remember_undone(folder: Path, files: list[Path]) -> None:
    """Add files to those of a conversation that its model does not know to be undone."""
    record = folder / _UNDONE
    _write(record, {"files": list(dict.fromkeys([*_read(record).get("files", ()), *map(str, files)]))})


def changed_files(path: Path, message: str) -> tuple[Path, ...]:
    """Return the files that the turn of a conversation which answers `message` changed, unless it was undone."""
    records = (_read(record) for record in sorted(_records(path), reverse=True))
    changes = next((record["changes"] for record in records if record.get("message") == message), ())
    return tuple(Path(name) for name, _ in changes)


def undone_files(path: Path) -> tuple[Path, ...]:
    """Return the files in which turns of a conversation were undone, until `forget_undone`."""
    return tuple(map(Path, _read(_folder(path) / _UNDONE).get("files", ())))


def forget_undone(path: Path) -> None:
    """Forget the files in which turns of a conversation were undone, once its model knows."""
    (_folder(path) / _UNDONE).unlink(missing_ok=True)


def _undo(path: Path, record: Path) -> UndoneChange | None:
    """Undo a change of one file; return None if nothing of it is left, or it was undone already."""
    with document_lock(path):
        change = _read(record)
        before, after = change.get("before"), change.get("after")
        while before != after:
            now = None if None in (before, after) and not os.path.lexists(path) else read_settled(path)
            text = _without(path, before, after, now)
            if text == now:
                break
            try:
                _put(path, text, now, change.get("mode"))
            except Changed:
                continue
            record.unlink(missing_ok=True)
            changes = hunks((now or "").splitlines(), (text or "").splitlines())
            lines = sum(max(end - start, last - first) for start, end, first, last in changes)
            return UndoneChange(datetime.fromtimestamp(int(record.name) / 1e9), lines, 0)
        record.unlink(missing_ok=True)
    return None


def _put(path: Path, text: str | None, now: str | None, mode: int | None) -> None:
    """Write a text, or remove or recreate the file.

    Raises:
        Changed: the file does not contain `now`.
    """
    data = None if text is None else text.encode("utf-8", "surrogateescape")
    if data is not None and now is not None:
        replace(path, data, expected=now.encode("utf-8"))
        return
    there = real(path)
    with write_errors(str(path)):
        make_folders(there.parent)
        with open_folder(there.parent) as folder:
            if data is None:
                folder.remove(there.name)
            else:
                folder.write_new(there.name, data, None, mode=mode)
            folder.sync()


def _without(path: Path, before: str | None, after: str | None, now: str | None) -> str | None:
    """Return `now` without the change from `before` to `after`."""
    if now in (before, after):
        return before
    line = ""
    if before is not None and after is not None and now is not None:
        try:
            return three_way(after, before, now)
        except Conflict as conflict:
            line = f":{conflict.line}"
    raise LmmError(
        "this place was changed again after lmm changed it, so it cannot be taken back",
        where=f"{path}{line}",
        hint="undo your own change here first, then run lmm undo again",
    )


def _records(path: Path) -> Iterator[Path]:
    folder = _folder(path)
    return (found for found in folder.iterdir() if found.name.isdecimal()) if folder.is_dir() else iter(())


def _read(record: Path) -> dict[str, Any]:
    """Read the texts before and after a change, or the changes that it consists of; empty if the record is damaged."""
    with contextlib.suppress(OSError, ValueError, zlib.error):
        change = json.loads(zlib.decompress(record.read_bytes()))
        return change if isinstance(change, dict) else {}
    return {}


def _root() -> Path:
    return state_folder() / "undo"


def _folder(path: Path) -> Path:
    return _root() / digest(str(real(path)), length=32)


def _tidy() -> None:
    """Delete records that are too old, and the oldest above the limit; once an hour, since it scans all records."""
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
            folder.rmdir()  # only if it is empty
