"""Read, lock and save a file that others may write at the same time; a save is merged into their changes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmm.disk import files
from lmm.disk.folder import check_named
from lmm.disk.swap import remove_leftovers
from lmm.disk.undo import remember
from lmm.disk.watching import Signature, signature
from lmm.errors import Changed, DocumentBusy, DocumentError, Failure, FileReadError, LmmError

_LOCK_POLL = 0.1  # seconds
_STILL_ROUNDS = 60  # the reply is saved in the end even if the author never stops writing
_PAUSE, _PAUSES = 0.05, 20  # seconds without a change, after a save in the moment of ours; and how often at most


Rebase = Callable[[str], tuple[str, tuple[Failure, ...]]]
"""A pure function that applies our changes to the file's current text, and returns it with those that do not fit."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of a save: the text now on disk and, if its author changed it (`rebased`), changes that do not fit.

    `recovered` are files in its folder with what an author saved while a run was killed (`lmm.disk.swap`);
    `unrecorded` says why the change cannot be undone, if it cannot.
    """

    text: str = field(repr=False)
    rebased: bool = False
    failures: tuple[Failure, ...] = ()
    recovered: tuple[Path, ...] = ()
    unrecorded: str = ""

    def check(self) -> Saved:
        """Return this result if all of our changes were applied.

        Raises:
            DocumentError: a change was not applied.
        """
        if self.failures:
            raise DocumentError("; ".join(map(str, self.failures)))
        return self


@dataclass(slots=True)
class SharedFile:
    """A file that its author may write at any moment. `base` is its text when we read it.

    If it is `undoable`, `lmm undo` can undo a save.
    """

    path: Path
    base: str
    _seen: Signature | None
    undoable: bool = True
    _locked: bool = field(default=False, init=False)

    @classmethod
    def open(cls, path: Path, *, undoable: bool = True) -> SharedFile:
        """Read a file, without locking it.

        Raises:
            LinkOutside: it is a link that leads out of its folder.
            FileReadError: it is missing, no ordinary file, not readable, or not UTF-8.
        """
        check_named(path)
        seen = signature(path)
        return cls(path, files.read_document(path), seen, undoable)

    # -- the lock --------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self, *, on_wait: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Hold the file's advisory lock without blocking the event loop; call `on_wait` once if another process has it.

        The file may have changed during the wait: see `reread`.
        """
        with contextlib.ExitStack() as held:
            waited = False
            while not self._locked:
                try:
                    held.enter_context(files.document_lock(self.path, timeout=0))
                    held.callback(setattr, self, "_locked", False)
                    self._locked = True
                except DocumentBusy:
                    if not waited:
                        on_wait()
                    waited = True
                    await asyncio.sleep(_LOCK_POLL)
            yield

    # -- looking ---------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Return whether the file was written since we read it, or is gone, by its time, size and inode."""
        return signature(self.path) != self._seen

    def _now(self) -> str | None:
        """Return the text on disk; None if the file is gone, or is being written."""
        with contextlib.suppress(FileReadError):
            return files.read_document(self.path)
        return None

    def reread(self, rebase: Rebase) -> tuple[str, tuple[Failure, ...]]:
        """Read the file as the new `base`, and return the result of `rebase` for it.

        Raises:
            FileReadError: the file is gone, or cannot be read.
            LmmError: `rebase` failed; `base` is unchanged.
        """
        seen, theirs = signature(self.path), files.read_document(self.path)
        rebased = rebase(theirs)
        self._seen, self.base = seen, theirs
        return rebased

    async def still(self, seconds: float) -> None:
        """Wait until the file is `base`, or has not changed for `seconds`.

        An editor may be in the middle of writing it, or between removing the old file and writing the new one.
        Cancellation ends the wait, as it is then the last chance to save.
        """
        before: str | None = self.base
        now = self._now()
        with contextlib.suppress(asyncio.CancelledError):
            for _ in range(_STILL_ROUNDS):
                if now in (self.base, before):
                    break
                await asyncio.sleep(seconds)
                before, now = now, self._now()

    # -- saving ----------------------------------------------------------------------------------

    def save(self, rebase: Rebase) -> Saved:
        """Write the result of `rebase` for the current text, which may no longer be `base`.

        What its author has written since is kept, even if it is saved at the very moment in which we write. The result
        is the new `base`.

        Raises:
            FileReadError, FileWriteError: the file is gone, became unreadable, or cannot be written.
            LmmError: `rebase` failed; nothing is written.
        """
        while True:
            theirs = files.read_settled(self.path, self.base)
            try:
                text, failures = rebase(theirs)
            except LmmError:
                if self._pause() == theirs:
                    raise
                continue
            if failures and self._pause() != theirs:  # the author's program had not finished writing
                continue
            try:
                if text != theirs:
                    files.replace(self.path, text, expected=theirs.encode("utf-8"))
            except Changed:
                self._pause()
                continue
            break
        saved = Saved(text, theirs != self.base, failures)
        self.base = text
        if text == theirs:
            return saved
        self._seen = signature(self.path)
        saved = replace(saved, recovered=tuple(remove_leftovers(files.real(self.path).parent)))
        try:
            if self.undoable:
                remember(self.path, theirs, text)
        except (LmmError, OSError) as error:  # the save is done: a full disk must not make it fail
            return replace(saved, unrecorded=str(error))
        return saved

    def _pause(self) -> str | None:
        """Wait until no program writes the file (some write in several steps), and return its text."""
        before = self._now()
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            now = self._now()
            if now == before:
                break
            before = now
        return before
