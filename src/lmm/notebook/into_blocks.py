"""Bring the metadata that the nodes of a tree have got into the document's blocks.

The tree may show less than the document has (an edit that waits, see `lmm.notebook.edits.old_view`): what it does not
show stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lmm.errors import LmmError
from lmm.markdown.align import look
from lmm.markdown.blocks import Block, HeaderBlock, HeadingBlock, MetadataBlock, serialize
from lmm.markdown.join import insert_blocks
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import Node
from lmm.markdown.walk import preorder

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Found:
    """A node as it was found: its metadata block, and the heading or text that it was made of."""

    node: Node
    metadata_block: MetadataBlock | None
    main: Block | None

    @property
    def changed(self) -> bool:
        """Whether its metadata is another one now."""
        return self.node.metadata_block is not self.metadata_block


def found_in(tree: Node) -> list[Found]:
    """Every node, in document order."""
    return [Found(node, node.metadata_block, _main(node)) for node in preorder(tree)]


def _main(node: Node) -> Block | None:
    return next((block for block in node.own_blocks() if not isinstance(block, MetadataBlock)), None)


def with_changes(blocks: Sequence[Block], changes: Sequence[Found]) -> tuple[list[Block], list[Node]]:
    """`blocks` with the metadata that the nodes have now, and the nodes whose metadata finds no place.

    A block that lost all of its metadata goes. There is no place after metadata that is never closed: ours would
    close it.
    """
    position = {id(block): i for i, block in enumerate(blocks)}

    def attempt(some: Sequence[Found]) -> list[Block]:
        result = _applied(blocks, position, some)
        if some and not _reads_back(result):
            raise LmmError("metadata above is never closed")
        return result

    result, refused = sifted(changes, attempt)
    return result, [found.node for found, _ in refused]


def sifted(items: Sequence[T], attempt: Callable[[Sequence[T]], R]) -> tuple[R, list[tuple[T, LmmError]]]:
    """What `attempt` makes of all items but those that it refuses, and those, each with its reason.

    Where nothing is refused, one attempt is made; else the items are halved until those are found.

    >>> def attempt(some):
    ...     if 3 in some:
    ...         raise LmmError("no 3")
    ...     return sum(some)
    >>> total, refused = sifted([1, 2, 3, 4], attempt)
    >>> total, [item for item, _ in refused]
    (7, [3])
    """
    taken: list[T] = []
    refused: list[tuple[T, LmmError]] = []
    made: list[R] = []

    def sift(some: Sequence[T]) -> None:
        try:
            made[:] = [attempt([*taken, *some])]
            taken.extend(some)
        except LmmError as error:
            if len(some) == 1:
                refused.append((some[0], error))
                return
            sift(some[: len(some) // 2])
            sift(some[len(some) // 2 :])

    if items:
        sift(items)
    return made[0] if made else attempt([]), refused


def _reads_back(blocks: Sequence[Block]) -> bool:
    """Whether the joined blocks would be read as these blocks."""
    meant = [look(block) for block in blocks if block.content]
    return [look(block) for block in parse_markdown_text(serialize(blocks)) if block.content] == meant


def _applied(blocks: Sequence[Block], position: Mapping[int, int], changes: Sequence[Found]) -> list[Block]:
    result: list[Block | None] = list(blocks)
    new: dict[int, MetadataBlock] = {}
    header: list[Block] = []
    for found in changes:
        now = found.node.metadata_block
        if found.metadata_block is not None:
            result[position[id(found.metadata_block)]] = now
        elif isinstance(now, HeaderBlock):
            header.append(now)
        elif now is not None and found.main is not None:
            new[position[id(found.main)]] = now
    if header and blocks:  # it has the byte order mark now
        result[0] = blocks[0].with_source(blocks[0].source.removeprefix("\ufeff"))
    return insert_blocks(_with_inserted(result, new), 0, header)


def _with_inserted(blocks: Sequence[Block | None], new: Mapping[int, MetadataBlock]) -> list[Block]:
    """`blocks` (None for one that is gone) with metadata blocks put before the given positions."""
    result: list[Block] = []
    for i, block in enumerate(blocks):
        if i in new:
            result[-1:] = insert_blocks(result[-1:], len(result[-1:]), [_apart(result[-1:], new[i])])
        if block is not None:
            result.append(block)
    return result


def _apart(before: Sequence[Block], new: MetadataBlock) -> MetadataBlock:
    """A metadata block with the blank line that Pandoc wants between a heading and it."""
    close = before and isinstance(before[-1], HeadingBlock) and before[-1].trailing.count("\n") < 2
    return new.with_source(new.newline + new.source) if close else new
