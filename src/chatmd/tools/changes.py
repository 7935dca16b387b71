"""Change several files at once.

Everything that can fail is done first: new contents are written beside the files, under temporary names. Then the files
are renamed, one after the other, which needs no space. If that is interrupted, some files have their old content and
others the new one, each of them complete. `lmm undo` reverts the changes.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chatmd.tools.roots import LOOK, RootedPath
from lmm.disk.files import document_lock
from lmm.disk.opened import (
    make_folders,
    open_folder,
    read_errors,
    remove_folders,
    write_errors,
)
from lmm.disk.swap import remove_leftovers
from lmm.disk.undo import remember
from lmm.errors import FileWriteError

MAX_EDITED = 50_000_000
"""The largest file that can be changed, in bytes: it is held in memory."""
_PATIENCE = 20.0  # seconds to wait for another change of the same file


@dataclass(slots=True)
class Change:
    """The change of one file: its content before and after, None for no file. A new one gets the mode of `like`.

    `mode` is the old file's; the new content is first written beside it, under a `temporary` name.
    """

    target: RootedPath
    old: bytes | None
    new: bytes | None
    like: RootedPath | None = None
    mode: int | None = None
    temporary: str = field(default_factory=lambda: f".lmm-{secrets.token_hex(8)}.tmp")


def read_content(target: RootedPath) -> bytes | None:
    """Return the content of a file that is to be changed; None if there is no file.

    Raises:
        FileReadError: it cannot be read.
        FileWriteError: it is too large to be edited.
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
def lock_files(targets: Sequence[RootedPath]) -> Iterator[None]:
    """Hold the locks of all these files.

    Raises:
        DocumentBusy: another process holds one of them for too long.
    """
    with contextlib.ExitStack() as held:
        for path, name in sorted({target.real: target.name for target in targets}.items()):
            with write_errors(name):
                held.enter_context(document_lock(path, timeout=_PATIENCE))
        yield


def apply_changes(changes: Sequence[Change]) -> None:
    """Apply changes to files whose locks the caller holds.

    Raises:
        FileWriteError: a file cannot be written, is read-only, or changed since it was read. Nothing was changed,
            except for files that the message names.
    """
    for change in changes:
        if read_content(change.target) != change.old:
            raise FileWriteError(
                "another program has just changed this file; nothing was written",
                where=change.target.name,
                hint="read it again",
            )
    made: list[Path] = []
    done: list[str] = []
    try:
        for change in changes:
            with write_errors(change.target.name, look=LOOK):
                if change.new is not None:
                    made += make_folders(change.target.real.parent)
                _prepare(change)
        # Files are removed last, as they may have been moved.
        for change in sorted(changes, key=lambda change: change.new is None):
            with write_errors(change.target.name, look=LOOK):
                remember(change.target.real, change.old, change.new, mode=change.mode)  # if this fails, nothing changes
                _exchange(change)
            done.append(change.target.name)
    except FileWriteError as error:
        if done:
            error.message += f", after these files had been changed: {', '.join(done)}"
        raise
    finally:
        for change in changes:
            with contextlib.suppress(OSError), open_folder(change.target.real.parent) as folder:
                folder.remove(change.temporary, missing_ok=True)
        remove_folders(made)


def _prepare(change: Change) -> None:
    """Write the new content beside the file, after a check that the old one may be changed."""
    name = change.target.real.name
    with open_folder(change.target.real.parent) as folder:
        like = folder.stat(name)
        folder.check_changeable(like, name)
        change.mode = like and like.st_mode & 0o777
        if like is None and change.like is not None:
            with open_folder(change.like.real.parent) as other:
                like = other.stat(change.like.real.name)
        if change.new is not None:
            folder.write_new(change.temporary, change.new, like)
    remove_leftovers(change.target.real.parent)


def _exchange(change: Change) -> None:
    with open_folder(change.target.real.parent) as folder:
        if change.new is not None:
            folder.rename(change.temporary, change.target.real.name)
        else:
            folder.remove(change.target.real.name)
        folder.sync()
