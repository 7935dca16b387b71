"""A transcript that grows: in memory, or at the end of a file that other programs may change meanwhile.

On disk it is appended to, one write a piece, and held by a lock. Before each write we look whether the file is as we
left it. If it is not, what we wrote is put into what it has become (`chatmd.runtime.changed`), in one step.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from chatmd.runtime.changed import placed
from chatmd.runtime.repair import repair
from lmm.errors import FileReadError, FileWriteError
from lmm.files import check_writable, decode_document, document_lock, read_bytes, replace_document

_BLANK_TURN = re.compile(r"(?:\A|(?<=>))\s*<user>\s*</user>\s*\Z")
_LONGEST_TURN = 1000


class Mark(NamedTuple):
    """A place in a transcript that one can go back to."""

    pieces: int
    size: int


class Transcript(Protocol):
    """A text that is appended to. `folder` is where its payloads go; None keeps them in the text."""

    @property
    def text(self) -> str:
        """All of it, as it is now."""
        ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def end(self) -> str:
        """The last characters of what stands before the next piece."""
        ...

    @property
    def tail(self) -> str:
        """What others wrote behind what we wrote."""
        ...

    def append(self, text: str) -> None:
        """Add to the end of what we wrote."""
        ...

    def since(self, mark: Mark) -> str:
        """What was appended since."""
        ...

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end, if there is one."""
        ...

    def mark(self) -> Mark:
        """The present end of what we wrote."""
        ...

    def take_back(self, mark: Mark) -> None:
        """Remove what was appended since."""
        ...

    def settle(self) -> bool:
        """What was appended is to stay. Whether others changed the text since this was last asked."""
        ...


@dataclass(slots=True)
class TextTranscript:
    """A transcript in memory; `listener` is told of each piece."""

    begin: str = ""
    folder: Path | None = None
    _pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return self.begin + "".join(self._pieces)

    @property
    def end(self) -> str:
        """Its last characters."""
        return _end(self.begin, self._pieces)

    @property
    def tail(self) -> str:
        """Nobody else writes."""
        return ""

    def append(self, text: str) -> None:
        """Add to the end."""
        if text:
            self._pieces.append(text)

    def since(self, mark: Mark) -> str:
        """What was appended since."""
        return "".join(self._pieces[mark.pieces :])

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end."""
        self.begin, self._pieces = without_blank_turn(self.text), []

    def mark(self) -> Mark:
        """The present end."""
        return Mark(len(self._pieces), 0)

    def take_back(self, mark: Mark) -> None:
        """Remove what was appended since."""
        del self._pieces[mark.pieces :]

    def settle(self) -> bool:
        """Nobody else can change it."""
        return False


def _end(begin: str, pieces: list[str]) -> str:
    return (begin[-2:] + "".join(pieces[-2:]))[-2:]


def without_blank_turn(text: str) -> str:
    """A text without the ``<user>`` at its end in which nothing is said.

    >>> without_blank_turn("<user>Why?</user>\\n\\n<user>\\n\\n</user>\\n")
    '<user>Why?</user>'
    """
    found = _BLANK_TURN.search(text, max(0, len(text) - _LONGEST_TURN))
    return text[: found.start()] if found else text


class _Signature(NamedTuple):
    inode: int
    size: int
    changed: int


class TranscriptFile:
    """A transcript on disk, open and locked (see `open_transcript`). `notes` tell what was repaired."""

    def __init__(self, path: Path, text: str, notes: tuple[str, ...]) -> None:
        self.path, self.notes = path, notes
        self.folder: Path | None = path.resolve().parent
        self._begin, self._tail = text, ""
        self._pieces: list[str] = []
        self._held: list[str] = []  # not yet on disk: others wrote behind us, so that we cannot append
        self._changed = False
        self._file = -1
        self._seen = _Signature(0, 0, 0)
        self._open()

    # -- the text --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """All of it: what was there, what we wrote, what others wrote behind that."""
        return self._begin + "".join(self._pieces) + self._tail

    def append(self, text: str) -> None:
        """Write to the file; nothing of it stays there if the disk is full.

        Raises:
            FileWriteError: it cannot be written; what was appended before stays.
        """
        if not text:
            return
        self._look()
        if self._tail:
            self._pieces.append(text)
            self._held.append(text)
            return
        self._write(text.encode("utf-8"))
        self._pieces.append(text)

    @property
    def end(self) -> str:
        """The last characters before the next piece."""
        return _end(self._begin, self._pieces)

    @property
    def tail(self) -> str:
        """What others wrote behind what we wrote."""
        return self._tail

    def since(self, mark: Mark) -> str:
        """What was appended since."""
        return "".join(self._pieces[mark.pieces :])

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end, and what follows it."""
        self._look()
        if self._tail:
            return
        text = self.text
        kept = without_blank_turn(text)
        if kept != text:
            os.ftruncate(self._file, self._seen.size - len(text[len(kept) :].encode("utf-8")))
            self._seen = self._signature()
            self._begin, self._pieces = kept, []

    def mark(self) -> Mark:
        """The present end of what we wrote."""
        self._look()
        return Mark(len(self._pieces), self._seen.size)

    def take_back(self, mark: Mark) -> None:
        """Remove what was appended since."""
        if len(self._pieces) == mark.pieces:
            return
        self._look()
        size = len("".join(self._pieces[mark.pieces :]).encode("utf-8"))
        del self._pieces[mark.pieces :]
        if self._tail:
            self._replace()
            return
        os.ftruncate(self._file, self._seen.size - size)
        self._seen = self._signature()

    def settle(self) -> bool:
        """Bring what was appended safely to the disk; whether others changed the file since this was last asked."""
        self._look()
        if self._held:
            self._replace()
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(self._file)
        changed, self._changed = self._changed or bool(self._tail), False
        return changed

    def close(self) -> None:
        """Bring everything to the disk."""
        try:
            self.settle()
        finally:
            os.close(self._file)

    # -- the disk --------------------------------------------------------------------------------

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
        self._seen = self._signature()

    def _look(self) -> None:
        """See whether the file is as we left it; if not, put what we wrote into what it is now."""
        try:
            found = self.path.stat()
            if _Signature(found.st_ino, found.st_size, found.st_mtime_ns) == self._seen:
                return
            theirs = decode_document(_whole_characters(read_bytes(self.path)), str(self.path))
        except (FileNotFoundError, FileReadError):
            if self.path.exists():
                raise
            theirs = self._begin  # deleted, or an editor is about to put another in its place
        if theirs == self.text and self.path.exists():
            self._open()
            return
        ours = "".join(self._pieces)
        head, self._tail = placed(self._begin, ours, theirs)
        self._begin = head.removesuffix(ours)
        self._changed = True
        self._replace()

    def _replace(self) -> None:
        """Write the file anew, in one step."""
        replace_document(self.path, self.text)
        self._held = []
        self._open()


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
def open_transcript(path: Path) -> Iterator[TranscriptFile]:
    """A transcript, repaired if a crash left it torn, and locked as long as the context is open.

    Raises:
        DocumentBusy: another process runs it.
        FileReadError, FileWriteError: it is missing, no UTF-8, or write-protected.
    """
    with document_lock(path, timeout=0):
        data = read_bytes(path)
        text = decode_document(_whole_characters(data), str(path))
        check_writable(path)
        repaired = repair(text)
        if len(repaired.text.encode("utf-8")) != len(data) or repaired.text != text:
            replace_document(path, repaired.text)
        transcript = TranscriptFile(path, repaired.text, repaired.notes)
        try:
            yield transcript
        finally:
            transcript.close()
