"""Folders of sparse files: copied with their holes, brought to the disk, measured. Links are refused."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lmm.disk.folder import is_link
from lmm_education.errors import StoreError

# The engine replaces a small file through such a folder, also when it only closes what it has read.
_PASSING = ".atomicwrite"
_SYNC_THREADS = 8
_PAGE, _BLOCK = 4096, 1 << 18
_ZEROS = bytes(_PAGE)


def folders_of(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and all below it, each with the names of its files, without what comes and goes."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(_PASSING)]
        yield Path(place), names


def files_of(folder: Path) -> Iterator[Path]:
    """All files below a folder, without those that come and go."""
    return (place / name for place, names in folders_of(folder) for name in names)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of files, holes as holes. `target` must not exist.

    Raises:
        OSError: a file cannot be read or written, the disk is full.
    """
    for place, names in folders_of(source):
        into = target / place.relative_to(source)
        into.mkdir(parents=True)
        for name in names:
            copy_file(place / name, into / name)


def copy_file(source: Path, target: Path) -> None:
    """Copy the parts of a file that have data; the engine's files are mostly holes, and stay so."""
    with target.open("xb") as new:
        for at, page in pages_of(source):
            new.seek(at)
            new.write(page)
        new.truncate(source.stat().st_size)


def pages_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The pages of a file that have anything but zeros in them, each with its place."""
    with path.open("rb", buffering=0) as file:
        at: int | None = 0
        while (at := _next_data(file.fileno(), at)) is not None:
            file.seek(at)
            block = file.read(_BLOCK)
            for start in range(0, len(block), _PAGE):
                page = block[start : start + _PAGE]
                if page != _ZEROS[: len(page)]:
                    yield at + start, page
            at = at + len(block) if block else None


def _next_data(descriptor: int, at: int | None) -> int | None:
    """The page, from this place on, in which a file has data; None if none has."""
    if at is None or not hasattr(os, "SEEK_DATA"):  # Windows: everything is data
        return at
    try:
        found = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole is left
            return None
        raise
    return found - found % _PAGE


def sync_folder(folder: Path) -> None:
    """Bring all files below a folder, and the folders themselves, to the disk; side by side, for each waits long."""
    places = [path for place, names in folders_of(folder) for path in (place, *(place / name for name in names))]
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        for _ in pool.map(sync, places):
            pass


def sync(path: Path) -> None:
    """Bring one file or folder to the disk."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_on_disk(folder: Path) -> int:
    """The bytes that the files below a folder take on the disk; holes take none."""
    total = 0
    for file in files_of(folder):
        with contextlib.suppress(FileNotFoundError):
            stat = file.stat()
            total += getattr(stat, "st_blocks", -(-stat.st_size // 512)) * 512
    return total


def check_no_link(path: Path, above: Path) -> None:
    """Refuse a path that goes through a link below the folder `above`, or is one. It need not exist.

    Raises:
        StoreError: names the link.
    """
    below = path.relative_to(above).parts
    for number in range(1, len(below) + 1):
        refuse_link(above.joinpath(*below[:number]))


def refuse_link(path: Path) -> None:
    """Refuse a path that is a link.

    Raises:
        StoreError: it is one.
    """
    if is_link(path):
        raise StoreError(
            "this is a link, and a store does not follow links, because they may lead to somebody else's files",
            where=str(path),
            hint="remove the link and run again; for a store elsewhere, name its real 'folder' under [storage]",
        )


def refuse_links_below(folder: Path) -> None:
    """Refuse a folder that is a link, or has anything in it but files and folders. What is gone meanwhile is no link.

    Raises:
        StoreError: names the link, the pipe or the device.
    """
    refuse_link(folder)
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            refuse_link(path)
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise StoreError("this is not an ordinary file", where=str(path), hint="remove it and run again")


def check_space(folder: Path, needed: int) -> None:
    """Stop while it can still be told: the engine writes through memory maps, and where a page of these finds no
    room on the disk, the system ends the process.

    Raises:
        StoreError: fewer than `needed` bytes are free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise disk_full(folder, f"{needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free")


def disk_full(folder: Path, detail: str = "") -> StoreError:
    """The error for a disk without room."""
    return StoreError(
        "the disk is full" + (f": {detail}" if detail else ""),
        where=str(folder),
        hint="free some space, then run again; the store is unchanged",
    )


def cannot_write(path: Path, error: OSError) -> StoreError:
    """The error for a folder that may not be written to."""
    return StoreError(
        f"cannot be written to: {error.strerror or error}",
        where=str(path),
        hint="check the folder's permissions, or choose another 'folder' under [storage]",
    )


@contextmanager
def file_errors(folder: Path) -> Iterator[None]:
    """Raise failures to write the store's files as errors of ours; what the block's own work raises passes through."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder) from error
        if error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(folder):
            raise cannot_write(folder, error) from error
        raise
