"""Answer the prompts of documents on every save, once the author's editor has been quiet for a moment."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lmm.disk.files import read_document
from lmm.disk.watching import Signature, WatchedPaths, changes, signature
from lmm.document import SETTLE, Document
from lmm.errors import LmmError, Place
from lmm.loop import background, blocking, cancel_when
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.messages import Event, Failed, Listener, Notice, Reply, Usage, ignore
from lmm.models.port import ModelLike
from lmm.notebook.answers import AnsweredPrompt
from lmm.notebook.chat_log import waiting_texts
from lmm.notebook.problems import unasked_prompts
from lmm.pipeline import Report
from lmm.terminal import count

_AT_ONCE = 8  # documents; each asks as many questions at once as its settings allow
_STILL = 3  # a document in which a prompt looks half typed must be quiet for so many times as long


@dataclass(slots=True)
class WatchReport:
    """The numbers of answers and failures until watching was stopped, and the usage.

    `remembered` counts replies that came from the journal, e.g. after an editor had overwritten them with an old text.
    """

    answered: int = 0
    remembered: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Scanned(Event):
    """A document was read, and perhaps answered (`report` is None if no prompt was pending).

    `text` is its present text; `rebased` says that its author saved it in the meantime.
    """

    report: Report[AnsweredPrompt] | None
    text: str = ""
    rebased: bool = False


@background
async def awatch_documents(
    paths: Iterable[str | Path],
    *,
    model: ModelLike | None = None,
    config: str | Path | None = None,
    quiet: float = 1.0,
    poll: bool = False,
    listener: Listener = ignore,
    stop: threading.Event | None = None,
) -> WatchReport:
    """Answer prompts in files, and in the documents of folders, now and after every save; until Ctrl-C or `stop`.

    Failed prompts are tried again when the document is saved again. At the end, running calls are cancelled and replies
    that have arrived are saved.

    Args:
        quiet: seconds since a document last changed: many editors save while their author still types. A prompt that
            does not end like a sentence must be quiet three times as long.
        poll: check the files repeatedly, for folders without change notifications.
        listener: is called with events and their places, in the thread of the background loop.

    Raises:
        FileReadError: one of the paths does not exist.
    """
    roots = WatchedPaths.at(paths)
    for error in await asyncio.to_thread(roots.left_out):
        listener(Failed(error), Place(error.where))

    async def scan(document: Document) -> Scanned:
        report = await document.aanswer(model=model)
        saved = await document.asave(settle=max(SETTLE, quiet))
        return Scanned(report + Report(failures=saved.failures), saved.text, saved.rebased)

    watcher = Watcher(roots, scan, quiet, listener, config)
    polling = "no file notifications ({}); checking the files repeatedly"
    source = changes(roots, poll=poll, on_poll=lambda reason: listener(Notice(polling.format(reason)), Place()))
    async with contextlib.aclosing(source):
        return await watcher.run(source, stop)


watch_documents = blocking(awatch_documents)
Scan = Callable[[Document], Awaitable[Scanned]]


@dataclass(slots=True)
class _Document:
    """A watched document: the state of its file at its last change, and the time of that change (in the loop's time).

    `text` is its text when it was last read, or written by us; `opened` is shared by the scans that run.
    """

    path: Path
    state: Signature | None = None
    changed: float = 0.0
    text: str = ""
    awaited: bool = False  # to be quiet
    scans: int = 0  # at this moment
    opened: Document | None = None
    failed: int = 0


class Watcher:
    """Scans documents once they have changed and then been quiet, also during another scan of the same document.

    Its own writes do not count as changes.
    """

    def __init__(
        self,
        roots: WatchedPaths,
        scan: Scan,
        quiet: float,
        listener: Listener = ignore,
        config: str | Path | None = None,
    ) -> None:
        self.roots, self.scan, self.quiet, self.listener, self.config = roots, scan, quiet, listener, config
        self.documents: dict[Path, _Document] = {}
        self.limit = asyncio.Semaphore(_AT_ONCE)
        self.report = WatchReport()
        self.stopped = False

    async def run(self, source: AsyncGenerator[Collection[Path]], stop: threading.Event | None = None) -> WatchReport:
        """Scan changed documents until the source ends, `stop` is set or the task is cancelled."""
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                stopping = tasks.create_task(cancel_when(stop, asyncio.current_task())) if stop else None
                try:
                    # Existing documents are scanned at once, unless they were saved a moment ago.
                    documents = self.roots.documents(await anext(source, ()))
                    self.listener(Notice(f"watching {count(len(documents), 'document')}; Ctrl-C stops"), Place())
                    for path in documents:
                        state = signature(path)
                        self._notice(path, tasks, time.time() - state[0] / 1e9 if state else 0.0)
                        await asyncio.sleep(0)
                    async for changed in source:
                        for path in self.roots.documents(changed):
                            self._notice(path, tasks)
                except asyncio.CancelledError:
                    self.stopped = True
                    raise
                if stopping:
                    stopping.cancel()
        self.report.failed = sum(document.failed for document in self.documents.values())
        return self.report

    def _notice(self, path: Path, tasks: asyncio.TaskGroup, age: float = 0.0) -> None:
        document = self.documents.setdefault(path, _Document(path))
        state = signature(path)
        if state == document.state:
            return  # we wrote it ourselves, or were notified twice
        document.state, document.changed = state, asyncio.get_running_loop().time() - max(age, 0.0)
        if not document.awaited:
            document.awaited = True
            tasks.create_task(self._attend(document))

    async def _attend(self, document: _Document) -> None:
        """Scan a document once it is quiet, and again until it is settled."""
        while not self.stopped:
            await self._until_quiet(document)
            document.awaited = False
            before = document.state
            if before is None:
                self.listener(Notice("no longer there; waiting for it to come back"), Place(str(document.path)))
                return
            document.scans += 1
            scanned = await self._scan(document)
            document.scans -= 1
            document.opened = document.opened if document.scans else None
            # Another scan that runs, or is about to begin, decides in its turn.
            if self._is_settled(document, before, scanned) or document.scans or document.awaited:
                return
            document.awaited, document.changed = True, asyncio.get_running_loop().time()

    async def _until_quiet(self, document: _Document) -> None:
        """Wait until it has not been saved for a while: longer if a prompt looks as if it were still being typed."""
        for patience in (self.quiet, _STILL * self.quiet):
            while (left := document.changed + patience - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(left)
                if (state := signature(document.path)) != document.state:  # without a notification
                    document.state, document.changed = state, asyncio.get_running_loop().time()
            with contextlib.suppress(LmmError):
                waiting = waiting_texts(parse_markdown_text(read_document(document.path)))
                if any(text[-1].isalnum() or text[-1] in ",-" for text in waiting):
                    continue  # an editor with automatic saving may have saved in the middle of a sentence
            return

    async def _scan(self, document: _Document) -> Scanned | None:
        path, scanned = document.path, Scanned(None)
        try:
            before, text = parse_markdown_text(document.text), read_document(path)
            document.text, blocks = text, parse_markdown_text(text)
            known = {(problem.message, problem.hint) for problem in unasked_prompts(before)}
            for one in unasked_prompts(blocks):  # each is reported once
                if (one.message, one.hint) not in known:
                    error = LmmError(one.message, hint=one.hint)
                    self.listener(Failed(error), Place(str(path), one.line, one.column))
            if any(waiting_texts(blocks)):
                async with self.limit:
                    document.opened = document.opened or Document.open(path, config=self.config, listener=self._heard)
                    scanned = await self.scan(document.opened)
                document.text = scanned.text or text
        except (LmmError, OSError) as failed:
            if signature(path) is not None:  # else it is gone, which `_attend` handles
                error = failed if isinstance(failed, LmmError) else LmmError(str(failed))
                self.listener(Failed(error), Place(str(path)))
            return None
        report = scanned.report or Report()
        document.failed = document.failed if document.scans > 1 else 0
        document.failed += sum(not failure.unsaved for failure in report.failures)
        self.report.answered += len(report.results)
        self.listener(scanned, Place(str(path)))
        return scanned

    def _heard(self, event: Event, place: Place) -> None:
        if isinstance(event, Reply):  # it counts even if the document cannot be saved
            self.report.remembered += event.remembered
            self.report.usage += event.usage
        self.listener(event, place)

    def _is_settled(self, document: _Document, before: Signature, scanned: Scanned | None) -> bool:
        """Return whether the file is now as the scan left it, so that only the next save needs another scan."""
        document.state = signature(document.path)
        if scanned is None or scanned.report is None or not scanned.report.results:
            return document.state == before
        with contextlib.suppress(LmmError):
            return not scanned.rebased and read_document(document.path) == scanned.text
        return False
