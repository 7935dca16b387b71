"""Run batch models over documents: read, let the model work on the tree, save. RAG annotations are one.

Every function has a twin with an `a` in front for callers with an event loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lmm import config_files, files, loop
from lmm.config import Settings
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock, serialize
from lmm.markdown.join import insert_blocks
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeadingNode, blocks_to_tree
from lmm.markdown.walk import preorder
from lmm.models.chat import open_chat
from lmm.models.port import ChatEvent, ChatModel, ChatRequest, Reply, Usage, render
from lmm.prompts.load import load_prompts
from lmm.scan.annotations import Annotations, annotate, chosen
from lmm.scan.batch import Batch, BatchFunction, BatchListener, FieldFailed, find_batch_model, run_batch
from lmm.scan.edits import old_view
from lmm.scan.save import locked, save_merged


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch model runs.

    `fields` switches annotations on or off, over what the settings say; `refresh` makes anew also what was
    made with another prompt, model or heading path; `again` asks anew what the journal could answer;
    `estimate` asks nothing and writes nothing, and counts what would be asked.
    """

    model: str | None = None
    config: Path | None = None
    fields: Mapping[str, bool | None] = field(default_factory=dict)
    refresh: bool = False
    again: bool = False
    estimate: bool = False

    def settings(self, document: Path | None, header: Mapping[str, object] | None) -> Settings:
        """The settings for a document with this header."""
        overrides = {"minor": self.model} if self.model else {}
        return config_files.settings_for(document, header, config=self.config, overrides=overrides)


@dataclass(slots=True)
class BatchReport:
    """A document's text after a batch run, what failed in it, and what it cost (or would)."""

    text: str
    changed: bool = False
    failures: list[FieldFailed] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    side_file: Path | None = None
    interrupted: bool = False
    model: str = ""
    hints: tuple[str, ...] = ()


class Estimate:
    """Stands in for the model called `name` in a dry run: counts tokens, four characters to one."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer with a text of ordinary length."""
        sent = sum(len(render(message)) for message in request.messages) // 4
        words = {"summary": 70, "questions": 60, "keywords": 20}.get(request.task, 100)
        yield Reply("word " * words, self.name, Usage(sent, words * 4 // 3, None, 1))


def scan_rag(
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = lambda event: None,
) -> BatchReport:
    """Add the chosen annotations to a file, where they are missing or their text changed.

    What people wrote or edited is kept. A section whose call fails is left out with those above it; the
    exit is the report's `failures`.

    Raises:
        DocumentError, ConfigError: the file, or the configuration, cannot be read.
    """
    return loop.run(_scan_file(Path(path), None, options, model, listener))


async def ascan_rag(
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = lambda event: None,
) -> BatchReport:
    """`scan_rag` for callers with an event loop of their own."""
    return await loop.run_async(_scan_file(Path(path), None, options, model, listener))


def scan_rag_text(
    text: str,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = lambda event: None,
    title: str = "",
) -> BatchReport:
    """`scan_rag` for a markdown string.

    >>> print(scan_rag_text("---\\ntitle: Leaves\\n---\\n# Colour\\n\\nGreen.\\n").text.splitlines()[4])
    ~titles: Leaves - Colour
    """
    return loop.run(_scan_text(text, None, options, model, listener, title, None))


def scan_batch(
    name: str | BatchFunction,
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = lambda event: None,
) -> BatchReport:
    """Run a registered batch model (or a function) on a file.

    Raises:
        ConfigError: there is no batch model of that name.
    """
    function = find_batch_model(name) if isinstance(name, str) else name
    return loop.run(_scan_file(Path(path), function, options, model, listener))


async def ascan_batch(
    name: str | BatchFunction,
    path: str | Path,
    options: BatchOptions = BatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: BatchListener = lambda event: None,
) -> BatchReport:
    """`scan_batch` for callers with an event loop of their own."""
    function = find_batch_model(name) if isinstance(name, str) else name
    return await loop.run_async(_scan_file(Path(path), function, options, model, listener))


async def _scan_file(
    path: Path, function: BatchFunction | None, options: BatchOptions, model: ChatModel | None, listener: BatchListener
) -> BatchReport:
    if options.estimate:
        return await _scan_text(files.read_document(path), function, options, model, listener, path.stem, path)
    async with locked(path, lambda: None):
        base = files.read_document(path)
        files.check_writable(path)
        report = await _scan_text(base, function, options, model, listener, path.stem, path)
        if report.changed:
            saved = save_merged(path, base, report.text)
            report.text, report.side_file = saved.text, saved.side_file
        return report


async def _scan_text(
    text: str,
    function: BatchFunction | None,
    options: BatchOptions,
    model: ChatModel | None,
    listener: BatchListener,
    title: str,
    document: Path | None,
) -> BatchReport:
    blocks = parse_markdown_text(text)
    header = blocks[0].values() if blocks and isinstance(blocks[0], HeaderBlock) else None
    settings = options.settings(document, header)
    report = BatchReport(text, model=str(settings.minor.model), hints=settings.hints)
    tree = blocks_to_tree(old_view(blocks), title=title)
    if tree is None:
        return report
    before = {id(node): node.metadata_block for node in preorder(tree)}
    asked = Estimate(report.model) if options.estimate else model or _Lazy(settings)
    batch = Batch(
        tree,
        asked,
        system=settings.system if "system" in (header or {}) else "",
        language=str(tree.own("lang") or "en"),
        refresh=options.refresh,
        again=options.again,
        estimate=options.estimate,
        listener=listener,
    )
    work = run_batch(function, batch) if function else _annotations(batch, options, settings)
    task = asyncio.ensure_future(work)
    try:
        await task
    except asyncio.CancelledError:
        report.interrupted = True
    report.failures, report.usage = batch.failures, batch.usage
    if not options.estimate:
        report.text = serialize(_with_changes(blocks, tree, before))
        report.changed = report.text != text
    return report


async def _annotations(batch: Batch, options: BatchOptions, settings: Settings) -> None:
    fields = chosen(settings.annotations, options.fields)
    await annotate(batch, Annotations(fields), load_prompts(settings.prompts_folder))


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
        async for event in self.model.stream(request):
            yield event


def _with_changes(blocks: list[Block], tree: HeadingNode, before: Mapping[int, MetadataBlock | None]) -> list[Block]:
    """`blocks` with the metadata blocks that were changed in the tree, or are new in it."""
    result = list(blocks)
    for node in reversed(list(preorder(tree))):
        old, new = before[id(node)], node.metadata_block
        if new is old or new is None:
            continue
        position = {id(block): i for i, block in enumerate(result)}
        if old is not None:
            result[position[id(old)]] = new
            continue
        follows = [position[id(b)] for b in node.own_blocks() if id(b) in position]
        result = insert_blocks(result, follows[0] if follows else 0, [new])  # a new header comes first
    return result
