"""A folder of generations: complete states of a store, of which a pointer file names the one that counts.

::

    course/
      current              {"format": 2, "generation": "000012-3f2a9c1e", …checksums}, replaced in one step
      documents.json       which documents are stored, once more: `lmm store repair` begins with them
      writing.lock         held by the one process that writes
      generations/
        000012-3f2a9c1e/
          in-use           readers hold a shared lock on it, however they end; names the generation
          files.json       size and checksum of every other file (`store.checksums`)
          documents.json   which documents are stored
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
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import replace
from lmm.errors import FileWriteError
from lmm_education.errors import StoreBusy, StoreDamaged, StoreError
from lmm_education.store.checksums import checksum_of, find_damage, write_listing
from lmm_education.store.folders import (
    cannot_write,
    check_no_link,
    is_link,
    refuse_link,
    refuse_links_below,
    remove_folder,
    sync_folder,
)
from lmm_education.store.layout import check_format
from lmm_education.store.manifest import FORMAT

try:
    import fcntl
except ImportError:  # Windows, which does not remove files that somebody has open
    fcntl = None  # type: ignore[assignment,unused-ignore]

POINTER, LOCK, FOLDER, IN_USE = "current", "writing.lock", "generations", "in-use"
MANIFEST, RECORDS = "manifest.json", "documents.json"
GONE = ".gone"  # ends the name of a generation that is being removed
_NAME = re.compile(r"\d{6,}-[0-9a-f]{8}")
_MARK = "a generation of a store of lmm: "
_TRIES, _PAUSE = 500, 0.01  # how often, and after how many seconds, opening is tried again while writers go on

Stamp = tuple[int, int, int]
REPAIR = "rebuild it from your documents: lmm store repair"
"""What to do about damage."""


class Generation(NamedTuple):
    """A complete state on the disk. `checksum` is that of its listing."""

    name: str
    path: Path
    checksum: int = 0


class Lease:
    """A hold on a generation: it is not removed before this is given back, or its process has ended.

    Raises:
        OSError: the generation is not there, or it is being removed (BlockingIOError).
    """

    def __init__(self, generation: Generation) -> None:
        self._descriptor = os.open(generation.path / IN_USE, os.O_RDONLY)
        if fcntl is not None:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(self._descriptor)
                raise

    def release(self) -> None:
        """Give it back; the second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # opening may have failed
            self.release()


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
        refuse_link(self._pointer)
        refuse_link(self.folder / LOCK)
        refuse_link(self.folder / RECORDS)

    def stamp(self) -> Stamp | None:
        """Changes whenever the pointer moved; None where there is no store. Takes microseconds."""
        try:
            stat = os.stat(self._pointer)  # noqa: PTH116  # half as long as Path.stat, and done before every query
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self.folder)) from error
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def current(self) -> Generation | None:
        """The generation that counts, or None where nothing was ever stored.

        Raises:
            StoreDamaged: the pointer file is not one, or is missing.
            StoreMismatch: another version of lmm wrote it.
            StoreError: it cannot be read; a link is in the way.
        """
        self.check_links()
        try:
            text = self._pointer.read_bytes()
        except FileNotFoundError:
            if (self.folder / RECORDS).exists():  # it is written after the pointer
                raise damaged(self._pointer, "the file is missing") from None
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self._pointer)) from error
        values = _json_object(text)
        name, own = values.get("generation"), values.pop("checksum", None)
        if own is not None and own != checksum_of(values):
            raise damaged(self._pointer, "this file was changed")
        if "format" in values:
            check_format(values["format"], str(self.folder))
        if own is None or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise damaged(self._pointer, "this file does not name a generation")
        path = self.folder / FOLDER / name
        refuse_link(path)
        refuse_link(path / IN_USE)
        return Generation(name, path, values["files"])

    def hold_current(self) -> tuple[Generation, Lease, Stamp] | None:
        """The generation that counts, and a hold on it; None where nothing was ever stored.

        Raises:
            StoreDamaged: it is not there, or files of it are missing or have another size.
            StoreError: it cannot be read.
        """
        for _ in range(_TRIES):
            stamp, generation = self.stamp(), self.current()
            if generation is None or stamp is None:
                return None
            try:
                lease = Lease(generation)
            except FileNotFoundError:
                if self.stamp() == stamp:
                    raise damaged(generation.path, "the current generation is missing") from None
            except BlockingIOError:
                time.sleep(_PAUSE)  # it is being removed, so the pointer has moved on
            except OSError as error:
                raise StoreError(f"cannot be read: {error.strerror}", where=str(generation.path)) from error
            else:
                if self.stamp() == stamp:
                    return generation, lease, stamp
                lease.release()
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

    def begin(self) -> tuple[Generation, Lease]:
        """An empty folder for a new generation, held. The caller holds the writer's lock."""
        before = (path.name.partition("-")[0] for path in self._folders() if _NAME.match(path.name))
        name = f"{max(map(int, before), default=0) + 1:06d}-{uuid.uuid4().hex[:8]}"
        generation = Generation(name, self.folder / FOLDER / name)
        generation.path.mkdir(parents=True)
        (generation.path / IN_USE).write_text(f"{_MARK}{name}\n", encoding="ascii")
        return generation, Lease(generation)

    def publish(self, generation: Generation, records: Sequence[Mapping[str, Any]]) -> None:
        """Bring a generation to the disk, whole, and let the pointer name it. `records` are those of its documents.

        Raises:
            StoreError: that could not be written; the pointer is as it was.
            OSError: the same.
        """
        self.check_links()
        kept = json.dumps({"documents": records, "checksum": checksum_of(records)}, ensure_ascii=False) + "\n"
        (generation.path / RECORDS).write_text(kept, encoding="utf-8")
        listing = write_listing(generation.path, IN_USE)
        sync_folder(generation.path)
        sync_parent(generation.path)
        pointer = {"format": FORMAT, "generation": generation.name, "files": listing}
        try:
            replace(self._pointer, json.dumps(pointer | {"checksum": checksum_of(pointer)}) + "\n")
        except FileWriteError as error:
            raise StoreError(error.message, where=str(self.folder), hint=error.hint) from error
        with contextlib.suppress(FileWriteError):  # it is published; this list is for a day when the others are damaged
            replace(self.folder / RECORDS, kept)

    def sweep(self) -> None:
        """Remove the generations that nobody needs, and that are provably ours. The caller holds the writer's lock."""
        current = self.current()
        for path in self._folders():
            if (current is None or path.name != current.name) and is_ours(path) and _nobody_holds(path):
                remove_generation(_set_aside(path))

    def records(self) -> list[dict[str, Any]] | None:
        """The records of the documents that are stored, from the first list of them that is whole; None if none is.

        Raises:
            StoreError: a link is in the way.
        """
        self.check_links()
        current = None
        with contextlib.suppress(StoreError):
            current = self.current()
        lists = [_records_in(place / RECORDS) for place in (*([current.path] if current else []), self.folder)]
        return next((found for found in lists if found is not None), None)

    def kept(self) -> int:
        """How many generations are on the disk."""
        return len(self._folders())

    def _folders(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return sorted(path for path in (self.folder / FOLDER).iterdir() if is_link(path) or path.is_dir())
        return []


def is_ours(path: Path) -> bool:
    """Whether a folder is provably a generation that we made, whole, begun or half removed.

    It has the name of one, nothing in it is a link, and its file `IN_USE` names it; or it has nothing else in it yet.
    """
    name = path.name.removesuffix(GONE)
    if not _NAME.fullmatch(name):
        return False
    try:
        refuse_links_below(path)
        begun = {each.name for each in path.iterdir()} <= {IN_USE}
        mark = (path / IN_USE).read_bytes() if (path / IN_USE).exists() else b""
    except (OSError, StoreError):
        return False
    return mark == f"{_MARK}{name}\n".encode() or (begun and not mark)


def remove_generation(path: Path) -> bool:
    """Remove a generation, if it is provably ours; whether it is gone. Its mark goes last, so that half of one is known
    for what it is."""
    return is_ours(path) and remove_folder(path, last=IN_USE)


def check_files(generation: Generation, *, whole: bool = False) -> None:
    """Notice files that are not as they were written: the engine would take what is left for all there was, or crash.

    With `whole`, the content of large files is read too.

    Raises:
        StoreDamaged: there are such files.
        StoreError: there are links.
    """
    found = list(find_damage(generation.path, generation.checksum, IN_USE, whole=whole))
    if found:
        more = f" ({len(found) - 1} more files are damaged)" if len(found) > 1 else ""
        raise damaged(found[0].path, found[0].message + more)


def damaged(path: Path, message: str) -> StoreDamaged:
    """The error for files that are not as we left them."""
    return StoreDamaged(message, where=str(path), hint=REPAIR)


def sync_parent(path: Path) -> None:
    """Make the names in the folder of `path` durable, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _set_aside(path: Path) -> Path:
    """A generation under a name that nobody looks for, so that half of one is never found."""
    if path.suffix == GONE:
        return path
    aside = path.with_name(path.name + GONE)
    return path if os.path.lexists(aside) else path.rename(aside)


def _nobody_holds(path: Path) -> bool:
    """Whether no reader has a generation open. One that comes now sees that the pointer names another."""
    if fcntl is None:
        try:  # Windows renames no folder in which a file is open
            path.rename(path.with_name(f"{path.name}.try")).rename(path)
        except OSError:
            return False
        return True
    try:
        descriptor = os.open(path / IN_USE, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _records_in(path: Path) -> list[dict[str, Any]] | None:
    """A list of records, if it is there and whole."""
    if is_link(path):
        return None
    try:
        values = _json_object(path.read_bytes())
    except OSError:
        return None
    found = values.get("documents")
    return found if isinstance(found, list) and values.get("checksum") == checksum_of(found) else None


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
