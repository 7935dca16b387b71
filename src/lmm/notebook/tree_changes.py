"""Bring metadata that was changed in a tree into the document's blocks, and into a later version of them.

The tree may show less than the document has (an edit that waits, see `lmm.notebook.edits.old_view`): what it does not
show stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lmm.disk.diff import counterparts
from lmm.errors import LmmError, MetadataError
from lmm.markdown.blocks import Block, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, insert_blocks
from lmm.markdown.parse_markdown import misread
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, preorder
from lmm.markdown.units import like_captions
from lmm.notebook.generated_fields import text_of

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it was found: its metadata block, and the heading or text that it was made of."""

    node: Node
    metadata_block: MetadataBlock | None
    main: Block | None

    @property
    def changed(self) -> bool:
        """Whether its metadata is another one now."""
        return self.node.metadata_block is not self.metadata_block


def find_nodes(tree: Node) -> list[FoundNode]:
    """Every node, in document order."""
    return [FoundNode(node, node.metadata_block, _main(node)) for node in preorder(tree)]


def _main(node: Node) -> Block | None:
    return next((block for block in node.own_blocks() if not isinstance(block, MetadataBlock)), None)


def find_nodes_again(found: Sequence[FoundNode], tree: Node) -> tuple[list[FoundNode], list[Node]]:
    """The nodes of another version's `tree`, changed as their counterparts in `found` are; and those that have none.

    The counterpart of a section stands under the same headings, else it has the same text. Keys that its author has
    changed too are theirs.
    """
    now, gone = find_nodes(tree), []
    where = counterparts(found, now, _headings_of, _text_in)
    for i, one in enumerate(found):
        if one.changed:
            try:
                _change_alike(now[where[i]].node, one.metadata_block, one.node.metadata_block)
            except (KeyError, MetadataError):
                gone.append(one.node)
    return now, gone


def _headings_of(found: FoundNode) -> Hashable:
    node = found.node
    if isinstance(node, HeaderNode):
        return "the document"
    return *node.heading_path, node.title if isinstance(node, HeadingNode) else _text_in(found)


def _text_in(found: FoundNode) -> Hashable:
    node = found.node
    text = text_of(node) if isinstance(node, HeadingNode) else found.main.content if found.main is not None else ""
    return (node.kind, text.replace("\r\n", "\n")) if text else None


def _change_alike(node: Node, before: MetadataBlock | None, after: MetadataBlock | None) -> None:
    """Give a node the changes from `before` to `after`, unless its author has changed one of the same keys."""
    if before is not None and node.metadata_block is not None and node.metadata_block.body == before.body:
        node.metadata_block = node.metadata_block.with_body(after.body) if after is not None else None
        return
    old, new = ({} if block is None else block.values() for block in (before, after))
    keys = [key for key in {**old, **new} if repr(old.get(key)) != repr(new.get(key))]
    if any(repr(node.metadata.get(key)) != repr(old.get(key)) for key in keys):
        return
    for key in keys:
        if key in new:
            node.set_metadata(key, new[key])
        else:
            node.remove_metadata(key)


def with_changes(blocks: Sequence[Block], changes: Sequence[FoundNode]) -> tuple[list[Block], list[Node]]:
    """`blocks` with the metadata that the nodes have now, and the nodes whose metadata finds no place.

    A block that lost all of its metadata goes. There is no place after metadata that is never closed: ours would
    close it.
    """
    position = {id(block): i for i, block in enumerate(blocks)}

    def attempt(some: Sequence[FoundNode]) -> list[Block]:
        result = _applied(blocks, position, some)
        if some and misread(result):
            raise LmmError("metadata above is never closed")
        return result

    result, refused = bisect_failures(changes, attempt)
    return result, [found.node for found, _ in refused]


def bisect_failures(items: Sequence[T], attempt: Callable[[Sequence[T]], R]) -> tuple[R, list[tuple[T, LmmError]]]:
    """What `attempt` makes of all items but those that it refuses, and those, each with its reason.

    Where nothing is refused, one attempt is made; else the items are halved until those are found.

    >>> def attempt(some):
    ...     if 3 in some:
    ...         raise LmmError("no 3")
    ...     return sum(some)
    >>> total, refused = bisect_failures([1, 2, 3, 4], attempt)
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


def _applied(blocks: Sequence[Block], position: Mapping[int, int], changes: Sequence[FoundNode]) -> list[Block]:
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
    captions = like_captions([block.source if isinstance(block, TextBlock) else None for block in blocks])
    for i, block in enumerate(blocks):
        if i in new:
            added = new[i]
            if i - 1 in captions:  # with dots at its end, Pandoc does not see a table
                added = added.with_source(added.source.removesuffix(f"---{added.newline}") + f"...{added.newline}")
            above = result[-1:]
            if above and isinstance(above[0], HeadingBlock) and above[0].trailing.count("\n") < 2:  # as Pandoc wants
                added = added.with_source(added.newline + added.source)
            result[-1:] = insert_blocks(above, len(above), [added])
        if block is not None:
            result.append(block)
    return result
