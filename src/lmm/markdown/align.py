"""Find a document's blocks again in another version of it.

Blocks are the same if they say the same, whatever their line ends and the blank lines around them. Between
those that are, a block may have become another one: that is decided by the words that both have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lmm.disk.versions import equal_pairs
from lmm.markdown.blocks import Block, MetadataBlock

# Runs of changed blocks with more pairs than this are not compared pair by pair.
_MAX_PAIRS = 40_000


def look(block: Block) -> tuple[str, str]:
    """What a block says, whatever its line ends and the blank lines around it."""
    kind = "metadata" if isinstance(block, MetadataBlock) else block.kind
    return kind, block.content.replace("\r\n", "\n")


def align(old: Sequence[Block], new: Sequence[Block], least: float) -> dict[int, int]:
    """Which new block each old block is, or became: indices to indices, both ascending.

    Text and headings that stayed are found first; metadata blocks, of which many may be alike, between them. A block
    became another one if they share more than `least` of their words; with 0, blocks of the same kinds in the same
    order became each other.
    """
    found: dict[int, int] = {}
    i = j = 0
    for next_i, next_j in [*_unchanged_text(old, new), (len(old), len(new))]:
        before, after = [look(b) for b in old[i:next_i]], [look(b) for b in new[j:next_j]]
        in_order = before == after or (not least and [kind for kind, _ in before] == [kind for kind, _ in after])
        pairs = [(k, k) for k in range(next_i - i)] if in_order else _likely_pairs(before, after, least)
        found.update((i + one, j + two) for one, two in pairs)
        if next_i < len(old):
            found[next_i] = next_j
        i, j = next_i + 1, next_j + 1
    return found


def _unchanged_text(old: Sequence[Block], new: Sequence[Block]) -> list[tuple[int, int]]:
    """The positions of the blocks that say the same in both, metadata left out."""
    a = [i for i, block in enumerate(old) if not isinstance(block, MetadataBlock)]
    b = [j for j, block in enumerate(new) if not isinstance(block, MetadataBlock)]
    return [(a[i], b[j]) for i, j in equal_pairs([look(old[i]) for i in a], [look(new[j]) for j in b])]


def _likely_pairs(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]], least: float
) -> list[tuple[int, int]]:
    """Blocks that probably became one another, in order: the pairing with the most likeness in all."""
    if not old or not new:
        return []
    if len(old) * len(new) > _MAX_PAIRS:
        return equal_pairs(old, new)
    words, new_words = [_words(one) for one in old], [_words(two) for two in new]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    likeness = [[_likeness(one, two, words[i], new_words[j]) for j, two in enumerate(new)] for i, one in enumerate(old)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            taken = best[i + 1][j + 1] + likeness[i][j] if likeness[i][j] > least else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], taken)
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def _words(what: tuple[str, str]) -> Counter[str]:
    return Counter(re.findall(r"\w+|[^\w\s:-]", what[1]))


def _likeness(one: tuple[str, str], two: tuple[str, str], words: Counter[str], more: Counter[str]) -> float:
    """The words that two blocks share, as a part of the words of the shorter one; 0 for different kinds only."""
    if one == two:
        return 2.0
    if one[0] != two[0]:
        return 0.0
    fewer = min(words.total(), more.total())
    return 0.01 + ((words & more).total() / fewer if fewer else 0.0)
