"""Images by their bytes: of which kind they are, whatever a file is called."""

from __future__ import annotations

from chatmd.errors import ChatmdError
from chatmd.sidecar import SUFFIXES
from lmm.messages import Image
from lmm.pictures import picture_type
from lmm.terminal import megabytes

# What people try all the same, by what their files begin with.
_OTHERS = {b"%PDF-": "a PDF file", b"\0\0\x01\0": "an icon", b"<?xml": "XML"}


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
    kind = picture_type(data)
    return kind.media_type if kind and kind.media_type in SUFFIXES else ""


def _what(data: bytes) -> str:
    if not data:
        return "an empty file"
    if kind := picture_type(data):
        return f"an image in the format {kind.suffix[1:].upper()}"
    return next((what for mark, what in _OTHERS.items() if data.startswith(mark)), "no image")


def describe_image(image: Image) -> str:
    """An image for people.

    >>> describe_image(Image(b"GIF89a", media_type="image/gif"))
    'GIF, 6 bytes'
    """
    if image.url:
        return f"image at {image.url}"
    return f"{image.media_type.removeprefix('image/').upper()}, {megabytes(len(image.data))}"
