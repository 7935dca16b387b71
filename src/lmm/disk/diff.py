"""Compare and merge versions of a sequence. Pure, and linear in practice."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

Hunk = tuple[int, int, int, int]
"""Where items were (start, end) and what they became (start, end)."""


def hunks(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Hunk]:
    """Iterate over the changes from one sequence to another, in order.

    >>> list(hunks("abcd", "xbcdy"))
    [(0, 1, 0, 1), (4, 4, 4, 5)]
    """
    shortest = min(len(a), len(b))
    start = next((i for i in range(shortest) if a[i] != b[i]), shortest)
    same = next((i for i in range(shortest - start) if a[-1 - i] != b[-1 - i]), shortest - start)
    changed = SequenceMatcher(None, a[start : len(a) - same], b[start : len(b) - same])
    for tag, i, end, j, last in changed.get_opcodes():
        if tag != "equal":
            yield start + i, start + end, start + j, start + last


class Conflict(ValueError):
    """A conflict: both changed the same place, at `line` of theirs, from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} was changed by both")
        self.line = line


def three_way(base: str, ours: str, theirs: str) -> str:
    """Apply our line changes from `base` to `ours` to `theirs`; every other character of theirs stays.

    Raises:
        Conflict: they changed the same lines.

    >>> three_way("one\\ntwo\\n", "one\\n2\\n", "zero\\none\\ntwo\\n")
    'zero\\none\\n2\\n'
    """
    old, new, now = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    changed = list(hunks(old, now))
    result: list[str] = []
    done, at = 0, 0  # lines of theirs that are in the result, and which of their changes comes next
    shift = 0  # how much further down a line of the base is in theirs
    for start, end, first, last in hunks(old, new):
        while at < len(changed) and _end(changed[at][:2]) <= start:
            shift = changed[at][3] - changed[at][1]
            at += 1
        if at < len(changed) and _touch((start, end), changed[at][:2]):
            if changed[at][:2] == (start, end) and now[changed[at][2] : changed[at][3]] == new[first:last]:
                continue  # both made the same change
            raise Conflict(changed[at][2] + 1)
        result += now[done : start + shift]
        result += new[first:last]
        done = end + shift
    return "".join([*result, *now[done:]])


def _touch(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Return whether two ranges overlap; an insertion also touches the line below it, to which it may belong.

    >>> [_touch((3, 3), two) for two in ((3, 5), (1, 3), (3, 3))], _touch((3, 5), (3, 3)), _touch((3, 5), (5, 5))
    ([True, False, True], True, False)
    """
    return max(one[0], two[0]) < min(_end(one), _end(two))


def _end(place: tuple[int, int]) -> int:
    return max(place[1], place[0] + 1)
