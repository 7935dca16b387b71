"""Images by their bytes: of which kind they are, whatever a file is called."""

from __future__ import annotations

from chatmd.errors import ChatmdError
from chatmd.sidecar import SUFFIXES
from lmm.importing.formats import file_kind
from lmm.messages import Image
from lmm.pictures import picture_type
from lmm.terminal import megabytes


def image_from(data: bytes, *, limit: int) -> Image:
    """The image that bytes are.

    >>> image_from(b"GIF89a" + bytes(10), limit=100).media_type
    'image/gif'

    Raises:
        ChatmdError: none that models see, empty, or of more than `limit` bytes.
    """
    if len(data) > limit:
        hint = "make it smaller, or allow more: fetch_limit under [chatmd] in config.toml"
        raise ChatmdError(f"this image has {megabytes(len(data))}; the limit is {megabytes(limit)}", hint=hint)
    kind = picture_type(data)
    if kind and kind.media_type in SUFFIXES:
        return Image(data, media_type=kind.media_type)
    what = (
        f"an image in the format {kind.suffix[1:].upper()}"
        if kind
        else f"{file_kind(data, name='').name}, not an image"
    )
    raise ChatmdError(
        f"this is {what if data else 'an empty file'}", hint="models support PNG, JPEG, GIF and WebP: convert it"
    )


def describe_image(image: Image) -> str:
    """An image for people.

    >>> describe_image(Image(b"GIF89a", media_type="image/gif"))
    'GIF, 6 bytes'
    """
    if image.url:
        return f"image at {image.url}"
    return f"{image.media_type.removeprefix('image/').upper()}, {megabytes(len(image.data))}"
