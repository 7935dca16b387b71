"""Putting a result into a document again that its author has changed since: what is found again, and what is not.

A result was made for a place of one version: a question in a section, a section with metadata, some blocks. In another
version the same place is looked for, by one function; if it is not there exactly once, the result is left over, or its
author's change conflicts with it. The first application goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from lmm.disk.diff import hunks
from lmm.errors import Changed
from lmm.markdown.blocks import Block
from lmm.pipeline import Change, ChangedDocument, ParsedDocument

T = TypeVar("T")


def find_again(old: Sequence[T], now: Sequence[T], *signs: Callable[[T], Hashable]) -> dict[int, int]:
    """Match the places in `old` to those that they are `now`, by the first sign that tells which; None matches nothing.

    The first sign is all that is known of a place: of equal ones the n-th is the n-th, unless some are gone or new. By
    the others, the place must be the only one.

    >>> old, now = ["a1", "a1", "b2", "c3"], ["a1", "a1", "b4", "d3", "e3"]
    >>> find_again(old, now, str, lambda one: one[0], lambda one: one[1])
    {0: 0, 1: 1, 2: 2}
    """
    found: dict[int, int] = {}
    for number, sign in enumerate(signs):
        taken = set(found.values())
        places, here = dict[Hashable, list[int]](), dict[Hashable, list[int]]()
        for into, items, known in ((places, old, found.keys()), (here, now, taken)):
            for i, item in enumerate(items):
                if i not in known and (shown := sign(item)) is not None:
                    into.setdefault(shown, []).append(i)
        for shown, some in places.items():
            if len(same := here.get(shown, [])) == len(some) and (number == 0 or len(some) == 1):
                found |= zip(some, same, strict=True)
    return found


@dataclass(frozen=True, slots=True)
class ReplaceBlocks:
    """A change of blocks in the tree: `old` becomes `new`, between the blocks `above` and `below`, if there are any."""

    above: str | None
    old: tuple[str, ...]
    new: tuple[Block, ...]
    below: str | None

    def __call__(self, version: ParsedDocument) -> ChangedDocument:
        """Replace the blocks in another version.

        Raises:
            Changed: they are not there exactly once.
        """
        blocks, size = version.blocks, len(self.old)
        sources = [None, *(block.source for block in blocks), None]
        places = [
            i
            for i in range(len(blocks) - size + 1)
            if tuple(sources[i + 1 : i + 1 + size]) == self.old
            and (size or sources[i] == self.above or sources[i + 1] == self.below)
        ]
        both = [i for i in places if (sources[i], sources[i + 1 + size]) == (self.above, self.below)]
        if len(both) != 1:
            both = [i for i in places if sources[i] == self.above] if len(places) > 1 else places
        if len(both) != 1:
            lines = [below.line for above, below in pairwise(blocks) if above.source == self.above]
            line = lines[0] if lines else 1
            raise Changed(version.text.encode(), Path(version.file), line=line)
        return ChangedDocument([*blocks[: both[0]], *self.new, *blocks[both[0] + size :]])


def changes_between(before: Sequence[Block], after: Sequence[Block]) -> list[Change]:
    """Return the changes from one version's blocks to another's, to be made in this order: the last place first."""
    sources = [block.source for block in before]
    around = [None, *sources, None]
    return [
        ReplaceBlocks(around[a], tuple(sources[a:b]), tuple(after[c:d]), around[b + 1])
        for a, b, c, d in [*hunks(sources, [block.source for block in after])][::-1]
    ]
