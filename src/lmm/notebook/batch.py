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
from dataclasses import dataclass
from typing import Any

from lmm.config import Settings
from lmm.errors import ConfigError, Failure, LmmError, Place, Untrusted
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, insert_blocks
from lmm.markdown.parse_markdown import misread
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, blocks_to_tree, preorder, tree_to_blocks
from lmm.markdown.units import misread_as_captions
from lmm.markdown.yaml_core import OneLine
from lmm.models.client import Client
from lmm.notebook.edits import old_view
from lmm.notebook.generated_fields import Batch, FieldStatus, text_of
from lmm.notebook.header import check_readable
from lmm.notebook.patches import PutResults, Target
from lmm.notebook.staleness import EMPTY, KEY
from lmm.pipeline import ParsedDocument, Patch, Report
from lmm.user_code import call, user_error

BatchFunction = Callable[[Batch], Awaitable[None] | None]

_REGISTRY: dict[str, BatchFunction] = {}


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
    found: Sequence[tuple[Target, FoundNode]]
    function: BatchFunction
    system: str
    language: str


@dataclass(frozen=True, slots=True)
class FieldPlanner:
    """Lets a batch model add fields to the sections of a document. Only its changes to metadata are kept.

    `choose` returns the function for the current settings; `refresh` also regenerates fields made with another prompt,
    model or heading path. `header` are the values of a header that must be added, by default a title.
    """

    choose: Callable[[Settings], BatchFunction]
    refresh: bool = False
    header: Mapping[str, Any] | None = None

    def plan(self, document: ParsedDocument, settings: Settings) -> FieldPlan:
        """Plan work on the tree without pending edits.

        Raises:
            LmmError: metadata that say what may be sent cannot be read.
        """
        check_readable(document.blocks, ("model", "skip", "frozen"), document.file)
        system = settings.messages.system if settings.is_set("messages", "system") else ""
        found = find_nodes(document)
        tree = found[0][1].root
        tree.default_header = self.header
        language = str(tree.own("lang") or settings.language)
        return FieldPlan(document, tree, found, self.choose(settings), system, language)

    async def ask(self, plan: FieldPlan, client: Client) -> tuple[Patch, Report[FieldStatus]]:
        """Run the function on the tree. If it is cancelled or fails (`error`), its results until then are kept."""
        batch = Batch(
            plan.tree,
            client,
            system=plan.system,
            language=plan.language,
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
        texts = [
            [block.content for block in some if not isinstance(block, MetadataBlock | ErrorBlock)]
            for some in (tree_to_blocks(plan.tree), old_view(plan.document.blocks))
        ]
        hints = ("the batch model changed more than metadata; these changes are not saved",) * (texts[0] != texts[1])
        report = Report(tuple(batch.visited), tuple(batch.failures), hints=hints, error=error)
        return changed_metadata(plan.found), report


def old_tree(document: ParsedDocument) -> HeaderNode:
    """Return a tree of the document without pending edits."""
    return blocks_to_tree(old_view(document.blocks), title=document.name) or HeaderNode(title=document.name)


# -- applying changes of a tree to the document, and to a later version of it -----------------------
# The tree may contain less than the document (without pending edits, see `old_view`): the rest stays as it is.


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it was found: its metadata block, and its heading or text block."""

    node: Node
    metadata_block: MetadataBlock | None
    main: Block | None

    @property
    def root(self) -> HeaderNode:
        """The root of its tree."""
        root = self.node.root
        assert isinstance(root, HeaderNode)
        return root

    def at(self, place: FoundNode) -> FoundNode | None:
        """Change the metadata of a node of another version in the same way, unless its author has changed these keys.

        Raises:
            MetadataError: nothing can be added to its block in its form.
        """
        node, before, after = place.node, self.metadata_block, self.node.metadata_block
        own = next((block.newline for block in node.own_blocks()), "\n")
        if before is None and node.metadata_block is None and after is not None and not isinstance(after, HeaderBlock):
            same = after.newline == own
            node.metadata_block = after if same else type(after)(after.source.replace("\n", own), after.line)
            return place
        if before is not None and node.metadata_block is not None and node.metadata_block.body == before.body:
            node.metadata_block = node.metadata_block.with_body(after.body) if after is not None else None
            return place
        old, new = ({} if block is None else block.values() for block in (before, after))
        if new == EMPTY and node.metadata_block is not None:
            return None  # its author has written a header
        keys = [key for key in {**old, **new} if repr(old.get(key)) != repr(new.get(key))]
        if any(repr(node.metadata.get(key)) != repr(old.get(key)) for key in keys):
            return None
        for key in keys:
            if key in new:
                node.set_metadata(key, OneLine(new[key]) if key == KEY else new[key])
            else:
                node.remove_metadata(key)
        return place

    def failure(self, version: ParsedDocument, error: LmmError | None) -> Failure:
        """Return the failure for metadata that could not be placed; the journal keeps the replies."""
        message, node = "the file was changed meanwhile and no longer contains this place", self.node
        what = f"metadata of '{node.title}'" if isinstance(node, HeadingNode) else "metadata"
        error = error or LmmError(message, hint="run again: replies are kept")
        return Failure(Place(version.file, node.line, path=node.heading_path), error, what)


def changed_metadata(found: Sequence[tuple[Target, FoundNode]]) -> Patch:
    """Return the patch with the changes of the nodes' metadata since they were found."""
    changed = {i: one for i, (_, one) in enumerate(found) if one.node.metadata_block is not one.metadata_block}
    return PutResults([target for target, _ in found], changed, find_nodes, put_metadata, reported=False)


def find_nodes(document: ParsedDocument) -> list[tuple[Target, FoundNode]]:
    """Return all nodes of a new tree, in document order, with what identifies each: its headings, and its text."""
    found = list[tuple[Target, FoundNode]]()
    for node in preorder(old_tree(document)):
        main = next((b for b in node.own_blocks() if not isinstance(b, MetadataBlock)), None)
        text = text_of(node) if isinstance(node, HeadingNode) else main.content if main is not None else ""
        signs = (node.kind, text.replace("\r\n", "\n")) if text else None
        path: Hashable = (*node.heading_path, node.title if isinstance(node, HeadingNode) else signs)
        target = Target("metadata", "the document" if isinstance(node, HeaderNode) else path, signs)
        found.append((target, FoundNode(node, node.metadata_block, main)))
    return found


def put_metadata(blocks: Sequence[Block], changes: Sequence[FoundNode]) -> list[Block]:
    """Put the nodes' present metadata into `blocks`. A block that lost all of its metadata is removed.

    Raises:
        LmmError: metadata above are never closed: our block would close them.
    """
    position = {id(block): i for i, block in enumerate(blocks)}
    placed: list[Block | None] = list(blocks)
    new: dict[int, MetadataBlock] = {}
    header: list[Block] = []
    for found in changes:
        now = found.node.metadata_block
        if found.metadata_block is not None:
            placed[position[id(found.metadata_block)]] = now
        elif isinstance(now, HeaderBlock):
            header.append(now)
        elif now is not None and found.main is not None:
            new[position[id(found.main)]] = now
    if header and blocks:  # the header has the byte order mark now
        placed[0] = blocks[0].with_source(blocks[0].source.removeprefix("\ufeff"))
    result = insert_blocks(_with_inserted(placed, new), 0, header)
    if changes and any(block.content.strip() for block in misread(result)):
        raise LmmError("metadata before this heading is never closed", hint="close it with ---: lmm scan shows where")
    return result


def _with_inserted(blocks: Sequence[Block | None], new: Mapping[int, MetadataBlock]) -> list[Block]:
    """Insert metadata blocks into `blocks` (None for removed ones) before the given positions."""
    result: list[Block] = []
    captions = misread_as_captions([block.source if isinstance(block, TextBlock) else None for block in blocks])
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
