"""HTML files. Nothing is fetched: images that lie elsewhere stay links."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from urllib.parse import unquote_to_bytes

from lmm.errors import FileReadError
from lmm.importing.elements import MarkupElement, Node, find, rewrite, words_of
from lmm.importing.html_tree import decode_html, parse_html
from lmm.importing.imported import IMAGE, LINK, Context, Imported, ImportedImage
from lmm.importing.main_text import main_text
from lmm.importing.to_markdown import to_markdown
from lmm.importing.web_page import links_of, read_page

_DATA = re.compile(r"data:image/([\w.+-]+)((?:;[\w=.+-]+)*),(.*)", re.DOTALL)
SUFFIXES = {"png": ".png", "jpeg": ".jpg", "jpg": ".jpg", "gif": ".gif", "webp": ".webp", "svg+xml": ".svg",
            "bmp": ".bmp", "tiff": ".tiff", "avif": ".avif", "x-emf": ".emf", "x-wmf": ".wmf"}  # fmt: skip


def read(data: bytes, context: Context) -> Imported:
    """An HTML page as markdown.

    Raises:
        FileReadError: there is nothing to read in it.
    """
    html = decode_html(data)
    root = parse_html(html)
    text, unused = main_text(html)
    page = read_page(root, prefix=context.prefix, main_text=text)
    body, images = take_images(page.body, remote=context.online)
    links: tuple[str, ...] = ()
    if context.online:
        body, links = _take_links(body)
    if not words_of(body) and next(find(body, "img"), None) is None:
        hint = (
            "a page that a script fills is empty as a file: save it from the browser as 'complete' or print it to PDF"
        )
        raise FileReadError("there is no text in this page", hint=hint)
    return Imported(
        to_markdown(body, all_ids=context.online),
        _title(page.title, body) if context.online else page.title,
        page.language,
        images,
        page.notes + ((unused,) if unused else ()),
        values=page.values,
        links=links,
        **(asdict(links_of(root, context.prefix)) if context.online else {}),
    )


def take_images(body: MarkupElement, *, remote: bool = False) -> tuple[MarkupElement, tuple[ImportedImage, ...]]:
    """The tree with the images that its ``data:`` addresses hold taken out; `remote` ones, too, by their addresses."""
    images: list[ImportedImage] = []
    numbers: dict[str, int] = {}

    def change(node: MarkupElement) -> Iterable[Node]:
        address = node.get("src").strip()
        if node.tag == "img" and remote and address.startswith(("http:", "https:")):
            image: ImportedImage | None = ImportedImage(b"", "", address)
        elif node.tag == "img" and address.startswith("data:"):
            image = image_of(address)
        else:
            return [node]
        if image is None:
            return []
        number = numbers.setdefault(address, len(images))
        if number == len(images):
            images.append(image)
        return [replace(node, attributes={**node.attributes, "src": f"{IMAGE}{number}"})]

    return rewrite(body, change), tuple(images)


def _take_links(body: MarkupElement) -> tuple[MarkupElement, tuple[str, ...]]:
    """The tree with a mark for each address that it links to."""
    links: dict[str, int] = {}

    def change(node: MarkupElement) -> Iterable[Node]:
        address = node.get("href").strip()
        if node.tag != "a" or not address.startswith(("http:", "https:")) or words_of(node) == address:
            return [node]
        number = links.setdefault(address, len(links))
        return [replace(node, attributes={**node.attributes, "href": f"{LINK}{number}"})]

    return rewrite(body, change), tuple(links)


def _title(title: str, body: MarkupElement) -> str:
    """What a page calls itself, without the name of its site: its first heading, if that is a part of it."""
    first = next((words_of(node) for node in find(body, "h1", "h2")), "")
    return first if first and first in title else title


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
