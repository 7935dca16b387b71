"""Which documents lie at some paths, and when they change: file notifications, and looking for oneself.

Notifications (watchfiles) tell of folders, not of files: an editor that saves by renaming replaces the
file that was watched. They say nothing on some network and container mounts, so we also look, seldom
while notifications work and often where they do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmm.disk.folder import Folder, check_named, is_document
from lmm.errors import FileReadError, LinkOutside

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_OFTEN, _SELDOM = 0.4, 5.0  # seconds between looks, without and with notifications
_SHARE = 20  # looking takes at most one part in so many of a processor

Signature = tuple[int, int, int]
"""Modification time in nanoseconds, size and inode: what changes with every save."""


def signature(path: Path) -> Signature | None:
    """A file's signature; None if there is no such file now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


@dataclass(frozen=True, slots=True)
class WatchedPaths:
    """What is watched. Both tables map the path that the system reports to the one that the user gave."""

    files: Mapping[Path, Path]
    folders: Mapping[Path, Path]

    @classmethod
    def at(cls, paths: Iterable[str | Path]) -> WatchedPaths:
        """The files and folders named.

        Raises:
            FileReadError: there is none at one of the paths.
            LinkOutside: one of them is a link that leads out of its folder.
        """
        files: dict[Path, Path] = {}
        folders: dict[Path, Path] = {}
        for path in map(check_named, map(Path, paths)):
            if path.is_dir():
                folders[path.resolve()] = path
            elif path.is_file():
                files[path.parent.resolve() / path.name] = path  # a link, until an editor replaces it
                files[path.resolve()] = path
            else:
                raise FileReadError("there is no such file or folder", where=str(path), hint="check the path")
        return cls(files, folders)

    def name(self, path: Path) -> Path | None:
        """The document whose file changed, under the name to show; None if it is none of ours."""
        for folder, given in self.folders.items():
            if path.is_relative_to(folder) and is_document(inside := path.relative_to(folder)):
                with contextlib.suppress(LinkOutside):  # the system tells of what lies behind links too
                    Folder(folder).path(inside)
                    return given / inside
        return self.files.get(path)

    def documents(self, changed: Iterable[Path]) -> list[Path]:
        """The documents at these paths, and inside those that are folders."""
        named = (self.name(path) for at in changed for path in _walk(at))
        return sorted({path for path in named if path is not None})

    def look(self) -> dict[Path, Signature]:
        """Every document's file as it is now."""
        below = (path for folder in self.folders for path in Folder(folder).documents())
        return {path: state for path in (*self.files, *below) if (state := signature(path)) is not None}

    def links_out(self) -> list[LinkOutside]:
        """Why documents that are links out of a folder are not watched."""
        found: list[LinkOutside] = []
        for given in self.folders.values():
            for _ in Folder(given).documents(on_skip=found.append):
                pass
        return found


def _walk(path: Path) -> Iterator[Path]:
    """The file at a path, or the files in a folder that are not in hidden folders."""
    if not path.is_dir():
        yield path
        return
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names)


async def changes(
    roots: WatchedPaths, *, poll: bool = False, on_poll: Callable[[str], None] = lambda reason: None
) -> AsyncGenerator[Collection[Path]]:
    """Paths that changed, as they change. What is there at first comes first; it may be nothing.

    With `poll`, or where the system gives no notifications (`on_poll` is told why), only by looking.
    """
    told: asyncio.Queue[set[Path] | Exception] = asyncio.Queue()
    stop, pace = threading.Event(), _OFTEN
    if not poll:
        try:
            await _listen(roots, stop, told)
            pace = _SELDOM
        except (OSError, RuntimeError, ImportError) as error:
            on_poll(str(error))
    before: dict[Path, Signature] | None = None
    try:
        while True:
            now, cost = await asyncio.to_thread(_timed_look, roots)
            changed = _differences(before or {}, now)
            if changed or before is None:
                yield changed
            before = now
            end = time.monotonic() + max(pace, _SHARE * cost)
            while (item := await _next(told, end)) is not None:
                if isinstance(item, Exception):
                    on_poll(str(item))
                    pace = _OFTEN
                    break
                yield item
    finally:
        stop.set()


def _timed_look(roots: WatchedPaths) -> tuple[dict[Path, Signature], float]:
    """What is there, and the processor's seconds that it took to look: how long it waited says nothing."""
    begin = time.thread_time()
    return roots.look(), time.thread_time() - begin


def _differences(before: Mapping[Path, Signature], now: Mapping[Path, Signature]) -> set[Path]:
    return {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}


async def _next(told: asyncio.Queue[set[Path] | Exception], end: float) -> set[Path] | Exception | None:
    """What is told until `end`, or None."""
    with contextlib.suppress(TimeoutError):  # not `wait_for`: before 3.12 it forgets a Ctrl-C that comes with an item
        async with asyncio.timeout(max(0.0, end - time.monotonic())):
            return await told.get()
    return None


async def _listen(roots: WatchedPaths, stop: threading.Event, told: asyncio.Queue[set[Path] | Exception]) -> None:
    """Put notifications into a queue until `stop`; on return, none will be missed.

    Raises:
        OSError, RuntimeError, ImportError: the system gives none.
    """
    loop = asyncio.get_running_loop()

    def put(item: set[Path] | Exception) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(told.put_nowait, item)

    for folders, deep in ((set(roots.folders), True), ({path.parent for path in roots.files}, False)):
        if folders:
            notify = await asyncio.to_thread(_open, folders, deep)
            threading.Thread(target=_forward, args=(notify, stop, put), name="lmm-watch", daemon=True).start()


def _open(folders: set[Path], deep: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify

    notify = RustNotify(
        watch_paths=[str(path) for path in folders],
        debug=False,
        force_polling=False,
        poll_delay_ms=300,
        recursive=deep,
        ignore_permission_denied=True,
    )
    if "PollWatcher" in repr(notify):  # what it falls back to misses saves within one second
        raise OSError("the system has no file notifications")
    return notify


def _forward(notify: RustNotify, stop: threading.Event, put: Callable[[set[Path] | Exception], None]) -> None:
    """Hand on what a notifier says, until `stop`."""
    try:
        with notify:
            while not stop.is_set():
                found = notify.watch(200, 50, 0, stop)
                if isinstance(found, set):
                    put({Path(name) for _, name in found})
    except Exception as error:
        put(error)
