"""The text of a patch to values: files to add, to delete, to update. The format is the one that models know as V4A.

::

    patch   := "*** Begin Patch" section+ "*** End Patch"
    section := "*** Add File: "PATH ("+"line)*
             | "*** Delete File: "PATH
             | "*** Update File: "PATH ["*** Move to: "PATH] hunk*
    hunk    := ("@@" [anchor])* (" "context | "-"old | "+"new)* ["*** End of File"]

Read generously where nothing can go wrong by it: blank lines, code fences and here-documents around the patch, CRLF,
a bare ``***`` between sections, ``@@`` glued to its anchor or with the numbers of a unified diff, context without its
blank. A patch without its end is refused: it may have been cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from chatmd.errors import PatchError

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
FORMAT = f"""\
{BEGIN}
*** Update File: path/of/file.py
@@ def the_function_it_is_in():
 a line that stays
-a line that goes
+a line that comes
 a line that stays
*** Add File: path/of/new_file.md
+its first line
*** Delete File: path/of/old_file.txt
{END}"""
_HEADER = re.compile(r"\*\*\* ?(Add|Delete|Update) File: ?(.*)")
_MOVE = re.compile(r"\*\*\* ?Move to: ?(.*)")
_NUMBERS = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@+ ?(.*)")
_AROUND = re.compile(r"\s*(?:`{3,}.*|~{3,}.*|.*<<-?\s*['\"]?\w+['\"]?\s*|[A-Z_]{2,})?\s*")
_NO_NEWLINE = re.compile(r"\\ ?no newline at end of file", re.IGNORECASE)

Kind = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk: context, removed, added. `line` is where it stands in the patch.

    `bare` if it had no mark and is taken for context; `ends` is False where the patch says that no line end follows.
    """

    kind: Kind
    text: str
    line: int
    bare: bool = False
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: what stands there and what is to stand there, below the `anchors`, near the line `hint` (from 1).

    An insertion whose header counts no old lines comes after that line (`after`).
    """

    line: int
    anchors: tuple[str, ...] = ()
    hint: int | None = None
    after: bool = False
    lines: tuple[PatchLine, ...] = ()
    at_end: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        """The lines that must be there."""
        return tuple(line.text for line in self.lines if line.kind != "+")


@dataclass(frozen=True, slots=True)
class AddFile:
    """A new file."""

    path: str
    line: int
    lines: tuple[PatchLine, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that goes."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A file that changes, or moves, or both."""

    path: str
    line: int
    move_to: str = ""
    hunks: tuple[Hunk, ...] = ()


Section = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """What a patch says.

    >>> parse_patch("*** Begin Patch\\n*** Delete File: old.md\\n*** End Patch")
    (DeleteFile(path='old.md', line=2),)

    Raises:
        PatchError: the text is no patch; says which line is wrong, and what was expected.
    """
    return _Parser(text).sections()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        self.at = 0

    def sections(self) -> tuple[Section, ...]:
        end = self._bounds()
        found: list[Section] = []
        while self.at < end:
            line = self.lines[self.at]
            header = _HEADER.fullmatch(line.rstrip())
            if header:
                found.append(self._section(header[1], self._path(header[2]), end))
            elif line.strip() in ("", "***"):
                self.at += 1
            else:
                raise self._wrong("a section must begin here: '*** Update File: PATH', or Add, or Delete")
        if not found:
            raise PatchError("the patch names no file", hint=f"write it like this:\n{FORMAT}\n")
        return tuple(found)

    def _bounds(self) -> int:
        """Go to the first line after the beginning; the index of the last line."""
        marks = [line.strip() for line in self.lines]
        if BEGIN not in marks:
            raise PatchError(f"the line '{BEGIN}' is missing", hint=f"write the patch like this:\n{FORMAT}\n")
        begin = marks.index(BEGIN)
        ends = [i for i, line in enumerate(self.lines) if line.rstrip() == END and i > begin]
        if not ends:
            raise PatchError(f"the line '{END}' is missing; the patch may have been cut off", hint="send all of it")
        for i in (*range(begin), *range(ends[0] + 1, len(marks))):
            if not _AROUND.fullmatch(self.lines[i]):
                self.at = i
                raise self._wrong(f"outside of '{BEGIN}' and '{END}' there must be nothing; send one patch at a time")
        self.at = begin + 1
        return ends[0]

    def _section(self, kind: str, path: str, end: int) -> Section:
        number = self.at + 1
        self.at += 1
        if kind == "Add":
            return AddFile(path, number, self._added(end))
        if kind == "Delete":
            return DeleteFile(path, number)
        move = _MOVE.fullmatch(self.lines[self.at].rstrip())
        move_to = self._path(move[1]) if move else ""
        self.at += bool(move)
        hunks = self._hunks(end)
        if not hunks and not move:
            raise PatchError(f"line {number} of the patch: nothing is to be changed in '{path}'")
        return UpdateFile(path, number, move_to, hunks)

    def _added(self, end: int) -> tuple[PatchLine, ...]:
        """The lines of a new file."""
        lines: list[PatchLine] = []
        while self.at < end and not self.lines[self.at].startswith("***"):
            line = self.lines[self.at]
            if line.startswith("+"):
                lines.append(PatchLine("+", line[1:], self.at + 1))
            elif _NO_NEWLINE.fullmatch(line) and lines:
                lines[-1] = replace(lines[-1], ends=False)
            elif line.strip() or self._goes_on(end, "+"):
                raise self._wrong("each line of a new file begins with '+', an empty one too")
            self.at += 1
        return tuple(lines)

    def _goes_on(self, end: int, mark: str) -> bool:
        """Whether the next line that is not blank begins with `mark`."""
        rest = (line for line in self.lines[self.at + 1 : end] if line.strip())
        return next(rest, "").startswith(mark)

    def _hunks(self, end: int) -> tuple[Hunk, ...]:
        """The hunks of a file, up to the next section."""
        hunks: list[Hunk] = []
        hunk: Hunk | None = None
        while self.at < end and not _HEADER.match(line := self.lines[self.at]):
            if line.startswith("@@"):
                if hunk is not None and hunk.lines:
                    hunks.append(_trimmed(hunk))
                    hunk = None
                hunk = self._headed(hunk or Hunk(self.at + 1), line)
            elif line.rstrip() == END_OF_FILE and hunk is not None:
                hunks.append(replace(_trimmed(hunk), at_end=True))
                hunk = None
            elif line.rstrip() == "***":
                self.at += 1
                break
            elif hunk is not None or (line.strip() and not hunks):
                hunk = self._lined(hunk or Hunk(self.at + 1), line)
            elif line.strip():
                raise self._wrong("a hunk must begin here, with a line '@@'")
            self.at += 1
        if hunk is not None:
            hunks.append(_trimmed(hunk))
        return tuple(hunk for hunk in hunks if hunk.lines)

    def _headed(self, hunk: Hunk, line: str) -> Hunk:
        """A hunk with one more line of its header."""
        if numbers := _NUMBERS.fullmatch(line.rstrip()):
            anchors = (*hunk.anchors, numbers[3]) if numbers[3].strip() else hunk.anchors
            return replace(hunk, hint=int(numbers[1]), after=numbers[2] == "0", anchors=anchors)
        anchor = line[2:].removeprefix(" ").rstrip()
        anchor = anchor.removesuffix("@@").rstrip() if anchor.endswith(" @@") or anchor == "@@" else anchor
        return replace(hunk, anchors=(*hunk.anchors, anchor)) if anchor.strip() else hunk

    def _lined(self, hunk: Hunk, line: str) -> Hunk:
        """A hunk with one more line."""
        number = self.at + 1
        if _NO_NEWLINE.fullmatch(line.strip()) and hunk.lines:
            return replace(hunk, lines=(*hunk.lines[:-1], replace(hunk.lines[-1], ends=False)))
        if line.startswith("***"):
            raise self._wrong(
                "this line is none of the format's; context that begins with '***' needs a blank before it"
            )
        if line[:1] in (" ", "-", "+") and line:
            kind: Kind = " " if line[0] == " " else "-" if line[0] == "-" else "+"
            return replace(hunk, lines=(*hunk.lines, PatchLine(kind, line[1:], number)))
        return replace(hunk, lines=(*hunk.lines, PatchLine(" ", line, number, bare=True)))

    def _path(self, path: str) -> str:
        bare = path.strip()
        if not bare:
            raise self._wrong("a path is missing")
        if re.fullmatch(r"([`'\"]).*\1", bare):
            raise self._wrong("paths have no quotes around them")
        return bare

    def _wrong(self, message: str) -> PatchError:
        return PatchError(f"line {self.at + 1} of the patch: {message}", hint=f"it says: {self.lines[self.at][:200]!r}")


def _trimmed(hunk: Hunk) -> Hunk:
    """Without blank lines at its end that have no mark: they part it from what follows."""
    lines = hunk.lines
    while lines and lines[-1].bare and not lines[-1].text.strip():
        lines = lines[:-1]
    return replace(hunk, lines=lines)
