"""Batch models: functions over a document's tree that add properties to its sections.

A batch model is registered under a name and gets a `Batch`, through which it asks the language model and
generates fields. Fields are generated bottom-up, all sections of one depth concurrently; fields whose text has
not changed are not generated again; what people wrote or edited is never touched. The RAG annotations
are such a model (`lmm.notebook.annotations`). `FieldPlanner` runs one in `lmm.pipeline`.

>>> @batch_model("shout")
... def shout(batch: Batch) -> None:
...     batch.run(batch.annotate("shout", lambda section, text: section.title.upper()))
>>> find_batch_model("shout") is shout
True
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lmm.config import Settings
from lmm.errors import ConfigError, Failure, LmmError, MetadataError, Place, Untrusted
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, insert_blocks
from lmm.markdown.parse_markdown import misread
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, blocks_to_tree, preorder, tree_to_blocks
from lmm.markdown.units import like_captions
from lmm.markdown.yaml_core import OneLine
from lmm.models.client import Client
from lmm.notebook.edits import old_view
from lmm.notebook.generated_fields import Batch, FieldStatus, text_of
from lmm.notebook.header import check_readable
from lmm.notebook.patches import find_again
from lmm.notebook.staleness import EMPTY, KEY
from lmm.pipeline import ChangedDocument, ParsedDocument, Report
from lmm.user_code import call, user_error

BatchFunction = Callable[[Batch], Awaitable[None] | None]

_REGISTRY: dict[str, BatchFunction] = {}
T = TypeVar("T")
R = TypeVar("R")


# -- the registry ----------------------------------------------------------------------------------


def batch_model(name: str) -> Callable[[BatchFunction], BatchFunction]:
    """Register a function, sync or async, as the batch model `name`.

    A sync function runs in its own thread and uses `Batch.run` to await something.
    """

    def register(function: BatchFunction) -> BatchFunction:
        _REGISTRY[name] = function
        return function

    return register


def find_batch_model(name: str) -> BatchFunction:
    """Return the batch model of this name.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    if name not in _REGISTRY:
        known = ", ".join(sorted(_REGISTRY)) or "none is registered"
        raise ConfigError(f"there is no batch model '{name}'", hint=f"known: {known}; --from FILE.py loads your own")
    return _REGISTRY[name]


async def run_batch(function: BatchFunction, batch: Batch) -> None:
    """Run a batch model, sync or async, on the caller's loop; cancellation ends the calls that it awaits.

    Raises:
        LmmError: the function failed; the error names its file and line.
    """
    batch._loop = asyncio.get_running_loop()
    try:
        await call(function, batch)
    except asyncio.CancelledError:
        batch._closed = True
        for task in batch._calls:
            task.cancel()
        await asyncio.gather(*batch._calls, return_exceptions=True)
        raise
    except LmmError:
        raise
    except Exception as error:
        raise user_error(error) from error


# -- the planner -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A tree to work on, its nodes as they were found, and the batch function."""

    document: ParsedDocument
    tree: HeaderNode
    found: Sequence[FoundNode]
    function: BatchFunction
    system: str


@dataclass(frozen=True, slots=True)
class FieldPlanner:
    """Lets a batch model add fields to the sections of a document. Only its changes to metadata are kept.

    `choose` returns the function for the current settings; `refresh` also regenerates fields made with another prompt,
    model or heading path.
    """

    choose: Callable[[Settings], BatchFunction]
    refresh: bool = False

    def plan(self, document: ParsedDocument, settings: Settings) -> FieldPlan:
        """Plan work on the tree without pending edits.

        Raises:
            LmmError: metadata that say what may be sent cannot be read.
        """
        check_readable(document.blocks, ("model", "skip", "frozen"), document.file)
        tree = old_tree(document)
        system = settings.messages.system if settings.is_set("messages", "system") else ""
        return FieldPlan(document, tree, find_nodes(tree), self.choose(settings), system)

    async def ask(self, plan: FieldPlan, client: Client) -> Report[FieldStatus]:
        """Run the function on the tree. If it is cancelled or fails (`error`), its results until then are kept."""
        batch = Batch(
            plan.tree,
            client,
            system=plan.system,
            language=str(plan.tree.own("lang") or "en"),
            refresh=self.refresh,
            file=plan.document.file,
        )
        error = None
        try:
            await run_batch(plan.function, batch)
        except asyncio.CancelledError:
            client.interrupted = True
        except Untrusted:  # nothing was asked
            raise
        except LmmError as raised:
            error = raised
        return Report(tuple(batch.visited), tuple(batch.failures), error=error)

    def apply(self, document: ParsedDocument, plan: FieldPlan, result: Report[FieldStatus]) -> ChangedDocument:
        """Apply the changed metadata of the nodes to the document."""
        found, gone = find_nodes_again(plan.found, old_tree(document))
        failures = [
            *(result.failures if document is plan.document else ()),
            *(_unplaced(document, n, _GONE) for n in gone),
        ]
        blocks, refused = with_changes(document.blocks, [node for node in found if node.changed])
        texts = [
            [block.content for block in some if not isinstance(block, MetadataBlock | ErrorBlock)]
            for some in (tree_to_blocks(plan.tree), old_view(plan.document.blocks))
        ]
        hints = ("the batch model changed more than metadata; these changes are not saved",) * (texts[0] != texts[1])
        failures += [_unplaced(document, node, _OPEN) for node in refused]
        return ChangedDocument(blocks, replace(result, failures=tuple(failures), hints=hints))


def old_tree(document: ParsedDocument) -> HeaderNode:
    """Return a tree of the document without pending edits."""
    return blocks_to_tree(old_view(document.blocks), title=document.name) or HeaderNode(title=document.name)


_OPEN = "metadata before this heading is never closed", "close it with ---: lmm scan shows where"
_GONE = "the file was changed meanwhile and no longer contains this place", "run again: replies are kept"


def _unplaced(document: ParsedDocument, node: Node, why: tuple[str, str]) -> Failure:
    """Return a failure for metadata that cannot be placed in the document; the journal keeps the replies."""
    what = f"metadata of '{node.title}'" if isinstance(node, HeadingNode) else "metadata"
    return Failure(Place(document.file, node.line, path=node.heading_path), LmmError(why[0], hint=why[1]), what)


# -- applying changes of a tree to the document, and to a later version of it -----------------------
# The tree may contain less than the document (without pending edits, see `old_view`): the rest stays as it is.


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it was found: its metadata block, and its heading or text block."""

    node: Node
    metadata_block: MetadataBlock | None
    main: Block | None

    @property
    def changed(self) -> bool:
        """Whether its metadata has changed."""
        return self.node.metadata_block is not self.metadata_block


def find_nodes(tree: Node) -> list[FoundNode]:
    """Return all nodes, in document order."""
    blocks = ((node, [b for b in node.own_blocks() if not isinstance(b, MetadataBlock)]) for node in preorder(tree))
    return [FoundNode(node, node.metadata_block, own[0] if own else None) for node, own in blocks]


def find_nodes_again(found: Sequence[FoundNode], tree: Node) -> tuple[list[FoundNode], list[Node]]:
    """Apply the changes of the nodes in `found` to another version's `tree`; return its nodes, and unmatched ones.

    The counterpart of a section has the same heading path, else the same text. Keys that the author has also changed
    keep the author's values.
    """
    now, gone = find_nodes(tree), []
    where = find_again(found, now, lambda one: (_headings_of(one), _text_in(one)), _headings_of, _text_in)
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
    own = next((block.newline for block in node.own_blocks()), "\n")
    if before is None and node.metadata_block is None and after is not None and not isinstance(after, HeaderBlock):
        node.metadata_block = (
            after if after.newline == own else type(after)(after.source.replace("\n", own), after.line)
        )
        return
    if before is not None and node.metadata_block is not None and node.metadata_block.body == before.body:
        node.metadata_block = node.metadata_block.with_body(after.body) if after is not None else None
        return
    old, new = ({} if block is None else block.values() for block in (before, after))
    if new == EMPTY and node.metadata_block is not None:
        return  # its author has written a header
    keys = [key for key in {**old, **new} if repr(old.get(key)) != repr(new.get(key))]
    if any(repr(node.metadata.get(key)) != repr(old.get(key)) for key in keys):
        return
    for key in keys:
        if key in new:
            node.set_metadata(key, OneLine(new[key]) if key == KEY else new[key])
        else:
            node.remove_metadata(key)


def with_changes(blocks: Sequence[Block], changes: Sequence[FoundNode]) -> tuple[list[Block], list[Node]]:
    """Put the nodes' present metadata into `blocks`; also return the nodes whose metadata could not be placed.

    A block that lost all of its metadata is removed. Nothing can be placed after metadata that is never closed: our
    block would close it.
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
    if header and blocks:  # the header has the byte order mark now
        result[0] = blocks[0].with_source(blocks[0].source.removeprefix("\ufeff"))
    return insert_blocks(_with_inserted(result, new), 0, header)


def _with_inserted(blocks: Sequence[Block | None], new: Mapping[int, MetadataBlock]) -> list[Block]:
    """Insert metadata blocks into `blocks` (None for removed ones) before the given positions."""
    result: list[Block] = []
    captions = like_captions([block.source if isinstance(block, TextBlock) else None for block in blocks])
    for i, block in enumerate(blocks):
        if i in new:
            added = new[i]
            if i - 1 in captions:  # closed with dots, it is not a table for Pandoc
                added = added.with_source(added.source.removesuffix(f"---{added.newline}") + f"...{added.newline}")
            above = result[-1:]
            if above and isinstance(above[0], HeadingBlock) and above[0].trailing.count("\n") < 2:  # Pandoc requires it
                added = added.with_source(added.newline + added.source)
            result[-1:] = insert_blocks(above, len(above), [added])
        if block is not None:
            result.append(block)
    return result
