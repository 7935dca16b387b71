"""A patch: what it says, where its hunks belong in a file, and what becomes of the file's text.

Lines that stay keep their characters and line ends, whatever the patch has in their place. New lines end as most
lines of the file do; the last line gets a line end when the patch wrote it, unless it says otherwise.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from chatmd.errors import PatchError
from chatmd.tools.text_lines import TextLines

# -- The text of a patch to values: files to add, to delete, to update. The format is the one that models know as V4A
#
# Read generously where nothing can go wrong by it: blank lines, code fences and here-documents around the patch,
# CRLF, a bare ``***`` between sections, ``@@`` glued to its anchor or with the numbers of a unified diff, context
# without its blank. A patch without its end is refused: it may have been cut off.


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
_NO_NEWLINE = ("\\no newline at end of file", "\\ no newline at end of file")

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
            elif line.lower() in _NO_NEWLINE and lines:
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
        if line.strip().lower() in _NO_NEWLINE and hunk.lines:
            return replace(hunk, lines=(*hunk.lines[:-1], replace(hunk.lines[-1], ends=False)))
        if line.startswith("***"):
            raise self._wrong(
                "this line is none of the format's; context that begins with '***' needs a blank before it"
            )
        if line[:1] in (" ", "-", "+"):
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


# -- Where the hunks of a patch belong in a file --------------------------------------------------------------
#
# What a hunk wants to find is compared exactly; then without white space at the ends of lines; then without that at
# their beginnings; then with typographic characters as typewriters have them. Among several places that fit equally
# well, an anchor, a line number or the end of the file decides; nothing is guessed.


_TYPEWRITER = {
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "‘’‚‛"), "'"),
    **dict.fromkeys(map(ord, "“”„‟"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " "),
    ord("…"): "...",
}


def as_typed(line: str) -> str:
    """A line as a typewriter has it, without white space around it.

    >>> as_typed(" “a”\u00a0– b")
    '"a" - b'
    """
    return unicodedata.normalize("NFC", line).translate(_TYPEWRITER).strip()


LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("exactly", str),
    ("but for white space at line ends", str.rstrip),
    ("but for white space around lines", str.strip),
    ("but for white space and typographic characters", as_typed),
)


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    """A hunk and the index of the first line that it takes; `level` is how well it fits (an index of `LEVELS`)."""

    hunk: Hunk
    start: int
    level: int = 0

    @property
    def end(self) -> int:
        """The index after the last line that it takes."""
        return self.start + len(self.hunk.old)


def place_hunks(hunks: Sequence[Hunk], lines: Sequence[str], name: str) -> list[PlacedHunk]:
    """Where each hunk belongs, in the order of the file. `name` stands for the file in messages.

    Raises:
        PatchError: one fits nowhere, or in several places; says which lines are expected and which are there.
    """
    matcher = _Matcher(lines, name)
    placed: list[PlacedHunk] = []
    for number, hunk in enumerate(hunks, 1):
        placed.append(matcher.place(hunk, f"hunk {number}, line {hunk.line} of the patch", placed))
    return sorted(placed, key=lambda one: (one.start, one.end))


class _Matcher:
    """The lines of one file, prepared for each level when it is needed."""

    def __init__(self, lines: Sequence[str], name: str) -> None:
        self.lines, self.name = lines, name
        self._keys: dict[int, list[str]] = {}

    def keys(self, level: int) -> list[str]:
        if level not in self._keys:
            self._keys[level] = [LEVELS[level][1](line) for line in self.lines]
        return self._keys[level]

    def place(self, hunk: Hunk, called: str, placed: Sequence[PlacedHunk]) -> PlacedHunk:
        """The place of one hunk, after those that are placed already if it can be."""
        after = placed[-1].end if placed else 0
        anchor = self._anchor(hunk, after)
        if not hunk.old:
            return self._insertion(hunk, called, anchor)
        taken = False
        for level in range(len(LEVELS)):
            found = self._occurrences(hunk.old, level)
            taken = taken or bool(found)
            if hunk.at_end and len(self.lines) - len(hunk.old) in found:
                return PlacedHunk(hunk, len(self.lines) - len(hunk.old), level)
            free = [start for start in found if _is_free(start, len(hunk.old), placed)]
            if free:
                return PlacedHunk(hunk, self._chosen(hunk, called, free, anchor, after), level)
        if taken:
            raise PatchError(
                f"{called}: a hunk before it has these lines already", where=self.name, hint="make one of them"
            )
        raise self._nowhere(hunk, called, after if anchor is None else anchor)

    def _occurrences(self, old: Sequence[str], level: int) -> list[int]:
        keys, wanted = self.keys(level), [LEVELS[level][1](line) for line in old]
        size, first = len(wanted), wanted[0]
        return [
            start
            for start in range(len(keys) - size + 1)
            if keys[start] == first and keys[start : start + size] == wanted
        ]

    def _chosen(self, hunk: Hunk, called: str, found: list[int], anchor: int | None, after: int) -> int:
        """The one of several places that is meant."""
        if len(found) == 1:
            return found[0]
        if hunk.hint is not None:
            return min(found, key=lambda start: (abs(start + 1 - (hunk.hint or 0)), start))
        if anchor is not None:
            # The anchor may be the first line of the hunk itself.
            below = [start for start in found if start > anchor] or [start for start in found if start == anchor]
            if below:
                return below[0]
        later = [start for start in found if start >= after] or found
        if len(later) == 1:
            return later[0]
        places = ", ".join(str(start + 1) for start in later[:10])
        missing = f", and the line '{hunk.anchors[-1]}' is not there" if hunk.anchors and anchor is None else ""
        raise PatchError(
            f"{called}: its lines occur in {len(later)} places, at the lines {places}{missing}",
            where=self.name,
            hint="add more lines of context, or a line '@@ ' with the heading or definition above the place",
        )

    def _anchor(self, hunk: Hunk, after: int) -> int | None:
        """The index of the line that the last anchor names; None without anchors, or if one is not there."""
        at = after
        for number, anchor in enumerate(hunk.anchors):
            found = self._find_line(anchor, at)
            if found is None and not number:
                found = self._find_line(anchor, 0)
            if found is None:
                return None
            at = found + 1
        return at - 1 if hunk.anchors else None

    def _find_line(self, text: str, begin: int) -> int | None:
        """The first line from `begin` on that is `text`, at the best level; or that begins with it."""
        for level, (_, key) in enumerate(LEVELS):
            keys, wanted = self.keys(level), key(text)
            if wanted in keys[begin:]:
                return keys.index(wanted, begin)
        typed = as_typed(text)
        return next((i for i, line in enumerate(self.keys(3)) if i >= begin and line.startswith(typed)), None)

    def _insertion(self, hunk: Hunk, called: str, anchor: int | None) -> PlacedHunk:
        """The place of lines that come without context."""
        if hunk.at_end or not self.lines:
            return PlacedHunk(hunk, len(self.lines))
        if anchor is not None:
            return PlacedHunk(hunk, anchor + 1)
        if hunk.hint is not None and not hunk.anchors:
            return PlacedHunk(hunk, min(hunk.hint if hunk.after else max(hunk.hint - 1, 0), len(self.lines)))
        missing = f"the line '{hunk.anchors[-1]}' is not there, and " if hunk.anchors else ""
        raise PatchError(
            f"{called}: {missing}it does not say where its lines belong",
            where=self.name,
            hint="add a line of context, '@@ ' with the line above, or '*** End of File' after lines for the end",
        )

    def _nowhere(self, hunk: Hunk, called: str, after: int) -> PatchError:
        """What to say when a hunk fits nowhere: what is expected, what is there."""
        guess = nearest(hunk.old, self.keys(3), after)
        bare = next((line for line in hunk.lines if line.bare and line.text), None)
        unmarked = (
            f"\nLine {bare.line} of the patch begins with none of ' ', '-', '+'; it counts as context." if bare else ""
        )
        expected = "\n".join(f"  {line}" for line in hunk.old[:20])
        there = "The file is empty." if not self.lines else "No lines of the file resemble them."
        if guess is not None:
            first, last = max(guess - 3, 0), min(guess + len(hunk.old[:20]) + 3, len(self.lines))
            shown = "\n".join(f"{i + 1:>6}  {self.lines[i]}".rstrip() for i in range(first, last))
            there = f"Did you mean line {guess + 1}? There are:\n{shown}"
        return PatchError(
            f"{called}: these lines are not in the file:\n{expected}{unmarked}\n{there}\n",
            where=self.name,
            hint="read the file again and copy the lines as they are",
        )


def _is_free(start: int, size: int, placed: Sequence[PlacedHunk]) -> bool:
    return all(start >= one.end or start + size <= one.start for one in placed)


def nearest(old: Sequence[str], keys: Sequence[str], after: int = 0) -> int | None:
    """The index at which lines (as `as_typed` gives them) resemble the lines `old` most; None if they do nowhere.

    >>> nearest(["def f():", "  return 2"], ["import os", "", "def f():", "return 1"])
    2
    """
    wanted = [as_typed(line) for line in old]
    telling = {line for line in wanted if len(line) > 2}
    votes: dict[int, int] = {}
    for i, line in enumerate(keys):
        if line in telling:
            start = max(i - wanted.index(line), 0)
            votes[start] = votes.get(start, 0) + len(line)
    if votes:
        return max(votes, key=lambda start: (votes[start], start >= after, -start))
    longest = max(wanted, key=len)
    close = get_close_matches(longest, dict.fromkeys(keys[:5000]), n=1, cutoff=0.5) if len(longest) < 1000 else []
    return max(list(keys).index(close[0]) - wanted.index(longest), 0) if close else None


# -- What becomes of a text when hunks are applied to it, and a report of that for the model ------------------


_SCOPES = ("_", "#", "$", "@")
_REPORTED_AROUND = 2  # lines of context in a report


@dataclass(frozen=True, slots=True)
class PatchedText:
    """A text after its hunks, and what the model is told of each."""

    text: str
    report: tuple[str, ...]


def update_text(text: str, hunks: Sequence[Hunk], name: str) -> PatchedText:
    """Apply hunks to a text; `name` stands for it in messages.

    >>> from chatmd.tools.patch import parse_patch
    >>> patch = "*** Begin Patch\\n*** Update File: f\\n-b\\n+c\\n*** End Patch"
    >>> update_text("a\\r\\nb\\r\\n", parse_patch(patch)[0].hunks, "f").text
    'a\\r\\nc\\r\\n'

    Raises:
        PatchError: a hunk fits nowhere, or in several places, or all of them change nothing.
    """
    old = TextLines.of(text)
    placed = place_hunks(hunks, old.texts, name)
    texts: list[str] = []
    ends: list[str] = []
    report: list[str] = []
    done = 0
    for one in placed:
        if one.start < done:
            raise PatchError(f"two hunks change line {one.start + 1}", where=name, hint="make one hunk of them")
        texts += old.texts[done : one.start]
        ends += old.ends[done : one.start]
        report.append(_reported(one, old, len(texts)))
        _add_hunk(one, old, texts, ends)
        done = one.end
    texts += old.texts[done:]
    ends += old.ends[done:]
    new = TextLines(tuple(texts), _closed(ends, old.newline), old.bom).text
    if new == text and hunks:
        raise PatchError("the patch changes nothing here", where=name, hint="it may have been applied already")
    return PatchedText(new, tuple(report))


def text_of(lines: Sequence[PatchLine]) -> str:
    """The text of a new file.

    >>> text_of((PatchLine("+", "a", 1), PatchLine("+", "b", 2, ends=False)))
    'a\\nb'
    """
    return "".join(line.text + ("\n" if line.ends else "") for line in lines)


def _add_hunk(one: PlacedHunk, old: TextLines, texts: list[str], ends: list[str]) -> None:
    at = one.start
    for line in one.hunk.lines:
        if line.kind == "+":
            texts.append(line.text)
            ends.append(old.newline if line.ends else "")
        elif line.kind == " ":
            texts.append(old.texts[at])
            ends.append(old.ends[at])
        at += line.kind != "+"


def _closed(ends: Sequence[str], newline: str) -> tuple[str, ...]:
    """Line ends, with one wherever another line follows."""
    return (*(end or newline for end in ends[:-1]), *ends[-1:])


def _reported(one: PlacedHunk, old: TextLines, start: int) -> str:
    """A hunk as it was applied: line numbers before and after, the lines of the file, where it belongs."""
    lines = one.hunk.lines
    before = old.texts[max(one.start - _REPORTED_AROUND, 0) : one.start] if lines[0].kind != " " else ()
    after = old.texts[one.end : one.end + _REPORTED_AROUND] if lines[-1].kind != " " else ()
    body = [f" {text}" for text in before]
    at = one.start
    for line in lines:
        body.append(f"{line.kind}{line.text if line.kind == '+' else old.texts[at]}")
        at += line.kind != "+"
    body += [f" {text}" for text in after]
    removed = len(before) + len(one.hunk.old) + len(after)
    added = len(body) - sum(line.kind == "-" for line in lines)
    begun = (text for text in reversed(old.texts[: one.start]) if text[:1].isalpha() or text.startswith(_SCOPES))
    scope = next(begun, "")
    where = f"@@ -{_span(one.start - len(before), removed)} +{_span(start - len(before), added)} @@ {scope[:80]}"
    note = [f"(fits {LEVELS[one.level][0]})"] if one.level else []
    return "\n".join([where.rstrip(), *note, *body])


def _span(index: int, count: int) -> str:
    """Lines as a unified diff counts them: from 1, and from the line before if there are none."""
    return f"{index + 1 if count else index},{count}"
