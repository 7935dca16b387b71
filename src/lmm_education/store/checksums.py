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
import os
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from lmm_education.store.folders import files_of, parts_with_data, refuse_links_below

LISTING = "files.json"
LARGE = 1 << 20  # bytes of data
# The engine writes these anew when it opens a shard that another version of it made.
_OF_THE_ENGINE = ("segment.json", "edge_config.json", "version.info")
_PAGE, _BLOCK = 4096, 1 << 18
_ZEROS = bytes(_PAGE)


class Damage(NamedTuple):
    """A file that is not as it was written."""

    path: Path
    message: str


def checksum(path: Path) -> int:
    """The CRC-32 of a file's pages that have anything but zeros in them, with their places; of JSON, which the engine
    writes anew with its keys in any order when it opens a shard, that of its values.

    Raises:
        OSError: it cannot be read.
    """
    if path.suffix == ".json":
        return _checksum_of_json(path.read_bytes())
    found = at = 0
    with path.open("rb") as file:
        for start, end in list(parts_with_data(file.fileno(), os.fstat(file.fileno()).st_size)):
            at, stop = max(at, start - start % _PAGE), end + -end % _PAGE
            file.seek(at)
            while at < stop and (block := file.read(min(_BLOCK, stop - at))):
                found = _over_pages(block, at, found)
                at += len(block)
    return found


def _over_pages(block: bytes, at: int, found: int) -> int:
    """Go on with the checksum over the pages of a block."""
    for start in range(0, len(block), _PAGE):
        page = block[start : start + _PAGE]
        if page != _ZEROS[: len(page)]:
            found = zlib.crc32(page, zlib.crc32((at + start).to_bytes(8, "little"), found))
    return found


def _checksum_of_json(data: bytes) -> int:
    try:
        return checksum_of(json.loads(data))
    except ValueError:
        return -1


def checksum_of(values: Any) -> int:
    """The checksum of something that JSON can hold."""
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def write_listing(folder: Path, unlisted: str) -> int:
    """List the files of a generation, except `unlisted`; the listing's checksum.

    Raises:
        OSError: a file cannot be read or written.
    """
    listed = {
        path.relative_to(folder).as_posix(): (path.stat().st_size, checksum(path))
        for path in files_of(folder)
        if path not in (folder / unlisted, folder / LISTING)
    }
    data = json.dumps({"engine": version("qdrant-edge-py"), "files": listed}, sort_keys=True).encode()
    (folder / LISTING).write_bytes(data)
    return zlib.crc32(data)


def find_damage(folder: Path, expected: int, unlisted: str, *, whole: bool = False) -> Iterator[Damage]:
    """The files of a generation that are not as they were written, are missing, or are none of its own.

    `expected` is the checksum of the listing. With `whole`, the content of large files is read too.

    Raises:
        StoreError: something in it is a link.
    """
    refuse_links_below(folder)
    try:
        data = (folder / LISTING).read_bytes()
    except OSError as error:
        yield Damage(folder / LISTING, f"cannot be read: {error.strerror or error}")
        return
    if zlib.crc32(data) != expected:
        yield Damage(folder / LISTING, "this file was changed")
        return
    values = json.loads(data)
    passing = _OF_THE_ENGINE if values["engine"] != version("qdrant-edge-py") else ()
    for name, (size, found) in values["files"].items():
        if message := _what_is_wrong(folder / name, size, found, whole=whole, passing=name.endswith(passing)):
            yield Damage(folder / name, message)
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        if name not in values["files"] and name not in (unlisted, LISTING) and not path.name.startswith("."):
            yield Damage(path, "this file does not belong to the store")


def _what_is_wrong(path: Path, size: int, expected: int, *, whole: bool, passing: bool) -> str:
    try:
        found = path.lstat()
        if not passing and found.st_size != size:
            return f"its size is wrong: {found.st_size:,} bytes, {size:,} were written"
        if not passing and (whole or not _is_large(found)) and checksum(path) != expected:
            return "its content is not what was written"
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def _is_large(found: os.stat_result) -> bool:
    return found.st_size >= LARGE and getattr(found, "st_blocks", LARGE) * 512 >= LARGE
