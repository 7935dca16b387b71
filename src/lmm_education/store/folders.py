"""Folders of sparse files: copied with their holes, brought to the disk, measured, removed. Links are refused."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lmm_education.errors import StoreError

# The engine replaces a small file through such a folder, also when it only closes what it has read.
_PASSING = ".atomicwrite"
_SYNC_THREADS = 8


def files_of(folder: Path) -> Iterator[Path]:
    """All files below a folder, without those that come and go."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_passing(name)]
        yield from (Path(place, name) for name in names)


def is_passing(name: str) -> bool:
    """Whether this is the name of something that the engine has for a moment."""
    return name.startswith(_PASSING)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of files, holes as holes. `target` must not exist.

    Raises:
        OSError: a file cannot be read or written, the disk is full.
    """
    for place, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not is_passing(name)]
        into = target / Path(place).relative_to(source)
        into.mkdir(parents=True)
        for name in names:
            copy_file(Path(place, name), into / name)


def copy_file(source: Path, target: Path) -> None:
    """Copy the parts of a file that have data; the engine's files are mostly holes, and stay so."""
    with source.open("rb", buffering=0) as old, target.open("xb", buffering=0) as new:
        size = os.fstat(old.fileno()).st_size
        for start, end in parts_with_data(old.fileno(), size):
            _copy_range(old.fileno(), new.fileno(), start, end)
        new.truncate(size)


def parts_with_data(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    if not hasattr(os, "SEEK_DATA"):  # Windows: everything is data
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            raise
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        yield start, end


def _copy_range(old: int, new: int, start: int, end: int) -> None:
    os.lseek(old, start, os.SEEK_SET)
    os.lseek(new, start, os.SEEK_SET)
    while start < end:
        copied = _copy_some(old, new, end - start)
        if not copied:
            return
        start += copied


def _copy_some(old: int, new: int, length: int) -> int:
    """In the kernel where it can: it shares blocks on file systems that know how (Btrfs, XFS)."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(old, new, length)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
    data = os.read(old, min(length, 1 << 20))
    return os.write(new, data)


def sync_folder(folder: Path) -> None:
    """Bring all files below a folder, and the folders themselves, to the disk; side by side, for each waits long."""
    places = [*files_of(folder), *(Path(place) for place, _, _ in os.walk(folder))]
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


def is_link(path: Path) -> bool:
    """Whether this path itself leads elsewhere; no if there is nothing."""
    return path.is_symlink() or (os.name == "nt" and _is_junction(path))


def _is_junction(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return bool(getattr(path.lstat(), "st_reparse_tag", 0))
    return False


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
        for name in folders:
            refuse_link(Path(place, name))
        for path in (Path(place, name) for name in names):
            refuse_link(path)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise StoreError("this is not an ordinary file", where=str(path), hint="remove it and run again")


def remove_folder(folder: Path, *, last: str = "") -> bool:
    """Remove a folder and all in it, the file `last` after everything else; whether nothing is left of it.

    A link in it goes; what it leads to stays. Where `folder` itself is a link, nothing is removed.
    """
    if is_link(folder):
        return False
    if last and folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and not is_link(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != last:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


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
