"""Bring our changes into a text that changed meanwhile.

`merge(base, ours, theirs)` is a three-way merge made for what we do to documents: we change keys of
metadata blocks and insert or replace blocks; the author does anything. The author's text always
stays; a change of ours that has no place any more is handed back as `unplaced`, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from lmm.errors import MetadataError
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged text, and the sources of our blocks that found no place in it."""

    text: str
    unplaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """`old` blocks, at `start` of the base, became `new`."""

    start: int
    old: tuple[Block, ...]
    new: tuple[Block, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.old)


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Apply what changed from `base` to `ours` onto `theirs`.

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
    base_blocks, their_blocks = parse_markdown_text(base), parse_markdown_text(theirs)
    place = _Placement(base_blocks, their_blocks)
    unplaced: list[str] = []
    for change in reversed(_changes(base_blocks, parse_markdown_text(ours))):
        lost = place.apply(change)
        unplaced[:0] = [block.source for block in lost]
    return Merged(serialize(place.blocks), tuple(unplaced))


def insert_blocks(blocks: Sequence[Block], index: int, new: Sequence[Block]) -> list[Block]:
    """`blocks` with `new` put before position `index`, separated by a blank line where one is needed."""
    result = list(blocks)
    if new and index > 0:
        result[index - 1] = _ended(result[index - 1])
    if new and index < len(result):
        new = [*new[:-1], _ended(new[-1])]
    result[index:index] = new
    return result


def _ended(block: Block) -> Block:
    """`block` with a line end after it, and after text a blank line too."""
    source, newline = block.source, block.newline
    if not source.endswith("\n"):
        source += newline
    if isinstance(block, TextBlock) and "\n" not in block.trailing[block.trailing.find("\n") + 1 :]:
        source += newline
    return block.with_source(source)


def _changes(old: list[Block], new: list[Block]) -> list[_Change]:
    """What changed between two block lists, metadata blocks paired with what they became."""
    changes = []
    for tag, i1, i2, j1, j2 in _opcodes(old, new):
        if tag == "equal":
            continue
        if i2 - i1 == j2 - j1:
            changes += [
                _Change(i1 + k, (old[i1 + k],), (new[j1 + k],))
                for k in range(i2 - i1)
                if old[i1 + k].source != new[j1 + k].source
            ]
        else:
            changes.append(_Change(i1, tuple(old[i1:i2]), tuple(new[j1:j2])))
    return changes


def _opcodes(old: list[Block], new: list[Block]) -> list[tuple[str, int, int, int, int]]:
    """difflib's opcodes over block sources, with the common beginning and end taken off first."""
    a, b = [x.source for x in old], [x.source for x in new]
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


class _Placement:
    """Their blocks, and where the base's blocks stand among them. Changes are applied last first."""

    def __init__(self, base: list[Block], theirs: list[Block]) -> None:
        self.blocks = list(theirs)
        self.base = base
        self.codes = _opcodes(base, theirs)
        self.at: dict[int, int] = {}
        for tag, i1, i2, j1, _ in self.codes:
            if tag == "equal":
                self.at.update((i, j1 + i - i1) for i in range(i1, i2))

    def apply(self, change: _Change) -> Sequence[Block]:
        """Apply one change; the new blocks that could not be placed."""
        if not change.old:
            return self._insert(change)
        spot = [self.at.get(i) for i in range(change.start, change.end)]
        if None not in spot and spot == list(range(spot[0] or 0, (spot[0] or 0) + len(spot))):
            first = spot[0] or 0
            self.blocks[first : first + len(spot)] = change.new
            return ()
        old, new = change.old[0], change.new[0] if change.new else None
        if (
            len(change.old) == len(change.new) == 1
            and isinstance(old, MetadataBlock)
            and isinstance(new, MetadataBlock)
        ):
            return self._merge_metadata(change.start, old, new)
        return change.new

    def _insert(self, change: _Change) -> Sequence[Block]:
        position = self._insertion_point(change.start)
        if position is None:
            return change.new
        self.blocks = insert_blocks(self.blocks, position, change.new)
        return ()

    def _insertion_point(self, index: int) -> int | None:
        """Before what stood after the insertion, else after what stood before it."""
        if index == 0:
            return 0
        if index in self.at:
            return self.at[index]
        if index - 1 in self.at:
            return self.at[index - 1] + 1
        return None

    def _merge_metadata(self, index: int, old: MetadataBlock, new: MetadataBlock) -> Sequence[Block]:
        """Apply our key changes to the block that the author made of `old` meanwhile."""
        for position in self._candidates(index):
            theirs = self.blocks[position]
            if isinstance(theirs, MetadataBlock):
                merged = _with_our_keys(old, new, theirs)
                if merged is not None:
                    self.blocks[position] = merged
                    return ()
        return (new,)

    def _candidates(self, index: int) -> list[int]:
        """Their metadata blocks that may be the author's new version of base block `index`, best first."""
        for tag, i1, i2, j1, j2 in self.codes:
            if tag == "replace" and i1 <= index < i2:
                source = self.base[index].source
                found = [j for j in range(j1, j2) if isinstance(self.blocks[j], MetadataBlock)]
                likeness = {j: SequenceMatcher(None, source, self.blocks[j].source).ratio() for j in found}
                return sorted((j for j in found if likeness[j] > 0.3), key=lambda j: -likeness[j])
        return []


def _with_our_keys(old: MetadataBlock, new: MetadataBlock, theirs: MetadataBlock) -> MetadataBlock | None:
    """`theirs` with the keys that we changed from `old` to `new`; None if a key was changed by both."""
    before, after, now = old.values(), new.values(), theirs.values()
    body = theirs.body
    try:
        for key in {**before, **after}:
            if before.get(key) == after.get(key):
                continue
            if key not in after:
                body = metadata.remove_key(body, key)
            elif now.get(key) == before.get(key):
                body = metadata.set_key(body, key, after[key], newline=theirs.newline)
            elif (added := _appended(before.get(key), after[key])) is not None and isinstance(
                now.get(key), list | None
            ):
                for value in added:
                    body = metadata.append_item(body, key, value, newline=theirs.newline)
            else:
                return None
        return theirs.with_body(_without_answered(body, old, new))
    except MetadataError:
        return None


def _without_answered(body: str, old: MetadataBlock, new: MetadataBlock) -> str:
    """`body` without the prompts that we answered: those of `old` that `new` no longer has."""
    waiting = [(p.word, p.text) for p in new.prompts]
    for prompt in old.prompts:
        signature = (prompt.word, prompt.text)
        if signature in waiting:
            waiting.remove(signature)
            continue
        for found in MetadataBlock(f"---\n{body}---\n", 0).prompts:
            if (found.word, found.text) == signature:
                body = metadata.remove_prompt(body, found)
                break
    return body


def _appended(before: Any, after: Any) -> list[Any] | None:
    """The items by which list `after` is longer than `before`, or None if it is not a continuation."""
    start = before if isinstance(before, list) else []
    if isinstance(after, list) and after[: len(start)] == start:
        return after[len(start) :]
    return None
