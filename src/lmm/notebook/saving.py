"""What may be saved of a document whose author writes it too: whole edits, and nothing read as something else."""

from __future__ import annotations

from collections import Counter

from lmm.disk.shared import Merged
from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.merge import merge
from lmm.markdown.metadata import mask_prompts
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.edits import EDIT, damaged_edits, orphaned_marks


def merge_whole_edits(base: str, ours: str, theirs: str) -> Merged:
    """Merge two versions of a document; if a part of an edit found no place, none of ours does."""
    merged = merge(base, ours, theirs)
    return Merged(theirs, (ours,)) if any(EDIT in piece for piece in merged.unplaced) else merged


def is_sound(before: str, after: str) -> bool:
    """Whether a change has harmed nothing that it was not meant to: all is still what it was read as.

    A line of metadata that is text now, or a heading, or the other way round; an edit that is whole no more.

    >>> is_sound("---\\n?: why?\\n\\ntitle: T\\n---\\n", "---\\n\\ntitle: T\\n---\\n")
    False
    """
    one, two = parse_markdown_text(before), parse_markdown_text(after)
    return _broken_edits(two) <= _broken_edits(one) and not _read_otherwise(one, two)


def _broken_edits(blocks: list[Block]) -> int:
    if not any("<!-- lmm:" in block.source or EDIT in block.source for block in blocks):
        return 0
    return len(damaged_edits(blocks)) + len(orphaned_marks(blocks))


def _read_otherwise(before: list[Block], after: list[Block]) -> set[str]:
    """Lines that stand fewer times in blocks of one kind, and more times in those of another."""
    one, two = _lines_by_kind(before), _lines_by_kind(after)
    fewer = {(kind, line) for kind in one for line in (one[kind] - two.get(kind, Counter()))}
    more = {(kind, line) for kind in two for line in (two[kind] - one.get(kind, Counter()))}
    gained = {line for _, line in more}
    return {line for _, line in fewer if line in gained}


def _lines_by_kind(blocks: list[Block]) -> dict[str, Counter[str]]:
    """The lines of all blocks of a kind, those of prompts left out: they may become anything."""
    found: dict[str, Counter[str]] = {}
    for block in blocks:
        kind = "metadata" if isinstance(block, MetadataBlock) else block.kind
        source = mask_prompts(block.body, block.prompts) if isinstance(block, MetadataBlock) else block.content
        lines = (line.strip() for line in source.splitlines())
        found.setdefault(kind, Counter()).update(line for line in lines if line.strip("-.#"))
    return found
