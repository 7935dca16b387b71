"""A transcript that somebody else changed while we wrote: where what we wrote belongs in it.

What we write is one text that grows after the place where the run began. An editor that had the file as it is has
changed what it meant to change (`followed`). One that had an older version, without what we wrote since, must not undo
that: it is put after what it followed, and what was written behind it stays behind it (`placed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

_ANCHORS = (400, 160, 60, 24)  # characters before ours that tell the place, the most certain first
_CERTAIN = 60  # characters of ours that cannot stand in a text by chance
_TAG = re.compile(r"</?[a-z_]+")
_MOST_COMPARED = 1_000_000  # pairs of lines


class Placed(NamedTuple):
    """`head` ends with what we wrote, and grows; `tail` is what others wrote behind it."""

    head: str
    tail: str


def placed(base: str, ours: str, theirs: str) -> Placed:
    """`theirs`, a changed version of `base` + `ours` or of a part of it; the head ends with `ours`.

    >>> placed("<user>Why?</user>", "<assistant>Because", "<user>Why?</user>")
    Placed(head='<user>Why?</user><assistant>Because', tail='')
    >>> placed("A. ", "we wrote this", "A. we wrote this, and they that")
    Placed(head='A. we wrote this', tail=', and they that')
    """
    added = ours.lstrip("\n")
    begin = len(base) if theirs.startswith(base) else _after_anchor(base, theirs)
    if begin < 0 and len(added) >= _CERTAIN:
        begin = theirs.rfind(added[:_CERTAIN])
    if begin < 0:
        return Placed(theirs.rstrip("\n") + (_blank_at_end(base) or "\n" * theirs.endswith("\n")) + ours, "")
    behind = theirs[begin:]
    blank = len(behind) - len(behind.lstrip("\n"))
    behind = behind[blank + _shared(added, behind[blank:]) :]
    head = base if theirs.startswith(base) else theirs[:begin].rstrip("\n") + _blank_at_end(base)
    return Placed(head + ours, behind if behind.strip() else "")


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
