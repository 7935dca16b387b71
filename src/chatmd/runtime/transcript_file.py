"""A transcript at the end of a file that other programs may change meanwhile.

It is appended to, one write a piece, and held by a lock. Before each write we look whether the file is as we left it.
If it is not, what we write is kept back until the file is still - a program that is in the middle of writing it would
lose the rest - and then put into what it has become (`placed`), in one step.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from chatmd.language.repair import repair
from chatmd.language.transcript import gap
from chatmd.sidecar import FOLDER
from lmm.disk.files import check_writable, decode_document, document_lock, read_bytes, replace
from lmm.disk.folder import Folder
from lmm.errors import FileReadError, FileWriteError

# -- A transcript that grows in memory -----------------------------------------------------------------------


_BLANK_TURN = re.compile(r"(?:\A|(?<=>))\s*<user>\s*</user>\s*\Z")
_LONGEST_TURN = 1000


class Transcript:
    """A text that is appended to, in memory, where nobody else writes; see `TranscriptFile`.

    `folder` is where its payloads go; None keeps them in the text. `path` is the file, if there is one. A *mark* is a
    place that one can go back to: how many pieces were appended before it.
    """

    path: Path | None = None
    folder: Path | None = None

    def __init__(self, text: str = "") -> None:
        self._begin, self._tail = text, ""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """All of it, as it is now: what was there, what we wrote, what others wrote behind that."""
        return self._begin + "".join(self._pieces) + self._tail

    @property
    def newline(self) -> str:
        """What a line of it ends with, as the first one does."""
        return newline_of(self._begin)

    @property
    def end(self) -> str:
        """The last characters of what stands before the next piece."""
        return (self._begin[-4:] + "".join(self._pieces[-4:]))[-4:]

    @property
    def tail(self) -> str:
        """What others wrote behind what we wrote."""
        return self._tail

    def append(self, text: str) -> None:
        """Add to the end of what we wrote.

        Raises:
            FileWriteError: it cannot be written; what was appended before stays.
        """
        if text:
            self._pieces.append(text)

    def check_room(self) -> None:
        """See to it that a reply can be kept, before anybody pays for one.

        Raises:
            FileWriteError: the disk is full.
        """

    def since(self, mark: int) -> str:
        """What was appended since."""
        return "".join(self._pieces[mark:])

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end, if there is one, and what follows it."""
        self._begin, self._pieces = without_blank_turn(self.text), []

    def mark(self) -> int:
        """The present end of what we wrote."""
        return len(self._pieces)

    def take_back(self, mark: int) -> None:
        """Remove what was appended since."""
        del self._pieces[mark:]

    def is_still(self) -> bool:
        """Whether nobody else is in the middle of writing."""
        return True

    @property
    def changed(self) -> bool:
        """Whether others changed the text since `settle` was last asked."""
        return False

    def settle(self) -> bool:
        """What was appended is to stay, and what others wrote behind it: the next piece comes after that.

        Whether others changed the text since this was last asked.

        Raises:
            FileReadError: the file was emptied, or made unreadable; what we have is kept beside it.
        """
        return False

    def hand_over(self) -> None:
        """It is others' turn to write: what they do to what we wrote is meant, and marks are void."""

    def restart(self, was: str, text: str) -> bool:
        """Put `text` in the place of all there is, and make marks void; False if it is not `was` any more."""
        self._begin, self._pieces = text, []
        return True


def newline_of(text: str) -> str:
    """What the first line of a text ends with.

    >>> newline_of("one\\r\\ntwo\\n"), newline_of("one")
    ('\\r\\n', '\\n')
    """
    return "\r\n" if text.partition("\n")[0].endswith("\r") and "\n" in text else "\n"


def without_blank_turn(text: str) -> str:
    """A text without the ``<user>`` at its end in which nothing is said.

    >>> without_blank_turn("<user>Why?</user>\\n\\n<user>\\n\\n</user>\\n")
    '<user>Why?</user>'
    """
    found = _BLANK_TURN.search(text, max(0, len(text) - _LONGEST_TURN))
    return text[: found.start()] if found else text


# -- A transcript that somebody else changed while we wrote: where what we wrote belongs in it ----------------
#
# What we write is one text that grows after the place where the run began. An editor that had the file as it is has
# changed what it meant to change (`followed`). One that had an older version, without what we wrote since, must not
# undo that: it is put after what it followed, and what was written behind it stays behind it (`placed`).


_ANCHORS = (400, 160, 60, 24)  # characters before ours that tell the place, the most certain first
_CERTAIN = 60  # characters of ours that cannot stand in a text by chance
_TAG = re.compile(r"</?[a-z_]+")
_MOST_COMPARED = 1_000_000  # pairs of lines


class PlacedText(NamedTuple):
    """`head` ends with what we wrote, and grows; `tail` is what others wrote behind it."""

    head: str
    tail: str


def placed(base: str, ours: str, theirs: str) -> PlacedText:
    """`theirs`, a changed version of `base` + `ours` or of a part of it; the head ends with `ours`.

    >>> placed("<user>Why?</user>", "<assistant>Because", "<user>Why?</user>")
    PlacedText(head='<user>Why?</user><assistant>Because', tail='')
    >>> placed("A. ", "we wrote this", "A. we wrote this, and they that")
    PlacedText(head='A. we wrote this', tail=', and they that')
    """
    added = ours.lstrip("\n")
    begin = len(base) if theirs.startswith(base) else _after_anchor(base, theirs)
    if begin < 0 and len(added) >= _CERTAIN:
        begin = theirs.rfind(added[:_CERTAIN])
    if begin < 0:
        return PlacedText(theirs.rstrip("\n") + (_blank_at_end(base) or "\n" * theirs.endswith("\n")) + ours, "")
    behind = theirs[begin:]
    blank = len(behind) - len(behind.lstrip("\n"))
    behind = behind[blank + _shared(added, behind[blank:]) :]
    head = base if theirs.startswith(base) else theirs[:begin].rstrip("\n") + _blank_at_end(base)
    return PlacedText(head + ours, behind if behind.strip() else "")


def followed(before: str, theirs: str, places: Sequence[int]) -> tuple[int, ...] | None:
    """Where `places` of `before`, in ascending order, are in `theirs`; None if it may come from an older version.

    What comes from `before` itself still has all its tags, and more than nothing where the last place was.

    >>> followed("<a>one</a><b>two</b>", "<a>one, or so</a><b>two</b>", [10, 20])
    (17, 27)
    >>> followed("<a>one</a><b>two</b>", "<a>one</a>", [10, 20]) is None
    True
    """
    start = _before_tag(before, _common(before, theirs))
    same = _common(before[::-1], theirs[::-1], min(len(before), len(theirs)) - start)
    end = len(before) - same
    gone, new = before[start:end], theirs[start : len(theirs) - same]
    tags = iter(_TAG.findall(new))
    if not all(tag in tags for tag in _TAG.findall(gone)) or start < places[-1] <= end:
        return None
    hunks = list(_hunks(gone, new))

    def now(place: int) -> int:
        shift = 0
        for first, last, _, stop in hunks:
            if place <= start + first:
                break
            if place < start + last:
                return start + stop
            shift = stop - last
        return place + shift

    return tuple(map(now, places))


def _hunks(gone: str, new: str) -> Iterator[tuple[int, int, int, int]]:
    """The parts that differ, by lines: from and to in `gone`, from and to in `new`."""
    lines, others = gone.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(lines) * len(others) > _MOST_COMPARED:
        yield 0, len(gone), 0, len(new)
        return
    at, there = (list(accumulate(map(len, some), initial=0)) for some in (lines, others))
    for what, first, last, begin, stop in SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        if what != "equal":
            yield at[first], at[last], there[begin], there[stop]


def _before_tag(text: str, at: int) -> int:
    """`at`, or where the tag begins that it is in."""
    opening = text.rfind("<", 0, at)
    return opening if opening > text.rfind(">", 0, at) else at


def _after_anchor(base: str, theirs: str) -> int:
    """Where in `theirs` the end of `base` stands, -1 if it cannot be found."""
    for length in _ANCHORS:
        anchor = base[-length:].strip()
        at = theirs.rfind(anchor) if anchor else -1
        if at >= 0:
            return at + len(anchor)
    return -1


def _shared(ours: str, behind: str) -> int:
    """How much of `ours` stands in `behind` already; no half of a tag, with which another of theirs may begin."""
    length = _common(ours, behind)
    return length if length == len(behind) else _before_tag(ours, length)


def _common(first: str, second: str, most: int | None = None) -> int:
    """How many characters two texts begin with together, at most `most`.

    >>> _common("abcd", "abxd"), _common("ab", "abc")
    (2, 2)
    """
    low, high = 0, min(len(first), len(second)) if most is None else most
    while low < high:  # comparing slices is done in C: the length is found by halving
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def _blank_at_end(text: str) -> str:
    return text[len(text.rstrip("\n")) :]


_ROOM = 1_000_000  # bytes: the longest reply of most models
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SYNC_EVERY = 1.0  # seconds
_STILL = 0.3  # seconds without a change: whoever wrote the file has ended


class _Signature(NamedTuple):
    inode: int
    size: int
    changed: int


class TranscriptFile(Transcript):
    """A transcript on disk, open and locked (see `open_transcript`). `notes` tell what was repaired."""

    def __init__(self, path: Path, text: str, notes: tuple[str, ...]) -> None:
        super().__init__(text)
        self.path: Path = path
        self.folder, self.notes = path.resolve().parent, notes
        self._written = 0  # pieces that are on disk; fewer than there are while they are kept back
        self._elsewhere = False  # what is on disk is not what we have, but for the pieces that are kept back
        self._changed, self._theirs = False, True  # `_theirs`: what others write now, we come after
        self._moved = 0.0  # when others last wrote
        self._trouble = ""  # why what is on disk now cannot be gone on with
        self._file = -1
        self._seen = _Signature(0, 0, 0)
        self._synced = 0.0
        self._open()

    # -- the text --------------------------------------------------------------------------------

    def append(self, text: str) -> None:
        # Nothing of it stays there if the disk is full.
        if not text:
            return
        self._look()
        if not (self._tail or self._behind):
            self._write(text.encode("utf-8"))
            self._written += 1
        self._pieces.append(text)

    def check_room(self) -> None:
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(bytes(_ROOM))
        except OSError as error:
            if error.errno in _FULL:
                raise FileWriteError(
                    f"no model was asked, since its reply could not be kept: {error.strerror}", where=str(self.path),
                    hint=f"free some space, {_ROOM // 1_000_000} MB at least, then run again",
                ) from error  # fmt: skip

    @property
    def tail(self) -> str:
        self._look()
        return self._tail

    def drop_blank_turn(self) -> None:
        self._changed = self.settle()
        text = self.text
        kept = without_blank_turn(text)
        if kept != text:
            os.ftruncate(self._file, self._seen.size - len(text[len(kept) :].encode("utf-8")))
            self._seen = self._signature()
            self._begin, self._pieces, self._written = kept, [], 0

    def mark(self) -> int:
        self._look()
        self._theirs = False
        return len(self._pieces)

    def take_back(self, mark: int) -> None:
        if len(self._pieces) == mark:
            return
        self._look()
        size = len("".join(self._pieces[mark:]).encode("utf-8"))
        del self._pieces[mark:]
        if self._tail or self._behind or self._written < mark:
            self._elsewhere = self._elsewhere or self._written > mark
            self._written = min(self._written, mark)
            return
        os.ftruncate(self._file, self._seen.size - size)
        self._seen, self._written = self._signature(), mark

    def is_still(self) -> bool:
        self._look()
        return not self._trouble and time.monotonic() - self._moved > _STILL

    @property
    def changed(self) -> bool:
        self._look()
        return self._changed

    def settle(self) -> bool:
        # Whoever can wait does so before, until it `is_still`. A power failure loses the last second at most, and what
        # it tears is mended.
        self._look()
        if self._trouble:
            raise self._kept_aside()
        changed, self._changed = self._changed, False
        if self._tail:
            if self._pieces and (kept := without_blank_turn(self._pieces[-1])) != self._pieces[-1]:
                self._pieces[-1], self._elsewhere = f"{kept}{self.newline}", True  # they have said something
            # What is not to be written anew stays as it is.
            self._pieces.append(gap(self.end, self.newline) + self._tail.lstrip("\r\n") if self._behind else self._tail)
            self._written += not self._behind
            self._tail = ""
        if self._behind:
            self._replace()
        if time.monotonic() - self._synced > _SYNC_EVERY:
            self._sync()
        return changed

    def hand_over(self) -> None:
        self._changed = self.settle()
        self._begin, self._pieces, self._written, self._theirs = self.text, [], 0, True

    def restart(self, was: str, text: str) -> bool:
        self._look()
        if self.text != was:
            return False
        self._begin, self._pieces, self._tail = text, [], ""
        self._replace()
        return True

    def close(self) -> None:
        """Bring everything to the disk."""
        try:
            self.settle()
            self._sync()
        finally:
            os.close(self._file)

    # -- the disk --------------------------------------------------------------------------------

    def _sync(self) -> None:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(self._file)
        self._synced = time.monotonic()

    def _open(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._seen = self._signature()

    def _signature(self) -> _Signature:
        found = os.fstat(self._file)
        return _Signature(found.st_ino, found.st_size, found.st_mtime_ns)

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._seen.size)
                self._seen = self._signature()
            raise _unwritable(self.path, error) from error
        now = self._signature()
        self._seen = now if now.size == self._seen.size + len(data) else _Signature(0, 0, 0)

    def _look(self) -> None:
        """See whether the file is as we left it; if not, put what we wrote into what it is now."""
        try:
            stat = self.path.stat()
            found = _Signature(stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if found == self._seen:
                return
            theirs = decode_document(_whole_characters(read_bytes(self.path)), str(self.path))
        except (FileNotFoundError, FileReadError) as error:
            # Deleted, or an editor is about to put another in its place.
            self._wait_for_better(str(error) if self.path.exists() else "")
            return
        if self.text.strip() and not theirs.strip():  # many empty a file before they write it
            self._wait_for_better("the file was emptied while the run was at work")
            return
        self._trouble = ""
        self._open()
        self._seen = found  # not as it is now: it may have changed since
        if theirs == self.text:
            self._written, self._elsewhere = len(self._pieces), False
            return
        self._changed, self._moved = True, time.monotonic()
        if self._theirs:
            self._begin, self._pieces, self._tail, self._written, self._elsewhere = theirs, [], "", 0, False
        elif not self._follow(theirs):
            head, self._tail = placed(self._begin, ours := "".join(self._pieces), theirs)
            self._begin = head.removesuffix(ours)
            self._written = len(self._pieces)
            self._elsewhere = self.text != theirs

    def _wait_for_better(self, trouble: str) -> None:
        if self._trouble != trouble or not self._elsewhere:
            self._moved = time.monotonic()
        self._seen, self._elsewhere, self._trouble = _Signature(0, 0, 0), True, trouble

    def _follow(self, theirs: str) -> bool:
        """Take over what somebody changed who had the file as it is; False if it was not so."""
        if self._elsewhere:
            return False
        on_disk = self._pieces[: self._written]
        places = tuple(accumulate(map(len, on_disk), initial=len(self._begin)))
        now = followed(self._begin + "".join(on_disk) + self._tail, theirs, places)
        if now is None:
            return False
        self._begin, self._tail = theirs[: now[0]], theirs[now[-1] :]
        self._pieces[: self._written] = [theirs[start:end] for start, end in pairwise(now)]
        return True

    @property
    def _behind(self) -> bool:
        """Whether the file has to be written anew."""
        return self._elsewhere or self._written < len(self._pieces)

    def _kept_aside(self) -> FileReadError:
        """The error that what is on disk cannot be gone on with; what we have is written beside it."""
        aside = aside_of(self.path)
        Folder(aside.parent).write(aside.name, self.text.encode("utf-8"), private=True)
        hint = f"all that was said and done is in {aside}: copy it back, if this was not meant"
        return FileReadError(self._trouble.removeprefix(f"{self.path}: "), where=str(self.path), hint=hint)

    def _replace(self) -> None:
        """Write the file anew, in one step."""
        replace(self.path, self.text)
        self._written, self._elsewhere = len(self._pieces), False
        self._open()


def aside_of(path: Path) -> Path:
    """Where a transcript is kept that cannot be written to its own file."""
    return path.resolve().parent / FOLDER / f"{path.stem}.aside{path.suffix}"


def _unwritable(path: Path, error: OSError) -> FileWriteError:
    return FileWriteError(
        f"cannot be written: {error.strerror or error}",
        where=str(path),
        hint="what was there is still there; free some space or check permissions, then run again",
    )


def _whole_characters(data: bytes) -> bytes:
    """Without the first bytes of a character at the end, of which a crash kept the others from being written."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-length] if length < needed else data
        if byte < 0x80:
            break
    return data


@contextlib.contextmanager
def open_transcript(path: Path, *, locked: bool = False) -> Iterator[TranscriptFile]:
    """A transcript, repaired if a crash left it torn, and locked as long as the context is open, or `locked` already.

    Raises:
        DocumentBusy: another process runs it.
        FileReadError, FileWriteError: it is missing, no UTF-8, or write-protected.
    """
    with contextlib.nullcontext() if locked else document_lock(path, timeout=0):
        data = read_bytes(path)
        text = decode_document(_whole_characters(data), str(path))
        check_writable(path)
        repaired = repair(text)
        if len(repaired.text.encode("utf-8")) != len(data) or repaired.text != text:
            replace(path, repaired.text, expected=data)
        notes = repaired.notes
        if (aside := aside_of(path)).exists():
            notes = (*notes, f"{aside} holds what an earlier run could not write here; delete it when you have looked")
        transcript = TranscriptFile(path, repaired.text, notes)
        try:
            yield transcript
        finally:
            transcript.close()
