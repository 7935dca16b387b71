"""What pictures bytes are, whatever they are called."""

from __future__ import annotations

import re
from typing import NamedTuple


class PictureType(NamedTuple):
    """A kind of picture: its media type, the ending of its files, and how it begins."""

    media_type: str
    suffix: str
    start: bytes


# What was read of an SVG is not read in another way when the rest does not fit: it may be made so that it never fits.
_TYPES = (
    PictureType("image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    PictureType("image/jpeg", ".jpg", rb"\xff\xd8\xff"),
    PictureType("image/gif", ".gif", rb"GIF8[79]a"),
    PictureType("image/webp", ".webp", rb"RIFF....WEBP"),
    PictureType("image/avif", ".avif", rb"....ftypavi[fs]"),
    PictureType("image/heic", ".heic", rb"....ftyp(?:hei[cx]|mif1)"),
    PictureType("image/bmp", ".bmp", rb"BM....\0\0\0\0"),
    PictureType("image/tiff", ".tiff", rb"II\*\0|MM\0\*"),
    PictureType("image/emf", ".emf", rb"\x01\0\0\0.{36} EMF"),
    PictureType("image/wmf", ".wmf", rb"\xd7\xcd\xc6\x9a|[\x01\x02]\0\x09\0\0[\x01\x03]"),
    PictureType(
        "image/svg+xml",
        ".svg",
        rb"(?:\xef\xbb\xbf)?+\s*+(?>(?:<\?xml[^>]*+>|<!--.*?-->|<!DOCTYPE svg[^>]*+>)\s*+)*+<svg[\s>]",
    ),
)
BEGINNING = 1024
"""Bytes of a file that tell its kind."""


def picture_type(data: bytes) -> PictureType | None:
    """The kind of a picture, by its first bytes; None if it is none.

    >>> [kind and kind.suffix for kind in map(picture_type, (b"GIF89a", b"<?xml?> <svg>", b"<html><svg>"))]
    ['.gif', '.svg', None]
    """
    return next((kind for kind in _TYPES if re.match(kind.start, data[:BEGINNING], re.DOTALL)), None)
