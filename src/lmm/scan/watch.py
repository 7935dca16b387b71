"""Answer the prompts of documents on every save, once the author's editor has been quiet for a moment."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmm import loop
from lmm.disk.changes import Roots, Signature, changes, signature
from lmm.disk.files import read_document
from lmm.errors import LmmError
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.messages import Usage
from lmm.models.port import ChatModel
from lmm.scan import events
from lmm.scan.answering import Outcome
from lmm.scan.run_messages import MessageOptions, ascan_messages

_AT_ONCE = 8  # documents; each asks as many questions at once as its settings allow
_STOP_POLL = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How documents are watched.

    `quiet` is in seconds since a document last changed: many editors save while their author still types.
    `poll` looks at the files again and again, for folders that give no notifications.
    """

    messages: MessageOptions = field(default_factory=MessageOptions)
    quiet: float = 1.0
    poll: bool = False


@dataclass(slots=True)
class WatchReport:
    """What was answered until the watch was stopped, what was still not, and what it cost.

    Of the answers, the `remembered` ones were put back after an editor had saved an old text over them.
    """

    answered: int = 0
    remembered: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)


# -- what happens --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watching:
    """The watch has begun, with these documents; others may come."""

    documents: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Polling:
    """There are no notifications, for this reason; the files are looked at again and again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A document changed, and is read when it has been quiet for a while."""

    document: Path


@dataclass(frozen=True, slots=True)
class Heard:
    """What happens while a document is scanned."""

    document: Path
    event: events.Event


@dataclass(frozen=True, slots=True)
class Scanned:
    """A document was read, and perhaps answered (None: nothing waited)."""

    document: Path
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Troubled:
    """A document could not be scanned; it is tried again when it is saved again."""

    document: Path
    error: LmmError


@dataclass(frozen=True, slots=True)
class Gone:
    """A document is not there any more; it may come back."""

    document: Path


WatchEvent = Watching | Polling | Saved | Heard | Scanned | Troubled | Gone
WatchListener = Callable[[WatchEvent], None]


def ignore(event: WatchEvent) -> None:
    """A listener that does nothing."""


# -- watching ------------------------------------------------------------------------------------


def watch_documents(
    paths: Iterable[str | Path],
    options: WatchOptions = WatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: WatchListener = ignore,
    stop: threading.Event | None = None,
) -> WatchReport:
    """Answer what waits in files, and in the documents of folders, now and after every save; until Ctrl-C or `stop`.

    What failed is tried again when the document is saved again. At the end, calls that still run are
    cancelled and replies that arrived are saved.

    Args:
        model: used instead of the configured one.
        listener: is told what happens, in the thread of the background loop.

    Raises:
        FileReadError: there is nothing at one of the paths.
    """
    return loop.run(_watch(paths, options, model, listener, stop))


async def awatch_documents(
    paths: Iterable[str | Path],
    options: WatchOptions = WatchOptions(),
    *,
    model: ChatModel | None = None,
    listener: WatchListener = ignore,
    stop: threading.Event | None = None,
) -> WatchReport:
    """`watch_documents` for callers with an event loop of their own."""
    return await loop.run_async(_watch(paths, options, model, listener, stop))


async def _watch(
    paths: Iterable[str | Path],
    options: WatchOptions,
    model: ChatModel | None,
    listener: WatchListener,
    stop: threading.Event | None,
) -> WatchReport:
    roots = Roots.at(paths)
    for error in await asyncio.to_thread(roots.links_out):
        listener(Troubled(Path(error.where), error))
    asked = replace(options.messages, settle=max(options.messages.settle, options.quiet))

    def scan(path: Path, told: events.Listener) -> Awaitable[Outcome]:
        return ascan_messages(path, asked, model=model, listener=told)

    watcher = Watcher(roots, scan, options.quiet, listener)
    source = changes(roots, poll=options.poll, on_poll=lambda reason: listener(Polling(reason)))
    async with contextlib.aclosing(source):
        return await watcher.run(source, stop)


Scan = Callable[[Path, events.Listener], Awaitable[Outcome]]


@dataclass(slots=True)
class _Document:
    """What is known of a document: its file when it last changed, and when to read it (in the loop's time)."""

    path: Path
    state: Signature | None = None
    due: float = 0.0
    attended: bool = False
    failed: int = 0


class Watcher:
    """Scans documents when they have changed and then been quiet: one scan per document at a time.

    Its own writes do not count as changes; what the author saves during a scan leads to another.
    """

    def __init__(self, roots: Roots, scan: Scan, quiet: float, listener: WatchListener = ignore) -> None:
        self.roots, self.scan, self.quiet, self.listener = roots, scan, quiet, listener
        self.documents: dict[Path, _Document] = {}
        self.limit = asyncio.Semaphore(_AT_ONCE)
        self.usage = Usage()
        self.answered = self.remembered = 0
        self.stopped = False

    async def run(self, source: AsyncGenerator[Collection[Path]], stop: threading.Event | None = None) -> WatchReport:
        """Attend to what changes until the source ends, `stop` is set or the task is cancelled."""
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                stopping = tasks.create_task(_cancel_when(stop, asyncio.current_task())) if stop else None
                try:
                    await self._begin(await anext(source, ()), tasks)
                    async for changed in source:
                        for path in self.roots.documents(changed):
                            self._notice(path, tasks, self.quiet)
                except asyncio.CancelledError:
                    self.stopped = True
                    raise
                if stopping:
                    stopping.cancel()
        failed = sum(document.failed for document in self.documents.values())
        return WatchReport(self.answered, self.remembered, failed, self.usage)

    async def _begin(self, present: Collection[Path], tasks: asyncio.TaskGroup) -> None:
        """Attend to what is there: at once, unless it was saved a moment ago."""
        documents = self.roots.documents(present)
        self.listener(Watching(tuple(documents)))
        for path in documents:
            state = signature(path)
            age = time.time() - state[0] / 1e9 if state else 0.0
            self._notice(path, tasks, self.quiet - min(max(age, 0.0), self.quiet))
            await asyncio.sleep(0)

    def _notice(self, path: Path, tasks: asyncio.TaskGroup, wait: float) -> None:
        document = self.documents.setdefault(path, _Document(path))
        state = signature(path)
        if state == document.state:
            return  # we wrote it ourselves, or have been told twice
        document.state, document.due = state, asyncio.get_running_loop().time() + wait
        self.listener(Saved(path))
        if not document.attended:
            document.attended = True
            tasks.create_task(self._attend(document))

    async def _attend(self, document: _Document) -> None:
        """Scan a document as often as it changes."""
        while not self.stopped:
            await self._until_quiet(document)
            before = document.state
            if before is None:
                self.listener(Gone(document.path))
                break
            outcome = await self._scan(document)
            if self._is_settled(document, before, outcome):
                break
            document.due = asyncio.get_running_loop().time() + self.quiet
        document.attended = False

    async def _until_quiet(self, document: _Document) -> None:
        now = asyncio.get_running_loop().time
        while (left := document.due - now()) > 0:
            await asyncio.sleep(left)
            if (state := signature(document.path)) != document.state:  # nobody has told us
                document.state, document.due = state, now() + self.quiet

    async def _scan(self, document: _Document) -> Outcome | None:
        path = document.path
        try:
            outcome = None
            if _asks(read_document(path)):
                async with self.limit:
                    outcome = await self.scan(path, lambda event: self._heard(path, event))
        except (LmmError, OSError) as error:
            if signature(path) is not None:  # else it is gone, and that is seen to
                self.listener(Troubled(path, error if isinstance(error, LmmError) else LmmError(str(error))))
            return None
        document.failed = len(outcome.failed) if outcome else 0
        self.answered += len(outcome.answered) if outcome else 0
        self.listener(Scanned(path, outcome))
        return outcome

    def _heard(self, path: Path, event: events.Event) -> None:
        if isinstance(event, events.Answered):
            self.remembered += event.source == "journal"
            self.usage += event.reply.usage if event.source == "model" else Usage()
        self.listener(Heard(path, event))

    def _is_settled(self, document: _Document, before: Signature, outcome: Outcome | None) -> bool:
        """Whether the file is now as the scan left it, so that only the next save counts."""
        document.state = signature(document.path)
        if outcome is None or not outcome.answered:
            return document.state == before
        with contextlib.suppress(LmmError):
            return not outcome.merged and read_document(document.path) == outcome.text
        return False


def _asks(text: str) -> bool:
    """Whether a prompt waits in a document."""
    blocks = (block for block in parse_markdown_text(text) if isinstance(block, MetadataBlock))
    return any(prompt.text for block in blocks for prompt in block.prompts)


async def _cancel_when(stop: threading.Event, task: asyncio.Task[object] | None) -> None:
    while not stop.is_set():
        await asyncio.sleep(_STOP_POLL)
    if task:
        task.cancel()
