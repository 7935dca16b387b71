"""Batch models: functions over a document's tree that add properties to its sections.

A batch model is registered under a name and gets a `Batch`, through which it asks the language model and
makes fields. The fields are made bottom-up, all sections of one depth side by side; what was made before
and whose text did not change is not made again; what people wrote or edited is never touched. The RAG
annotations are such a model (`lmm.notebook.annotations`). `FieldPlanner` brings one into `lmm.pipeline`.

>>> @batch_model("shout")
... def shout(batch: Batch) -> None:
...     batch.run(batch.annotate("shout", lambda section, text: section.title.upper()))
>>> find_batch_model("shout") is shout
True
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmm.config import Settings
from lmm.errors import ConfigError, Failure, LmmError, ModelRejected, Place, Untrusted
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ErrorBlock, MetadataBlock
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, blocks_to_tree, tree_to_blocks
from lmm.messages import Attachment, ChatRequest, Message, Task
from lmm.models.client import Client
from lmm.models.port import Ask
from lmm.models.structured import Schema
from lmm.notebook.edits import old_view
from lmm.notebook.generated_fields import Field, FieldPass, FieldStatus, FieldWork, Make, MakeSource, own_material
from lmm.notebook.header import check_header
from lmm.notebook.tree_changes import FoundNode, find_nodes, find_nodes_again, with_changes
from lmm.pipeline import ChangedDocument, ParsedDocument, Report
from lmm.user_code import call, user_error

BatchFunction = Callable[["Batch"], Awaitable[None] | None]

_REGISTRY: dict[str, BatchFunction] = {}


# -- the registry ----------------------------------------------------------------------------------


def batch_model(name: str) -> Callable[[BatchFunction], BatchFunction]:
    """Register a function, sync or async, as the batch model `name`.

    A sync function runs in a thread of its own and uses `Batch.run` for what must be awaited.
    """

    def register(function: BatchFunction) -> BatchFunction:
        _REGISTRY[name] = function
        return function

    return register


def find_batch_model(name: str) -> BatchFunction:
    """The batch model of that name.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    if name not in _REGISTRY:
        known = ", ".join(sorted(_REGISTRY)) or "none is registered"
        raise ConfigError(f"there is no batch model '{name}'", hint=f"known: {known}; --from FILE.py loads your own")
    return _REGISTRY[name]


# -- the batch -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Batch(FieldWork):
    """The tree and the client of a batch model, and its results."""

    _loop: asyncio.AbstractEventLoop | None = None
    _calls: set[asyncio.Task[Any]] = field(default_factory=set)
    _closed: bool = False

    async def ask(self, prompt: str, *attachments: Attachment, task: Task = "answer") -> str:
        """The model's reply to a prompt about attached texts; journaled, so that no reply is paid twice.

        Raises:
            ModelError: the model did not answer, or its answer was cut off.
        """
        reply = await self.client.ask(self._ask(prompt, attachments, task))
        if reply.cut:
            hint = "set a larger 'max_tokens' in config.toml and run with --again"
            raise ModelRejected(f"{self.client.name} was cut off at its output limit", hint=hint)
        return reply.text

    def _ask(self, prompt: str, attachments: tuple[Attachment, ...], task: Task) -> Ask:
        system = (Message("system", self.system),) if self.system else ()
        request = ChatRequest((*system, Message("user", prompt, attachments)), task)
        return Ask(request, Place(self.file), prompt)

    async def value(self, prompt: str, *attachments: Attachment, schema: Schema) -> Any:
        """What the model says about attached texts, as data that fits `schema`; journaled as well.

        Raises:
            ModelError: the model did not answer, not with such data, or its answer was cut off.
        """
        return await self.client.value(self._ask(prompt, attachments, "extract"), schema)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Await something from a sync function."""
        if self._loop is None or asyncio._get_running_loop() is self._loop:
            raise RuntimeError("Batch.run is for sync functions; use await in an async one")
        return asyncio.run_coroutine_threadsafe(self._tracked(awaitable), self._loop).result()

    async def _tracked(self, awaitable: Awaitable[Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        if self._closed:
            task.cancel()
        self._calls.add(task)
        try:
            return await awaitable
        finally:
            self._calls.discard(task)

    async def annotate(
        self, name: str, make: Make, *, source: MakeSource = own_material, root: bool = False, made_by: str = ""
    ) -> None:
        """Make one field for every section that needs it, bottom-up, sections side by side (see `Field`).

        A failed call leaves out its field and those of the sections above; all others are made.
        """
        await self.make_fields(Field(name, make, source, root, made_by))

    async def make_fields(self, *fields: Field) -> None:
        """Make several fields side by side; they are written in this order, whichever reply comes first."""
        await FieldPass(self, fields).run()


async def run_batch(function: BatchFunction, batch: Batch) -> None:
    """Run a batch model, sync or async, on the loop of the caller; cancelling ends what it waits for.

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
    """A tree to work on, its nodes as they were found, and the function that works."""

    document: ParsedDocument
    tree: HeaderNode
    found: Sequence[FoundNode]
    function: BatchFunction
    system: str


@dataclass(frozen=True, slots=True)
class FieldPlanner:
    """Lets a batch model add fields to the sections of a document. Only metadata is kept of what it changes.

    `choose` gives the function for the settings that hold; `refresh` makes anew also what was made with another prompt,
    model or heading path.
    """

    choose: Callable[[Settings], BatchFunction]
    refresh: bool = False

    def plan(self, document: ParsedDocument, settings: Settings) -> FieldPlan:
        """The tree in which no edit waits.

        Raises:
            LmmError: the header cannot be read and seems to name a model.
        """
        check_header(document.blocks, document=document.file)
        tree = old_tree(document)
        system = settings.system if settings.origins.get("system") != "default" else ""
        return FieldPlan(document, tree, find_nodes(tree), self.choose(settings), system)

    async def ask(self, plan: FieldPlan, client: Client) -> Report[FieldStatus]:
        """Run the function on the tree; cancelled, it ends, and what it made stays. `error` is what ended it early."""
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
        """The document with the metadata that the nodes have got."""
        found, failures = plan.found, list(result.failures)
        if document is not plan.document:
            found, gone = find_nodes_again(plan.found, old_tree(document))
            failures = [_unplaced(document, node, _GONE) for node in gone]
        blocks, refused = with_changes(document.blocks, [node for node in found if node.changed])
        hints = tuple(_assignments(document.blocks, document.file or "text"))
        if _texts(tree_to_blocks(plan.tree)) != _texts(old_view(plan.document.blocks)):
            hints += ("the batch model changed more than metadata; these changes are not saved",)
        failures += [_unplaced(document, node, _OPEN) for node in refused]
        return ChangedDocument(blocks, replace(result, failures=tuple(failures), hints=hints))


def old_tree(document: ParsedDocument) -> HeaderNode:
    """A tree in which no edit waits."""
    return blocks_to_tree(old_view(document.blocks), title=document.name) or HeaderNode(title=document.name)


def _texts(blocks: Sequence[Block]) -> list[str]:
    """What stands beside metadata, without the blank lines that set them apart."""
    return [block.content for block in blocks if not isinstance(block, MetadataBlock | ErrorBlock)]


_OPEN = "metadata before this heading is never closed", "close it with ---: lmm scan shows where"
_GONE = "the file was changed meanwhile and no longer contains this place", "run again: replies are kept"


def _unplaced(document: ParsedDocument, node: Node, why: tuple[str, str]) -> Failure:
    """Metadata that finds no place in the document; the journal keeps what was paid."""
    what = f"metadata of '{node.title}'" if isinstance(node, HeadingNode) else "metadata"
    return Failure(Place(document.file, node.line, path=node.heading_path), LmmError(why[0], hint=why[1]), what)


def _assignments(blocks: Sequence[Block], name: str) -> list[str]:
    """What is read although it is not quite YAML."""
    return [
        f"{name}:{block.body_line + line - 1}: '{key} = …' is read here, but not by other programs; write '{key}: true'"
        for block in blocks
        if isinstance(block, MetadataBlock) and " = " in block.source
        for key, line in metadata.boolean_assignments(block.body)
    ]
