"""A folder of generations: complete states of a store, of which a pointer file names the one that counts.

::

    course/
      current              {"format": 1, "generation": "000012-3f2a9c1e"}, replaced in one step
      writing.lock         held by the one process that writes
      generations/
        000012-3f2a9c1e/
          in-use           readers hold a shared lock on it, however they end
          sizes.json       the size of every other file, so that a truncated one is noticed
          …                whatever the store keeps

Whoever reads keeps the generation that it opened, and sees from the pointer file that there is another.
Whoever writes makes a new folder and moves the pointer at the end; before that, nothing has happened. Folders
that the pointer does not name and that nobody holds are removed by the next writer: old states, and what a
writer that was killed had begun.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import replace
from lmm.errors import FileWriteError
from lmm_education.errors import StoreBusy, StoreDamaged, StoreError
from lmm_education.store.folders import files_of, remove_folder, sync_folder
from lmm_education.store.layout import check_format
from lmm_education.store.manifest import FORMAT

try:
    import fcntl
except ImportError:  # Windows, which does not remove files that somebody has open
    fcntl = None  # type: ignore[assignment,unused-ignore]

POINTER, LOCK, FOLDER, IN_USE, SIZES = "current", "writing.lock", "generations", "in-use", "sizes.json"
# The engine replaces these when it opens or closes a shard, also for mere reading.
_REPLACED = ("segment.json", "edge_config.json")
_TRIES, _PAUSE = 500, 0.01  # how often, and after how many seconds, opening is tried again while writers go on

Stamp = tuple[int, int, int]


class Generation(NamedTuple):
    """A complete state on the disk."""

    name: str
    path: Path


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
    """The generations of one store, in `folder`, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pointer = folder / POINTER

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
            StoreDamaged: the pointer file is not one.
            StoreMismatch: another version of lmm wrote it.
            StoreError: it cannot be read.
        """
        try:
            text = self._pointer.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self._pointer)) from error
        values = _json_object(text)
        name = values.get("generation")
        if "format" in values:
            check_format(values["format"], str(self.folder))
        if not isinstance(name, str) or not name or Path(name).name != name:
            raise damaged(self._pointer, "this file does not name a generation")
        return Generation(name, self.folder / FOLDER / name)

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
                    raise damaged(generation.path, "the current generation is not there") from None
            except BlockingIOError:
                time.sleep(_PAUSE)  # it is being removed, so the pointer has moved on
            except OSError as error:
                raise StoreError(f"cannot be read: {error.strerror}", where=str(generation.path)) from error
            else:
                if self.stamp() == stamp:
                    return generation, lease, stamp
                lease.release()
        raise StoreBusy("it is replaced faster than it can be opened", where=str(self.folder))

    @contextlib.contextmanager
    def writer_lock(self, timeout: float) -> Iterator[None]:
        """Be the only one who writes, for the time of the block; `timeout` is in seconds.

        Raises:
            StoreBusy: somebody else writes and did not end within `timeout`.
            StoreError: the folder cannot be written to.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / LOCK, thread_local=False)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
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
        before = self.current()
        number = int(before.name.partition("-")[0]) + 1 if before and before.name[:1].isdigit() else 1
        name = f"{number:06d}-{uuid.uuid4().hex[:8]}"
        generation = Generation(name, self.folder / FOLDER / name)
        generation.path.mkdir(parents=True)
        (generation.path / IN_USE).touch()
        return generation, Lease(generation)

    def publish(self, generation: Generation) -> None:
        """Bring a generation to the disk, whole, and let the pointer name it.

        Raises:
            StoreError: that could not be written; the pointer is as it was.
            OSError: the same.
        """
        (generation.path / SIZES).write_text(json.dumps(sizes_of(generation.path)), encoding="utf-8")
        sync_folder(generation.path)
        sync_parent(generation.path)
        try:
            replace(self._pointer, json.dumps({"format": FORMAT, "generation": generation.name}) + "\n")
        except FileWriteError as error:
            raise StoreError(error.message, where=str(self.folder), hint=error.hint) from error

    def sweep(self) -> int:
        """Remove what nobody needs; how many generations went. The caller holds the writer's lock."""
        current = self.current()
        removed = 0
        for path in self._folders():
            if (current is None or path.name != current.name) and _nobody_holds(path):
                removed += remove_folder(_set_aside(path))
        return removed

    def kept(self) -> int:
        """How many generations are on the disk."""
        return len(self._folders())

    def _folders(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return sorted(path for path in (self.folder / FOLDER).iterdir() if path.is_dir())
        return []


def sizes_of(path: Path) -> dict[str, int]:
    """The sizes of a generation's files, by their path in it."""
    listed = (file for file in files_of(path) if file.name not in (IN_USE, SIZES, *_REPLACED))
    return {file.relative_to(path).as_posix(): file.stat().st_size for file in listed}


def check_sizes(generation: Generation) -> None:
    """Notice files that are missing or were cut off: the engine would take what is left for all there was.

    Raises:
        StoreDamaged: there are such files.
    """
    try:
        sizes = _json_object((generation.path / SIZES).read_bytes())
    except OSError as error:
        raise damaged(generation.path, f"{SIZES} cannot be read") from error
    for name, size in sizes.items():
        try:
            found = os.stat(generation.path / name).st_size  # noqa: PTH116
        except OSError:
            found = None
        if found != size:
            raise damaged(generation.path / name, "the file is missing" if found is None else "its size is wrong")
    if not sizes:
        raise damaged(generation.path, f"{SIZES} is not what we wrote")


def damaged(path: Path, message: str) -> StoreDamaged:
    """The error for files that are not as we left them."""
    return StoreDamaged(
        message,
        where=str(path),
        hint="restore the store's folder from a backup, or remove it and ingest again",
    )


def cannot_write(path: Path, error: OSError) -> StoreError:
    """The error for a folder that may not be written to."""
    return StoreError(
        f"cannot be written to: {error.strerror or error}",
        where=str(path),
        hint="check the folder's permissions, or name another 'folder' under [storage]",
    )


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
    aside = path.with_name(f"{path.name}.gone")
    return path.rename(aside) if path.suffix != ".gone" else path


def _nobody_holds(path: Path) -> bool:
    """Whether no reader has a generation open. One that comes now sees that the pointer names another."""
    if fcntl is None:
        try:  # Windows renames no folder in which a file is open
            path.rename(path.with_name(f"{path.name}.gone")).rename(path)
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


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
