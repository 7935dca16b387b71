"""Run batch models over documents: read, let the model work on the tree, save. RAG annotations are one.

Every function has a twin with an `a` in front for callers with an event loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmm import config_files, loop
from lmm.config import Settings
from lmm.disk import files, journal
from lmm.errors import LmmError, Untrusted
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeadingNode, Node, blocks_to_tree, tree_to_blocks
from lmm.markdown.walk import without_metadata
from lmm.messages import ChatEvent, ChatRequest, Reply, Usage, render
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel
from lmm.powers import Config
from lmm.prompts.load import load_prompts
from lmm.scan.annotations import Annotations, annotate, chosen
from lmm.scan.batch import Batch, BatchFunction, find_batch_model, run_batch
from lmm.scan.document_file import is_sound, open_document
from lmm.scan.edits import old_view
from lmm.scan.fields import BatchListener, FieldFailed, Waiting
from lmm.scan.header import check_header
from lmm.scan.into_blocks import found_in, with_changes


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch model runs.

    `fields` switches annotations on or off, over what the settings say; `refresh` makes anew also what was
    made with another prompt, model or heading path; `again` asks anew what the journal could answer;
    `estimate` asks nothing and writes nothing, and counts what would be asked. A file that changed while
    the model was asked is written to when it has not changed for `settle` seconds.
    """

    model: str | None = None
    config: Path | Config | None = None
    fields: Mapping[str, bool | None] = field(default_factory=dict)
    refresh: bool = False
    again: bool = False
    estimate: bool = False
    settle: float = 0.1

    def settings(self, document: Path | None, header: Mapping[str, object] | None) -> Settings:
        """The settings for a document with this header."""
        overrides = {"minor": self.model} if self.model else {}
        return config_files.settings_for(document, header, config=self.config, overrides=overrides)


@dataclass(slots=True)
class BatchReport:
    """A document's text after a batch run, what failed in it, and what it cost (or would).

    `side_file` holds what found no place because the author changed the document meanwhile; `model` is the
    name of the language model; `hints` are for the author.
    """

    text: str
    changed: bool = False
    failures: list[FieldFailed] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    side_file: Path | None = None
    interrupted: bool = False
    model: str = ""
    hints: tuple[str, ...] = ()


class BatchFailed(LmmError):
    """The function of a batch model failed; `report` tells what was made, and saved, before it did."""

    def __init__(self, error: LmmError, report: BatchReport) -> None:
        super().__init__(error.message, where=error.where, hint=error.hint)
        self.report = report


def _ignore(event: object) -> None:
    """A listener that does nothing."""


# -- annotations -----------------------------------------------------------------------------------


def scan_rag(
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
) -> BatchReport:
    """Add the chosen annotations to a file, where they are missing or their text changed.

    What people wrote or edited is kept. A section whose call fails is left out, with the same field of those
    above it; the report's `failures` name it.

    Raises:
        DocumentError: the file cannot be read or written.
        ConfigError: the configuration or the header asks for something unknown.
    """
    return loop.run(_scan_file(Path(path), _annotations(options), options, model, listener))


async def ascan_rag(
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
) -> BatchReport:
    """`scan_rag` for callers with an event loop of their own."""
    return await loop.run_async(_scan_file(Path(path), _annotations(options), options, model, listener))


def scan_rag_text(
    text: str,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
    title: str = "",
) -> BatchReport:
    """`scan_rag` for a markdown string.

    >>> print(scan_rag_text("---\\ntitle: Leaves\\n---\\n# Colour\\n\\nGreen.\\n").text.splitlines()[4])
    ~titles: Leaves - Colour
    """
    return loop.run(_scan_text(text, _annotations(options), options, model, listener, title, None))


async def ascan_rag_text(
    text: str,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
    title: str = "",
) -> BatchReport:
    """`scan_rag_text` for callers with an event loop of their own."""
    return await loop.run_async(_scan_text(text, _annotations(options), options, model, listener, title, None))


# -- batch models ----------------------------------------------------------------------------------


def scan_batch(
    name: str | BatchFunction,
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
) -> BatchReport:
    """Run a registered batch model (or a function) on a file. Only metadata is saved, no other change of the tree.

    Raises:
        ConfigError: there is no batch model of that name.
        BatchFailed: the function failed; what it had made before is saved.
        DocumentError: the file cannot be read or written.
    """
    return loop.run(_scan_file(Path(path), _found(name), options, model, listener))


async def ascan_batch(
    name: str | BatchFunction,
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
) -> BatchReport:
    """`scan_batch` for callers with an event loop of their own."""
    return await loop.run_async(_scan_file(Path(path), _found(name), options, model, listener))


def scan_batch_text(
    name: str | BatchFunction,
    text: str,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
    title: str = "",
) -> BatchReport:
    """`scan_batch` for a markdown string.

    >>> async def shout(batch):
    ...     await batch.annotate("shout", lambda section, text: section.title.upper())
    >>> print(scan_batch_text(shout, "# Colour\\n\\nGreen.\\n").text.splitlines()[5])
    ~shout: COLOUR
    """
    return loop.run(_scan_text(text, _found(name), options, model, listener, title, None))


async def ascan_batch_text(
    name: str | BatchFunction,
    text: str,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = _ignore,
    title: str = "",
) -> BatchReport:
    """`scan_batch_text` for callers with an event loop of their own."""
    return await loop.run_async(_scan_text(text, _found(name), options, model, listener, title, None))


# -- the work --------------------------------------------------------------------------------------

# The batch model that runs under these settings.
_Chosen = Callable[[Settings], BatchFunction]


def _found(name: str | BatchFunction) -> _Chosen:
    function = find_batch_model(name) if isinstance(name, str) else name
    return lambda settings: function


def _annotations(options: BatchOptions) -> _Chosen:
    def choose(settings: Settings) -> BatchFunction:
        wanted = Annotations(chosen(settings.annotations, options.fields))
        prompts = load_prompts(settings.prompts_folder)

        async def rag(batch: Batch) -> None:
            await annotate(batch, wanted, prompts)

        return rag

    return choose


async def _scan_file(
    path: Path, chosen: _Chosen, options: BatchOptions, model: ChatModel | None, listener: BatchListener
) -> BatchReport:
    if options.estimate:
        return await _scan_text(files.read_document(path), chosen, options, model, listener, files.title_of(path), path)
    document = open_document(path)
    async with document.alocked(on_wait=lambda: listener(Waiting(str(path)))):
        files.check_writable(path)
        failed = None
        try:
            report = await _scan_text(document.base, chosen, options, model, listener, files.title_of(path), path)
        except BatchFailed as error:
            failed, report = error, error.report
        if report.changed:
            report.interrupted |= not await document.still(options.settle)
            saved = document.save(report.text, check=is_sound)
            report.text, report.side_file = saved.text, saved.side_file
        if report.usage.requests:
            journal.forget_old()
        if failed is not None:
            raise failed
        return report


async def _scan_text(
    text: str,
    chosen: _Chosen,
    options: BatchOptions,
    model: ChatModel | None,
    listener: BatchListener,
    title: str,
    document: Path | None,
) -> BatchReport:
    blocks = parse_markdown_text(text)
    check_header(blocks, document=str(document or ""))
    header = blocks[0].values() if blocks and isinstance(blocks[0], HeaderBlock) else None
    settings = options.settings(document, header)
    function = chosen(settings)
    asked = model or _Lazy(settings)
    report = BatchReport(text, model=asked.name, hints=(*settings.hints, *_hints(blocks, str(document or "text"))))
    view = old_view(blocks)
    tree = blocks_to_tree(view, title=title)
    if tree is None:
        return report
    found = found_in(tree)
    batch = Batch(
        tree,
        Estimate(asked.name) if options.estimate else asked,
        system=settings.system if settings.origins.get("system") != "default" else "",
        language=str(tree.own("lang") or "en"),
        refresh=options.refresh,
        again=options.again,
        estimate=options.estimate,
        listener=listener,
        usage=report.usage,
        failures=report.failures,
    )
    failed = await _run(function, batch, report)
    if not options.estimate:
        changed, refused = with_changes(blocks, [f for f in found if f.changed])
        report.text = serialize(changed)
        report.changed = report.text != text
        for node in refused:
            _refuse(node, report, listener)
        if without_metadata(tree_to_blocks(tree)) != without_metadata(view):
            report.hints += ("the batch model changed more than metadata; that is not saved",)
    if failed is not None:
        raise BatchFailed(failed, report) from failed
    return report


async def _run(function: BatchFunction, batch: Batch, report: BatchReport) -> LmmError | None:
    """Run the model's function; what it used, and whether it was interrupted, is reported. Its error, if any."""
    try:
        await run_batch(function, batch)
    except asyncio.CancelledError:
        report.interrupted = True
    except Untrusted:  # nothing was asked
        raise
    except LmmError as error:
        return error
    finally:
        report.usage = batch.usage
    return None


def _refuse(node: Node, report: BatchReport, listener: BatchListener) -> None:
    """Report metadata that finds no place in the document; the journal keeps what was paid."""
    error = LmmError("metadata before this heading is never closed", hint="close it with ---: lmm scan shows where")
    if isinstance(node, HeadingNode):
        failed = FieldFailed("metadata", node, error)
        report.failures.append(failed)
        listener(failed)


def _hints(blocks: Sequence[Block], name: str) -> list[str]:
    """What is read although it is not quite YAML."""
    return [
        f"{name}:{block.body_line + line - 1}: '{key} = …' is read, but not by other programs; write '{key}: true'"
        for block in blocks
        if isinstance(block, MetadataBlock) and " = " in block.source
        for key, line in metadata.boolean_assignments(block.body)
    ]


# -- models ----------------------------------------------------------------------------------------


class Estimate:
    """Stands in for the model called `name` in a dry run: counts tokens, four characters to one."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer with a text of ordinary length."""
        sent = sum(len(render(message)) for message in request.messages) // 4
        words = {"summary": 70, "questions": 60, "keywords": 20}.get(request.task, 100)
        yield Reply("word " * words, self.name, Usage(sent, words * 4 // 3, None, 1))


class _Lazy:
    """The configured model, opened when it is first asked: titles need no key."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.minor
        self.model: ChatModel | None = None

    @property
    def name(self) -> str:
        return str(self.settings.model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        self.model = self.model or open_chat(self.settings)
        async with contextlib.aclosing(self.model.stream(request)) as events:
            async for event in events:
                yield event
