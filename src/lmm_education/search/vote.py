"""From passages to sections: each passage votes for the section it was cut from.

A vote weighs ``1 / (RANK + rank)``: two passages of one section outweigh a single one at the top, as long as
they are not far down. A hit on a section's summary is a vote like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

RANK = 10
"""How soon votes lose weight: the second half of the first ten counts about two thirds of the first vote."""


class Voted(NamedTuple):
    """A section's id, its votes' weight, and the ranks of those who voted, from 1."""

    section: str
    score: float
    ranks: tuple[int, ...]


def vote(sections: Iterable[str]) -> list[Voted]:
    """Sections by their votes, given the section of each passage, best passage first. Passages without one abstain.

    >>> [v.section for v in vote(["once", "often", "often", "", "often"])]
    ['often', 'once']
    """
    ranks: dict[str, list[int]] = {}
    for rank, section in enumerate(sections, 1):
        if section:
            ranks.setdefault(section, []).append(rank)
    voted = [Voted(section, weight(own), tuple(own)) for section, own in ranks.items()]
    return sorted(voted, key=lambda each: (-each.score, each.ranks))


def weight(ranks: Sequence[int]) -> float:
    """What votes from these ranks weigh together.

    >>> weight([2, 3]) > weight([1]) > weight([2])
    True
    """
    return sum(1 / (RANK + rank) for rank in ranks)
