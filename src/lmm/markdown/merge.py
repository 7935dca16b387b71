"""Bring our changes into a text that changed meanwhile.

`merge(base, ours, theirs)` is a three-way merge made for what we do to documents: we change keys of
metadata blocks and insert or replace blocks; the author does anything. The author's text always
stays; a change of ours that has no place any more is handed back as `unplaced`, never dropped.

Blocks are matched by what they say, so that blank lines and line ends do not matter; between those that are the same,
a block may have become another one, which is decided by the words that both have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lmm.disk.diff import equal_pairs
from lmm.disk.shared import Merged
from lmm.errors import MetadataError
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, MetadataBlock, ended, insert_blocks, serialize
from lmm.markdown.metadata import Prompt, find_prompts
from lmm.markdown.parse_markdown import parse_markdown_text

_BYTE_ORDER_MARK = "\ufeff"
# The share of words, of the block that has fewer, from which on one may be what the author made of the other.
# (We do not exchange a metadata block for another one, so that for our own changes any share is enough.)
_LIKE = 0.3
_NOTHING = "---\n---\n"
_MOST_TRIES = 200  # to find the changes that cannot be made; after that, all that were not tried yet are handed back
_MOST_ALIKE = 50  # blocks that say the same, of which one is the block that was moved


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Apply what changed from `base` to `ours` onto `theirs`; `unplaced` are the sources of blocks without a place.

    >>> base = "---\\n?: why?\\n---\\nBecause.\\n"
    >>> ours = "---\\n~chat_:\\n  - query: why?\\n    ~reply: Yes.\\n---\\nBecause.\\n"
    >>> print(merge(base, ours, base + "\\nA new paragraph.\\n").text)
    ---
    ~chat_:
      - query: why?
        ~reply: Yes.
    ---
    Because.
    <BLANKLINE>
    A new paragraph.
    <BLANKLINE>
    """
    if theirs == base or ours == theirs:
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    # Of two marks the second is a character: without the first, it would be taken for the mark.
    mark = "" if any(text.startswith(_BYTE_ORDER_MARK * 2) for text in (base, ours, theirs)) else _BYTE_ORDER_MARK
    old, new, now = (_parsed(text.removeprefix(mark)) for text in (base, ours, theirs))
    merged = _apply_most(_changes(old, new), old, now)
    text = mark + merged.text if theirs.startswith(_BYTE_ORDER_MARK) else merged.text
    if text.startswith(_BYTE_ORDER_MARK) != theirs.startswith(_BYTE_ORDER_MARK):
        return Merged(theirs, (ours,))
    return Merged(text, merged.unplaced)


def _parsed(text: str) -> list[Block]:
    """The blocks of a text; none for one of blank lines only."""
    blocks = parse_markdown_text(text)
    return blocks if any(block.content for block in blocks) else []


def _apply_most(changes: Sequence[_Change], old: list[Block], now: list[Block]) -> Merged:
    """All changes applied, but for those with which the text would not read back; they are sought by halves."""
    where = _Placement.align(old, now)
    done: list[_Change] = []
    refused: list[str] = []
    best = Merged(serialize(now))
    waiting, tries = [list(changes)], 0
    while waiting:
        some, tries = waiting.pop(), tries + 1
        merged = _apply([*done, *some], _Placement(old, now, where)) if tries <= _MOST_TRIES else None
        if merged is not None:
            done, best = [*done, *some], merged
        elif len(some) == 1 or tries >= _MOST_TRIES:
            refused += [source for change in some for source in _own_part(change)]
        else:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return Merged(best.text, (*best.unplaced, *refused))


def _apply(changes: Sequence[_Change], place: _Placement) -> Merged | None:
    """The changes applied to their blocks; None if the text would not be read as the blocks it is made of."""
    unplaced = [source for change in changes for source in place.apply(change)]
    blocks = place.joined()
    text = serialize(blocks)
    looks = [look(block) for block in blocks]
    if [look for look in map(look, parse_markdown_text(text)) if look[1]] != [look for look in looks if look[1]]:
        return None
    return Merged(text, tuple(unplaced))


# -- what changed --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """`old` blocks, at `start` of the base, became `new`."""

    start: int
    old: tuple[Block, ...]
    new: tuple[Block, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.old)


def _changes(old: list[Block], new: list[Block]) -> list[_Change]:
    """What changed between two block lists: blocks that became another, and runs that came and went."""
    changes = []
    i = j = 0
    for next_i, next_j in [*align(old, new, 0.0).items(), (len(old), len(new))]:
        if next_j > j:
            changes.append(_Change(i, tuple(old[i:next_i]), tuple(new[j:next_j])))
        else:
            changes += [_Change(k, (old[k],), ()) for k in range(i, next_i)]
        if next_i < len(old) and look(old[next_i]) != look(new[next_j]):
            changes.append(_Change(next_i, (old[next_i],), (new[next_j],)))
        i, j = next_i + 1, next_j + 1
    return changes


def _own_part(change: _Change) -> list[str]:
    """The sources of what is ours in a change: of a metadata block, the keys that we changed."""
    pair = _metadata_pair(change)
    if pair is None:
        return [block.source for block in change.new]
    old, new = pair
    before = old.values()
    return _kept_aside({k: v for k, v in new.values().items() if not _same(v, before.get(k))}, before, new.newline)


def _metadata_pair(change: _Change) -> tuple[MetadataBlock, MetadataBlock] | None:
    """What one metadata block was and became; one that was deleted became empty."""
    old = change.old[0] if len(change.old) == 1 else None
    if not isinstance(old, MetadataBlock) or len(change.new) > 1:
        return None
    new = change.new[0] if change.new else old.with_source(_NOTHING)
    return (old, new) if isinstance(new, MetadataBlock) else None


# -- applying ------------------------------------------------------------------------------------


class _Placement:
    """Their blocks, what each becomes, and what we put before it."""

    def __init__(self, base: list[Block], theirs: list[Block], where: Mapping[int, int]) -> None:
        self.base, self.theirs, self.where = base, theirs, where
        self.slots: list[Block | None] = list(theirs)
        self.before: list[list[Sequence[Block]]] = [[] for _ in range(len(theirs) + 1)]

    @staticmethod
    def align(base: list[Block], theirs: list[Block]) -> Mapping[int, int]:
        """Which of their blocks each of the base is, also where it stands somewhere else now.

        That is found by what it says, or by a prompt that was there before.
        """
        where = align(base, theirs, _LIKE)
        taken = set(where.values())
        free = [j for j in range(len(theirs)) if j not in taken]
        by_sign: dict[Any, dict[int, None]] = {}
        for j in free:
            for sign in _signs(theirs[j]):
                by_sign.setdefault(sign, {})[j] = None
        for i, block in enumerate(base):
            if i in where:
                continue
            found = next((some for sign in _signs(block) if (some := by_sign.get(sign))), None)
            if not found:
                continue
            follower = [look(b) for b in base[i + 1 : i + 2]]
            alike = islice(found, _MOST_ALIKE)
            best = max(alike, key=lambda j: [look(b) for b in theirs[j + 1 : j + 2]] == follower)
            where[i] = best
            for sign in _signs(theirs[best]):
                by_sign[sign].pop(best, None)
        return where

    def joined(self) -> list[Block]:
        """The merged blocks, with blank lines where those that came to stand next to each other need them."""
        result: list[Block] = []
        loose = False  # whether the last block came to stand before another one through us
        for block, inserted in zip([*self.slots, None], self.before, strict=True):
            for run in inserted:
                result = insert_blocks(result, len(result), run)
            loose |= any(inserted) or block is None
            if block is not None:
                if loose and result:
                    result[-1] = ended(result[-1], block.newline)
                result.append(block)
                loose = False
        return result

    def apply(self, change: _Change) -> list[str]:
        """Apply one change; the sources of what could not be placed."""
        if not change.old:
            return self._insert(change)
        if (pair := _metadata_pair(change)) is not None:
            return self._change_metadata(change, *pair)
        spots = [self.where.get(i) for i in range(change.start, change.end)]
        if any(j is None or look(self.theirs[j]) != look(b) for j, b in zip(spots, change.old, strict=True)):
            return [block.source for block in change.new]
        for j in spots:
            self.slots[j or 0] = None
        self.before[spots[0] or 0].append(change.new)
        return []

    def _insert(self, change: _Change) -> list[str]:
        """Put new blocks before what stood after them, else after what stood before them."""
        index, new = change.start, change.new
        after, before = self.where.get(index), self.where.get(index - 1)
        if index == 0 and isinstance(new[0], HeaderBlock):
            return self._insert_header(new)
        annotated = (
            index > 0 and isinstance(self.base[index - 1], MetadataBlock) and not isinstance(new[0], MetadataBlock)
        )
        if after is not None and not (annotated and before is not None):
            return self._insert_at(after, new, own=before)
        if index == len(self.base) and before is None:
            before = len(self.theirs) - 1
        if before is None or (index < len(self.base) and isinstance(new[-1], MetadataBlock)):
            return [block.source for block in new]
        self.before[before + 1].append(new)
        return []

    def _insert_header(self, new: tuple[Block, ...]) -> list[str]:
        """Put a header at the start, or our keys into the one that the author has made meanwhile."""
        first = next(iter(self.theirs), None)
        header, *rest = new
        assert isinstance(header, MetadataBlock)
        if isinstance(first, ErrorBlock):  # a header before it would hide it
            return [block.source for block in new]
        if isinstance(first, MetadataBlock):
            self.before[1].append(rest)
            return self._with_our_keys(0, header.with_source(_NOTHING), header)
        blanks = _blanks_before(self.base)
        self.before[0].append([header.with_source(header.source.removesuffix(blanks)), *rest])
        return []

    def _insert_at(self, index: int, new: tuple[Block, ...], own: int | None) -> list[str]:
        """Put blocks before their block `index`, where the author may have put metadata meanwhile."""
        above = index - 1
        if above >= 0 and above != own and isinstance(self.theirs[above], MetadataBlock):
            last = new[-1]
            if isinstance(last, MetadataBlock):
                lost = self._with_our_keys(above, last.with_source(_NOTHING), last)
                self.before[above].append(new[:-1])
                return lost
            index = above
        self.before[index].append(new)
        return []

    def _change_metadata(self, change: _Change, old: MetadataBlock, new: MetadataBlock) -> list[str]:
        """Apply our key changes to the block that the author made of `old` meanwhile."""
        index = self.where.get(change.start)
        theirs = self.slots[index] if index is not None else None
        if index is None or not isinstance(theirs, MetadataBlock):
            return _own_part(change)
        lost: list[str] = []
        if theirs.source == old.source:
            self.slots[index] = new
        elif theirs.body == old.body:
            self.slots[index] = theirs.with_body(new.body)
        else:
            lost = self._with_our_keys(index, old, new)
        left = self.slots[index]
        if not change.new and isinstance(left, MetadataBlock) and not left.body.strip():
            self.slots[index] = None
        return lost

    def _with_our_keys(self, index: int, old: MetadataBlock, new: MetadataBlock) -> list[str]:
        """Change in their block the keys that we changed from `old` to `new`; what the author changed too is lost."""
        theirs = self.slots[index]
        assert isinstance(theirs, MetadataBlock)
        before, after = old.values(), new.values()
        answered = _answered(old, new)
        body, lost = theirs.body, dict[str, Any]()
        for key in {**before, **after}:
            if key in before and key in after and _same(before[key], after[key]):
                continue
            try:
                body = _with_our_key(body, key, before, after, answered, theirs.newline)
            except MetadataError:
                lost |= {key: after[key]} if key in after else {}
        for prompt in [] if lost else answered:
            same = next((p for p in find_prompts(body) if (p.word, p.text) == (prompt.word, prompt.text)), None)
            body = metadata.remove_prompt(body, same) if same is not None else body
        self.slots[index] = theirs.with_body(body)
        return _kept_aside(lost, before, new.newline)


def _with_our_key(
    body: str,
    key: str,
    before: dict[str, Any],
    after: dict[str, Any],
    answered: Sequence[Prompt],
    newline: str,
) -> str:
    """`body` with one key changed as we changed it.

    Raises:
        MetadataError: the author changed it too, or the block cannot be edited.
    """
    now = metadata.read(body)
    untouched = (key in now) == (key in before) and _same(now.get(key), before.get(key))
    if key not in after:
        return metadata.remove_key(body, key) if untouched else body
    if untouched:
        signatures = {(p.word, p.text) for p in answered}
        at = next((p.start for p in find_prompts(body) if (p.word, p.text) in signatures), None)
        return metadata.set_key(body, key, after[key], newline=newline, before=at)
    if not key.startswith("~"):
        return body  # the author has written it meanwhile
    added = _appended(before.get(key), after[key])
    if added is None or not isinstance(now.get(key), list | None):
        raise MetadataError(f"'{key}' was changed meanwhile")
    for value in added:
        body = metadata.append_item(body, key, value, newline=newline)
    return body


def _kept_aside(values: dict[str, Any], before: dict[str, Any], newline: str) -> list[str]:
    """A metadata block with `values`, of a list that grew only what was added; nothing for nothing."""
    own = {}
    for key, value in values.items():
        added = _appended(before.get(key), value)
        own[key] = value if added is None else added
    return [MetadataBlock.make(own, newline=newline).source] if own else []


def _answered(old: MetadataBlock, new: MetadataBlock) -> list[Prompt]:
    """The prompts of `old` that `new` no longer has."""
    waiting = Counter((p.word, p.text) for p in new.prompts)
    gone = []
    for prompt in old.prompts:
        signature = (prompt.word, prompt.text)
        if waiting[signature]:
            waiting[signature] -= 1
        else:
            gone.append(prompt)
    return gone


def _signs(block: Block) -> list[tuple[str, str]]:
    """What a block that was moved is recognised by: all that it says, or else one of its prompts."""
    if not block.content:
        return []
    prompts = block.prompts if isinstance(block, MetadataBlock) else ()
    return [look(block), *dict.fromkeys((p.word, p.text) for p in prompts)]


def _blanks_before(blocks: Sequence[Block]) -> str:
    """The blank lines before a document's first block, which belong to its source."""
    first = blocks[0].source if blocks else ""
    return first.removesuffix(blocks[0].content + blocks[0].trailing) if first else ""


def _same(one: Any, two: Any) -> bool:
    """Equality that tells true from 1 and takes nan for nan."""
    return repr(one) == repr(two)


def _appended(before: Any, after: Any) -> list[Any] | None:
    """The items by which list `after` is longer than `before`, or None if it is not a continuation."""
    start = before if isinstance(before, list) else []
    if isinstance(after, list) and _same(after[: len(start)], start):
        return after[len(start) :]
    return None


# -- a document's blocks, found again in another version of it -------------------------------------


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
