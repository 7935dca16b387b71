"""What calls and their results hold, kept in files beside a transcript: ``.chatmd/`` and the hash of the content.

The transcript refers to them by ``<doc src=".chatmd/…" local/>``, relative to its own folder. Equal contents are one
file, and no file changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.content.image_data import SUFFIXES
from chatmd.errors import ChatmdError
from chatmd.language.items import Doc, Img, SubAgent
from chatmd.language.nodes import Attribute, Element
from chatmd.language.transcript import call_element, image_element, result_element, storable
from chatmd.workplace import FOLDER
from lmm.disk.files import decode_document
from lmm.disk.folder import Folder
from lmm.errors import FileReadError
from lmm.messages import Image, ToolCall, ToolResult

_UNFIT = re.compile(r"[^\w-]")
_MEDIA_TYPES = {suffix: media_type for media_type, suffix in SUFFIXES.items()}
_NAME = re.compile(rf"{re.escape(FOLDER)}/[0-9a-f]{{32}}\.[a-z]+")


def keep_record(folder: Path, name: str, text: str) -> str:
    """Keep what an agent of that name said and did, for a transcript in `folder`; its path from there."""
    stem = _UNFIT.sub("_", name.partition(".")[0])[:40]
    data = text.encode("utf-8")
    kept = f"{FOLDER}/agents/{stem}-{hashlib.sha256(data).hexdigest()[:16]}.chatmd"
    _write(folder, kept, data)
    return kept


def _write(folder: Path, name: str, data: bytes) -> None:
    """Write a file below ``.chatmd``, unless it is there."""
    below = Folder(folder)
    if below.stat(name) is None:
        below.write(name, data, private=True)


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payloads of a transcript in `folder`; with None, everything stands in the transcript itself.

    `inline` keeps texts in the transcript too; images are always files, if there can be files.
    """

    folder: Path | None
    inline: bool

    def call(self, call: ToolCall) -> Element:
        """A call as an element, its arguments stored."""
        call = ToolCall(*map(storable, (call.id, call.name, call.arguments, call.item)))
        if self.folder is None or self.inline:
            return call_element(call)
        return call_element(call, stored_at=self._store(call.arguments.encode("utf-8"), ".json"))

    def result(self, result: ToolResult, records: Sequence[str] = ()) -> Element:
        """A result as an element, its text and images stored; `records` hold what agents said and did for it."""
        element = self._result(result)
        more = (Attribute("record", ", ".join(records)),) if records else ()
        return replace(element, attributes=(*element.attributes, *more))

    def _result(self, result: ToolResult) -> Element:
        result = replace(result, call=storable(result.call), name=storable(result.name), text=storable(result.text))
        if self.folder is None:
            return result_element(result)
        stored = "" if self.inline or not result.text else self._store(result.text.encode("utf-8"), ".txt")
        element = result_element(replace(result, images=()), stored_at=stored)
        return replace(element, children=(*element.children, *map(self._image, result.images)))

    def read(self, parts: Iterable[Doc | Img | SubAgent]) -> dict[Doc | Img | SubAgent, str | Image]:
        """What those of `parts` stand for that are payloads.

        Raises:
            ChatmdError: a file is not there any more, or holds something else: a link could lead anywhere.
        """
        if self.folder is None:
            return {}
        return {
            part: self._load(part)
            for part in parts
            if isinstance(part, Doc | Img) and part.local and _NAME.fullmatch(part.src)
        }

    def _load(self, part: Doc | Img) -> str | Image:
        assert self.folder is not None
        path = self.folder / part.src
        try:
            data = Folder(self.folder).read(part.src)
        except FileReadError as error:
            raise ChatmdError(
                f"{part.src}: {error.message}", where=part.span.where, hint="move it with this file"
            ) from error
        if not path.name.startswith(hashlib.sha256(data).hexdigest()[:32]):
            raise ChatmdError(
                f"{part.src}: this is not what was kept: the file was changed", where=part.span.where,
                hint="bring it back, or write what it should hold into the transcript",
            )  # fmt: skip
        if isinstance(part, Doc):
            return decode_document(data, str(path))
        return Image(data, media_type=_MEDIA_TYPES.get(path.suffix, "image/png"))

    def _image(self, image: Image) -> Element:
        if image.url or image.media_type not in SUFFIXES:
            return image_element(image)
        stored = self._store(image.data, SUFFIXES[image.media_type])
        return Element("img", (Attribute("src", stored), Attribute("local")))

    def _store(self, data: bytes, suffix: str) -> str:
        """Write a file, unless it is there; its path as it stands in the transcript."""
        assert self.folder is not None
        name = f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
        _write(self.folder, name, data)
        return name
