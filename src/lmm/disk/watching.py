"""Find the documents at some paths, and watch them for changes, by file notifications and by polling.

Notifications (watchfiles) are for folders, not for files: an editor that saves by renaming replaces the
file that was watched. They do not work on some network and container mounts, so we also poll, seldom
while notifications work and often where they do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmm.disk.folder import Folder, check_named, is_document, without_knitted
from lmm.errors import DocumentError, FileMissing, LinkOutside

_OFTEN, _SELDOM = 0.4, 5.0  # seconds between looks, without and with notifications
_SHARE = 20  # looking takes at most one part in so many of a processor

Signature = tuple[int, int, int]
"""Modification time in nanoseconds, size and inode: some of it changes with every save."""


def signature(path: Path) -> Signature | None:
    """Return a file's signature; None if there is no such file now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


@dataclass(frozen=True, slots=True)
class WatchedPaths:
    """The watched files and folders. Both tables map the path that the system reports to the one that the user gave."""

    files: Mapping[Path, Path]
    folders: Mapping[Path, Path]

    @classmethod
    def at(cls, paths: Iterable[str | Path]) -> WatchedPaths:
        """Watch the files and folders at these paths.

        Raises:
            FileReadError: there is nothing at one of the paths.
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
                raise FileMissing("there is no such file or folder", where=str(path), hint="check the path")
        return cls(files, folders)

    def name(self, path: Path) -> Path | None:
        """Return the path to show for a changed file; None if it is not a watched document."""
        for folder, given in self.folders.items():
            if path.is_relative_to(folder) and is_document(inside := path.relative_to(folder)):
                with contextlib.suppress(LinkOutside):  # the system also reports what is behind links
                    Folder(folder).path(inside)
                    return given / inside
        return self.files.get(path)

    def documents(self, changed: Iterable[Path]) -> list[Path]:
        """Return the documents at these paths, and inside those that are folders; what R Markdown or Quarto made only
        if it was given itself."""
        there = [path for at in changed for path in _walk(at)]
        own = {*without_knitted(there), *self.files.keys() & set(there)}
        return sorted({path for path in map(self.name, own) if path is not None})

    def signatures(self) -> dict[Path, Signature]:
        """Return the current signature of every document."""
        below = (path for folder in self.folders for path in Folder(folder).documents())
        return {path: state for path in (*self.files, *below) if (state := signature(path)) is not None}

    def left_out(self) -> list[DocumentError]:
        """Return the errors of what is not watched: links out of a folder, and folders that cannot be read."""
        found: list[DocumentError] = []
        for given in self.folders.values():
            for _ in Folder(given).documents(on_skip=found.append):
                pass
        return found


def _walk(path: Path) -> Iterator[Path]:
    """Iterate over the file at a path, or the files in a folder that are not in hidden folders."""
    if not path.is_dir():
        yield path
        return
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names)


async def changes(
    roots: WatchedPaths, *, poll: bool = False, on_poll: Callable[[str], None] = lambda reason: None
) -> AsyncGenerator[Collection[Path]]:
    """Iterate over sets of changed paths, as they change. The first set is what exists at the start, perhaps nothing.

    With `poll`, or where the system gives no notifications (`on_poll` gets the reason), changes are found by polling.
    """
    queue: asyncio.Queue[set[Path] | Exception] = asyncio.Queue()
    wanted = ((set(roots.folders), True), ({path.parent for path in roots.files}, False))
    listeners = [asyncio.create_task(_listen(at, deep, queue)) for at, deep in wanted if at and not poll]
    pace = _SELDOM if listeners else _OFTEN
    before: dict[Path, Signature] | None = None

    def timed_signatures() -> tuple[dict[Path, Signature], float]:
        begin = time.thread_time()  # waiting does not count
        return roots.signatures(), time.thread_time() - begin

    try:
        await asyncio.sleep(0)  # first they listen, so that nothing is missed between a look and a notification
        while True:
            now, cost = await asyncio.to_thread(timed_signatures)
            known = before or {}
            changed = {path for path in known.keys() | now.keys() if known.get(path) != now.get(path)}
            if changed or before is None:
                yield changed
            before = now
            end = time.monotonic() + max(pace, _SHARE * cost)
            while (item := await _next(queue, end)) is not None:
                if isinstance(item, Exception):
                    on_poll(str(item))
                    pace = _OFTEN
                    break
                yield item
    finally:
        for task in listeners:
            task.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)


async def _next(queue: asyncio.Queue[set[Path] | Exception], end: float) -> set[Path] | Exception | None:
    """Return the next item that arrives before the time `end`, or None."""
    with contextlib.suppress(TimeoutError):  # not `wait_for`: before 3.12 it forgets a Ctrl-C that comes with an item
        async with asyncio.timeout(max(0.0, end - time.monotonic())):
            return await queue.get()
    return None


async def _listen(folders: Collection[Path], deep: bool, queue: asyncio.Queue[set[Path] | Exception]) -> None:
    """Put notifications of folders into a queue; at the end, the reason why there are no more."""
    try:
        from watchfiles import awatch

        # Its own polling misses saves within one second of each other.
        options = {"force_polling": False, "ignore_permission_denied": True}
        async for found in awatch(*folders, watch_filter=None, debounce=200, recursive=deep, **options):
            queue.put_nowait({Path(name) for _, name in found})
    except (OSError, RuntimeError, ImportError) as error:
        queue.put_nowait(error)
