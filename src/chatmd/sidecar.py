"""The folder `.chatmd` beside a transcript: contents of calls and results, and of documents and agents as sent."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import Annotated, Any

import msgspec

from chatmd.errors import ChatmdError
from chatmd.language.agent import Doc, Expandable, Img, Item, MessageItem, Part, SubAgent, content_of
from chatmd.language.nodes import Attribute, Element
from chatmd.language.transcript import (
    NOT_STARTED,
    RepairedText,
    call_element,
    element_text,
    image_element,
    repair,
    result_element,
    storable,
)
from lmm.disk import digest
from lmm.disk.files import decode_document
from lmm.disk.folder import Folder
from lmm.disk.opened import write_errors
from lmm.errors import FileReadError
from lmm.messages import Image, ToolCall, ToolResult

# -- Where documents, images and agents occur in a conversation, and the key by which a later run finds each -------


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A part that has to be expanded. `answered` is true if a model has seen it, that is, something by a model follows.

    `key` identifies its place: the text of the message, how many messages with the same text come before, and the
    index of the part. It stays valid if the file is moved or other messages change. It is empty in messages of
    models and tools, whose stored contents do not change.
    """

    part: Expandable
    key: str
    answered: bool


def occurrences(items: Iterable[Item]) -> tuple[Occurrence, ...]:
    """Return all parts of a conversation that are not inline, in order.

    >>> doc = Doc("a.md", local=True)
    >>> user, assistant = MessageItem("user", (doc,)), MessageItem("assistant", ("Yes.",))
    >>> both = occurrences((user, assistant, user))
    >>> [place.answered for place in both], both[0].key == both[1].key
    ([True, False], False)
    """
    found: list[Occurrence] = []
    first_unanswered, seen = 0, Counter[str]()  # from there on, no model has said anything
    for item in items:
        content, message = content_of(item), ""
        if not (isinstance(item, MessageItem) and item.role != "assistant"):
            found[first_unanswered:] = [replace(one, answered=True) for one in found[first_unanswered:]]
            first_unanswered = len(found)
        elif not all(isinstance(part, str) for part in content):
            message = _key(item.role, [json_of(part) for part in content])
            seen[message] += 1
        for index, part in enumerate(content):
            if not isinstance(part, str) and (part.local or not isinstance(part, Img)):
                found.append(Occurrence(part, _key(message, seen[message], index) if message else "", False))
    return tuple(found)


def places(part: Expandable, key: str) -> Iterator[tuple[Expandable, str]]:
    """Yield the part at the place `key`, and the documents, images and agents in it, each with the key of its place."""
    yield part, key
    for index, inner in enumerate(part.content if isinstance(part, SubAgent) else ()):
        if not isinstance(inner, str):
            yield from places(inner, _key(key, index))


def json_of(part: Part) -> Any:
    """Return a part as JSON, without its place."""
    if isinstance(part, str):
        return part
    if isinstance(part, Doc):
        return ["doc", part.src, part.local, part.strip, part.markdown]
    if isinstance(part, Img):
        return ["img", part.src, part.local]
    return ["agent", part.src, part.local, [json_of(child) for child in part.content]]


def _key(*values: Any) -> str:
    return digest(json.dumps(values), length=32)


FOLDER = ".chatmd"
"""The folder beside a transcript with its contents, records and originals."""
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""The media types of images that models accept, and the suffixes of their files."""
PICTURES = (*SUFFIXES.values(), ".jpeg")


def free_name(path: Path) -> Path:
    """Return a free path for the original of a file (`write_private`): a name with the time, in `FOLDER`."""
    folder, stem = path.resolve().parent / FOLDER, f"{path.stem}.{datetime.now():%Y-%m-%dT%H-%M-%S}"
    names = (f"{stem}{more}{path.suffix}" for more in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(file for name in names if not (file := folder / name).exists())


def write_private(original: str | bytes, path: Path) -> None:
    """Write a file atomically that only its owner may read."""
    Folder(path.parent).write(path.name, original, private=True)


# -- The contents of documents and agents as a model got them, kept beside the transcript ---------------------------
#
# A file may be edited, a page may change, an agent may answer differently: a model gets the same content again.
# ``.chatmd/expansions.jsonl`` has a line for each; the contents are files named by their hash, like those of calls.
# A copy of a transcript in the same folder finds what the original recorded.


INDEX = f"{FOLDER}/expansions.jsonl"


class _Entry(msgspec.Struct, frozen=True):
    """A line of the index: the transcript, the place, the part there, and the hash of its content.

    `media_type` is set for an image.
    """

    transcript: str
    key: str
    kind: str
    src: str
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]  # it becomes a file's name
    media_type: str = ""


class ExpansionRecord:
    """The record beside a transcript. With `only`, contents that are not recorded are an error.

    `writable` says whether new contents are recorded.

    Raises:
        ChatmdError: a line of it is damaged.
    """

    def __init__(self, transcript: Path, *, only: bool = False, writable: bool = True) -> None:
        self.only, self.writable = only, writable and not only
        self._below = Folder(transcript.resolve().parent)
        self._name = transcript.name.encode("utf-8", "backslashreplace").decode()  # which may be in another encoding
        self._entries: list[_Entry] = []
        lines = self._below.read(INDEX).splitlines() if self._below.stat(INDEX) is not None else ()
        for number, line in enumerate(lines, 1):
            try:
                self._entries.append(msgspec.json.decode(line, type=_Entry))
            except msgspec.MsgspecError as error:
                # A crash tore the line, before a model saw its content.
                if "truncated" in str(error) or not line.strip(b"\0"):
                    continue
                hint = "restore it, or delete the line to have its document read again"
                where = f"{self._below.root / INDEX}:{number}"
                raise ChatmdError("this line of the record is damaged", where=where, hint=hint) from error

    def find(self, key: str) -> str | Image | None:
        """Return the recorded content of a place, or None.

        Raises:
            ChatmdError: the record is damaged.
        """
        entries = [entry for entry in self._entries if entry.key == key]
        if not entries:
            return None
        entry = next((own for own in reversed(entries) if own.transcript == self._name), entries[-1])
        name = f"{FOLDER}/{entry.sha256[:32]}{SUFFIXES.get(entry.media_type, '.txt')}"
        hint = "restore it, or delete its line in expansions.jsonl to have it read again"
        return _load(self._below, name, f"what {entry.src} held", str(self._below.root / name), hint)

    def record(self, key: str, part: Expandable, value: str | Image) -> None:
        """Record the content of a place; it is on disk when this returns.

        Raises:
            ChatmdError, FileWriteError: the record cannot be written.
        """
        if not self.writable:
            return
        data = value.data if isinstance(value, Image) else value.encode("utf-8")
        media_type = value.media_type if isinstance(value, Image) else ""
        entry = _Entry(self._name, key, part.tag, part.src, digest(data), media_type)
        same_place = (one for one in reversed(self._entries) if (one.transcript, one.key) == (self._name, key))
        if next(same_place, None) == entry:
            return
        store(self._below, data, SUFFIXES.get(media_type, ".txt"))
        with write_errors(str(self._below.root / INDEX)), self._below.open(INDEX, "a+b", private=True) as file:
            torn = file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
            # In one piece, so that two runs can write at once.
            os.write(file.fileno(), b"\n" * torn + msgspec.json.encode(entry) + b"\n")
            os.fsync(file.fileno())
        self._entries.append(entry)

    def carry_over(self, before: Iterable[Item], after: Iterable[Item]) -> None:
        """Record contents again under their new places after items were removed from a conversation.

        Of several messages with the same text, the third may now be the first. `after` contains the same objects as
        `before`, except for the removed ones.

        Raises:
            ChatmdError, FileWriteError: the record is damaged, or cannot be written.
        """
        keys = {id(part): key for one in occurrences(before) for part, key in places(one.part, one.key)}
        now = [place for one in occurrences(after) for place in places(one.part, one.key)]
        moved = [(part, key) for part, key in now if keys.get(id(part), key) != key]
        values = [self.find(keys[id(part)]) for part, _ in moved]  # all of them, before one replaces another
        for (part, key), value in zip(moved, values, strict=True):
            if value is not None:
                self.record(key, part, value)


# -- The contents of calls and results in files beside a transcript: ``.chatmd/`` and the hash of the content --------
#
# The transcript refers to them by ``<doc src=".chatmd/…" local/>``, relative to its own folder. Equal contents are
# one file, and no file changes.


_STORED = re.compile(
    rf"{re.escape(FOLDER)}/[0-9a-f]{{32}}({'|'.join(map(re.escape, ('.txt', '.json', *SUFFIXES.values())))})"
)
_MEDIA_TYPES = {suffix: media_type for media_type, suffix in SUFFIXES.items()}


def keep_record(folder: Path, name: str, text: str) -> str:
    """Store the transcript of an agent of this name for a transcript in `folder`; return its path relative to that."""
    stem = "".join(char if char.isalnum() or char == "-" else "_" for char in name.partition(".")[0][:40])
    data = text.encode("utf-8")
    path = f"{FOLDER}/agents/{stem}-{digest(data, length=16)}.chatmd"
    return store(Folder(folder), data, "", path)


def unfinished_record(owner: str, *request: str) -> str:
    """Return the path of the transcript of an agent at work, for a request in the transcript `owner`: its call's id."""
    return f"{FOLDER}/agents/{digest(json.dumps([owner, *map(storable, request)]), length=16)}.unfinished.chatmd"


def adopt_record(folder: Path, path: str, name: str) -> str:
    """Store the transcript in `path` that an agent of this name left when it was killed; return where, "" without one.

    Those of agents that it asked are stored and named in it, too.
    """
    below = Folder(folder)
    if below.stat(path) is None:
        return ""
    text = decode_document(below.read(path), path)
    stored = keep_record(folder, name, link_records(folder, path, repair(text)).text)
    below.remove(path)
    return stored


def link_records(folder: Path, owner: str, repaired: RepairedText) -> RepairedText:
    """Name the transcripts that agents left when they were killed in the results of the calls that asked them.

    A call of the same agent without a transcript was not started, as each begins one.
    """
    text, calls = repaired.text, repaired.interrupted
    records = [adopt_record(folder, unfinished_record(owner, result.call), result.name) for result in calls]
    agents = {result.name for result, record in zip(calls, records, strict=True) if record}
    for result, record in zip(calls, records, strict=True):
        if result.name in agents:
            element = result_element(result if record else replace(result, text=NOT_STARTED))
            more = (Attribute("record", record),) if record else ()
            before, _, behind = text.rpartition(element_text(result_element(result)))
            text = before + element_text(replace(element, attributes=(*element.attributes, *more))) + behind
    return repaired._replace(text=text)


def store(below: Folder, data: bytes, suffix: str, name: str = "") -> str:
    """Store a content, unless it exists, under its hash or a `name` that contains a hash; return the name."""
    name = name or f"{FOLDER}/{digest(data, length=32)}{suffix}"
    if below.stat(name) is None:
        below.write(name, data, private=True)
    return name


def _load(below: Folder, name: str, what: str, where: str, hint: str) -> str | Image:
    """Return the content that is stored under a hash.

    Raises:
        ChatmdError: the file is missing, or has another content, as a link could lead anywhere.
    """
    try:
        data = below.read(name)
    except FileReadError as error:
        raise ChatmdError(f"{what} cannot be read: {error.message}", where=where, hint=hint) from error
    file = PurePath(name)
    if digest(data, length=32) != file.stem:
        raise ChatmdError(f"this is not {what}: the file was changed", where=where, hint=hint)
    media_type = _MEDIA_TYPES.get(file.suffix)
    return Image(data, media_type=media_type) if media_type else decode_document(data, str(below.root / name))


def is_stored(src: str) -> bool:
    """Return whether a path is that of a content stored under its hash."""
    return _STORED.fullmatch(src) is not None


def check_came_along(folder: Path, part: Doc | Img) -> None:
    """Check that the folder with the stored contents is there.

    Raises:
        ChatmdError: the folder was left behind when the transcript was moved.
    """
    if part.local and is_stored(part.src) and Folder(folder).stat(FOLDER) is None:
        message = f"the folder {FOLDER}, with the arguments and results of tools, is missing"
        hint = "copy it beside this file; or run lmm render --transcript FILE where it is, which writes one file"
        raise ChatmdError(message, where=part.span.where, hint=hint)


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payloads of a transcript in `folder`; if that is None, the transcript itself contains everything.

    `inline` keeps texts in the transcript; images are always files, if there is a folder.
    """

    folder: Path | None
    inline: bool

    def call(self, call: ToolCall) -> Element:
        """Store the arguments of a call, and return the call as an element."""
        values = (call.id, call.name, call.arguments, call.item, call.signature, call.provider)
        call = ToolCall(*map(storable, values))
        return call_element(call, stored_at=self._store(call.arguments, ".json"))

    def result(self, result: ToolResult, records: Sequence[str] = ()) -> Element:
        """Store the text and images of a result, and return it as an element; `records` are transcripts of agents."""
        result = replace(result, call=storable(result.call), name=storable(result.name), text=storable(result.text))
        stored = self._store(result.text, ".txt") if result.text else ""
        element = result_element(replace(result, images=()), stored_at=stored)
        more, children = (Attribute("record", ", ".join(records)),) if records else (), [*element.children]
        for image in result.images:
            if self.folder is None or image.url or image.media_type not in SUFFIXES:
                children.append(image_element(image))
            else:
                src = store(Folder(self.folder), image.data, SUFFIXES[image.media_type])
                children.append(Element("img", (Attribute("src", src), Attribute("local"))))
        return replace(element, attributes=(*element.attributes, *more), children=tuple(children))

    def read(self, part: Expandable) -> str | Image | None:
        """Return the content of a part if it is a payload, else None.

        Raises:
            ChatmdError: the file is missing, or has another content.
        """
        if self.folder is None or isinstance(part, SubAgent) or not (part.local and is_stored(part.src)):
            return None
        hint = "move it with this file, or write its content into the transcript"
        check_came_along(self.folder, part)
        return _load(Folder(self.folder), part.src, f"what was kept in {part.src}", part.span.where, hint)

    def _store(self, text: str, suffix: str) -> str:
        """Store a text, and return its path for the transcript; empty if the text itself stays there."""
        if self.folder is None or self.inline:
            return ""
        return store(Folder(self.folder), text.encode("utf-8"), suffix)
