"""A folder of generations: complete states of a store, of which a pointer file names the one that counts.

::

    course/
      current              {"format": 2, "generation": "000012-3f2a9c1e", …checksums}, replaced in one step
      documents.json       which documents are stored, once more: `lmm store repair` begins with them
      writing.lock         held by the one process that writes
      generations/
        000012-3f2a9c1e/
          in-use           readers hold a shared lock on it, however they end; names the generation
          documents.json   which documents are stored
          files.json       size and checksum of every other file (`store.checksums`)
          …                whatever the store keeps

Whoever reads keeps the generation that it opened, and sees from the pointer file that there is another.
Whoever writes makes a new folder and moves the pointer at the end; before that, nothing has happened. Generations
that the pointer does not name and that nobody holds are removed by the next writer: old states, and what a
writer that was killed had begun. Only what is provably a generation of this store is removed (see `is_ours`), for the
folder may have come from a stranger: links are refused wherever one could stand, and the rest is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import replace
from lmm.disk.folder import is_link
from lmm.errors import FileWriteError
from lmm_education.errors import StoreBusy, StoreDamaged, StoreError
from lmm_education.store.checksums import IN_USE, checksum_of, write_listing
from lmm_education.store.folders import (
    cannot_write,
    check_no_link,
    refuse_link,
    refuse_links_below,
    sync,
    sync_folder,
)
from lmm_education.store.layout import check_format
from lmm_education.store.manifest import FORMAT

try:
    import fcntl
except ImportError:  # Windows, which does not rename a folder while somebody has a file in it open
    fcntl = None  # type: ignore[assignment,unused-ignore]

POINTER, LOCK, FOLDER, RECORDS = "current", "writing.lock", "generations", "documents.json"
_NAME = re.compile(r"\d{6,}-[0-9a-f]{8}")
_MARK = "a generation of a store of lmm: "
_TRIES, _PAUSE = 500, 0.01  # how often, and after how many seconds, opening is tried again while writers go on

Stamp = tuple[int, int, int]


class Lease:
    """A hold on a generation: it is not removed before this is released, or nobody has it, or its process has ended.

    Raises:
        OSError: the generation is not there, or it is being removed (BlockingIOError).
    """

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        descriptor = os.open(path / IN_USE, os.O_RDONLY)
        self.release = weakref.finalize(self, os.close, descriptor)
        if fcntl is not None:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


class Generation(NamedTuple):
    """A complete state on the disk, and a hold on it. `checksum` is that of its listing, `stamp` the pointer's."""

    path: Path
    lease: Lease
    checksum: int = 0
    stamp: Stamp | None = None


class Generations:
    """The generations of one store, in `folder`, which need not exist.

    Below `root`, or where `folder` does not lie in there, below the folder that it is in, no part of its path may be a
    link.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder = folder
        self._pointer = folder / POINTER
        inside = root is not None and folder.is_relative_to(root) and ".." not in folder.relative_to(root).parts
        self._above = root if root is not None and inside else folder.parent

    def check_links(self) -> None:
        """Refuse a store that is elsewhere than it looks.

        Raises:
            StoreError: a folder on the way, or one of the files here, is a link.
        """
        check_no_link(self.folder / FOLDER, self._above)
        for name in (POINTER, LOCK, RECORDS):
            refuse_link(self.folder / name)

    def stamp(self) -> Stamp | None:
        """Changes whenever the pointer moved; None where there is no store. Takes microseconds."""
        try:
            stat = os.stat(self._pointer)  # noqa: PTH116  # half as long as Path.stat, and done before every query
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self.folder)) from error
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _current(self) -> tuple[Path, int] | None:
        """The folder of the generation that counts and the checksum of its listing; None where nothing was ever stored.

        Raises:
            StoreDamaged: the pointer file is not one, or is missing.
            StoreMismatch: another version of lmm wrote it.
            StoreError: it cannot be read; a link is in the way.
        """
        self.check_links()
        try:
            values = _json_object(self._pointer.read_bytes())
        except FileNotFoundError:
            if (self.folder / RECORDS).exists():  # it is written after the pointer
                raise StoreDamaged("the file is missing", where=str(self._pointer)) from None
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self._pointer)) from error
        name, own = values.get("generation"), values.pop("checksum", None)
        if own is not None and own != checksum_of(values):
            raise StoreDamaged("this file was changed", where=str(self._pointer))
        if "format" in values:
            check_format(values["format"], str(self.folder))
        if own is None or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise StoreDamaged("this file does not name a generation", where=str(self._pointer))
        path = self.folder / FOLDER / name
        refuse_link(path)
        refuse_link(path / IN_USE)
        return path, values["files"]

    def hold_current(self) -> Generation | None:
        """The generation that counts, held; None where nothing was ever stored.

        Raises:
            StoreDamaged: it is not there.
            StoreError: it cannot be read.
        """
        for _ in range(_TRIES):
            stamp, current = self.stamp(), self._current()
            if current is None or stamp is None:
                return None
            path, checksum = current
            try:
                lease = Lease(path)
            except FileNotFoundError:
                if self.stamp() == stamp:
                    raise StoreDamaged("the current generation is missing", where=str(path)) from None
            except BlockingIOError:
                time.sleep(_PAUSE)  # it is being removed, so the pointer has moved on
            except OSError as error:
                raise StoreError(f"cannot be read: {error.strerror}", where=str(path)) from error
            else:
                if self.stamp() == stamp:
                    return Generation(path, lease, checksum, stamp)
        raise StoreBusy("it is being replaced faster than it can be opened", where=str(self.folder))

    @contextlib.contextmanager
    def writer_lock(self, timeout: float, on_wait: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
        """Be the only one who writes, for the time of the block; `timeout` is in seconds. `on_wait` is told if somebody
        else does.

        Raises:
            StoreBusy: somebody else writes and did not end within `timeout`.
            StoreError: the folder cannot be written to.
        """
        from filelock import FileLock, Timeout

        self.check_links()
        lock = FileLock(self.folder / LOCK, thread_local=False)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if timeout:
                    on_wait(f"waiting for another process that writes into {self.folder}")
                lock.acquire(timeout=timeout)
        except Timeout as error:
            raise StoreBusy(
                f"another process has been writing for more than {timeout:g} seconds",
                where=str(self.folder),
                hint="wait for it, or raise 'timeout' under [storage]",
            ) from error
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        try:
            yield
        finally:
            lock.release()

    def begin(self) -> Generation:
        """An empty folder for a new generation, held. The caller holds the writer's lock."""
        before = (path.name.partition("-")[0] for path in self.folders() if _NAME.match(path.name))
        name = f"{max(map(int, before), default=0) + 1:06d}-{uuid.uuid4().hex[:8]}"
        path = self.folder / FOLDER / name
        path.mkdir(parents=True)
        (path / IN_USE).write_text(f"{_MARK}{name}\n", encoding="ascii")
        return Generation(path, Lease(path))

    def publish(self, generation: Generation, records: Sequence[Mapping[str, Any]]) -> None:
        """Bring a generation to the disk, whole, and let the pointer name it. `records` are those of its documents.

        Raises:
            StoreError: that could not be written; the pointer is as it was.
            OSError: the same.
        """
        self.check_links()
        kept = json.dumps({"documents": records, "checksum": checksum_of(records)}, ensure_ascii=False) + "\n"
        (generation.path / RECORDS).write_text(kept, encoding="utf-8")
        listing = write_listing(generation.path)
        sync_folder(generation.path)
        sync(generation.path.parent)
        pointer = {"format": FORMAT, "generation": generation.path.name, "files": listing}
        try:
            replace(self._pointer, json.dumps(pointer | {"checksum": checksum_of(pointer)}) + "\n")
        except FileWriteError as error:
            raise StoreError(error.message, where=str(self.folder), hint=error.hint) from error
        with contextlib.suppress(FileWriteError):  # it is published; this list is for a day when the others are damaged
            replace(self.folder / RECORDS, kept)

    def sweep(self) -> None:
        """Remove the generations that nobody needs, and that are provably ours. The caller holds the writer's lock."""
        current = self._current()
        for path in self.folders():
            if current is None or path != current[0]:
                remove_generation(path)

    def records(self) -> list[dict[str, Any]] | None:
        """The records of the documents that are stored, from the first list of them that is whole; None if none is.

        Raises:
            StoreError: a link is in the way.
        """
        self.check_links()
        places = [self.folder]
        with contextlib.suppress(StoreError):
            places = [*(self._current() or ())[:1], self.folder]
        for path in (place / RECORDS for place in places if not is_link(place / RECORDS)):
            with contextlib.suppress(OSError):
                values = _json_object(path.read_bytes())
                found = values.get("documents")
                if isinstance(found, list) and values.get("checksum") == checksum_of(found):
                    return found
        return None

    def folders(self) -> list[Path]:
        """The generations on the disk, and what else lies there."""
        with contextlib.suppress(OSError):
            return sorted(path for path in (self.folder / FOLDER).iterdir() if is_link(path) or path.is_dir())
        return []


def is_ours(path: Path) -> bool:
    """Whether a folder is provably a generation that we made, whole, begun or half removed: it has the name of one,
    its file `IN_USE` names it, and nothing in it is a link."""
    try:
        refuse_links_below(path)
        return bool(_NAME.fullmatch(path.name)) and (path / IN_USE).read_bytes() == f"{_MARK}{path.name}\n".encode()
    except (OSError, StoreError):
        return False


def remove_generation(path: Path) -> None:
    """Remove a generation, if it is provably ours and nobody holds it. A reader that comes now sees that the pointer
    names another. Its mark goes last, so that half of one is known for what it is."""
    with contextlib.suppress(OSError):  # what cannot be removed now, the next writer removes
        if _NAME.fullmatch(path.name) and not any(path.iterdir()):
            path.rmdir()  # its writer was killed before it marked it
        elif is_ours(path):
            lease = Lease(path, alone=True)
            if fcntl is None:
                lease.release()
                path.rename(path.with_name(f"{path.name}.try")).rename(path)
            for each in sorted(path.iterdir(), key=lambda each: each.name == IN_USE):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            lease.release()
            path.rmdir()


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
