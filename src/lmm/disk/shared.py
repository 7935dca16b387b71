"""A text on disk that others write too: read, locked, and saved into whatever has become of it meanwhile."""

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
_STILL_ROUNDS = 60  # an author who never stops does not get the reply never
_PAUSE, _PAUSES = 0.05, 20  # seconds without a change, after a save in the moment of ours; and how often at most


Rebase = Callable[[str], tuple[str, tuple[Failure, ...]]]
"""What we did since the file was read, done in the text that stands there now, and what found no place in it; pure."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a save: the text now on disk; if its author had changed it (`rebased`), what found no place in it.

    `recovered` are files in its folder with what an author had saved while a run was killed (`lmm.disk.swap`).
    """

    text: str
    rebased: bool = False
    failures: tuple[Failure, ...] = ()
    recovered: tuple[Path, ...] = ()

    def check(self) -> Saved:
        """This result, if all of ours found its place.

        Raises:
            DocumentError: a part did not.
        """
        if self.failures:
            raise DocumentError("; ".join(map(str, self.failures)))
        return self


@dataclass(slots=True)
class SharedFile:
    """A file that its author may write at any moment. `base` is what stood there when we read it."""

    path: Path
    base: str
    _seen: Signature | None
    _locked: bool = field(default=False, init=False)

    @classmethod
    def open(cls, path: Path) -> SharedFile:
        """Read a file; it is not locked.

        Raises:
            LinkOutside: it is a link that leads out of its folder.
            FileReadError: it is missing, no ordinary file, not readable, or not UTF-8.
        """
        check_named(path)
        seen = signature(path)
        return cls(path, files.read_document(path), seen)

    # -- the lock --------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self, *, on_wait: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Hold the file's advisory lock, without blocking the loop; calls `on_wait` once if somebody else has it.

        It may have changed while we waited: see `reread`.
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
        """Whether the file was written since we read it, or is gone: one look at its time, size and inode."""
        return signature(self.path) != self._seen

    def _now(self) -> str | None:
        """What stands on disk now; None if it is gone, or in the middle of being written."""
        with contextlib.suppress(FileReadError):
            return files.read_document(self.path)
        return None

    def reread(self, rebase: Rebase) -> tuple[str, tuple[Failure, ...]]:
        """Take what stands on disk as the new `base`; what `rebase` makes of it.

        Raises:
            FileReadError: the file is gone, or cannot be read.
            LmmError: `rebase` cannot; `base` is as it was.
        """
        seen, theirs = signature(self.path), files.read_document(self.path)
        rebased = rebase(theirs)
        self._seen, self.base = seen, theirs
        return rebased

    async def still(self, seconds: float) -> None:
        """Wait until the file is `base`, or has not changed for so many seconds.

        An editor may be in the middle of writing it, or between removing the old file and writing the new one.
        Cancellation cuts the wait short: then is the last chance to save.
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
        """Write what `rebase` makes of the text that stands there, which may not be `base` any more.

        What its author wrote since stays, also what is saved in the very moment in which we write. The result is the
        new `base`, and `lmm undo` can take it back.

        Raises:
            FileReadError, FileWriteError: the file is gone, became unreadable, or cannot be written.
            LmmError: `rebase` cannot; nothing is written.
        """
        while True:
            theirs = files.read_settled(self.path, self.base)
            try:
                text, failures = rebase(theirs)
            except LmmError:
                if self._pause() == theirs:
                    raise
                continue
            if failures and self._pause() != theirs:  # it was not yet all that was to come
                continue
            try:
                if text != theirs:
                    files.replace(self.path, text, expected=theirs.encode("utf-8"))
            except Changed:
                self._pause()
                continue
            saved = Saved(text, theirs != self.base, failures)
            self.base = text
            return replace(saved, recovered=self._written(theirs)) if text != theirs else saved

    def _written(self, before: str) -> tuple[Path, ...]:
        self._seen = signature(self.path)
        recovered = remove_leftovers(files.real(self.path).parent)
        with contextlib.suppress(LmmError, OSError):  # a full disk must not make a save fail that is done
            remember(self.path, before, self.base)
        return tuple(recovered)

    def _pause(self) -> str | None:
        """Wait until whoever writes at this moment has ended: some programs write in several steps. The text then."""
        before = self._now()
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            now = self._now()
            if now == before:
                break
            before = now
        return before
