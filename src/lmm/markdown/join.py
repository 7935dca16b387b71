"""Put blocks next to each other: line ends and blank lines where the next block needs them."""

from __future__ import annotations

from collections.abc import Sequence

from lmm.markdown.blocks import Block, HeadingBlock, MetadataBlock


def insert_blocks(blocks: Sequence[Block], index: int, new: Sequence[Block]) -> list[Block]:
    """`blocks` with `new` put before position `index`, separated by a blank line where one is needed.

    >>> from lmm.markdown.blocks import TextBlock, serialize
    >>> serialize(insert_blocks([TextBlock("one", 1)], 1, [TextBlock("two", 0)]))
    'one\\n\\ntwo'
    """
    result = list(blocks)
    if new and index > 0:
        result[index - 1] = ended(result[index - 1], new[0].newline)
    if new and index < len(result):
        new = [*new[:-1], ended(new[-1], result[index].newline)]
    result[index:index] = new
    return result


def ended(block: Block, newline: str) -> Block:
    """`block` with a line end after it, and after text a blank line too; `newline` if it has none of its own."""
    source = block.source
    if "\n" in source:
        newline = block.newline
    if not source.endswith("\n"):
        source += newline
    if not isinstance(block, (MetadataBlock, HeadingBlock)) and block.trailing.count("\n") < 2:
        source += newline
    return block if source == block.source else block.with_source(source)


def apart(before: Block, block: Block) -> Block:
    """`before` as it must be for `block` to come after it; as it is, if the two stood so in a document."""
    if before.source.endswith(("\n\n", "\n\r\n")) or _stood_together(before, block):
        return before
    return ended(before, block.newline)


def _stood_together(before: Block, block: Block) -> bool:
    """Whether both were parsed, `block` directly after `before`. (Blocks made in memory are on line 0.)"""
    if not before.line or not block.line or not before.source.endswith("\n"):
        return False
    distance = block.line - before.line
    if distance == before.source.count("\n"):
        return True
    # The blank lines before a document's first block belong to its source, and its line is after them.
    return distance == (before.content + before.trailing).count("\n")
