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
from lmm.disk.files import decode_document
from lmm.disk.folder import Folder
from lmm.disk.opened import write_errors
from lmm.errors import FileReadError
from lmm.messages import Image

INDEX = f"{FOLDER}/expansions.jsonl"
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
        self._name, self._below = transcript.name, Folder(transcript.resolve().parent)
        self._entries = _read_index(self._below)

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
        _append(self._below, json.dumps(asdict(entry), ensure_ascii=True))
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
        name = _name(entry)
        if self._below.stat(name) is None:
            self._below.write(name, data, private=True)

    def _load(self, entry: _Entry) -> str | Image:
        name = _name(entry)
        path = self._below.root / name
        hint = "bring it back, or delete its line in expansions.jsonl to have it read anew"
        try:
            data = self._below.read(name)
        except FileReadError as error:
            raise ChatmdError(f"what {entry.src} held is not there any more", where=str(path), hint=hint) from error
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise ChatmdError(f"this is not what {entry.src} held: the file was changed", where=str(path), hint=hint)
        return Image(data, media_type=entry.media_type) if entry.media_type else decode_document(data, str(path))


def _name(entry: _Entry) -> str:
    return f"{FOLDER}/{entry.sha256[:32]}{SUFFIXES.get(entry.media_type, '.txt')}"


def _read_index(below: Folder) -> list[_Entry]:
    """The lines that can be read: a crash may have torn the last one."""
    if below.stat(INDEX) is None:
        return []
    text = below.read(INDEX).decode("utf-8", "replace")
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


def _append(below: Folder, line: str) -> None:
    """Add a line in one piece, so that two runs can write at once."""
    with write_errors(str(below.root / INDEX)), below.open(INDEX, "a+b", private=True) as file:
        torn = file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
        os.write(file.fileno(), f"{chr(10) * torn}{line}\n".encode("ascii"))
        os.fsync(file.fileno())
