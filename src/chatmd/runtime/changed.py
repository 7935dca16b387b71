"""A transcript that somebody else changed while we wrote: where what we wrote belongs in it.

What we write is one text that grows after the place where the run began. Whatever an editor makes of the file,
that text is put after what it followed, and what was written behind it stays behind it.
"""

from __future__ import annotations

from typing import NamedTuple

_ANCHORS = (400, 160, 60, 24)  # characters before ours that tell the place, the most certain first
_CERTAIN = 60  # characters of ours that cannot stand in a text by chance


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
    behind = behind[blank + _common(added, behind[blank:]) :]
    head = base if theirs.startswith(base) else theirs[:begin].rstrip("\n") + _blank_at_end(base)
    return Placed(head + ours, behind if behind.strip() else "")


def _after_anchor(base: str, theirs: str) -> int:
    """Where in `theirs` the end of `base` stands, -1 if it cannot be found."""
    for length in _ANCHORS:
        anchor = base[-length:].strip()
        at = theirs.rfind(anchor) if anchor else -1
        if at >= 0:
            return at + len(anchor)
    return -1


def _common(first: str, second: str) -> int:
    """How many characters two texts begin with together.

    >>> _common("abcd", "abxd"), _common("ab", "abc")
    (2, 2)
    """
    low, high = 0, min(len(first), len(second))
    while low < high:  # comparing slices is done in C: the length is found by halving
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def _blank_at_end(text: str) -> str:
    return text[len(text.rstrip("\n")) :]
