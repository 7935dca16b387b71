"""Where the hunks of a patch belong in a file.

What a hunk wants to find is compared exactly; then without white space at the ends of lines; then without that at
their beginnings; then with typographic characters as typewriters have them. Among several places that fit equally
well, an anchor, a line number or the end of the file decides; nothing is guessed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from chatmd.errors import PatchError
from chatmd.tools.patch_parse import Hunk

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
class Placed:
    """A hunk and the index of the first line that it takes; `level` is how well it fits (an index of `LEVELS`)."""

    hunk: Hunk
    start: int
    level: int = 0

    @property
    def end(self) -> int:
        """The index after the last line that it takes."""
        return self.start + len(self.hunk.old)


def place_hunks(hunks: Sequence[Hunk], lines: Sequence[str], name: str) -> list[Placed]:
    """Where each hunk belongs, in the order of the file. `name` stands for the file in messages.

    Raises:
        PatchError: one fits nowhere, or in several places; says which lines are expected and which are there.
    """
    matcher = _Matcher(lines, name)
    placed: list[Placed] = []
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

    def place(self, hunk: Hunk, called: str, placed: Sequence[Placed]) -> Placed:
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
                return Placed(hunk, len(self.lines) - len(hunk.old), level)
            free = [start for start in found if _is_free(start, len(hunk.old), placed)]
            if free:
                return Placed(hunk, self._chosen(hunk, called, free, anchor, after), level)
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
            f"{called}: its lines stand in {len(later)} places, at the lines {places}{missing}",
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

    def _insertion(self, hunk: Hunk, called: str, anchor: int | None) -> Placed:
        """The place of lines that come without context."""
        if hunk.at_end or not self.lines:
            return Placed(hunk, len(self.lines))
        if anchor is not None:
            return Placed(hunk, anchor + 1)
        if hunk.hint is not None and not hunk.anchors:
            return Placed(hunk, min(hunk.hint if hunk.after else max(hunk.hint - 1, 0), len(self.lines)))
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


def _is_free(start: int, size: int, placed: Sequence[Placed]) -> bool:
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
