"""Ingest on every save."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from pathlib import Path

from lmm import loop
from lmm.disk.watching import Signature, WatchedPaths, changes, signature
from lmm.errors import LmmError
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.reports import Event, IngestReport, Listener, ignore
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts


def watch_course(
    course: CourseParts,
    paths: Iterable[str | Path],
    options: IngestOptions = IngestOptions(),
    *,
    quiet: float = 1.0,
    stop: threading.Event | None = None,
    listener: Listener = ignore,
    on_result: Callable[[IngestReport | LmmError], None] = lambda result: None,
    on_poll: Callable[[str], None] = lambda reason: None,
) -> None:
    """Ingest now, and after each save once nothing was saved for `quiet` seconds; until Ctrl-C or `stop`.

    `on_result` receives each report, or the error that ended a run: the user may fix it before the next save. `on_poll`
    receives the reason for polling the files, where the system gives no notifications.

    Raises:
        FileReadError: one of the paths does not exist.
    """
    paths = list(paths)
    roots, stopped = WatchedPaths.at(paths), threading.Event()

    def report_event(event: Event) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        listener(event)

    def work() -> None:
        try:
            on_result(ingest_into(course, paths, options, listener=report_event))
        except KeyboardInterrupt:
            return
        except LmmError as error:
            on_result(error)

    async def watch() -> None:
        stopping = asyncio.create_task(loop.cancel_when(stop, asyncio.current_task())) if stop else None
        try:
            await _watch(roots, changes(roots, on_poll=on_poll), work, quiet, stopped)
        finally:
            if stopping:
                stopping.cancel()

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        loop.run(watch())


async def _watch(
    roots: WatchedPaths,
    source: AsyncGenerator[Collection[Path]],
    work: Callable[[], None],
    quiet: float,
    stopped: threading.Event,
) -> None:
    """Do the work now and after saves have ceased. To cancel, set `stopped` and wait for the end of the work."""
    known: dict[Path, Signature | None] = {}  # how the documents are: not every notification is a change
    pause: float | None = 0.0  # seconds until there is work

    def is_changed(paths: Iterable[Path]) -> bool:
        now = {path: signature(path) for path in roots.documents(paths)}
        changed = now.items() - known.items()
        known.update(now)
        return bool(changed)

    async with contextlib.aclosing(source):
        is_changed(await anext(source, ()))  # what is there at first
        next_change, working = asyncio.ensure_future(anext(source)), asyncio.ensure_future(asyncio.sleep(0))
        try:
            while True:
                if (await asyncio.wait({next_change}, timeout=pause))[0]:
                    pause = quiet if is_changed(next_change.result()) else pause
                    next_change = asyncio.ensure_future(anext(source))
                else:
                    pause, working = None, asyncio.ensure_future(asyncio.to_thread(work))
                    await asyncio.shield(working)
        finally:
            stopped.set()
            next_change.cancel()
            await loop.ended(next_change)
            await loop.ended(working)
