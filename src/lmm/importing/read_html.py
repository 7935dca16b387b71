"""HTML files. Nothing is fetched: images that lie elsewhere stay links."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import unquote_to_bytes

from lmm.errors import FileReadError
from lmm.importing.elements import MarkupElement, Node, element, find, rewrite, words_of
from lmm.importing.html_tree import decode_html, parse_html
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage
from lmm.importing.to_markdown import to_markdown
from lmm.importing.web_page import read_page

_DATA = re.compile(r"data:image/([\w.+-]+)((?:;[\w=.+-]+)*),(.*)", re.DOTALL)
SUFFIXES = {"png": ".png", "jpeg": ".jpg", "jpg": ".jpg", "gif": ".gif", "webp": ".webp", "svg+xml": ".svg",
            "bmp": ".bmp", "tiff": ".tiff", "avif": ".avif", "x-emf": ".emf", "x-wmf": ".wmf"}  # fmt: skip


def read(data: bytes, context: Context) -> Imported:
    """An HTML page as markdown.

    Raises:
        FileReadError: there is nothing to read in it.
    """
    page = read_page(parse_html(decode_html(data)), prefix=context.prefix)
    body, images = take_images(page.body)
    if not words_of(body) and next(find(body, "img"), None) is None:
        hint = (
            "a page that a script fills is empty as a file: save it from the browser as 'complete' or print it to PDF"
        )
        raise FileReadError("there is no text in this page", hint=hint)
    return Imported(to_markdown(body), page.title, page.language, images, page.notes)


def take_images(body: MarkupElement) -> tuple[MarkupElement, tuple[ImportedImage, ...]]:
    """The tree with the images that its ``data:`` addresses hold taken out."""
    images: list[ImportedImage] = []

    def change(node: MarkupElement) -> Iterable[Node]:
        if node.tag != "img" or not node.get("src").lstrip().startswith("data:"):
            return [node]
        image = image_of(node.get("src"))
        if image is None:
            return []
        images.append(image)
        return [replace(node, attributes={**node.attributes, "src": f"{IMAGE}{len(images) - 1}"})]

    nodes = rewrite(body, change)
    return next((node for node in nodes if isinstance(node, MarkupElement)), element("body")), tuple(images)


def image_of(address: str) -> ImportedImage | None:
    """The image in a ``data:`` address, or None if it holds none that can be read.

    >>> image_of("data:image/gif;base64,R0lGODlh")
    ImportedImage(data=b'GIF89a', suffix='.gif')
    """
    match = _DATA.match(address.strip())
    if match is None or match[1] not in SUFFIXES:
        return None
    try:
        raw = unquote_to_bytes(match[3])
        data = base64.b64decode(raw, validate=False) if ";base64" in match[2] else raw
    except (binascii.Error, ValueError):
        return None
    return ImportedImage(data, SUFFIXES[match[1]])
