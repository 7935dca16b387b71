"""The record of a refinement: every request with its reply, a line each, as they arrive.

The first line says what was refined and how. So the same table and the same diff can be made of it without any
model, and a refinement that broke off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chatmd.errors import RefineError
from lmm.disk.files import read_document
from lmm.disk.folder import Folder
from lmm.disk.opened import write_errors
from lmm.errors import FileReadError

FORMAT = "lmm refine 1"
FREE = ("created", "budget")
"""What may differ if a refinement goes on: all else has to be as it was."""


def key_of(*parts: str) -> str:
    """What a request is found by."""
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Record:
    """Replies by key. Without a path, nothing is written."""

    def __init__(self, path: Path | None, start: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> None:
        self.path, self.start = path, start
        self._entries = dict(entries)

    def find(self, key: str) -> Mapping[str, Any] | None:
        """What was recorded under a key."""
        return self._entries.get(key)

    def add(self, kind: str, key: str, **values: Any) -> Mapping[str, Any]:
        """Record a reply; on return it is on the disk.

        Raises:
            FileWriteError: it cannot be written.
        """
        entry = {"kind": kind, "key": key, **values}
        self._entries[key] = entry
        if self.path is not None:
            _append(self.path, entry)
        return entry

    def __len__(self) -> int:
        return len(self._entries)


def read_record(path: Path) -> Record:
    """A record to look up, not to write; a last line that is torn is left out.

    Raises:
        RefineError: it is no record.
        FileReadError: it cannot be read.
    """
    text = read_document(path)
    lines = text[: text.rfind("\n") + 1].splitlines()
    try:
        rows = [json.loads(line) for line in lines]
        start, entries = rows[0], {row["key"]: row for row in rows[1:]}
        if start["format"] != FORMAT:
            raise ValueError
    except (ValueError, LookupError, TypeError) as error:
        raise RefineError(
            "this is no record of lmm refine", where=str(path), hint="name the file that it wrote"
        ) from error
    return Record(None, start, entries)


def open_record(path: Path, start: Mapping[str, Any]) -> Record:
    """A record to go on with, if there is one at `path`, else a new one.

    Raises:
        RefineError: the one that is there is of something else.
        FileWriteError: it cannot be written.
    """
    start = {"format": FORMAT, **start}
    Folder(path.parent)  # in which there may be no link, if it is ours
    try:
        known = read_record(path)
    except FileReadError:
        if path.exists():
            raise
        Folder(path.parent).make(private=True)
        _append(path, start)
        return Record(path, start, {})
    differing = [name for name in start if name not in FREE and known.start.get(name) != start[name]]
    if differing:
        raise RefineError(
            f"this record is of another refinement: {', '.join(differing)} differ", where=str(path),
            hint="name another file: --record …",
        )  # fmt: skip
    _cut_torn_line(path)
    return Record(path, known.start, known._entries)


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    with write_errors(str(path)), Folder(path.parent).open(path.name, "ab", private=True) as file:
        file.write((json.dumps(entry, ensure_ascii=True) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _cut_torn_line(path: Path) -> None:
    with write_errors(str(path)), Folder(path.parent).open(path.name, "r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
