"""Cut a sequence of texts into pieces of similar size, at places that depend only on the texts near them.

Filling pieces from the top would move every boundary after an insertion. Instead, each text has a key, a number
computed only from its beginning. A sequence that is too long is cut before the text with the highest key among those
that leave enough on both sides, and the two halves likewise. An inserted text rarely has the highest key, so that the
cuts around it stay, and only the piece that contains it changes.

How often more than two pieces change depends on the freedom in where to cut; see the figures in
benchmarks/retrieval.md.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

# The share of `low` that a cut must leave on both sides. With 1, pieces would keep within the limits better, but an
# insertion would move boundaries three times as often.
_LEAST = 0.5
_BEGINNING = 80


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of pieces: from `low` to `high`, as `measure` counts; `joint` is the size of the separator of two texts."""

    low: int
    high: int
    measure: Callable[[str], int] = len
    joint: int = 2


def key_of(text: str) -> int:
    """Return a pseudorandom number of 64 bits computed from the first words, which most changes of a text preserve.

    Only the first paragraph counts, so that joining other texts to it changes nothing.

    >>> key_of("A leaf.") == key_of("A  leaf.\\n\\nMore."), key_of("A leaf.") == key_of("A root.")
    (True, False)
    """
    beginning = " ".join(text[:_BEGINNING].partition("\n\n")[0].split())
    digest = hashlib.blake2b(beginning.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def cut(sizes: Sequence[int], keys: Sequence[int], low: int, high: int) -> list[tuple[int, int]]:
    """Return ranges of positions, in order, whose sizes add up to at most `high`, and about `low` or more.

    A single text that is larger is a piece of its own. Runs in nearly linear time.

    >>> cut([500] * 6, [3, 1, 4, 9, 5, 2], 1000, 2000)
    [(0, 3), (3, 6)]
    """
    ends = [0, *accumulate(sizes)]
    pieces, waiting = [], [(0, len(sizes))]
    while waiting:
        start, end = waiting.pop()
        if end - start == 1 or ends[end] - ends[start] <= high:
            pieces.append((start, end))
        else:
            at = _best(ends, keys, start, end, int(low * _LEAST))
            waiting += [(at, end), (start, at)]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _best(ends: Sequence[int], keys: Sequence[int], start: int, end: int, low: int) -> int:
    """Return where to cut: before the highest key that leaves `low` on both sides, or else nearest to the middle.

    Among equal keys, the one nearest to the middle is chosen, so that a thousand equal lines are halved, not peeled.
    """
    middle = (ends[start] + ends[end]) / 2
    first = max(start + 1, bisect_left(ends, ends[start] + low, start, end))
    last = min(end, bisect_right(ends, ends[end] - low, start, end))
    if first >= last:
        at = min(max(bisect_left(ends, middle, start + 1, end), start + 1), end - 1)
        return at - 1 if at - 1 > start and middle - ends[at - 1] < ends[at] - middle else at
    highest = max(keys[first:last])
    at = keys.index(highest, first, last)
    if highest in keys[at + 1 : last]:
        return min((i for i in range(at, last) if keys[i] == highest), key=lambda i: abs(ends[i] - middle))
    return at
