"""Which pictures a text refers to, and what kind of picture some data are."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

BEGINNING = 1024
"""Bytes of a file that tell its kind."""
_MARKS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Nothing that was read is read in another way when the rest does not fit, and nothing is read without end: a stranger's
# text may be made so that it never fits.
_SVG = re.compile(rb"\s*+(?>(?:<\?xml[^>]*+>|<!--.*?-->|<!DOCTYPE svg[^>]*+>)\s*+)*+<svg[\s>]", re.DOTALL)
_REFERENCE = re.compile(
    r"!\[[^\]]{0,1000}+\]\(\s{0,100}+<?+([^)>\s]{1,1000}+(?: [^)>\"'\s]{1,1000}+){0,50}+)>?+[^)]{0,1000}+\)"
)


def media_type(beginning: bytes) -> str:
    """The media type of a picture that browsers show, by its first bytes; empty if it is none.

    >>> media_type(b"GIF89a..."), media_type(b'<?xml version="1.0"?>\\n<svg xmlns="x">'), media_type(b"<html><svg>")
    ('image/gif', 'image/svg+xml', '')
    """
    for mark, kind in _MARKS:
        if beginning.startswith(mark):
            return kind
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    if beginning[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return "image/svg+xml" if _SVG.match(beginning.removeprefix(b"\xef\xbb\xbf")) else ""


def references(markdown: str) -> set[str]:
    """The files of pictures that a text refers to, as `file_of` gives them.

    >>> sorted(references("![A leaf](figures/leaf%20green.png){width=50%} ![](https://example.org/x.png)"))
    ['figures/leaf green.png']
    """
    return {file for found in _REFERENCE.findall(markdown) if (file := file_of(found))}


def file_of(address: str) -> str:
    """The relative path in the address of a picture; empty if it leads elsewhere, or is none.

    >>> file_of("figures/a%20b.png?x#y"), file_of("//host/a.png"), file_of("/etc/a.png"), file_of("c:/a.png")
    ('figures/a b.png', '', '', '')
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    file = unquote(parts.path)
    if parts.scheme or parts.netloc or file.startswith("/") or "\\" in file or "\0" in file:
        return ""
    return file
