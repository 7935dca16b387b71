"""The format of images is detected from their bytes."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from chatmd.content.documents import image_from
from chatmd.errors import ChatmdError


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


# The smallest files of their kinds.
JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    + b"\xff\xc0\0\x0b\x08\0\x05\0\x07\1\1\x11\0"
    + b"\xff\xda\0\x02\xff\xd9"
)
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(3, 2), "image/png"),
        (JPEG, "image/jpeg"),
        (b"GIF87a\x03\0\x02\0\0\0\0;", "image/gif"),
        (WEBP, "image/webp"),
    ],
)
def test_kinds(data: bytes, media_type: str) -> None:
    assert image_from(data, limit=10_000).media_type == media_type


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is an empty file"),
        (b" <svg xmlns=''>", "in the format SVG"),
        (b"BM" + bytes(12), "in the format BMP"),
        (b"\0\0\0\x18ftypheic", "in the format HEIC"),
        (b"# Notes", "this is text, not an image"),
        (b"GIF89a", "this image is damaged"),
        (JPEG[:-1], "this image is damaged"),
        (JPEG.replace(b"\xff\xc0", b"\xff\xc4"), "this image is damaged"),
        (WEBP[:-1], "this image is damaged"),
        (png(8, 8)[:-13], "this image is damaged"),
        (png(8001, 1), "this image has 8,001 × 1 pixels; models take up to 8,000 on a side"),
        (png(90, 90)[:60] * 200, "this image has 12 kB; the limit is 10 kB"),
    ],
)
def test_what_models_do_not_see(data: bytes, message: str) -> None:
    with pytest.raises(ChatmdError, match=message):
        image_from(data, limit=10_000)
