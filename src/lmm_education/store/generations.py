"""A folder of generations: complete states of a store; a pointer file names the current one.

::

    course/
      current              {"format": 2, "generation": "000012-3f2a9c1e", …checksums}, replaced in one step
      documents.json       which documents are stored, once more: `lmm store repair` begins with them
      writing.lock         held by the one process that writes
      generations/
        000012-3f2a9c1e/
          in-use           names the generation; its time is when a reader last opened it, or when it was replaced
          documents.json   which documents are stored
          files.json       size and checksum of every other file (`write_listing`)
          …                whatever the store keeps

A reader keeps the generation that it opened, and learns from the pointer file that there is a newer one.
A writer creates a new folder and moves the pointer at the end; before that, nothing has changed. The next writer
removes what the pointer does not name: at once what no reader has opened (the unfinished work of a writer that was
killed, too), others an hour after they were replaced; of these, the newest two stay, and one while a new one is
written, so that never more than twice the store lies beside it. Only what is provably a generation
of this store is removed (see `is_ours`), because the folder may have come from a stranger: links are refused
everywhere, and the rest is left alone.

Opening a generation looks at the names and sizes of its files, because the engine would take the rest for all there
was, or crash. ``lmm store check``, and copying a generation into a new one, read all of it: otherwise damage would get
a checksum of its own. CRC-32 reads 4.5 GB a second here, BLAKE2b and SHA-1 1.2 and 1.9; it suffices because it only has
to detect accidents. Pages of zeros do not count, whether they are holes or not: a copy that filled them is the same
store.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import replace
from lmm.disk.folder import is_link
from lmm.errors import FileWriteError
from lmm_education.errors import StoreBusy, StoreDamaged, StoreError
from lmm_education.store.port import FORMAT, check_format

POINTER, LOCK, FOLDER, RECORDS = "current", "writing.lock", "generations", "documents.json"
LISTING, IN_USE = "files.json", "in-use"
"""The files of a generation that are not listed."""
HOUR, MOST_REPLACED = 3600, 2  # seconds that a replaced generation stays for its readers; the most that stay
_NAME = re.compile(r"\d{6,}-[0-9a-f]{8}")
_MARK = "a generation of a store of lmm: "
_TRIES = 100  # how often opening is tried again while writers go on
# The engine writes these anew when it opens a shard that another version of it made.
_OF_THE_ENGINE = ("segment.json", "edge_config.json", "version.info")
# The engine replaces a small file through such a folder, also when it only closes what it has read.
_PASSING = ".atomicwrite"
# The large files of a segment. The engine writes them when it makes the segment; if that is one that is only read (it
# has `id_tracker.mappings`), never again: what changes moves to another segment, and is marked as deleted here.
_SHARED = re.compile(
    r"(\w+/segments/[^/]+)/.*(?:page_\d+\.dat|matrix\.dat|inverted_index\.dat|indices_tracker\.json|graph\.bin"
    r"|links_compressed\.bin|values_to_points\.bin|point_to_values\.bin)\Z"
)
_SYNC_THREADS = 8
_PAGE, _BLOCK = 4096, 1 << 18
_ZEROS = bytes(_PAGE)


# -- folders of sparse files -----------------------------------------------------------------------


def entries(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Iterate over what is below a folder, without temporary folders, each with its path from there, with ``/``. Links
    are not followed; what cannot be read, or vanishes, is left out."""
    folders = [("", str(folder))]
    while folders:
        above, place = folders.pop()
        with contextlib.suppress(OSError), os.scandir(place) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name.startswith(_PASSING):
                        continue
                    folders.append((f"{above}{entry.name}/", entry.path))
                yield above + entry.name, entry


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, without temporary ones."""
    return [Path(entry.path) for _, entry in entries(folder) if entry.is_file()]


def copy_folder(source: Path, target: Path) -> dict[str, int]:
    """Copy a folder of files and keep their holes; return the `checksum` of each file by its path, with ``/``. `target`
    is created if necessary, its files must not exist.

    Raises:
        OSError: a file cannot be read or written, the disk is full.
    """
    target.mkdir(parents=True, exist_ok=True)
    found = dict[str, int]()
    for name, entry in entries(source):
        if entry.is_dir(follow_symlinks=False):
            (target / name).mkdir(exist_ok=True)
        else:
            found[name] = checksum(entry.path, f"{target}/{name}")
    return found


def _pages_of(file: FileIO) -> Iterator[tuple[int, list[bytes]]]:
    """Iterate over the runs of pages of a file that are not all zeros, each with its position."""
    at, size = 0, os.fstat(file.fileno()).st_size
    while at < size:
        if size > _PAGE and hasattr(os, "SEEK_DATA"):  # on Windows, everything is data
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole is left
                    return
                raise
            at -= at % _PAGE
        file.seek(at)
        block, run = file.read(_BLOCK), list[bytes]()
        for start in range(0, len(block), _PAGE):
            page = block[start : start + _PAGE]
            if page != _ZEROS[: len(page)]:
                run.append(page)
            elif run:
                yield at + start - _PAGE * len(run), run
                run = []
        if run:
            yield at + len(block) - sum(map(len, run)), run
        at += len(block) or size


def sync_folder(folder: Path) -> None:
    """Flush the files below a folder that no other has, and the folders themselves, to disk; in parallel, because each
    waits long."""
    own = (each for _, each in entries(folder) if each.is_dir() or os.stat(each.path).st_nlink == 1)  # noqa: PTH116
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        for _ in pool.map(sync, [str(folder), *(each.path for each in own)]):
            pass


def sync(path: str) -> None:
    """Flush one file or folder to disk."""
    if os.name == "nt" and os.path.isdir(path):  # noqa: PTH112
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_on_disk(folder: Path) -> int:
    """Return the bytes that the files below a folder take on the disk; holes take none."""
    sizes = dict[tuple[int, int], int]()  # of a file that generations share, once
    for _, entry in entries(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file():
                stat = os.stat(entry.path)  # noqa: PTH116  # on Windows, that of an entry has no number
                sizes[stat.st_dev, stat.st_ino] = getattr(stat, "st_blocks", -(-stat.st_size // 512)) * 512
    return sum(sizes.values())


def refuse_link(path: Path) -> None:
    """Raise if a path is a link.

    Raises:
        StoreError: it is one.
    """
    if is_link(path):
        raise StoreError(
            "this is a link, and a store does not follow links, because they may lead to somebody else's files",
            where=str(path),
            hint="remove the link and run again; for a store elsewhere, name its real 'folder' under [storage]",
        )


def refuse_links_below(folder: Path) -> dict[str, os.DirEntry[str]]:
    """Return the files below a folder by their paths from there, with ``/``. Entries that vanish are ignored.

    Raises:
        StoreError: the folder is a link, or contains anything but files and folders: a link, a pipe, a device.
    """
    refuse_link(folder)
    found = dict[str, os.DirEntry[str]]()
    for name, entry in entries(folder):
        if entry.is_file(follow_symlinks=False):
            found[name] = entry
        elif os.name == "nt" or not entry.is_dir(follow_symlinks=False):
            path = Path(entry.path)
            refuse_link(path)
            if path.exists() and not path.is_dir():
                raise StoreError("this is not an ordinary file", where=str(path), hint="remove it and run again")
    return found


def check_space(folder: Path, needed: int) -> None:
    """Raise if the disk is nearly full: the engine writes through memory maps, and if a page of these finds no
    room on the disk, the system kills the process.

    Raises:
        StoreError: fewer than `needed` bytes are free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise disk_full(folder, f"{needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free")


def disk_full(folder: Path, detail: str = "") -> StoreError:
    """Return the error for a full disk."""
    return StoreError(
        "the disk is full" + (f": {detail}" if detail else ""),
        where=str(folder),
        hint="free some space, then run again; the store is unchanged",
    )


def cannot_write(path: Path, error: OSError) -> StoreError:
    """Return the error for a folder that cannot be written to."""
    return StoreError(
        f"cannot be written to: {error.strerror or error}",
        where=str(path),
        hint="check the folder's permissions, or choose another 'folder' under [storage]",
    )


@contextmanager
def file_errors(folder: Path) -> Iterator[None]:
    """Convert failures to write the store's files to `StoreError`; other exceptions of the block pass through."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder) from error
        if error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(folder):
            raise cannot_write(folder, error) from error
        raise


# -- checksums -------------------------------------------------------------------------------------


def checksum(path: str, copy: str | None = None) -> int:
    """Return the CRC-32 of a file's pages that are not all zeros, with their positions; of the JSON that the engine
    rewrites with its keys in any order when it opens a shard, that of its values. With `copy`, a copy of the file is
    created at that path; the engine's files are mostly holes, and stay so.

    Raises:
        OSError: the file cannot be read, or the copy written.
    """
    found, opened = 0, FileIO(copy, "x") if copy else contextlib.nullcontext()
    with FileIO(path) as file, opened as new:
        for at, run in _pages_of(file):
            if new is not None:
                new.seek(at)
                new.write(b"".join(run))
            for number, page in enumerate(run):
                found = zlib.crc32(page, zlib.crc32((at + number * _PAGE).to_bytes(8, "little"), found))
        if new is not None:
            new.truncate(os.fstat(file.fileno()).st_size)
        if path.endswith(_OF_THE_ENGINE) and path.endswith(".json"):
            file.seek(0)
            try:
                return checksum_of(json.loads(file.read()))
            except ValueError:
                return -1
    return found


def checksum_of(values: Any) -> int:
    """Return the checksum of a JSON value."""
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def write_listing(folder: Path, base: Path | None = None) -> int:
    """Write the listing of a generation's files, and return its checksum; files that it shares with `base` are not read
    again.

    Raises:
        OSError: a file cannot be read or written.
    """
    known = json.loads((base / LISTING).read_bytes())["files"] if base else {}
    listed = dict[str, tuple[int, int]]()
    for name, entry in refuse_links_below(folder).items():
        stat = os.stat(entry.path)  # noqa: PTH116  # on Windows, that of an entry has no number
        is_shared = name in known and stat.st_nlink > 1 and _SHARED.match(name)
        if is_shared and os.path.samestat(stat, os.stat(f"{base}/{name}")):  # noqa: PTH116
            listed[name] = known[name]
        elif name not in (LISTING, IN_USE):
            listed[name] = stat.st_size, checksum(entry.path)
    data = json.dumps({"engine": version("qdrant-edge-py"), "files": listed}, sort_keys=True).encode()
    (folder / LISTING).write_bytes(data)
    return zlib.crc32(data)


def check_files(folder: Path, expected: int, *, whole: bool = False, copy_to: Path | None = None) -> None:
    """Raise if files of a generation are damaged, missing, or not its own: the engine would accept the rest as
    complete, or crash.

    `expected` is the checksum of the listing. With `whole`, their content is read, too; with `copy_to`, it is written
    to another folder while it is read; files that are never written again are shared with it instead.

    Raises:
        StoreDamaged: there is such a file.
        StoreError: something in it is a link.
        OSError: the copy cannot be written, the disk is full.
    """
    files_found = refuse_links_below(folder)
    try:
        data = (folder / LISTING).read_bytes()
    except OSError as error:
        raise StoreDamaged(f"cannot be read: {error.strerror}", where=str(folder / LISTING)) from error
    if zlib.crc32(data) != expected:
        raise StoreDamaged("this file was changed", where=str(folder / LISTING))
    values = json.loads(data)
    is_same_engine = values["engine"] == version("qdrant-edge-py")
    for above in {name.rpartition("/")[0] for name in values["files"]} if copy_to else ():
        (copy_to / above).mkdir(parents=True, exist_ok=True)
    for name, (size, written) in values["files"].items():
        any_content = not is_same_engine and name.endswith(_OF_THE_ENGINE)
        copy = f"{copy_to}/{name}" if copy_to else None
        if wrong := _what_is_wrong(files_found.get(name), None if any_content else size):
            raise StoreDamaged(wrong, where=str(folder / name))
        shared = _SHARED.match(name) if copy and is_same_engine else None
        if shared and f"{shared[1]}/id_tracker.mappings" in files_found:
            with contextlib.suppress(OSError):  # a file system without hard links
                os.link(f"{folder}/{name}", f"{copy_to}/{name}")
                continue
        try:
            found = checksum(f"{folder}/{name}", copy) if copy or whole else written
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StoreDamaged(f"cannot be read: {error.strerror or error}", where=str(folder / name)) from error
        if found != written and not any_content:
            raise StoreDamaged("its content is not what was written", where=str(folder / name))
    for name in files_found.keys() - values["files"].keys() - {LISTING, IN_USE}:
        if not name.rpartition("/")[2].startswith("."):
            raise StoreDamaged("this file does not belong to the store", where=str(folder / name))


def _what_is_wrong(entry: os.DirEntry[str] | None, size: int | None) -> str:
    """Return what is wrong with a file; any `size` is right if it is None."""
    try:
        found = os.lstat(entry.path).st_size if entry is not None else None
    except FileNotFoundError:
        found = None
    if found is None:
        return "the file is missing"
    return "" if size in (None, found) else f"its size is wrong: {found:,} bytes, {size:,} were written"


# -- generations -----------------------------------------------------------------------------------

Stamp = tuple[int, int, int]


class Generation(NamedTuple):
    """A complete state on the disk. `checksum` is that of its listing, `stamp` the pointer's."""

    path: Path
    checksum: int = 0
    stamp: Stamp | None = None


class Generations:
    """The generations of one store, in `folder`, which need not exist.

    No part of its path may be a link below `root`, or, where `folder` is not inside `root`, below its parent folder.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder = folder
        self._pointer = folder / POINTER
        inside = root is not None and folder.is_relative_to(root) and ".." not in folder.relative_to(root).parts
        self._above = root if root is not None and inside else folder.parent

    def check_links(self) -> None:
        """Raise if links make the store be elsewhere than its path says.

        Raises:
            StoreError: a folder on the way, or one of the files here, is a link.
        """
        on_the_way = (self.folder / FOLDER).relative_to(self._above).parts
        for number in range(len(on_the_way)):
            refuse_link(self._above.joinpath(*on_the_way[: number + 1]))
        for name in (POINTER, LOCK, RECORDS):
            refuse_link(self.folder / name)

    def stamp(self) -> Stamp | None:
        """Return a value that changes whenever the pointer moves; None where there is no store. Takes microseconds."""
        try:
            stat = os.stat(self._pointer)  # noqa: PTH116  # half as long as Path.stat, and done before every query
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", where=str(self.folder)) from error
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _current(self) -> tuple[Path, int] | None:
        """Return the folder of the current generation and the checksum of its listing; None if nothing was ever stored.

        Raises:
            StoreDamaged: the pointer file is invalid or missing.
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

    def open_current(self) -> Generation | None:
        """Return the current generation, which then stays for an hour after it is replaced (a few seconds, if many
        follow); None where nothing was ever stored.

        Raises:
            StoreDamaged: it does not exist.
            StoreError: it cannot be read.
        """
        for _ in range(_TRIES):
            stamp, found = self.stamp(), self.current()
            if found is not None:
                with contextlib.suppress(OSError):  # on a read-only disk, nobody writes
                    _mark(found.path)
            if self.stamp() == stamp:  # else a writer may have removed it before it was marked
                return found
        raise StoreBusy("it is being replaced faster than it can be opened", where=str(self.folder))

    def current(self) -> Generation | None:
        """Return the current generation; None where nothing was ever stored. A writer, which alone removes any, need
        not do more.

        Raises:
            StoreDamaged: it does not exist.
            StoreError: it cannot be read.
        """
        stamp, named = self.stamp(), self._current()
        if named is None or stamp is None:
            return None
        path, checksum = named
        if not path.is_dir() and self.stamp() == stamp:
            raise StoreDamaged("the current generation is missing", where=str(path))
        return Generation(path, checksum, stamp)

    @contextlib.contextmanager
    def writer_lock(self, timeout: float, on_wait: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
        """Hold the writer's lock during the block; `timeout` is in seconds. `on_wait` is called with a message if
        another process holds it.

        Raises:
            StoreBusy: another process writes and did not end within `timeout`.
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
        """Create an empty folder for a new generation. The caller holds the writer's lock."""
        before = (path.name.partition("-")[0] for path in self.folders() if _NAME.match(path.name))
        name = f"{max(map(int, before), default=0) + 1:06d}-{uuid.uuid4().hex[:8]}"
        path = self.folder / FOLDER / name
        path.mkdir(parents=True)
        (path / IN_USE).write_text(f"{_MARK}{name}\n", encoding="ascii")
        os.utime(path / IN_USE, (0, 0))
        return Generation(path)

    def publish(self, generation: Generation, records: Sequence[Mapping[str, Any]], base: Path | None) -> None:
        """Flush a complete generation, which was copied from `base`, to disk and make the pointer name it. `records`
        are those of its documents.

        Raises:
            StoreError: it could not be written; the pointer is unchanged.
            OSError: the same.
        """
        self.check_links()
        records_text = json.dumps({"documents": records, "checksum": checksum_of(records)}, ensure_ascii=False) + "\n"
        (generation.path / RECORDS).write_text(records_text, encoding="utf-8")
        listing = write_listing(generation.path, base)
        sync_folder(generation.path)
        sync(str(generation.path.parent))
        with contextlib.suppress(StoreError, OSError):
            if (before := self._current()) is not None and _opened(before[0]):
                _mark(before[0])
        pointer = {"format": FORMAT, "generation": generation.path.name, "files": listing}
        try:
            replace(self._pointer, json.dumps(pointer | {"checksum": checksum_of(pointer)}) + "\n")
        except FileWriteError as error:
            raise StoreError(error.message, where=str(self.folder), hint=error.hint) from error
        with contextlib.suppress(FileWriteError):  # it is published; this list is for a day when the others are damaged
            replace(self.folder / RECORDS, records_text)

    def sweep(self, most: int = MOST_REPLACED) -> None:
        """Remove replaced generations that are provably ours: those that no reader has opened, or that were replaced
        an hour ago, and all but the newest, at `most` so many. The caller holds the writer's lock."""
        current, retained = self._current(), 0
        for path in reversed(self.folders()):
            if current is not None and path == current[0]:
                continue
            if retained < most and time.time() - _opened(path) < HOUR and _NAME.fullmatch(path.name):
                retained += 1
            else:
                remove_generation(path)

    def records(self) -> list[dict[str, Any]] | None:
        """Return the records of the stored documents, from the first list of them that is intact; None if none is.

        Raises:
            StoreError: a link is in the way.
        """
        self.check_links()
        places = [self.folder]
        with contextlib.suppress(StoreError):
            places = [*(self._current() or ())[:1], self.folder]
        for place in places:
            with contextlib.suppress(StoreDamaged):
                return read_records(place)
        return None

    def folders(self) -> list[Path]:
        """Return the generations on the disk, and whatever else is in their folder."""
        with contextlib.suppress(OSError):
            return sorted(path for path in (self.folder / FOLDER).iterdir() if is_link(path) or path.is_dir())
        return []


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the stored documents from the list of them in a folder.

    Raises:
        StoreDamaged: it is not there, or not what was written.
    """
    path = folder / RECORDS
    with contextlib.suppress(OSError):
        values = {} if is_link(path) else _json_object(path.read_bytes())
        found = values.get("documents")
        if isinstance(found, list) and values.get("checksum") == checksum_of(found):
            return found
    raise StoreDamaged("this list of documents was not written by lmm", where=str(path))


def is_ours(path: Path) -> bool:
    """Return whether a folder is provably a generation that we made, complete, begun or half removed: it has the name
    of one, its file `IN_USE` names it, and nothing in it is a link."""
    try:
        refuse_links_below(path)
        return bool(_NAME.fullmatch(path.name)) and (path / IN_USE).read_bytes() == f"{_MARK}{path.name}\n".encode()
    except (OSError, StoreError):
        return False


def remove_generation(path: Path) -> None:
    """Remove a generation, if it is provably ours. Its mark is removed last, so that a half-removed one can be
    recognized."""
    with contextlib.suppress(OSError):  # what cannot be removed now, the next writer removes
        if _NAME.fullmatch(path.name) and not any(path.iterdir()):
            path.rmdir()  # its writer was killed before it marked it
        elif is_ours(path):
            for each in sorted(path.iterdir(), key=lambda each: each.name == IN_USE):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            path.rmdir()


def _mark(path: Path) -> None:
    """Set the time when a generation was last opened, or when it was replaced."""
    os.utime(path / IN_USE)


def _opened(path: Path) -> float:
    """Return when a reader last opened a generation, or it was replaced; 0 if no reader ever did."""
    with contextlib.suppress(OSError):
        return (path / IN_USE).lstat().st_mtime
    return 0.0


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
