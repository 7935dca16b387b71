"""Find a document's blocks again in another version of it.

Blocks are the same if they say the same, whatever their line ends and the blank lines around them. Between
those that are, a block may have become another one: that is decided by the words that both have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from lmm.markdown.blocks import Block, MetadataBlock

# Runs of changed blocks with more pairs than this are not compared pair by pair.
_MAX_PAIRS = 40_000


def look(block: Block) -> tuple[str, str]:
    """What a block says, whatever its line ends and the blank lines around it."""
    kind = "metadata" if isinstance(block, MetadataBlock) else block.kind
    return kind, block.content.replace("\r\n", "\n")


def _opcodes(a: Sequence[tuple[str, str]], b: Sequence[tuple[str, str]]) -> list[tuple[str, int, int, int, int]]:
    """difflib's opcodes, with the common beginning and end taken off first."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    matcher = SequenceMatcher(None, a[head : len(a) - tail], b[head : len(b) - tail], autojunk=False)
    codes = [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in matcher.get_opcodes()]
    ends = ("equal", len(a) - tail, len(a), len(b) - tail, len(b))
    return [*([("equal", 0, head, 0, head)] if head else []), *codes, *([ends] if tail else [])]


def align(old: Sequence[Block], new: Sequence[Block], least: float) -> dict[int, int]:
    """Which new block each old block is, or became: indices to indices, both ascending."""
    found: dict[int, int] = {}
    for tag, i1, i2, j1, j2 in _opcodes([look(b) for b in old], [look(b) for b in new]):
        if tag == "equal":
            found.update(zip(range(i1, i2), range(j1, j2), strict=True))
        elif tag == "replace":
            found.update((i1 + i, j1 + j) for i, j in _likely_pairs(old[i1:i2], new[j1:j2], least))
    return found


def _likely_pairs(old: Sequence[Block], new: Sequence[Block], least: float) -> list[tuple[int, int]]:
    """Blocks that probably became one another, in order: the pairing with the most likeness in all."""
    if len(old) * len(new) > _MAX_PAIRS:
        return []
    before, after = [(_kind(b), _words(b)) for b in old], [(_kind(b), _words(b)) for b in new]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    likeness = [[_likeness(one, two) for two in after] for one in before]
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


def _kind(block: Block) -> str:
    return look(block)[0]


def _words(block: Block) -> Counter[str]:
    return Counter(re.findall(r"\w+|[^\w\s:-]", block.source))


def _likeness(one: tuple[str, Counter[str]], two: tuple[str, Counter[str]]) -> float:
    """The words that two blocks share, as a part of the words of the shorter one; 0 for different kinds only."""
    if one[0] != two[0]:
        return 0.0
    fewer = min(one[1].total(), two[1].total())
    return 0.01 + ((one[1] & two[1]).total() / fewer if fewer else 0.0)
