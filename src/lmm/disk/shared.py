"""A text on disk that others write too: read, locked, and saved into whatever has become of it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from lmm.disk import files
from lmm.disk.folder import check_named
from lmm.disk.undo import remember
from lmm.disk.watching import Signature, signature
from lmm.errors import Changed, DocumentBusy, DocumentError, FileReadError, FileWriteError, LmmError

_LOCK_POLL = 0.1  # seconds
_STILL_ROUNDS = 60  # an author who never stops does not get the reply never
_PAUSE, _PAUSES = 0.05, 20  # seconds without a change, after a save in the moment of ours; and how often at most


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged text, and what of ours found no place in it."""

    text: str
    unplaced: tuple[str, ...] = ()


Merge = Callable[[str, str, str], Merged]
"""From what both began with, ours and theirs, a text with both; pure."""
Check = Callable[[str, str], bool]
"""Whether the second text may be written in the place of the first; pure."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a save: the text now on disk, and the side file that holds what found no place.

    `held_back` if all of ours went there since the check refused it; `recovered` are files in its folder with what an
    author had saved while a run was killed (`files.remove_leftovers`).
    """

    text: str
    merged: bool = False
    side_file: Path | None = None
    recovered: tuple[Path, ...] = ()
    held_back: bool = False

    def check(self) -> Saved:
        """This result, if all of ours found its place.

        Raises:
            DocumentError: a part did not.
        """
        if self.side_file is not None:
            why = "the file was changed meanwhile, and a part of what we made found no place in it"
            hint = f"it is in {self.side_file}; the file holds what its author saved"
            if self.held_back:
                why = "nothing was written: with it, something else in the file would be read as what it is not"
                hint = f"lmm scan --check shows what cannot be read there; what we made is in {self.side_file}"
            raise DocumentError(why, where=str(self.side_file).removesuffix(".unplaced"), hint=hint)
        return self


@dataclass(slots=True)
class SharedFile:
    """A file that its author may write at any moment. `base` is what stood there when we read it."""

    path: Path
    base: str
    merge: Merge
    _seen: Signature | None
    _locked: bool = field(default=False, init=False)

    @classmethod
    def open(cls, path: Path, *, merge: Merge) -> SharedFile:
        """Read a file; it is not locked.

        Raises:
            LinkOutside: it is a link that leads out of its folder.
            FileReadError: it is missing, no ordinary file, not readable, or not UTF-8.
        """
        check_named(path)
        seen = signature(path)
        return cls(path, files.read_document(path), merge, seen)

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

    def reread(self, ours: str) -> Merged:
        """Take what stands on disk as the new `base`, and merge `ours`, made from the old one, into it.

        Raises:
            FileReadError: the file is gone, or cannot be read.
        """
        self._seen = signature(self.path)
        theirs = files.read_document(self.path)
        merged = self.merge(self.base, ours, theirs)
        self.base = theirs
        return merged

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

    def save(self, ours: str, *, check: Check = lambda before, after: True, unplaced: tuple[str, ...] = ()) -> Saved:
        """Write `ours`, which was made from `base`, into a file that may have changed meanwhile.

        What its author wrote since stays, also what is saved in the very moment in which we write; what cannot be
        placed, `unplaced` too, goes to ``FILE.unplaced``. Where `check` refuses what we would write, all of `ours`
        does. The result is the new `base`, and `lmm undo` can take it back.

        Raises:
            FileReadError, FileWriteError: the file is gone, became unreadable, or cannot be written.
        """
        while True:
            theirs = self._whole()
            merged = self.merge(self.base, ours, theirs)
            held_back = merged.text != theirs and not check(theirs, merged.text)
            if held_back:
                merged = Merged(theirs, (ours,))
            if merged.unplaced and self._pause() != theirs:  # it was not yet all that was to come
                continue
            try:
                if merged.text != theirs:
                    files.replace(self.path, merged.text, expected=theirs.encode("utf-8"))
            except Changed:
                self._pause()
                continue
            lost = (*unplaced, *merged.unplaced)
            side = _write_aside(self.path, lost) if lost else None
            changed, written = theirs != self.base, merged.text != theirs
            recovered = self._written(theirs, merged.text) if written else []
            return Saved(merged.text, changed, side, tuple(recovered), held_back)

    def _written(self, before: str, after: str) -> list[Path]:
        self._seen, self.base = signature(self.path), after
        recovered = files.remove_leftovers(files.real(self.path).parent)
        with contextlib.suppress(LmmError, OSError):  # a full disk must not make a save fail that is done
            remember(self.path, before, after)
        return recovered

    def _whole(self) -> str:
        """The text on disk; one that is gone, emptied or torn is waited for, as it may be about to be written."""
        for _ in range(_PAUSES):
            now = self._now()
            if now is not None and (now == self.base or now.strip()):
                return now
            time.sleep(_PAUSE)
        return files.read_document(self.path)

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


def _write_aside(path: Path, pieces: tuple[str, ...]) -> Path:
    """Add to ``FILE.unplaced`` what is not in it yet."""
    side = path.with_name(path.name + ".unplaced")
    if side.is_symlink():
        hint = f"remove it, and run again: answers are remembered (rm {side})"
        raise FileWriteError("what found no place is not written through a link", where=str(side), hint=hint)
    before = side.read_bytes() if side.exists() else b""
    new = b"".join(data for piece in pieces if (data := piece.encode("utf-8")) not in before)
    if new:
        files.replace(side, before + new)
    return side
