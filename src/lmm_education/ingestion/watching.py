"""Ingest again when documents are saved, once the author's editor has been quiet for a moment."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lmm import loop
from lmm.disk.changes import Signature, WatchedPaths, changes, signature

Work = Callable[[Collection[Path] | None, threading.Event], None]
"""Ingests these documents, or all (None); ends early, and raises nothing, when the event is set."""
_STOP_POLL = 0.1  # seconds


def watch(
    paths: Iterable[str | Path],
    work: Work,
    *,
    quiet: float = 1.0,
    poll: bool = False,
    on_poll: Callable[[str], None] = lambda reason: None,
    stop: threading.Event | None = None,
) -> None:
    """Call `work` for everything now, and after saves for what changed; until Ctrl-C or `stop`.

    `work` runs in a thread, one call at a time, when nothing was saved for `quiet` seconds. When a document is
    gone, it is called for everything: the document may have another name now.

    Args:
        poll: look at the files again and again, for folders that tell of no changes.
        on_poll: is told why that is done, where the system gives no notifications.

    Raises:
        FileReadError: there is nothing at one of the paths.
    """
    watcher = _Watcher(WatchedPaths.at(paths), work, quiet)
    with contextlib.suppress(KeyboardInterrupt):
        loop.run(watcher.run(changes(watcher.roots, poll=poll, on_poll=on_poll), stop))


@dataclass(slots=True)
class _Watcher:
    """Collects what changes, and hands it on when it has been quiet. `known` is how the documents were then."""

    roots: WatchedPaths
    work: Work
    quiet: float
    known: dict[Path, Signature | None] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    async def run(self, source: AsyncGenerator[Collection[Path]], stop: threading.Event | None) -> None:
        """Watch until cancelled, or until `stop` is set."""
        watching = asyncio.ensure_future(self._watch(source))
        try:
            while not watching.done() and not (stop and stop.is_set()):
                await asyncio.wait({watching}, timeout=_STOP_POLL if stop else None)
        finally:
            self.stopped.set()
            watching.cancel()
            await loop.ended(watching)
            if not watching.cancelled():
                watching.result()  # raises what ended it

    async def _watch(self, source: AsyncGenerator[Collection[Path]]) -> None:
        async with contextlib.aclosing(source):
            self._changed(await anext(source, ()))  # what is there at first
            await self._do(None)
            waiting: set[Path] = set()
            coming = asyncio.ensure_future(anext(source))
            try:
                while True:
                    done, _ = await asyncio.wait({coming}, timeout=self.quiet if waiting else None)
                    if done:
                        waiting |= set(self.roots.documents(coming.result()))
                        coming = asyncio.ensure_future(anext(source))
                    elif changed := self._changed(waiting, named=True):
                        waiting = set()
                        gone = any(self.known[path] is None for path in changed)
                        await self._do(None if gone else changed)
                    else:
                        waiting = set()
            finally:
                coming.cancel()
                await loop.ended(coming)

    def _changed(self, paths: Iterable[Path], *, named: bool = False) -> list[Path]:
        """The documents that are not as they were; how they are now is noted."""
        documents = list(paths) if named else self.roots.documents(paths)
        now = {path: signature(path) for path in documents}
        changed = [path for path, state in now.items() if path not in self.known or self.known[path] != state]
        self.known |= now
        return changed

    async def _do(self, documents: Collection[Path] | None) -> None:
        """Work in a thread; who cancels waits for its end."""
        doing = asyncio.ensure_future(asyncio.to_thread(self.work, documents, self.stopped))
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            await doing
            raise
