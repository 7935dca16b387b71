"""Results of MCP tools as text and images for a model. The SDK's values are read by their attributes only."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from lmm.messages import Attachment, Image, Message, ToolOutput, render

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # what every provider with eyes takes
_LARGEST = 5_000_000  # bytes of an image


def output_of(result: Any) -> ToolOutput:
    """What a ``CallToolResult`` says: its texts in order, what it links to, and its images.

    Sound and other data are told of in a sentence, as no model gets them from a tool.
    """
    texts: list[str] = []
    images: list[Image] = []
    for block in result.content:
        value = _READERS.get(block.type, _unknown)(block)
        if isinstance(value, Image):
            images.append(value)
        elif value:
            texts.append(value)
    if not texts and not images and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = "\n\n".join(texts)
    if result.is_error and not text:
        text = "The tool failed, and did not say why."
    return ToolOutput(text, tuple(images), failed=bool(result.is_error))


def _text(block: Any) -> str:
    return str(block.text)


def _image(block: Any) -> Image | str:
    return _image_from(block.data, block.mime_type, "an image")


def _image_from(data: str, media_type: str, what: str) -> Image | str:
    decoded = _decoded(data)
    if decoded is None:
        return f"[{what} ({media_type}) that cannot be decoded]"
    if media_type not in _IMAGES or len(decoded) > _LARGEST:
        return f"[{what} that is not shown: {media_type}, {_size(len(decoded))}]"
    return Image(decoded, media_type=media_type)


def _audio(block: Any) -> str:
    return f"[a sound that is not played: {block.mime_type}, {_size(len(_decoded(block.data) or b''))}]"


def _link(block: Any) -> str:
    parts = [block.uri, block.mime_type or "", _size(block.size) if block.size is not None else ""]
    told = f": {block.description}" if block.description else ""
    return f"[{block.title or block.name}: {', '.join(part for part in parts if part)}]{told}"


def _resource(block: Any) -> Image | str:
    resource = block.resource
    media_type = resource.mime_type or ""
    if (text := getattr(resource, "text", None)) is not None:
        return render(Message("tool", "", (Attachment(str(text), "resource", str(resource.uri)),))).rstrip("\n")
    if media_type in _IMAGES:
        return _image_from(resource.blob, media_type, f"an image, {resource.uri},")
    size = _size(len(_decoded(resource.blob) or b""))
    return f"[{resource.uri}: data that is not shown: {', '.join(p for p in (media_type, size) if p)}]"


def _unknown(block: Any) -> str:
    return f"[something of the kind '{block.type}', which is not shown]"


_READERS = {"text": _text, "image": _image, "audio": _audio, "resource_link": _link, "resource": _resource}


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _size(count: int) -> str:
    """A number of bytes for people.

    >>> _size(12), _size(2_500_000)
    ('12 bytes', '2.5 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1000:.3g} kB" if count < 1_000_000 else f"{count / 1_000_000:.3g} MB"
