"""Patches: parse them, find the places of their hunks in a file, and apply them.

Lines that stay keep their characters and line ends, even where the patch spells them differently. New lines end as
most lines of the file do; a last line from the patch gets a line end, unless the patch says otherwise.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from chatmd.context import Run
from chatmd.errors import FileRefused, PatchError
from chatmd.language.agent import Tool
from chatmd.tools.registry import IN_ORDER, OpenTools, offer, renaming
from chatmd.tools.roots import ToolRoots, roots_of
from chatmd.tools.text_files import (
    Change,
    TextLines,
    apply_changes,
    are_numbered,
    decode_text,
    encode_text,
    lock_files,
    read_content,
)
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
_NUMBERS = re.compile(r"@@+ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@+ ?(.*)")
_OF_DIFF = re.compile(r"(?:--- (?:a/|/dev/null)|\+\+\+ (?:b/|/dev/null)).*")
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
    """One change: old and new lines, to be found below the `anchors`; `hint` is a line number (from 1)."""

    line: int
    anchors: list[str] = field(default_factory=list)
    hint: int | None = None
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
        for hunk in section.hunks:  # blank lines without a mark at its end only separate it from the next
            while hunk.lines and hunk.lines[-1].bare and not hunk.lines[-1].text.strip():
                hunk.lines.pop()
        section.hunks = [hunk for hunk in section.hunks if hunk.lines]
        if section.kind == "Update" and not section.hunks and not section.move_to:
            raise PatchError(f"line {section.line} of the patch: nothing is to be changed in '{section.path}'")
    return parser.sections


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
            if any(mark.startswith(f"{BEGIN}\\n") for mark in marks):
                raise PatchError("its line breaks are '\\n' as two characters", hint="send line breaks")
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
        elif section.hunks or not _OF_DIFF.fullmatch(mark):
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
            self.hunk.hint, anchor = int(numbers[1]), numbers[2]
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
# at their beginnings; then with typographic characters replaced by ASCII. Anchors say in which block the lines are: a
# line number, the order of the hunks and the end of the file only decide between places there. Nothing is guessed.


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


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines from an anchor to `end`. If the anchor `opens` no block, only the first place below it is meant."""

    anchor: int
    end: int
    opens: bool

    def places(self, found: Iterable[int], size: int) -> list[int]:
        """Return those of the places `found` that are in it, or contain its anchor."""
        inside = [start for start in found if self.anchor < start + size and start < self.end]
        around = [start for start in inside if start <= self.anchor]
        return around or (inside if self.opens else inside[:1])


class _Matcher:
    """Finds hunks in the lines of one file; `keys` returns the lines as they are compared at a level."""

    def __init__(self, lines: Sequence[str], *, markdown: bool) -> None:
        self.lines, self.markdown = lines, markdown
        self.keys = cache(lambda level: [LEVELS[level][1](line) for line in lines])

    def place(self, hunk: Hunk, placed: Sequence[PlacedHunk]) -> PlacedHunk:
        """Find the place of one hunk, preferably after those that are already placed.

        Raises:
            PatchError: it fits nowhere, or in several places; the message shows expected and similar lines.
        """
        after, blocks = placed[-1].end if placed else 0, self._blocks(hunk.anchors)
        if not hunk.old:
            return PlacedHunk(hunk, self._insertion(hunk, blocks))
        matched, size = False, len(hunk.old)
        for level in range(len(LEVELS)):
            found = self._occurrences(hunk.old, level)
            matched = matched or bool(found)
            if hunk.at_end and len(self.lines) - size in found:
                return PlacedHunk(hunk, len(self.lines) - size, level)
            free = [start for start in found if all(start >= one.end or start + size <= one.start for one in placed)]
            if free:
                return PlacedHunk(hunk, self._chosen(hunk, free, blocks, after), level)
        if matched:
            raise PatchError("a hunk before it has these lines already", hint="make one of them")
        raise self._nowhere(hunk, blocks[0].anchor if blocks else after)

    def _occurrences(self, lines: Sequence[str], level: int) -> list[int]:
        keys, searched = self.keys(level), [LEVELS[level][1](line) for line in lines]
        starts = (start for start in range(len(keys) - len(searched) + 1) if keys[start] == searched[0])
        return [start for start in starts if keys[start : start + len(searched)] == searched]

    def _chosen(self, hunk: Hunk, found: list[int], blocks: Sequence[_Block], after: int) -> int:
        """Choose one of several places: in the block of the anchors, then by the exact line number, then by order."""
        everywhere, missing = line_numbers(found), ""
        if blocks:
            found = sorted({start for block in blocks for start in block.places(found, len(hunk.old))})
            if not found:
                hint = "if that is the place, give the heading or definition above it"
                raise PatchError(f"its lines are not below '{hunk.anchors[-1]}', but at {everywhere}", hint=hint)
        elif hunk.anchors:
            missing = f", and the line '{hunk.anchors[-1]}' is not there"
        if hunk.hint is not None and hunk.hint - 1 in found:
            return hunk.hint - 1
        found = [start for start in found if start >= after] or found
        if len(found) == 1:
            return found[0]
        hint = "add more lines of context, or a line '@@ ' with the heading or definition above the place"
        raise PatchError(f"its lines occur in {len(found)} places, at {line_numbers(found)}{missing}", hint=hint)

    def _blocks(self, anchors: Sequence[str]) -> list[_Block]:
        """Return the blocks that the last anchor names, below those before it; none if one of them is missing."""
        blocks = [_Block(-1, len(self.lines), opens=True)] if anchors else []
        for anchor in anchors:
            inside = [(block, self._named(anchor, block)) for block in blocks]
            blocks = [self._block(at, block.end) for block, all_ in inside for at in all_[: None if block.opens else 1]]
        return blocks

    def _named(self, text: str, block: _Block) -> list[int]:
        """Return the lines below an anchor that equal `text` at the best level, or begin with it."""
        lines = range(block.anchor + 1, block.end)
        for level, (_, key) in enumerate(LEVELS):
            if found := [i for i in lines if self.keys(level)[i] == key(text)]:
                return found
        typed = as_typed(text)
        return [i for i in lines if self.keys(3)[i].startswith(typed)]

    def _block(self, anchor: int, end: int) -> _Block:
        """Return the block that a line opens: the section of a heading of markdown, or lines that are indented more."""
        rest = [(i, self.lines[i]) for i in range(anchor + 1, end) if self.lines[i].strip()]
        if self.markdown and (level := _heading(self.lines[anchor])):
            fences = 0
            for i, line in rest:
                fences += line.lstrip().startswith(("```", "~~~"))
                if fences % 2 == 0 and 0 < _heading(line) <= level:
                    return _Block(anchor, i, opens=True)
            return _Block(anchor, end, opens=True)
        depth = _depth(self.lines[anchor])
        inner = [(i, line) for i, line in rest if line.lstrip()[0] not in "()[]{}"]  # brackets belong to the block
        if not inner or _depth(inner[0][1]) <= depth:
            return _Block(anchor, end, opens=False)
        return _Block(anchor, next((i for i, line in inner if _depth(line) <= depth), end), opens=True)

    def _insertion(self, hunk: Hunk, blocks: Sequence[_Block]) -> int:
        """Return the index at which to insert lines without context."""
        if hunk.at_end or not self.lines:
            return len(self.lines)
        if len(blocks) == 1:
            return blocks[0].anchor + 1
        missing = f"the line '{hunk.anchors[-1]}' is not there, and " if hunk.anchors else ""
        if blocks:
            places = line_numbers([block.anchor for block in blocks])
            missing = f"'{hunk.anchors[-1]}' occurs in {len(blocks)} places, at {places}, and "
        hint = "add a line of context, '@@ ' with the line above, or '*** End of File' after lines for the end"
        raise PatchError(f"{missing}it does not say where its lines belong", hint=hint)

    def _nowhere(self, hunk: Hunk, after: int) -> PatchError:
        """Return the error for a hunk that fits nowhere: the lines like its own, and the first one that differs."""
        hint, guess = "read the file again and copy the lines as they are", nearest(hunk.old, self.keys(3), after)
        if new := [line.text for line in hunk.lines if line.kind != "-"]:
            done = self._occurrences(new, 1) if any(line.strip() for line in new) else []
            hint = f"its new lines are at {line_numbers(done)} already: was it applied before?" if done else hint
        if are_numbered(hunk.old):
            hint = "give the lines without the line numbers"
        if guess is None:
            excerpt = "".join(f"  {line}\n" for line in hunk.old[:20])
            remark = "No lines of the file resemble them." if self.lines else "The file is empty."
            return PatchError(f"these lines are not in the file:\n{excerpt}{remark}\n", hint=hint)
        keys = self.keys(3)[guess : guess + len(hunk.old)]
        at = next((i for i, pair in enumerate(zip(keys, map(as_typed, hunk.old), strict=False)) if pair[0] != pair[1]),
                  len(keys))  # fmt: skip
        has = f"the patch has '{hunk.old[at]}'"
        if bare := next((line for line in hunk.lines if line.bare and line.text == hunk.old[at] != ""), None):
            has += f" (line {bare.line} of the patch begins with none of ' ', '-', '+', and counts as context)"
        is_ = f"line {guess + at + 1} of the file is '{self.lines[guess + at]}'" if at < len(keys) else "the file ends"
        around = list(enumerate(self.lines, 1))[max(guess - 3, 0) : guess + min(len(hunk.old), 20) + 3]
        lines = "\n".join(f"{number:>6}\t{line}".rstrip() for number, line in around)
        return PatchError(f"its lines are not in the file: {is_}, {has}. There are:\n{lines}\n", hint=hint)


def _heading(line: str) -> int:
    """Return the level of a heading of markdown; 0 if the line is none."""
    found = re.match(r"#{1,6}(?=\s)", line)
    return len(found[0]) if found else 0


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _depth(line: str) -> int:
    return len(_indent(line).expandtabs())


_MOST_NUMBERS = 10


def line_numbers(places: Sequence[int]) -> str:
    """Return the numbers of lines from their indices, up to ten.

    >>> line_numbers([0, 4])
    'lines 1, 5'
    """
    shown = ", ".join(str(index + 1) for index in places[:_MOST_NUMBERS]) + ", …" * (len(places) > _MOST_NUMBERS)
    return f"line{'s' * (len(places) > 1)} {shown}"


def nearest(old: Sequence[str], keys: Sequence[str], after: int = 0) -> int | None:
    """Return the index at which the lines `keys` (from `as_typed`) are most similar to `old`; None if none are.

    >>> nearest(["def f():", "  return 2"], ["import os", "", "def f():", "return 1"])
    2
    """
    searched = [as_typed(line) for line in old]
    telling, votes = {line for line in searched if len(line) > 2}, dict[int, int]()
    for i, line in enumerate(keys):
        if line in telling:
            start = max(i - searched.index(line), 0)
            votes[start] = votes.get(start, 0) + len(line)
    if votes:
        return max(votes, key=lambda start: (votes[start], start >= after, -start))
    longest = max(searched, key=len)
    close = get_close_matches(longest, dict.fromkeys(keys[:5000]), n=1, cutoff=0.5) if len(longest) < 1000 else []
    return max(list(keys).index(close[0]) - searched.index(longest), 0) if close else None


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
    markdown = name.lower().endswith((".md", ".qmd", ".rmd", ".markdown", ".chatmd"))
    matcher, placed = _Matcher(old.texts, markdown=markdown), list[PlacedHunk]()
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
        lines = _applied(one, before, old.newline, name)
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


def _applied(one: PlacedHunk, before: Sequence[tuple[str, str]], newline: str, name: str) -> list[tuple[str, str, str]]:
    """Return the lines of a hunk as kind, text and end; old lines are as in the file, new ones indented like them."""
    old, new = before[one.start : one.end], [line for line in one.hunk.lines if line.kind == "+" and line.text.strip()]
    indents = dict[str, str]()
    if one.level > 1:
        both = zip(one.hunk.old, [text for text, _ in old], strict=True)
        pairs = [(_indent(line), _indent(text)) for line, text in both if line.strip()]
        try:
            indents = reindented(pairs, {_indent(line.text) for line in new}, {_indent(text) for text, _ in before})
        except PatchError as error:
            error.where, error.hint = name, f"give the lines from line {one.start + 1} on as the file has them"
            raise
    old_lines, done = iter(old), list[tuple[str, str, str]]()
    for line in one.hunk.lines:
        if line.kind != "+":
            done.append((line.kind, *next(old_lines)))
            continue
        indent = _indent(line.text)
        text = indents.get(indent, indent) + line.text[len(indent) :] if line.text.strip() else line.text
        done.append(("+", text, newline if line.ends else ""))
    return done


def reindented(pairs: Sequence[tuple[str, str]], added: Collection[str], indents: Collection[str]) -> dict[str, str]:
    """Map the indentation of new lines to that of the file, from pairs of what a patch and the file have for old ones.

    `indents` is the indentation of all lines of the file, to decide between several rules that fit the pairs.

    >>> reindented([("  ", "    ")], ["  ", "      "], ["", "    ", "        "])
    {'  ': '    ', '      ': '        '}

    Raises:
        PatchError: no rule fits: the indentation of the file is not known.
    """
    known = {wrong: right for wrong, right in pairs if all(pair[1] == right for pair in pairs if pair[0] == wrong)}
    if known.keys() >= set(added):
        return known
    best: dict[str, str] | None = None
    wrongs, found = [wrong for wrong, _ in pairs], [right for _, right in pairs]
    for old, new in _UNITS:
        spelled = {indent: indent.replace(old, new) for indent in (*added, *wrongs)}
        if old != new and "\t" not in old + new and any(indent.replace(old, "") for indent in spelled):
            continue  # no whole number of units
        converted = [spelled[wrong] for wrong in wrongs]
        more, less = found[0].removesuffix(converted[0]), converted[0].removesuffix(found[0])
        if all(right == more + wrong for wrong, right in zip(converted, found, strict=True)):
            rule = {indent: more + spelled[indent] for indent in added}
        elif all(wrong == less + right for wrong, right in zip(converted, found, strict=True)) and all(
            spelled[indent].startswith(less) for indent in added
        ):
            rule = {indent: spelled[indent][len(less) :] for indent in added}
        else:
            continue
        if best is None or len({*rule.values()} & {*indents}) > len({*best.values()} & {*indents}):
            best = rule
    if best is None:
        raise PatchError("its lines fit with other indentation, which does not say how new lines are indented")
    return best


# How one level of indentation may be spelled elsewhere: with blanks, tabs, or other numbers of blanks.
_RATIOS = ((4, 2), (2, 4), (4, 8), (8, 4), (2, 8), (8, 2), (3, 4), (4, 3))
_UNITS = (
    (" ", " "),
    *((" " * width, "\t") for width in (4, 2, 8)),
    *(("\t", " " * width) for width in (4, 2, 8)),
    *((" " * old, " " * new) for old, new in _RATIOS),
)


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
        arguments = renaming(input="patch")(text)
    except ValueError:
        arguments = text
    return arguments if isinstance(arguments, dict) else {"patch": arguments if isinstance(arguments, str) else text}


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
