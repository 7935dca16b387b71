"""Checksums of a generation's files: damage is noticed before the engine, which would believe it or crash, sees it.

A generation's `LISTING` has the size and the checksum of each of its files; the pointer file has the checksum of the
listing, and its own. What reading costs decides what is read when (100,000 chunks: 170 files, 358 MB of data, 3 GB
of holes, 2 cores):

- CRC-32 goes over 4.5 GB a second here, BLAKE2b and SHA-1 over 1.2 and 1.9; it is to notice accidents, so it does.
  Pages of zeros do not count, whether they are holes or not: a copy that filled them is the same store.
- Of all files, one look at size, time and place takes 3 ms, at the content 400 ms (on a busy machine; the engine needs
  250). A store of 1 MB of text has 5 MB of data: 5 ms. So whoever opens a generation reads every file with less than
  `LARGE` of data, and of the larger ones those that are not known to be as they were when somebody read them: inode,
  size and times of those are kept in the user's folder for caches. What the engine touches when it only reads
  (indexes of what is deleted, small trackers; their content stays the same, seen with 20,000 and 100,000 chunks) is
  small; vectors, graphs, postings and payloads it leaves alone.
- Whoever copies or links a generation into a new one, and ``lmm store check``, reads all of it: else damage would get a
  checksum of its own. Only that notices a disk that forgets what it holds without a write; reading it then
  fails, or gives other bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import cache_folder
from lmm_education.store.folders import files_of, parts_with_data, refuse_links_below

LISTING = "files.json"
LARGE = 1 << 20  # bytes of data
# The engine writes these anew when it opens a shard that another version of it made.
_OF_THE_ENGINE = ("segment.json", "edge_config.json", "version.info")
_PAGE, _BLOCK = 4096, 1 << 18
_ZEROS = bytes(_PAGE)
_RACY = 2.0  # seconds: a file that changed so short ago may change again within one tick of the disk's clock


class Listed(NamedTuple):
    """A file as it was written."""

    size: int
    checksum: int


class Damage(NamedTuple):
    """A file that is not as it was written."""

    path: Path
    message: str


def checksum(path: Path) -> int:
    """The CRC-32 of a file's pages that have anything but zeros in them, with their places.

    Raises:
        OSError: it cannot be read.
    """
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


def checksum_of(values: Any) -> int:
    """The checksum of something that JSON can hold."""
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


# -- the listing ------------------------------------------------------------------------------------


def write_listing(folder: Path, unlisted: str, base: Path | None = None) -> int:
    """List the files of a generation, except `unlisted`; the listing's checksum. Files that are those of the generation
    `base`, under a second name, keep the checksum that they had there.

    Raises:
        OSError: a file cannot be read or written.
    """
    before = _listed_in(base / LISTING) if base else {}
    listed = {}
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        if name not in (unlisted, LISTING):
            same = base is not None and name in before and path.samefile(base / name)
            listed[name] = before[name] if same else Listed(path.stat().st_size, checksum(path))
    values = {"engine": version("qdrant-edge-py"), "files": listed}
    data = json.dumps(values, sort_keys=True).encode()
    (folder / LISTING).write_bytes(data)
    return zlib.crc32(data)


def _listed_in(path: Path) -> dict[str, Listed]:
    if not path.exists():
        return {}
    return {name: Listed(*listed) for name, listed in json.loads(path.read_bytes())["files"].items()}


def find_damage(folder: Path, expected: int, unlisted: str, *, again: bool = False) -> Iterator[Damage]:
    """The files of a generation that are not as they were written, are missing, or are none of its own.

    `expected` is the checksum of the listing. With `again`, what was read before is read all the same.

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
    listed = {name: Listed(*entry) for name, entry in values["files"].items()}
    seen = _Seen(folder)
    for name, entry in listed.items():
        if message := _what_is_wrong(folder / name, entry, seen, again, name.endswith(passing)):
            yield Damage(folder / name, message)
    seen.keep()
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        if name not in listed and name not in (unlisted, LISTING) and not path.name.startswith("."):
            yield Damage(path, "this file is none of the store's")


def _what_is_wrong(path: Path, entry: Listed, seen: _Seen, again: bool, passing: bool) -> str:
    try:
        found = path.lstat()
        if passing:
            return ""
        if found.st_size != entry.size:
            return f"its size is wrong: {found.st_size:,} bytes, {entry.size:,} were written"
        if not again and seen.has(path, found):
            return ""
        if checksum(path) != entry.checksum:
            return "its content is not what was written"
        seen.add(path, found)
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


class _Seen:
    """The large files of a generation whose content somebody found to be right, and what they looked like then."""

    def __init__(self, folder: Path) -> None:
        name = hashlib.blake2b(os.fsencode(folder.parent.resolve()), digest_size=16).hexdigest()
        self._folder, self._file, self._new = folder, cache_folder() / "stores" / f"{name}.json", dict[str, list[int]]()
        self._known: Mapping[str, Any] | None = None

    def has(self, path: Path, found: os.stat_result) -> bool:
        """Whether this file is large, known, and looks as it did."""
        if not _is_large(found):
            return False
        if self._known is None:
            self._known = _object_in(self._file)
        name = str(path.relative_to(self._folder))
        known = self._known.get(name) == _looks(found)
        if known:
            self._new[name] = _looks(found)
        return known

    def add(self, path: Path, found: os.stat_result) -> None:
        """A file whose content is right."""
        if _is_large(found) and time.time() - max(found.st_mtime, found.st_ctime) > _RACY:
            self._new[str(path.relative_to(self._folder))] = _looks(found)

    def keep(self) -> None:
        """Remember for the next time, as far as that is possible."""
        if self._new and self._new != self._known:
            with contextlib.suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                temporary = self._file.with_suffix(f".{os.getpid()}")
                temporary.write_text(json.dumps(self._new))
                temporary.replace(self._file)


def _is_large(found: os.stat_result) -> bool:
    return found.st_size >= LARGE and getattr(found, "st_blocks", LARGE) * 512 >= LARGE


def _looks(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, stat.S_IFMT(found.st_mode)]


def _object_in(path: Path) -> Mapping[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        values = json.loads(path.read_bytes())
        return values if isinstance(values, dict) else {}
    return {}
