"""Patches: parse them, find the places of their hunks in a file, and apply them.

Lines that stay keep their characters and line ends, even where the patch spells them differently. New lines end as
most lines of the file do; a last line from the patch gets a line end, unless the patch says otherwise.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from chatmd.context import Run
from chatmd.errors import FileRefused, PatchError
from chatmd.language.agent import Tool
from chatmd.tools.changes import Change, apply_changes, lock_files, read_content
from chatmd.tools.registry import OpenTools, offer
from chatmd.tools.roots import ToolRoots, roots_of
from chatmd.tools.schedule import IN_ORDER
from chatmd.tools.text_lines import TextLines, decode_text, encode_text
from lmm.terminal import count

# -- Parse the text of a patch: files to add, to delete, to update. Models know the format as V4A
#
# Harmless deviations are accepted: blank lines, code fences and here-documents around the patch, CRLF, a bare ``***``
# between sections, ``@@`` directly before its anchor or with the numbers of a unified diff, context without its blank.
# A patch without its end is refused: it may have been cut off.


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


@dataclass(slots=True)
class PatchLine:
    """One line of a hunk: `kind` is a blank for context, ``-`` for removed, ``+`` for added.

    `line` is its number in the patch; `bare` if it had no mark and is taken for context; `ends` is False if the patch
    says that no line end follows.
    """

    kind: str
    text: str
    line: int
    bare: bool = False
    ends: bool = True


@dataclass(slots=True)
class Hunk:
    """One change: old and new lines, to be found below the `anchors`, near the line `hint` (from 1).

    An insertion whose header counts no old lines comes after that line (`after`).
    """

    line: int
    anchors: list[str] = field(default_factory=list)
    hint: int | None = None
    after: bool = False
    lines: list[PatchLine] = field(default_factory=list)
    at_end: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        """The lines that must be in the file."""
        return tuple(line.text for line in self.lines if line.kind != "+")


@dataclass(slots=True)
class FilePatch:
    """The patch of one file: `kind` is ``Add``, ``Delete`` or ``Update``; a new file's lines are its only hunk."""

    kind: str
    path: str
    line: int
    move_to: str = ""
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(text: str) -> list[FilePatch]:
    """Parse a patch.

    >>> parse_patch("*** Begin Patch\\n*** Delete File: old.md\\n*** End Patch")
    [FilePatch(kind='Delete', path='old.md', line=2, move_to='', hunks=[])]

    Raises:
        PatchError: the text is not a patch; the message names the line and what was expected.
    """
    parser = _Parser(text)
    for number in parser.numbers():
        parser.take(number)
    if not parser.sections:
        raise PatchError("the patch names no file", hint=f"write it like this:\n{FORMAT}\n")
    for section in parser.sections:
        section.hunks = [hunk for hunk in map(_trimmed, section.hunks) if hunk.lines]
        if section.kind == "Update" and not section.hunks and not section.move_to:
            raise PatchError(f"line {section.line} of the patch: nothing is to be changed in '{section.path}'")
    return parser.sections


def _trimmed(hunk: Hunk) -> Hunk:
    """Remove blank lines without a mark from the end of a hunk: they only separate it from the next."""
    while hunk.lines and hunk.lines[-1].bare and not hunk.lines[-1].text.strip():
        hunk.lines.pop()
    return hunk


class _Parser:
    """A parser of a patch: the finished sections, and the open section and hunk."""

    def __init__(self, text: str) -> None:
        self.lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        self.sections: list[FilePatch] = []
        self.section: FilePatch | None = None
        self.hunk: Hunk | None = None

    def numbers(self) -> range:
        """Return the numbers of the lines between beginning and end, from 1."""
        marks = [line.strip() for line in self.lines]
        if BEGIN not in marks:
            raise PatchError(f"the line '{BEGIN}' is missing", hint=f"write the patch like this:\n{FORMAT}\n")
        begin = marks.index(BEGIN)
        end = next((i for i, line in enumerate(self.lines) if line.rstrip() == END and i > begin), None)
        if end is None:
            raise PatchError(f"the line '{END}' is missing; the patch may have been cut off", hint="send all of it")
        for i in (*range(begin), *range(end + 1, len(marks))):
            if not _AROUND.fullmatch(self.lines[i]):
                raise self._wrong(i + 1, f"outside of '{BEGIN}' and '{END}' there must be nothing; "
                                         "send one patch at a time")  # fmt: skip
        return range(begin + 2, end + 1)

    def take(self, number: int) -> None:
        """Process the line with this number."""
        line = self.lines[number - 1]
        section, mark = self.section, line.rstrip()
        if header := _HEADER.fullmatch(mark):
            self.section, self.hunk = FilePatch(header[1], self._path(number, header[2]), number), None
            self.sections.append(self.section)
        elif mark == "***":
            self.section = None
        elif section is None or section.kind == "Delete":
            if mark:
                raise self._wrong(number, "a section must begin here: '*** Update File: PATH', or Add, or Delete")
        elif section.kind == "Add":
            self._add(section, number, line)
        elif number == section.line + 1 and (move := _MOVE.fullmatch(mark)):
            section.move_to = self._path(number, move[1])
        else:
            self._update(section, number, line)

    def _add(self, section: FilePatch, number: int, line: str) -> None:
        hunk = self.hunk or self._begin(section, number)
        before = hunk.lines[-1].line if hunk.lines else section.line
        if line.startswith("+") and before == number - 1:
            hunk.lines.append(PatchLine("+", line[1:], number))
        elif hunk.lines and line.lower() in _NO_NEWLINE:
            hunk.lines[-1].ends = False
        elif line.strip():
            bad = number - line.startswith("+")
            raise self._wrong(bad, "each line of a new file begins with '+', an empty one too")

    def _update(self, section: FilePatch, number: int, line: str) -> None:
        if line.startswith("@@"):
            if self.hunk is None or self.hunk.lines:
                self._begin(section, number)
            self._head(line)
        elif self.hunk is not None and line.rstrip() == END_OF_FILE:
            self.hunk.at_end, self.hunk = True, None
        elif self.hunk is not None or (line.strip() and not section.hunks):
            self._line(self.hunk or self._begin(section, number), number, line)
        elif line.strip():
            raise self._wrong(number, "a hunk must begin here, with a line '@@'")

    def _begin(self, section: FilePatch, number: int) -> Hunk:
        self.hunk = Hunk(number)
        section.hunks.append(self.hunk)
        return self.hunk

    def _head(self, line: str) -> None:
        """Add one line to the header of the open hunk."""
        assert self.hunk is not None
        if numbers := _NUMBERS.fullmatch(line.rstrip()):
            self.hunk.hint, self.hunk.after, anchor = int(numbers[1]), numbers[2] == "0", numbers[3]
        else:
            anchor = re.sub(r"(?:^| )@@\Z", "", line[2:].removeprefix(" ").rstrip()).rstrip()
        self.hunk.anchors += [anchor] if anchor.strip() else []

    def _line(self, hunk: Hunk, number: int, line: str) -> None:
        if hunk.lines and line.strip().lower() in _NO_NEWLINE:
            hunk.lines[-1].ends = False
        elif line.startswith("***"):
            message = "this line is none of the format's; context that begins with '***' needs a blank before it"
            raise self._wrong(number, message)
        else:
            bare = line[:1] not in (" ", "-", "+") or not line
            hunk.lines.append(PatchLine(" ", line, number, True) if bare else PatchLine(line[0], line[1:], number))

    def _path(self, number: int, path: str) -> str:
        bare = path.strip()
        if not bare:
            raise self._wrong(number, "a path is missing")
        if re.fullmatch(r"([`'\"]).*\1", bare):
            raise self._wrong(number, "paths have no quotes around them")
        return bare

    def _wrong(self, number: int, message: str) -> PatchError:
        hint = f"it says: {self.lines[number - 1][:200]!r}"
        return PatchError(f"line {number} of the patch: {message}", hint=hint)


# -- Find the places of hunks in a file -----------------------------------------------------------------------
#
# The old lines of a hunk are compared exactly; then without white space at the ends of lines; then also without that
# at their beginnings; then with typographic characters replaced by ASCII. Among several places that fit equally well,
# an anchor, a line number or the end of the file decides; nothing is guessed.


_TYPEWRITER = {
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "‘’‚‛"), "'"),
    **dict.fromkeys(map(ord, "“”„‟"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " "),
    ord("…"): "...",
}


def as_typed(line: str) -> str:
    """Replace typographic characters of a line by ASCII, and strip it.

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
    """A hunk and the index of its first line in the file; `level` is how well it fits (an index of `LEVELS`)."""

    hunk: Hunk
    start: int
    level: int = 0

    @property
    def end(self) -> int:
        """The index after its last line in the file."""
        return self.start + len(self.hunk.old)


class _Matcher:
    """Finds hunks in the lines of one file; `keys` returns the lines as they are compared at a level."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.keys = cache(lambda level: [LEVELS[level][1](line) for line in lines])

    def place(self, hunk: Hunk, placed: Sequence[PlacedHunk]) -> PlacedHunk:
        """Find the place of one hunk, preferably after those that are already placed.

        Raises:
            PatchError: it fits nowhere, or in several places; the message shows expected and similar lines.
        """
        after = placed[-1].end if placed else 0
        anchor = self._anchor(hunk, after)
        missing = f"the line '{hunk.anchors[-1]}' is not there" if hunk.anchors and anchor is None else ""
        if not hunk.old:
            return PlacedHunk(hunk, self._insertion(hunk, anchor, missing))
        taken, size = False, len(hunk.old)
        for level in range(len(LEVELS)):
            found = self._occurrences(hunk.old, level)
            taken = taken or bool(found)
            if hunk.at_end and len(self.lines) - size in found:
                return PlacedHunk(hunk, len(self.lines) - size, level)
            free = [start for start in found if all(start >= one.end or start + size <= one.start for one in placed)]
            if free:
                return PlacedHunk(hunk, self._chosen(hunk, free, anchor, after, missing), level)
        if taken:
            raise PatchError("a hunk before it has these lines already", hint="make one of them")
        raise self._nowhere(hunk, after if anchor is None else anchor)

    def _occurrences(self, old: Sequence[str], level: int) -> list[int]:
        keys, wanted = self.keys(level), [LEVELS[level][1](line) for line in old]
        starts = (start for start in range(len(keys) - len(wanted) + 1) if keys[start] == wanted[0])
        return [start for start in starts if keys[start : start + len(wanted)] == wanted]

    def _chosen(self, hunk: Hunk, found: list[int], anchor: int | None, after: int, missing: str) -> int:
        """Choose one of several places by the hunk's line number, anchor and order."""
        if (hint := hunk.hint) is not None:
            return min(found, key=lambda start: (abs(start + 1 - hint), start))
        if anchor is not None:  # the anchor may be the first line of the hunk itself
            found = [start for start in found if start > anchor][:1] or [anchor] * (anchor in found) or found
        found = [start for start in found if start >= after] or found
        if len(found) == 1:
            return found[0]
        places = ", ".join(str(start + 1) for start in found[:10])
        raise PatchError(
            f"its lines occur in {len(found)} places, at the lines {places}{missing and f', and {missing}'}",
            hint="add more lines of context, or a line '@@ ' with the heading or definition above the place",
        )

    def _anchor(self, hunk: Hunk, after: int) -> int | None:
        """Return the index of the line that the last anchor names; None without anchors, or if one is missing."""
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
        """Return the index of the first line from `begin` that equals `text` at the best level, or begins with it."""
        for level, (_, key) in enumerate(LEVELS):
            if key(text) in self.keys(level)[begin:]:
                return self.keys(level).index(key(text), begin)
        typed = as_typed(text)
        return next((i for i, line in enumerate(self.keys(3)) if i >= begin and line.startswith(typed)), None)

    def _insertion(self, hunk: Hunk, anchor: int | None, missing: str) -> int:
        """Return the index at which to insert lines without context."""
        if hunk.at_end or not self.lines:
            return len(self.lines)
        if anchor is not None:
            return anchor + 1
        if hunk.hint is not None and not missing:
            return min(hunk.hint if hunk.after else max(hunk.hint - 1, 0), len(self.lines))
        raise PatchError(
            f"{missing and f'{missing}, and '}it does not say where its lines belong",
            hint="add a line of context, '@@ ' with the line above, or '*** End of File' after lines for the end",
        )

    def _nowhere(self, hunk: Hunk, after: int) -> PatchError:
        """Return the error for a hunk that fits nowhere, with the expected lines and the most similar ones."""
        old = hunk.old[:20]
        expected = "".join(f"  {line}\n" for line in old)
        if bare := next((line for line in hunk.lines if line.bare and line.text), None):
            expected += f"Line {bare.line} of the patch begins with none of ' ', '-', '+'; it counts as context.\n"
        there = "The file is empty." if not self.lines else "No lines of the file resemble them."
        if (guess := nearest(hunk.old, self.keys(3), after)) is not None:
            shown = list(enumerate(self.lines, 1))[max(guess - 3, 0) : guess + len(old) + 3]
            lines = "\n".join(f"{number:>6}  {line}".rstrip() for number, line in shown)
            there = f"Did you mean line {guess + 1}? There are:\n{lines}"
        message = f"these lines are not in the file:\n{expected}{there}\n"
        return PatchError(message, hint="read the file again and copy the lines as they are")


def nearest(old: Sequence[str], keys: Sequence[str], after: int = 0) -> int | None:
    """Return the index at which the lines `keys` (from `as_typed`) are most similar to `old`; None if none are.

    >>> nearest(["def f():", "  return 2"], ["import os", "", "def f():", "return 1"])
    2
    """
    wanted = [as_typed(line) for line in old]
    telling, votes = {line for line in wanted if len(line) > 2}, dict[int, int]()
    for i, line in enumerate(keys):
        if line in telling:
            start = max(i - wanted.index(line), 0)
            votes[start] = votes.get(start, 0) + len(line)
    if votes:
        return max(votes, key=lambda start: (votes[start], start >= after, -start))
    longest = max(wanted, key=len)
    close = get_close_matches(longest, dict.fromkeys(keys[:5000]), n=1, cutoff=0.5) if len(longest) < 1000 else []
    return max(list(keys).index(close[0]) - wanted.index(longest), 0) if close else None


# -- Apply hunks to a text, and report the changes to the model ------------------------------------------------


def update_text(text: str, hunks: Sequence[Hunk], name: str) -> tuple[str, list[str]]:
    """Apply hunks to a text; return the new text and a report of each for the model. `name` is the file in messages.

    >>> patch = "*** Begin Patch\\n*** Update File: f\\n-b\\n+c\\n*** End Patch"
    >>> update_text("a\\r\\nb\\r\\n", parse_patch(patch)[0].hunks, "f")
    ('a\\r\\nc\\r\\n', ['@@ -2,1 +2,1 @@\\n-b\\n+c'])

    Raises:
        PatchError: a hunk fits nowhere, or in several places, or the text does not change.
    """
    old = TextLines.of(text)
    matcher, placed = _Matcher(old.texts), list[PlacedHunk]()
    for number, hunk in enumerate(hunks, 1):
        try:
            placed.append(matcher.place(hunk, placed))
        except PatchError as error:
            error.message, error.where = f"hunk {number}, line {hunk.line} of the patch: {error.message}", name
            raise
    before = list(zip(old.texts, old.ends, strict=True))
    new, report, done = list[tuple[str, str]](), list[str](), 0
    for one in sorted(placed, key=lambda one: (one.start, one.end)):
        if one.start < done:
            raise PatchError(f"two hunks change line {one.start + 1}", where=name, hint="make one hunk of them")
        new += before[done : one.start]
        lines = _applied(one, before, old.newline)
        added = [(text, end) for kind, text, end in lines if kind != "-"]
        note = [f"(fits {LEVELS[one.level][0]})"] if one.level else []
        where = f"@@ -{_span(one.start, one.end - one.start)} +{_span(len(new), len(added))} @@"
        report.append("\n".join([where, *note, *(f"{kind}{text}" for kind, text, _ in lines)]))
        new += added
        done = one.end
    new += before[done:]
    texts, ends = tuple(text for text, _ in new), [end or old.newline for _, end in new[:-1]]
    result = TextLines(texts, (*ends, *(end for _, end in new[-1:])), old.bom).text
    if result == text and hunks:
        raise PatchError("the patch changes nothing here", where=name, hint="it may have been applied already")
    return result, report


def _applied(one: PlacedHunk, before: Sequence[tuple[str, str]], newline: str) -> list[tuple[str, str, str]]:
    """Return the lines of a hunk as kind, text and end; old lines are as in the file."""
    there = iter(before[one.start : one.end])
    return [
        ("+", line.text, newline if line.ends else "") if line.kind == "+" else (line.kind, *next(there))
        for line in one.hunk.lines
    ]


def _span(index: int, count: int) -> str:
    """Return a range in a unified diff: lines count from 1, and an empty range names the line before."""
    return f"{index + 1 if count else index},{count}"


# -- The tool `apply_patch`: change, add, move and remove several files at once, or none of them -----------


_DESCRIPTION = """\
Change, add, move and delete text files with one patch; if any of it does not fit, nothing is changed. {roots} A patch \
looks like this:

{format}

After '*** Update File' may come '*** Move to: PATH'. Give about three lines of context around each change, exactly as \
they are in the file. If these lines occur more than once, put '@@ ' and the heading or definition above them before \
the hunk. A second hunk in the same file begins with '@@'. '*** End of File' after a hunk says that it is at the end. \
{order}"""


def open_apply_patch(declared: Tool, run: Run) -> OpenTools:
    """Open `apply_patch` for the roots of its declaration."""
    roots, most = roots_of(declared, run), declared.max_output or run.rules.max_output
    described = {"type": "string", "description": "the patch, from '*** Begin Patch' to '*** End Patch'"}
    text = _DESCRIPTION.format(roots=roots.described(), format=FORMAT, order=IN_ORDER)
    return offer("apply_patch", lambda patch: apply_patch(patch, roots, most), text, ("patch",), read=patch_arguments,
                 patch=described)  # fmt: skip


def patch_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a call: JSON with `patch` or `input`, a JSON string, or the bare patch.

    >>> patch_arguments('{"input": "*** Begin Patch"}') == patch_arguments("*** Begin Patch")
    True
    """
    try:
        given = json.loads(text, strict=False)
    except ValueError:
        return {"patch": text}
    if isinstance(given, str):
        return {"patch": given}
    if isinstance(given, dict) and "patch" not in given and isinstance(given.get("input"), str):
        return {"patch": given["input"], **{key: value for key, value in given.items() if key != "input"}}
    return given if isinstance(given, dict) else {"patch": text}


def apply_patch(text: str, roots: ToolRoots, max_output: int = 30_000) -> str:
    """Apply a patch and return a report, in at most `max_output` characters.

    Raises:
        PatchError: it is not a patch, or does not fit.
        FileRefused: it names a file that may not be changed.
        DocumentError: a file cannot be read or written; nothing was changed, except for files that the message names.
    """
    sections = parse_patch(text)
    paths = [path for section in sections for path in (section.path, section.move_to) if path]
    with lock_files([roots.writable(path) for path in paths]):
        plan = _Plan(roots)
        report = [line for section in sections for line in plan.add(section)]
        apply_changes([change for change in plan.changes.values() if change.old != change.new])
    done = "\n".join(["Done. What was changed:", *report])
    note = "\n… the rest of the report is left out; all of the patch was applied."
    return done if len(done) <= max_output else done[: max(max_output - len(note), 0)] + note


@dataclass(slots=True)
class _Plan:
    """The planned changes by the real paths of the files, collected section by section."""

    roots: ToolRoots
    changes: dict[Path, Change] = field(default_factory=dict)

    def add(self, section: FilePatch) -> list[str]:
        """Add one section to the plan, and return its lines of the report."""
        change = self._change(section.path, section)
        name = change.target.name
        if section.kind == "Add":
            lines = [line for hunk in section.hunks for line in hunk.lines]
            if change.new is not None:
                hint = "use '*** Update File: …'; to replace all of it, delete it before, in the same patch"
                raise _wrong(section, "adds this file, but it exists already", name, hint)
            change.new = encode_text("".join(line.text + "\n" * line.ends for line in lines), name)
            return [f"A {name} ({count(len(lines), 'line')})"]
        if change.new is None:
            hint = self.roots.missing(change.target).hint
            raise _wrong(section, f"{section.kind.lower()}s this file, but there is no such file", name, hint)
        if section.kind == "Delete":
            change.new = None
            return [f"D {name}"]
        return self._update(section, change)

    def _update(self, section: FilePatch, change: Change) -> list[str]:
        content, name = change.new or b"", change.target.name
        called = name if content == change.old else f"{name}, as the sections before leave it"
        text, report = update_text(decode_text(content, name), section.hunks, called)
        change.new, moved = encode_text(text, name), ""
        if section.move_to and (goal := self._change(section.move_to, section)) is not change:
            if goal.new is not None:
                raise _wrong(section, "moves a file here, but there is one already", goal.target.name)
            change.new, goal.new, goal.like = None, change.new, change.like or change.target
            moved = f" -> {goal.target.name}"
        return [f"M {name}{moved}", *report]

    def _change(self, path: str, section: FilePatch) -> Change:
        """Return the change of a file, as it is at this point of the patch."""
        target = self.roots.writable(path)
        if target.is_link and (section.kind == "Delete" or section.move_to):
            raise FileRefused("this is a link; delete or move the file it leads to", where=path, hint=target.name)
        if target.real not in self.changes:
            content = read_content(target)
            self.changes[target.real] = Change(target, content, content)
        return self.changes[target.real]


def _wrong(section: FilePatch, what: str, name: str, hint: str = "") -> PatchError:
    return PatchError(f"line {section.line} of the patch {what}", where=name, hint=hint)
