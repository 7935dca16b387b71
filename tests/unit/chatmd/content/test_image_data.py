"""Images are known by their bytes."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from chatmd.content.images import ImageSize, image_from, media_type_of, size_of
from chatmd.errors import ChatmdError


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


# The smallest files of their kinds.
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0" + b"\xff\xc0\0\x0b\x08\0\x05\0\x07\1\1\x11\0" + b"\xff\xd9"
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
WEBP_LOSSY = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
WEBP_EXTENDED = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x02\0\0" + b"\x01\0\0"


@pytest.mark.parametrize(
    ("data", "media_type", "size"),
    [
        (png(3, 2), "image/png", ImageSize(3, 2)),
        (JPEG, "image/jpeg", ImageSize(7, 5)),
        (b"GIF87a\x03\0\x02\0", "image/gif", ImageSize(3, 2)),
        (WEBP, "image/webp", ImageSize(1, 1)),
        (WEBP_LOSSY, "image/webp", ImageSize(1, 1)),
        (WEBP_EXTENDED, "image/webp", ImageSize(3, 2)),
        (b"GIF89a", "image/gif", None),
        (b"\xff\xd8\xff\xe0\xff\xff", "image/jpeg", None),
    ],
)
def test_kind_and_size(data: bytes, media_type: str, size: ImageSize | None) -> None:
    assert (media_type_of(data), size_of(data)) == (media_type, size)
    assert image_from(data, limit=10_000).media_type == media_type


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is an empty file"),
        (b" <svg xmlns=''>", "an SVG drawing"),
        (b"BM....", "a BMP image"),
        (b"\0\0\0\x18ftypheic", "a HEIC or AVIF image"),
        (b"# Notes", "this is no image"),
        (png(90, 90)[:60] * 200, "this image has 12 kB; 10 kB are the most"),
    ],
)
def test_what_models_do_not_see(data: bytes, message: str) -> None:
    with pytest.raises(ChatmdError, match=message):
        image_from(data, limit=10_000)


@given(
    st.sampled_from([b"", b"GIF89a", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF0000WEBPVP8 "]),
    st.binary(max_size=60),
)
def test_any_bytes_can_be_looked_at(start: bytes, rest: bytes) -> None:
    size_of(start + rest)
