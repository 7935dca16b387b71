"""Images for a model: their format and size are read from their bytes, not from the file name."""

from __future__ import annotations

import struct

from chatmd.errors import ChatmdError
from chatmd.sidecar import SUFFIXES
from lmm.importing.formats import file_kind
from lmm.messages import Image, picture_type
from lmm.terminal import megabytes

_LARGEST = 8000  # pixels of a side: Anthropic's limit, the lowest
_FRAMES = frozenset(range(0xFFC0, 0xFFD0)) - {0xFFC4, 0xFFC8, 0xFFCC}  # the segments of JPEG that contain the size


def image_from(data: bytes, *, limit: int) -> Image:
    """Make an image from bytes that any provider takes; one that it refuses would end the conversation for good.

    >>> image_from(b"GIF89a\\x03\\0\\x02\\0\\0\\0\\0;", limit=100).media_type
    'image/gif'

    Raises:
        ChatmdError: it is damaged or empty, not in a format that models support, has more than `limit` bytes, or more
            than 8,000 pixels on a side.
    """
    if len(data) > limit:
        hint = "make it smaller, or allow more: fetch_limit under [chatmd] in config.toml"
        raise ChatmdError(f"this image has {megabytes(len(data))}; the limit is {megabytes(limit)}", hint=hint)
    kind = picture_type(data)
    if not (kind and kind.media_type in SUFFIXES):
        if not data:
            what = "an empty file"
        elif kind:
            what = f"an image in the format {kind.suffix[1:].upper()}"
        else:
            what = f"{file_kind(data, name='').name}, not an image"
        raise ChatmdError(f"this is {what}", hint="models support PNG, JPEG, GIF and WebP: convert it")
    try:
        width, height = image_size(data, kind.media_type)
    except (struct.error, IndexError, ValueError):
        raise ChatmdError("this image is damaged: its end or its size is missing", hint="save it again") from None
    if max(width, height) > _LARGEST:
        raise ChatmdError(
            f"this image has {width:,} × {height:,} pixels; models take up to {_LARGEST:,} on a side",
            hint="make it smaller",
        )
    return Image(data, media_type=kind.media_type)


def image_size(data: bytes, media_type: str) -> tuple[int, int]:
    """Return the width and height of a PNG, JPEG, GIF or WebP image, in pixels.

    Raises:
        ValueError, IndexError, struct.error: it is not whole.
    """
    at, size = 2, (0, 0)
    if media_type == "image/png":
        at, size = 8, struct.unpack_from(">II", data, 16)
        while data[at + 4 : at + 8] != b"IEND":
            at += struct.unpack_from(">I", data, at)[0] + 12
    elif media_type == "image/gif":
        at, size = 13, struct.unpack_from("<HH", data, 6)  # some have no mark at their end, and are taken all the same
    elif media_type == "image/webp":
        at = struct.unpack_from("<I", data, 4)[0] + 7
        size = _webp_size(data)
    else:
        while (marker := struct.unpack_from(">H", data, at)[0]) != 0xFFDA:  # the image itself begins there
            if marker in _FRAMES:
                height, width = struct.unpack_from(">HH", data, at + 5)
                size = width, height
            at += 1 if marker == 0xFFFF else struct.unpack_from(">H", data, at + 2)[0] + 2
            if marker < 0xFF01:
                raise ValueError("this is not JPEG")
        at = data.rindex(b"\xff\xd9", at)
    if at >= len(data) or not all(size):
        raise ValueError("it is not whole")
    return size[0], size[1]


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1


def describe_image(image: Image) -> str:
    """Describe an image for people.

    >>> describe_image(Image(b"GIF89a", media_type="image/gif"))
    'GIF, 6 bytes'
    """
    if image.url:
        return f"image at {image.url}"
    return f"{image.media_type.removeprefix('image/').upper()}, {megabytes(len(image.data))}"
