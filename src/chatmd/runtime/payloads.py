"""What calls and their results hold, kept in files beside a transcript: ``.chatmd/`` and the hash of the content.

The transcript refers to them by ``<doc src=".chatmd/…" local/>``, relative to its own folder. Equal contents are one
file, and no file changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.content.image_data import SUFFIXES
from chatmd.errors import ChatmdError
from chatmd.language.items import Doc, Img, SubAgent
from chatmd.language.nodes import Attribute, Element
from chatmd.language.transcript import call_element, image_element, result_element, storable
from lmm.errors import FileReadError
from lmm.files import decode_document, read_bytes, replace_bytes
from lmm.models.port import Image, ToolCall, ToolResult

FOLDER = ".chatmd"
_MEDIA_TYPES = {suffix: media_type for media_type, suffix in SUFFIXES.items()}
_NAME = re.compile(rf"{re.escape(FOLDER)}/[0-9a-f]{{32}}\.[a-z]+")


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

    def result(self, result: ToolResult) -> Element:
        """A result as an element, its text and images stored."""
        result = replace(result, call=storable(result.call), name=storable(result.name), text=storable(result.text))
        if self.folder is None:
            return result_element(result)
        stored = "" if self.inline or not result.text else self._store(result.text.encode("utf-8"), ".txt")
        element = result_element(replace(result, images=()), stored_at=stored)
        return replace(element, children=(*element.children, *map(self._image, result.images)))

    def read(self, parts: Iterable[Doc | Img | SubAgent]) -> dict[Doc | Img | SubAgent, str | Image]:
        """What those of `parts` stand for that are payloads.

        Raises:
            ChatmdError: a file is not there any more.
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
            data = read_bytes(path)
        except FileReadError as error:
            raise ChatmdError(
                f"{part.src}: {error.message}", where=part.span.where, hint="move it with this file"
            ) from error
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
        path = self.folder / name
        if path.parent.is_symlink():
            raise ChatmdError("this is a link, and nothing is written behind it", where=str(path.parent))
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_bytes(path, data)
        return name
