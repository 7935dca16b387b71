"""What documents and agents of a conversation stood for when a model saw them, kept beside the transcript.

A file may be edited, a page may change, an agent would answer in other words: what a model has once seen stays as it
was. ``.chatmd/expansions.jsonl`` has a line for each, the contents are files named by their hash, like those of calls.
A copy of a transcript in the same folder finds what the original recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chatmd.content.image_data import SUFFIXES
from chatmd.content.occurrences import Expandable, occurrences
from chatmd.errors import ChatmdError
from chatmd.language.items import Doc, Img, Item
from chatmd.workplace import FOLDER
from lmm.disk.files import decode_document, read_bytes, replace
from lmm.errors import FileReadError
from lmm.messages import Image

INDEX = "expansions.jsonl"
_KINDS = {Doc: "doc", Img: "img"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the index: in which transcript, at which place, what stood there, and the hash of its content.

    `inputs` is a hash of all that an agent's answer depends on; `media_type` is that of an image.
    """

    transcript: str
    key: str
    kind: str
    src: str
    sha256: str
    media_type: str = ""
    inputs: str = ""


class Recorded:
    """The record beside a transcript. With `only`, nothing else counts: what is not recorded is an error.

    `keeps` says whether what is new is recorded.
    """

    def __init__(self, transcript: Path, *, only: bool = False, keeps: bool = True) -> None:
        self.only, self.keeps = only, keeps and not only
        self._name, self._folder = transcript.name, transcript.resolve().parent / FOLDER
        self._entries = _read_index(self._folder / INDEX)

    def find(self, key: str) -> str | Image | None:
        """What stood at a place; None if that was not recorded.

        Raises:
            ChatmdError: the record is damaged.
        """
        entries = [entry for entry in self._entries if entry.key == key]
        own = [entry for entry in entries if entry.transcript == self._name]
        return self._load((own or entries)[-1]) if entries else None

    def answer(self, inputs: str) -> str | None:
        """What an agent answered to the same `inputs`, be it in another transcript.

        Raises:
            ChatmdError: the record is damaged.
        """
        entry = next((entry for entry in reversed(self._entries) if inputs and entry.inputs == inputs), None)
        value = self._load(entry) if entry else None
        return value if isinstance(value, str) else None

    def keep(self, key: str, part: Expandable, value: str | Image, *, inputs: str = "") -> None:
        """Record what stood at a place, on the disk when this returns.

        Raises:
            ChatmdError, FileWriteError: it cannot be written.
        """
        if not self.keeps:
            return
        data = value.data if isinstance(value, Image) else value.encode("utf-8")
        media_type = value.media_type if isinstance(value, Image) else ""
        kind = _KINDS.get(type(part), "agent")
        entry = _Entry(self._name, key, kind, part.src, hashlib.sha256(data).hexdigest(), media_type, inputs)
        if entry in self._entries and self._latest(key) == entry:
            return
        self._store(entry, data)
        _append(self._folder / INDEX, json.dumps(asdict(entry), ensure_ascii=True))
        self._entries.append(entry)

    def carry_over(self, before: Iterable[Item], after: Iterable[Item]) -> None:
        """Record anew what stands at another place in a conversation of which items were taken away.

        Of messages with the same words, one that was the third may be the first now. `after` holds the very parts of
        `before` that stay.

        Raises:
            ChatmdError, FileWriteError: the record is damaged, or cannot be written.
        """
        keys = {id(one.part): one.key for one in occurrences(before)}
        moved = [one for one in occurrences(after) if keys.get(id(one.part), one.key) != one.key]
        values = [self.find(keys[id(one.part)]) for one in moved]  # all of them, before one takes another's place
        for one, value in zip(moved, values, strict=True):
            if value is not None:
                self.keep(one.key, one.part, value)

    def _latest(self, key: str) -> _Entry | None:
        return next(
            (entry for entry in reversed(self._entries) if (entry.transcript, entry.key) == (self._name, key)), None
        )

    def _store(self, entry: _Entry, data: bytes) -> None:
        if self._folder.is_symlink():
            raise ChatmdError("this is a link, and nothing is written behind it", where=str(self._folder))
        path = self._path(entry)
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
            replace(path, data, mode=0o600)

    def _load(self, entry: _Entry) -> str | Image:
        path = self._path(entry)
        hint = "bring it back, or delete its line in expansions.jsonl to have it read anew"
        try:
            data = read_bytes(path)
        except FileReadError as error:
            raise ChatmdError(f"what {entry.src} held is not there any more", where=str(path), hint=hint) from error
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise ChatmdError(f"this is not what {entry.src} held: the file was changed", where=str(path), hint=hint)
        return Image(data, media_type=entry.media_type) if entry.media_type else decode_document(data, str(path))

    def _path(self, entry: _Entry) -> Path:
        return self._folder / f"{entry.sha256[:32]}{SUFFIXES.get(entry.media_type, '.txt')}"


def _read_index(path: Path) -> list[_Entry]:
    """The lines that can be read: a crash may have torn the last one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ChatmdError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    entries = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError):
            entries.append(_entry(json.loads(line)))
    return entries


def _entry(values: Any) -> _Entry:
    entry = _Entry(**values)
    if not all(isinstance(value, str) for value in asdict(entry).values()):
        raise TypeError("all values are texts")
    if len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
        raise ValueError("this is no hash")  # it becomes a file's name
    return entry


def _append(path: Path, line: str) -> None:
    """Add a line in one piece, so that two runs can write at once."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and _last_byte(descriptor, size) != b"\n"
            os.write(descriptor, f"{chr(10) * torn}{line}\n".encode("ascii"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ChatmdError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)
