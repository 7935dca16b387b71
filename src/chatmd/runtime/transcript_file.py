"""A transcript in a file that other programs may change at the same time.

Text is appended, one write per piece, under a lock. Each write first checks whether the file is as we left it. If it
is not, new text is held back until the file stops changing (a program that is still writing would lose the rest), and
then put in its place (`find_place`) atomically. If that place was changed, the file stays as the other program wrote
it, and our text is written to a second file, which the error names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chatmd.language.repair import repair
from chatmd.language.transcript import gap
from chatmd.sidecar import FOLDER, free_name, keep
from chatmd.tools.text_lines import whole_characters
from lmm.disk.files import check_writable, decode_document, document_lock, read_bytes, replace
from lmm.disk.folder import Folder
from lmm.disk.opened import write_errors
from lmm.errors import FileReadError, FileWriteError

# -- The text without an empty user message at its end --------------------------------------------------------

_BLANK_TURN = re.compile(r"(?:\A|(?<=>))\s*<user>\s*</user>\s*\Z")
_LONGEST_TURN = 1000


def without_blank_turn(text: str) -> str:
    """Return a text without an empty ``<user>`` at its end.

    >>> without_blank_turn("<user>Why?</user>\\n\\n<user>\\n\\n</user>\\n")
    '<user>Why?</user>'
    """
    found = _BLANK_TURN.search(text, max(0, len(text) - _LONGEST_TURN))
    return text[: found.start()] if found else text


# -- The place of our text in a transcript that another program changed while we wrote -------------------------

_END = 100  # characters before ours that show that the file still ends as before


def find_place(before: str, pieces: Sequence[str], theirs: str) -> tuple[str, str] | None:
    """Return the text before and after `pieces` in `theirs`, a changed version of `before` with all or some pieces.

    Return None if their place is uncertain, because the text near them was changed, and not only long before or after.

    >>> find_place("<user>Why?</user>", ["<assistant>Because"], "<user>Why?</user><user>And?</user>")
    ('<user>Why?</user>', '<user>And?</user>')
    >>> find_place("<user>Why?</user>", ["<assistant>Because"], "<user>But why?</user>") is None
    True
    """
    if not theirs.startswith(before):
        end = before[-_END:]
        endings = ("".join(pieces), "") if len(end) == _END else ()
        ours = next((ours for ours in endings if theirs.endswith(end + ours)), None)
        return None if ours is None else (theirs.removesuffix(ours), "")
    behind, left = theirs[len(before) :], "".join(pieces)
    for piece in pieces:
        if not behind.startswith(piece):
            break
        behind, left = behind[len(piece) :], left[len(piece) :]
    if left.startswith(behind) or not behind.strip():
        return before, ""
    left, begins = left.lstrip(), behind.lstrip()
    # What begins with our tag, or continues in the middle of our text, is our text, changed by them.
    is_ours = begins.startswith(left.partition(">")[0]) if left.startswith("<") else not begins.startswith("<")
    return None if left and is_ours else (before, behind)


_ROOM = 1_000_000  # bytes: the longest reply of most models
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SYNC_EVERY = 1.0  # seconds
_STILL = 0.3  # seconds without a change, after which the other program has finished writing


class _Signature(NamedTuple):
    inode: int
    size: int
    changed: int


_UNKNOWN = _Signature(0, 0, 0)


class Transcript:
    """A text to append to: in memory, or on disk, open and locked (`open_transcript`).

    `path` is the file, if there is one, and `notes` say what was repaired in it; payloads are stored in `folder`, or
    kept in the text if it is None. The *mark* is the place to which appended text can be taken back; pieces are the
    texts appended after it.
    """

    def __init__(self, text: str, path: Path | None = None, notes: tuple[str, ...] = ()) -> None:
        self.path, self.notes = path, notes
        self.folder = path.resolve().parent if path is not None else None
        self._begin, self._tail = text, ""  # `_tail`: what others wrote after our text
        self._pieces: list[str] = []
        self._mark = 0
        self._behind = False  # the file has to be rewritten to equal `text`
        self._changed, self._theirs = False, True  # `_theirs`: we append after what others write now
        self._moved = 0.0  # when others last wrote
        self._trouble = ""  # why the file on disk cannot be continued
        self._file = -1
        self._seen = _UNKNOWN
        self._synced = 0.0
        self._open()

    # -- the text --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The whole text: what was there, what we wrote, what others wrote after that."""
        return self._begin + "".join(self._pieces) + self._tail

    @property
    def newline(self) -> str:
        """The line ending of the text, as in its first line."""
        first, ended, _ = self._begin.partition("\n")
        return "\r\n" if ended and first.endswith("\r") else "\n"

    @property
    def end(self) -> str:
        """The last characters before the next piece."""
        return (self._begin[-4:] + "".join(self._pieces[-4:]))[-4:]

    @property
    def since_mark(self) -> str:
        """The text appended after the mark."""
        return "".join(self._pieces[self._mark :])

    def append(self, text: str) -> None:
        """Append to the end of our text.

        Raises:
            FileWriteError: it cannot be written; nothing of it stays, but what was appended before does.
        """
        if not text:
            return
        self._look()
        self._behind = self._behind or bool(self._tail)
        if not self._behind:
            self._write(text.encode("utf-8"))
        self._pieces.append(text)

    def check_room(self) -> None:
        """Check that a reply can be stored, before one is paid for.

        Raises:
            FileWriteError: the disk is full.
        """
        if self.path is None:
            return
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(bytes(_ROOM))
        except OSError as error:
            if error.errno in _FULL:
                raise FileWriteError(
                    f"no model was asked, because its reply could not be saved: {error.strerror}", where=str(self.path),
                    hint=f"free some space, {_ROOM // 1_000_000} MB at least, then run again",
                ) from error  # fmt: skip

    def drop_blank_turn(self) -> None:
        """Remove an empty ``<user>`` from the end, if there is one, with the white space around it."""
        self._changed = self.settle()
        text = self.text
        kept = without_blank_turn(text)
        if kept != text:
            self._truncate(text[len(kept) :])
            self._take(kept)

    def mark(self) -> None:
        """Set the mark to the end of our text."""
        self._look()
        self._theirs, self._mark = False, len(self._pieces)

    def take_back(self) -> None:
        """Remove the text appended after the mark."""
        self._look()
        if gone := self.since_mark:
            del self._pieces[self._mark :]
            if not (self._behind or self._tail):
                self._truncate(gone)
            elif self.path is not None and not self._trouble:
                self._behind = True
                with contextlib.suppress(FileNotFoundError, FileReadError):  # else all of it may have been held back
                    self._behind = read_transcript(self.path) != self.text

    def is_still(self) -> bool:
        """Return whether no other program is in the middle of writing."""
        self._look()
        return not self._trouble and time.monotonic() - self._moved > _STILL

    @property
    def changed(self) -> bool:
        """Whether others have changed the text since the last `settle`."""
        self._look()
        return self._changed

    def settle(self) -> bool:
        """Make final what was appended, and what others wrote after it; the next piece comes after that.

        Return whether others have changed the text since the last call. Callers that can wait do so first, until
        `is_still`. A power failure loses at most the last second, and a torn text is repaired later.

        Raises:
            FileReadError: the file was emptied, or made unreadable; our text is kept beside it.
        """
        self._look()
        if self._trouble and self.path is not None:
            aside = aside_of(self.path)
            Folder(aside.parent).write(aside.name, self.text.encode("utf-8"), private=True)
            hint = f"everything is in {aside}: copy it back, if this was a mistake"
            raise FileReadError(self._trouble.removeprefix(f"{self.path}: "), where=str(self.path), hint=hint)
        changed, self._changed = self._changed, False
        if self._tail:
            if self._pieces and (kept := without_blank_turn(self._pieces[-1])) != self._pieces[-1]:
                self._pieces[-1], self._behind = f"{kept}{self.newline}", True  # they have said something
            # Without a rewrite, their text stays as they wrote it.
            self._pieces.append(gap(self.end, self.newline) + self._tail.lstrip("\r\n") if self._behind else self._tail)
            self._tail = ""
        if self._behind:
            self._replace()
        if time.monotonic() - self._synced > _SYNC_EVERY:
            self._sync()
        return changed

    def hand_over(self) -> None:
        """Accept from now on all changes by others, to our text too, as it is their turn to write."""
        self._changed = self.settle()
        self._take(self.text)
        self._theirs = True

    def restart(self, was: str, text: str) -> bool:
        """Replace `was`, with which the transcript begins, by `text`; return False if it does not begin so.

        What others have appended in the meantime stays; the mark is after it.
        """
        self._look()
        if not self.text.startswith(was):
            return False
        self._take(text + self.text[len(was) :])
        self._replace()
        return True

    def close(self) -> None:
        """Write everything to disk, and close the file."""
        try:
            self.settle()
            self._sync()
        finally:
            os.close(self._file)

    def _take(self, text: str) -> None:
        """Set the text as it was read, without pieces of ours."""
        self._begin, self._pieces, self._tail, self._mark = text, [], "", 0

    # -- the disk --------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.path is None:
            return
        if self._file >= 0:
            os.close(self._file)
        with write_errors(str(self.path)):
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
        self._seen = _signature(os.fstat(self._file))

    def _sync(self) -> None:
        with contextlib.suppress(OSError):  # not every file system can
            if self.path is not None:
                os.fsync(self._file)
        self._synced = time.monotonic()

    def _write(self, data: bytes) -> None:
        if self.path is None:
            return
        with write_errors(str(self.path)):
            try:
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
            except OSError:
                with contextlib.suppress(OSError):
                    self._truncate("")
                raise
        now = _signature(os.fstat(self._file))
        self._seen = now if now.size == self._seen.size + len(data) else _UNKNOWN

    def _truncate(self, gone: str) -> None:
        """Restore the file to its last known size, less the text `gone` at its end."""
        if self.path is not None:
            os.ftruncate(self._file, self._seen.size - len(gone.encode("utf-8")))
            self._seen = _signature(os.fstat(self._file))

    def _replace(self) -> None:
        """Rewrite the file atomically."""
        if self.path is not None:
            replace(self.path, self.text)
        self._behind = False
        self._open()

    def _look(self) -> None:
        """Check whether the file is as we left it; if not, put our text into the new version."""
        if self.path is None:
            return
        try:
            found_now = _signature(self.path.stat())
            if found_now == self._seen:
                return
            theirs = read_transcript(self.path)
        except (FileNotFoundError, FileReadError) as error:
            # Deleted, or an editor is about to replace it.
            self._wait_for_better(str(error) if self.path.exists() else "")
            return
        if self.text.strip() and not theirs.strip():  # many programs empty a file before they write it
            self._wait_for_better("the file was emptied during the run")
            return
        self._trouble = ""
        self._open()
        self._seen = found_now  # not as it is now: it may have changed since
        if theirs == self.text:
            self._behind = False
            return
        self._changed, self._moved = True, time.monotonic()
        if self._theirs:
            self._take(theirs)
            self._behind = False
        elif not any(self._place(theirs, first) for first in (0, self._mark)):
            self._wait_for_better("the file was changed where the run was writing")

    def _place(self, theirs: str, first: int) -> bool:
        """Put the pieces from the `first` on in their place in the changed file; return whether it is certain."""
        found = find_place(self._begin + "".join(self._pieces[:first]), self._pieces[first:], theirs)
        if found is None:
            return False
        self._begin, self._tail = found
        del self._pieces[:first]
        self._mark -= first
        self._behind = self.text != theirs
        return True

    def _wait_for_better(self, trouble: str) -> None:
        if self._trouble != trouble or not self._behind:
            self._moved = time.monotonic()
        self._seen, self._behind, self._trouble = _UNKNOWN, True, trouble


def _signature(found: os.stat_result) -> _Signature:
    return _Signature(found.st_ino, found.st_size, found.st_mtime_ns)


def aside_of(path: Path) -> Path:
    """Return the path for a transcript that cannot be written to its own file."""
    return path.resolve().parent / FOLDER / f"{path.stem}.aside{path.suffix}"


def read_transcript(path: Path) -> str:
    """Return the text of a transcript, without the incomplete character that a crash may leave at its end.

    Raises:
        FileReadError: the file is missing, not readable, or not UTF-8.
    """
    return decode_document(whole_characters(read_bytes(path)), str(path))


@contextlib.contextmanager
def open_transcript(path: Path, *, locked: bool = False, goes_on: bool = False) -> Iterator[Transcript]:
    """Open a transcript, repaired after a crash, and lock it until the context ends, unless it is `locked` already.

    If the user `goes_on`, a cancelled reply stays in it.

    Raises:
        DocumentBusy: another process is running it.
        FileReadError, FileWriteError: the file is missing, not UTF-8, or write-protected.
    """
    with contextlib.nullcontext() if locked else document_lock(path, timeout=0):
        data = read_bytes(path)
        whole = whole_characters(data)
        text = decode_document(whole, str(path))
        check_writable(path)
        repaired = repair(text, str(path), goes_on=goes_on)
        notes = repaired.notes
        if torn := len(data) - len(whole):
            kept = free_name(path)
            keep(data, kept)
            notes = (*notes, f"{torn} bytes at the end are half a character, and were taken away; {kept} has them")
        if torn or repaired.text != text:
            replace(path, repaired.text, expected=data)
        if (aside := aside_of(path)).exists():
            notes = (
                *notes,
                f"{aside} contains what an earlier run could not write here; delete it when you have read it",
            )
        transcript = Transcript(repaired.text, path, notes)
        try:
            yield transcript
        finally:
            transcript.close()
