"""Checksums of a generation's files: damage is noticed before the engine, which would believe it or crash, sees it.

A generation's `LISTING` has the size and the checksum of each of its files; the pointer file has the checksum of the
listing, and its own.

- Whoever opens a generation looks at the sizes, and reads the files with less than `LARGE` of data: of a store of 1 MB
  of text all of it, in 5 ms.
- ``lmm store check``, and whoever copies a generation into a new one, reads all of it (100,000 chunks, 358 MB: 400 ms):
  else damage would get a checksum of its own.
- CRC-32 goes over 4.5 GB a second here, BLAKE2b and SHA-1 over 1.2 and 1.9; it is to notice accidents, so it does.
  Pages of zeros do not count, whether they are holes or not: a copy that filled them is the same store.
"""

from __future__ import annotations

import json
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lmm_education.errors import StoreDamaged
from lmm_education.store.folders import files_of, pages_of, refuse_links_below

LISTING, IN_USE = "files.json", "in-use"
"""The files of a generation that are not listed."""
LARGE = 1 << 20  # bytes of data
# The engine writes these anew when it opens a shard that another version of it made.
_OF_THE_ENGINE = ("segment.json", "edge_config.json", "version.info")


def checksum(path: Path) -> int:
    """The CRC-32 of a file's pages that have anything but zeros in them, with their places; of JSON, which the engine
    writes anew with its keys in any order when it opens a shard, that of its values.

    Raises:
        OSError: it cannot be read.
    """
    if path.suffix == ".json":
        try:
            return checksum_of(json.loads(path.read_bytes()))
        except ValueError:
            return -1
    found = 0
    for at, page in pages_of(path):
        found = zlib.crc32(page, zlib.crc32(at.to_bytes(8, "little"), found))
    return found


def checksum_of(values: Any) -> int:
    """The checksum of something that JSON can hold."""
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def write_listing(folder: Path) -> int:
    """List the files of a generation; the listing's checksum.

    Raises:
        OSError: a file cannot be read or written.
    """
    listed = {name: (path.stat().st_size, checksum(path)) for name, path in _listed(folder).items()}
    data = json.dumps({"engine": version("qdrant-edge-py"), "files": listed}, sort_keys=True).encode()
    (folder / LISTING).write_bytes(data)
    return zlib.crc32(data)


def _listed(folder: Path) -> dict[str, Path]:
    files = {path.relative_to(folder).as_posix(): path for path in files_of(folder)}
    return {name: path for name, path in files.items() if name not in (LISTING, IN_USE)}


def check_files(folder: Path, expected: int, *, whole: bool = False) -> None:
    """Notice files of a generation that are not as they were written, are missing, or are none of its own: the engine
    would take what is left for all there was, or crash.

    `expected` is the checksum of the listing. With `whole`, the content of large files is read too.

    Raises:
        StoreDamaged: there is such a file.
        StoreError: something in it is a link.
    """
    refuse_links_below(folder)
    try:
        data = (folder / LISTING).read_bytes()
    except OSError as error:
        raise StoreDamaged(f"cannot be read: {error.strerror}", where=str(folder / LISTING)) from error
    if zlib.crc32(data) != expected:
        raise StoreDamaged("this file was changed", where=str(folder / LISTING))
    values = json.loads(data)
    passing = _OF_THE_ENGINE if values["engine"] != version("qdrant-edge-py") else ()
    for name, (size, found) in values["files"].items():
        if wrong := _what_is_wrong(folder / name, size, found, whole=whole, passing=name.endswith(passing)):
            raise StoreDamaged(wrong, where=str(folder / name))
    for name, path in _listed(folder).items():
        if name not in values["files"] and not path.name.startswith("."):
            raise StoreDamaged("this file does not belong to the store", where=str(path))


def _what_is_wrong(path: Path, size: int, expected: int, *, whole: bool, passing: bool) -> str:
    try:
        found = path.lstat()
        if not passing and found.st_size != size:
            return f"its size is wrong: {found.st_size:,} bytes, {size:,} were written"
        is_large = found.st_size >= LARGE and getattr(found, "st_blocks", LARGE) * 512 >= LARGE
        if not passing and (whole or not is_large) and checksum(path) != expected:
            return "its content is not what was written"
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""
