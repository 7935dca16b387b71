"""Annotations and batch models, as a planner of `lmm.pipeline`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmm.config import Settings
from lmm.errors import LmmError, Place, Untrusted
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.tree import HeaderNode, Node, blocks_to_tree, tree_to_blocks
from lmm.markdown.walk import without_metadata
from lmm.models.client import Client
from lmm.notebook.annotations import Annotations, annotate, chosen
from lmm.notebook.batch import Batch, BatchFunction, find_batch_model, run_batch
from lmm.notebook.edits import old_view
from lmm.notebook.fields import Found, Visited, found_in, with_changes
from lmm.notebook.header import check_header
from lmm.pipeline import Applied, Failure, Parsed
from lmm.prompts.templates import Prompts


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A tree to work on, its nodes as they were found, and the function that works."""

    document: Parsed
    tree: HeaderNode
    found: Sequence[Found]
    function: BatchFunction
    system: str


@dataclass(frozen=True, slots=True)
class Worked:
    """What a batch model did: fields that were looked at, those that failed, and what ended it early."""

    visited: Sequence[Visited]
    failures: Sequence[Failure]
    error: LmmError | None = None


@dataclass(frozen=True, slots=True)
class FieldPlanner:
    """Lets a batch model add fields to the sections of a document. Only metadata is kept of what it changes.

    `choose` gives the function for the settings that hold; `refresh` makes anew also what was made with another prompt,
    model or heading path.
    """

    choose: Callable[[Settings], BatchFunction]
    refresh: bool = False
    tier: str = "minor"

    def plan(self, document: Parsed, settings: Settings) -> FieldPlan:
        """The tree in which no edit waits.

        Raises:
            LmmError: the header cannot be read and seems to name a model.
        """
        check_header(document.blocks, document=document.file)
        tree = blocks_to_tree(old_view(document.blocks), title=document.name) or HeaderNode(title=document.name)
        system = settings.system if settings.origins.get("system") != "default" else ""
        return FieldPlan(document, tree, found_in(tree), self.choose(settings), system)

    async def ask(self, plan: FieldPlan, client: Client) -> Worked:
        """Run the function on the tree; cancelled, it ends, and what it made stays."""
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
        return Worked(batch.visited, batch.failures, error)

    def apply(self, document: Parsed, plan: FieldPlan, result: Worked) -> Applied:
        """The document with the metadata that the nodes have got."""
        blocks, refused = with_changes(document.blocks, [found for found in plan.found if found.changed])
        hints = tuple(_assignments(document.blocks, document.file or "text"))
        if without_metadata(tree_to_blocks(plan.tree)) != without_metadata(old_view(document.blocks)):
            hints += ("the batch model changed more than metadata; that is not saved",)
        failures = [*result.failures, *(_refused(document, node) for node in refused)]
        return Applied(blocks, result.visited, failures, hints, result.error)


def _refused(document: Parsed, node: Node) -> Failure:
    """Metadata that finds no place in the document; the journal keeps what was paid."""
    error = LmmError("metadata before this heading is never closed", hint="close it with ---: lmm scan shows where")
    return Failure(Place(document.file, node.line, path=node.heading_path), error, "metadata")


def rag_annotations(
    fields: Mapping[str, bool | None], load: Callable[[Path | None], Prompts]
) -> Callable[[Settings], BatchFunction]:
    """The batch model of the RAG annotations: those of the settings, switched on or off by `fields`.

    `load` reads the prompts of a folder, ours where there is none.
    """

    def choose(settings: Settings) -> BatchFunction:
        wanted = Annotations(chosen(settings.annotations, fields))
        prompts = load(settings.prompts_folder)

        async def rag(batch: Batch) -> None:
            await annotate(batch, wanted, prompts)

        return rag

    return choose


def batch_function(name: str | BatchFunction) -> Callable[[Settings], BatchFunction]:
    """A registered batch model, or a function, whatever the settings.

    Raises:
        ConfigError: there is no batch model of that name.
    """
    function = find_batch_model(name) if isinstance(name, str) else name
    return lambda settings: function


def _assignments(blocks: Sequence[Block], name: str) -> list[str]:
    """What is read although it is not quite YAML."""
    return [
        f"{name}:{block.body_line + line - 1}: '{key} = …' is read, but not by other programs; write '{key}: true'"
        for block in blocks
        if isinstance(block, MetadataBlock) and " = " in block.source
        for key, line in metadata.boolean_assignments(block.body)
    ]
