"""Patches: changes of a document as values, which are applied to any version of it, the first time as every later time.

A patch keeps its places in the version for which it was made. In another version the same places are looked for, by one
function. What is not there exactly once is left over, and a failure says so; an author's change of blocks that were to
be replaced is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from lmm.disk.diff import hunks
from lmm.errors import Changed, Failure, LmmError
from lmm.markdown.blocks import Block
from lmm.pipeline import ChangedDocument, ParsedDocument, Patch, Report

P = TypeVar("P", contravariant=True)
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


# -- finding places again --------------------------------------------------------------------------


class Target(NamedTuple):
    """What identifies a place in every version of a document: its kind, with a question's words; the headings above it;
    its text, None if it has none."""

    kind: Hashable
    path: Hashable
    text: Hashable


def find_again(old: Sequence[Target], now: Sequence[Target]) -> dict[int, int]:
    """Match places of one version to those that they are `now`, by their positions.

    It is the same place if everything is the same: of equal ones the n-th is the n-th, unless some are gone or new.
    Else it is the only one left of its kind under the same headings, else the only one left with the same text.

    >>> old = [Target("why?", "A", "1"), Target("why?", "A", "1"), Target("why?", "B", "2"), Target("why?", "C", "3")]
    >>> now = [Target("why?", "A", "1"), Target("why?", "A", "1"), Target("why?", "B", "4"), Target("why?", "D", "3")]
    >>> find_again(old, now), find_again(old[:1], now)
    ({0: 0, 1: 1, 2: 2, 3: 3}, {})
    """
    found: dict[int, int] = {}
    signs: tuple[Callable[[Target], Hashable], ...] = (
        lambda one: one,
        lambda one: one[:2],
        lambda one: (one.kind, one.text) if one.text is not None else None,
    )
    for number, sign in enumerate(signs):
        matched = set(found.values())
        places, candidates = dict[Hashable, list[int]](), dict[Hashable, list[int]]()
        for into, items, known in ((places, old, found.keys()), (candidates, now, matched)):
            for i, item in enumerate(items):
                if i not in known and (signature := sign(item)) is not None:
                    into.setdefault(signature, []).append(i)
        for signature, some in places.items():
            if len(same := candidates.get(signature, [])) == len(some) and (number == 0 or len(some) == 1):
                found |= zip(some, same, strict=True)
    return found


# -- what is put there -----------------------------------------------------------------------------


class Result(Protocol[P, T_co]):
    """What is to be put at one place: a reply, or metadata."""

    def at(self, place: P) -> T_co | None:
        """Return it as it is put at a place of a version; None if there is nothing to put.

        Raises:
            LmmError: it cannot be put there.
        """
        ...

    def failure(self, version: ParsedDocument, error: LmmError | None) -> Failure | None:
        """Return the failure if it was refused with an error, or if its place is gone; None if it is there already."""
        ...


@dataclass(frozen=True, slots=True)
class PutResults(Generic[P, T]):
    """A patch that puts `results` at places of a document, by their positions among the `targets` of its first version.

    They are put in order, and what cannot be put beside those before it is refused. `places` returns the places of a
    version; `put` puts things into blocks, all or none. If they are `reported`, what was put is in the report.
    """

    targets: Sequence[Target]
    results: Mapping[int, Result[P, T]]
    places: Callable[[ParsedDocument], Sequence[tuple[Target, P]]]
    put: Callable[[Sequence[Block], Sequence[T]], list[Block]]
    reported: bool = True

    def __call__(self, version: ParsedDocument) -> ChangedDocument:
        """Put the results into a version; the report has failures for those that were not put."""
        places = self.places(version) if self.results else []
        where = find_again(self.targets, [target for target, _ in places])
        items, refused_items = dict[int, T](), dict[int, LmmError | None]()
        for i, result in self.results.items():
            try:
                if i not in where:
                    refused_items[i] = None
                elif (item := result.at(places[where[i]][1])) is not None:
                    items[i] = item
            except LmmError as error:
                refused_items[i] = error
        blocks, refused = bisect_failures([*items], lambda some: self.put(version.blocks, [items[i] for i in some]))
        refused_items |= refused
        failures = (self.results[i].failure(version, refused_items[i]) for i in sorted(refused_items))
        put = (items[i] for i in sorted(items) if self.reported and i not in refused_items)
        return ChangedDocument(blocks, Report(tuple(put), tuple(filter(None, failures))))


def bisect_failures(items: Sequence[T], attempt: Callable[[Sequence[T]], R]) -> tuple[R, list[tuple[T, LmmError]]]:
    """Return the result of `attempt` for all items except those that it refuses, and the refused ones with errors.

    If nothing is refused, one attempt is made; else the items are halved until the refused ones are found.

    >>> def attempt(some):
    ...     if 3 in some:
    ...         raise LmmError("no 3")
    ...     return sum(some)
    >>> total, refused = bisect_failures([1, 2, 3, 4], attempt)
    >>> total, [item for item, _ in refused]
    (7, [3])
    """
    accepted: list[T] = []
    refused: list[tuple[T, LmmError]] = []
    made: list[R] = []

    def sift(some: Sequence[T]) -> None:
        try:
            made[:] = [attempt([*accepted, *some])]
            accepted.extend(some)
        except LmmError as error:
            if len(some) == 1:
                refused.append((some[0], error))
                return
            sift(some[: len(some) // 2])
            sift(some[len(some) // 2 :])

    if items:
        sift(items)
    return made[0] if made else attempt([]), refused


@dataclass(frozen=True, slots=True)
class ReplaceBlocks:
    """A patch that replaces blocks: `old` becomes `new`, between the blocks `above` and `below`, if there are any."""

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


def changes_between(before: Sequence[Block], after: Sequence[Block]) -> list[Patch]:
    """Return the patches from one version's blocks to another's, to be applied in this order: the last place first."""
    sources = [None, *(block.source for block in before), None]
    positions = {id(block): i for i, block in enumerate(before)}
    common, found = [(-1, -1)], list[Patch]()  # the blocks that are in both: others are compared only between them
    for j, block in enumerate(after):
        if (i := positions.get(id(block), -1)) > common[-1][0]:
            common.append((i, j))
    for (i, j), (end, last) in pairwise([*common, (len(before), len(after))]):
        pieces = ([block.source for block in some] for some in (before[i + 1 : end], after[j + 1 : last]))
        for a, b, c, d in hunks(*pieces):
            old = tuple(before[k].source for k in range(i + 1 + a, i + 1 + b))
            found.append(
                ReplaceBlocks(sources[i + 1 + a], old, tuple(after[j + 1 + c : j + 1 + d]), sources[i + 2 + b])
            )
    return found[::-1]
