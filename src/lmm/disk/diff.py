"""Compare and merge versions of a sequence. Pure, and linear in practice."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

T = TypeVar("T")

# Runs with fewer pairs than this are compared by difflib, which is quadratic and worse.
_FEW_PAIRS = 60_000


def equal_pairs(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the positions of items that two sequences share, in order.

    >>> equal_pairs("abcd", "xbcdy")
    [(1, 1), (2, 2), (3, 3)]
    """
    numbers: dict[Hashable, int] = {}
    one, two = ([numbers.setdefault(item, len(numbers)) for item in items] for items in (a, b))
    found: list[tuple[int, int]] = []
    waiting = [(0, len(one), 0, len(two))]
    while waiting:
        start, end, first, last = waiting.pop()
        while start < end and first < last and one[start] == two[first]:
            found.append((start, first))
            start, first = start + 1, first + 1
        while start < end and first < last and one[end - 1] == two[last - 1]:
            end, last = end - 1, last - 1
            found.append((end, last))
        if start == end or first == last:
            continue
        if (end - start) * (last - first) <= _FEW_PAIRS:
            blocks = SequenceMatcher(None, one[start:end], two[first:last], autojunk=False).get_matching_blocks()
            found += [(start + m.a + k, first + m.b + k) for m in blocks for k in range(m.size)]
            continue
        anchors = _anchors(one[start:end], two[first:last])
        i, j = start, first
        for anchor in anchors:
            next_i, next_j = start + anchor[0], first + anchor[1]
            found.append((next_i, next_j))
            waiting.append((i, next_i, j, next_j))
            i, j = next_i + 1, next_j + 1
        if anchors:
            waiting.append((i, end, j, last))
    return sorted(found)


def _anchors(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return items that surely correspond: those that occur once in both, else the first, second, … of their kind."""
    in_a, in_b = Counter(a), Counter(b)
    once = {item for item, count in in_a.items() if count == in_b[item] == 1}
    chosen = once or in_a.keys() & in_b.keys()
    places: dict[int, list[int]] = {}
    for j, item in enumerate(b):
        if item in chosen:
            places.setdefault(item, []).append(j)
    nth: Counter[int] = Counter()
    pairs = []
    for i, item in enumerate(a):
        if item in chosen:
            if nth[item] < len(places[item]):
                pairs.append((i, places[item][nth[item]]))
            nth[item] += 1
    return _longest_ascending(pairs)


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, sorted by their first, that also ascends in their second."""
    ends: list[int] = []  # the second of the pair that ends the best run of each length
    at: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        if length == len(ends):
            ends.append(j)
            at.append(number)
        else:
            ends[length], at[length] = j, number
        before.append(at[length - 1] if length else -1)
    run, number = [], at[-1] if at else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]


Hunk = tuple[int, int, int, int]
"""Where items were (start, end) and what they became (start, end)."""


def hunks(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Hunk]:
    """Iterate over the changes from one sequence to another, in order."""
    i = j = 0
    for next_i, next_j in [*equal_pairs(a, b), (len(a), len(b))]:
        if (i, j) != (next_i, next_j):
            yield i, next_i, j, next_j
        i, j = next_i + 1, next_j + 1


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
