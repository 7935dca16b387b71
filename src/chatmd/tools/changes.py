"""Change several files at once: all of them, or none.

Everything that can fail is done first, beside the files: new contents are written under temporary names, old ones get
a second name. Then names are exchanged, one after the other. If the disk refuses in between, those that were exchanged
are exchanged back, for which no space is needed. If the process is killed in between, some files are as before the
change and others as after it, each of them whole: a folder with a history shows which.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chatmd.tools.roots import LOOK, RootedPath
from lmm.disk.files import document_lock, remove_leftovers
from lmm.disk.opened import (
    check_changeable,
    make_folders,
    open_folder,
    read_errors,
    remove_folders,
    write_errors,
)
from lmm.errors import FileWriteError

MAX_EDITED = 50_000_000
"""How many bytes a file may have that is changed: it is held in memory."""
_PATIENCE = 20.0  # seconds to wait for another change of the same file


@dataclass(frozen=True, slots=True)
class Change:
    """One file: its content before and after, None where there is no file. A new one gets the mode of `like`."""

    target: RootedPath
    old: bytes | None
    new: bytes | None
    like: RootedPath | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done to one file: `temporary` holds its new content, `backup` is the old one's second name.

    Each is empty if it is not needed; `digest` is that of the new content.
    """

    path: Path
    temporary: str
    backup: str
    digest: str


def read_content(target: RootedPath) -> bytes | None:
    """The content of a file that is to be changed; None if there is no file.

    Raises:
        FileReadError: it cannot be read, or is too large.
    """
    with read_errors(target.name, look=LOOK):
        try:
            with open_folder(target.real.parent) as folder, folder.open(target.real.name) as file:
                data = file.read(MAX_EDITED + 1)
        except FileNotFoundError:
            return None
    if len(data) > MAX_EDITED:
        raise FileWriteError(f"files of more than {MAX_EDITED // 1_000_000} MB are not edited", where=target.name)
    return data


@contextlib.contextmanager
def locked(targets: Sequence[RootedPath]) -> Iterator[None]:
    """Hold the locks of all these files.

    Raises:
        DocumentBusy: another process holds one of them for long.
    """
    with contextlib.ExitStack() as held:
        for path, name in sorted({target.real: target.name for target in targets}.items()):
            with write_errors(name):
                held.enter_context(document_lock(path, timeout=_PATIENCE))
        yield


def apply_changes(changes: Sequence[Change]) -> None:
    """Make the changes, or none of them. The caller holds the locks.

    Raises:
        FileWriteError: the disk refuses, a file is read-only, or changed since it was read; all is as it was.
    """
    for change in changes:
        if read_content(change.target) != change.old:
            raise FileWriteError(
                "another program has changed this file just now; nothing was changed",
                where=change.target.name,
                hint="read it again",
            )
    steps = [_planned(change, alone=len(changes) == 1) for change in changes]
    made: list[Path] = []
    try:
        for change, step in zip(changes, steps, strict=True):
            with write_errors(change.target.name, look=LOOK):
                if change.new is not None:
                    made += make_folders(change.target.real.parent)
                _prepare(change, step)
        _exchange_all(changes, steps)
    except BaseException:
        _clear(steps)
        remove_folders(made)
        raise
    _clear(steps)


def _planned(change: Change, *, alone: bool) -> _Step:
    """The names that are needed. One exchange alone cannot be half done, and needs no way back."""
    name = f".lmm-{secrets.token_hex(8)}"
    digest = "" if change.new is None else hashlib.sha256(change.new).hexdigest()
    backup = "" if alone or change.old is None else f"{name}.old"
    return _Step(change.target.real, "" if change.new is None else f"{name}.tmp", backup, digest)


def _prepare(change: Change, step: _Step) -> None:
    """Write the new content beside the file, and give the old one a second name."""
    name = change.target.real.name
    with open_folder(change.target.real.parent) as folder:
        like = folder.stat(name)
        check_changeable(like, folder, name)
        if like is None and change.like is not None:
            with open_folder(change.like.real.parent) as other:
                like = other.stat(change.like.real.name)
        if change.new is not None:
            folder.write_new(step.temporary, change.new, like)
        if step.backup:
            folder.link(name, step.backup)
    remove_leftovers(change.target.real.parent)


def _exchange_all(changes: Sequence[Change], steps: Sequence[_Step]) -> None:
    """Exchange all names; if one cannot be, exchange those before it back."""
    try:
        for change, step in zip(changes, steps, strict=True):
            with write_errors(change.target.name, look=LOOK):
                _exchange(step)
    except BaseException:
        for step in reversed(steps if len(steps) > 1 else ()):
            _undo(step)
        raise


def _exchange(step: _Step) -> None:
    with open_folder(step.path.parent) as folder:
        if step.temporary:
            folder.rename(step.temporary, step.path.name)
        else:
            folder.remove(step.path.name)
        folder.sync()


def _undo(step: _Step) -> None:
    """Put the old content back if the new one is there: not if nothing was exchanged, or somebody wrote it since."""
    path = step.path
    with contextlib.suppress(OSError), open_folder(path.parent) as folder:
        digest = ""
        if folder.stat(path.name) is not None:
            with folder.open(path.name) as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        if digest != step.digest:
            return
        if not step.backup:
            folder.remove(path.name, missing_ok=True)
        elif folder.stat(step.backup) is not None:
            folder.rename(step.backup, path.name)
        folder.sync()


def _clear(steps: Sequence[_Step]) -> None:
    """Remove the temporary names that are left."""
    for step in steps:
        with contextlib.suppress(OSError), open_folder(step.path.parent) as folder:
            for name in (step.temporary, step.backup):
                if name:
                    folder.remove(name, missing_ok=True)
