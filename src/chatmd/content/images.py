"""Images by their bytes: of which kind they are, and how large, whatever a file is called."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from chatmd.errors import ChatmdError
from lmm.fetch import megabytes
from lmm.messages import Image

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
# What people try all the same, by what their files begin with.
_OTHERS = {
    b"BM": "a BMP image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"%PDF-": "a PDF file",
    b"\0\0\x01\0": "an icon",
    b"<svg": "an SVG drawing",
    b"<?xml": "an SVG drawing or other XML",
}
_HEIF = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif")


@dataclass(frozen=True, slots=True)
class ImageSize:
    """Width and height in pixels."""

    width: int
    height: int


def image_from(data: bytes, *, limit: int) -> Image:
    """The image that bytes are.

    >>> image_from(b"GIF89a" + bytes(10), limit=100).media_type
    'image/gif'

    Raises:
        ChatmdError: none that models see, empty, or of more than `limit` bytes.
    """
    if len(data) > limit:
        hint = "make it smaller, or allow more: fetch_limit under [chatmd] in config.toml"
        raise ChatmdError(f"this image has {megabytes(len(data))}; {megabytes(limit)} are the most", hint=hint)
    media_type = media_type_of(data)
    if not media_type:
        raise ChatmdError(f"this is {_what(data)}", hint="models see PNG, JPEG, GIF and WebP: convert it")
    return Image(data, media_type=media_type)


def media_type_of(data: bytes) -> str:
    """The media type of an image, or the empty string if it is none that models see."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), "")


def _what(data: bytes) -> str:
    if not data:
        return "an empty file"
    if data[4:12] in _HEIF:
        return "a HEIC or AVIF image"
    start = data.lstrip()
    return next((what for mark, what in _OTHERS.items() if start.startswith(mark)), "no image")


def size_of(data: bytes) -> ImageSize | None:
    """How large an image is; None if its first bytes do not say.

    >>> size_of(b"GIF89a" + bytes([3, 0, 2, 0]))
    ImageSize(width=3, height=2)
    """
    try:
        return _READERS[media_type_of(data)](data)
    except (struct.error, KeyError, IndexError):
        return None


def _png(data: bytes) -> ImageSize | None:
    return ImageSize(*struct.unpack(">II", data[16:24]))


def _gif(data: bytes) -> ImageSize | None:
    return ImageSize(*struct.unpack("<HH", data[6:10]))


def _jpeg(data: bytes) -> ImageSize | None:
    """Segments follow each other, each with its length; those of frames have the size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int(struct.unpack(">H", data[at + 2 : at + 4])[0])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return ImageSize(width, height)
        at += 2 + length
    return None


def _webp(data: bytes) -> ImageSize | None:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return ImageSize(1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little"))
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return ImageSize(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if chunk == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return ImageSize(width & 0x3FFF, height & 0x3FFF)
    return None


_READERS = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}


def described(image: Image) -> str:
    """An image for people.

    >>> described(Image(b"GIF89a" + bytes([3, 0, 2, 0]), media_type="image/gif"))
    'GIF, 3 × 2 pixels, 10 bytes'
    """
    if image.url:
        return f"image at {image.url}"
    size = size_of(image.data)
    pixels = f", {size.width} × {size.height} pixels" if size else ""
    return f"{image.media_type.removeprefix('image/').upper()}{pixels}, {megabytes(len(image.data))}"
