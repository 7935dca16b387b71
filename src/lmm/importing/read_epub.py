"""Electronic books: the chapters of an EPUB in reading order, each a page of XHTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote
from xml.etree import ElementTree

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local
from lmm.importing.elements import MarkupElement, Node, element, rewrite, words_of
from lmm.importing.html_tree import decode_html, parse_html
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage
from lmm.importing.read_html import SUFFIXES
from lmm.importing.to_markdown import to_markdown
from lmm.importing.web_page import read_page

_IMAGE_SUFFIXES = frozenset(SUFFIXES.values()) | {".jpeg"}
# Fonts may be scrambled by these in a book that anybody may read.
_FONT_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def read(data: bytes, context: Context) -> Imported:
    """A book as markdown.

    Raises:
        FileReadError: it is none, is damaged, is copy-protected, or has no text.
    """
    with Archive(data, kind="EPUB") as archive:
        _check_protection(archive)
        title, language, names = _book(archive)
        images: dict[str, int] = {}
        chapters = [_chapter(archive, name, number, images) for number, name in enumerate(names)]
        pictures = tuple(ImportedImage(archive.picture(name), PurePosixPath(name).suffix.lower()) for name in images)
    body = element("body", *chapters)
    if not words_of(body):
        hint = "the pages of this book are pictures: convert it to PDF and recognise the text, with ocrmypdf for one"
        raise FileReadError("there is no text in this book", hint=hint)
    return Imported(to_markdown(body), title, language, pictures)


def _check_protection(archive: Archive) -> None:
    name = "META-INF/encryption.xml"
    if name not in archive.names:
        return
    methods = {node.get("Algorithm", "") for node in archive.xml(name).iter() if local(node.tag) == "EncryptionMethod"}
    if any(not method.startswith(_FONT_ONLY) for method in methods):
        raise FileReadError("this book is copy-protected", hint="import a copy without protection")


def _book(archive: Archive) -> tuple[str, str, tuple[str, ...]]:
    """A book's title, its language, and the names that its chapters have in the archive."""
    container = archive.xml("META-INF/container.xml")
    package = next((node.get("full-path", "") for node in container.iter() if local(node.tag) == "rootfile"), "")
    root = archive.xml(package)
    items = {node.get("id"): node for node in _named(root, "item")}
    refs = [items[ref] for node in _named(root, "itemref") if (ref := node.get("idref")) in items]
    pages = [item for item in refs if "html" in item.get("media-type", "") and "nav" not in item.get("properties", "")]
    chapters = (_member(package, item.get("href", "")) for item in pages)
    known = tuple(dict.fromkeys(name for name in chapters if name in archive.names))
    return _text(root, "title"), _text(root, "language"), known


def _named(root: ElementTree.Element, name: str) -> Iterable[ElementTree.Element]:
    return (node for node in root.iter() if local(node.tag) == name)


def _text(root: ElementTree.Element, name: str) -> str:
    return next(((node.text or "").strip() for node in _named(root, name)), "")


def _member(base: str, address: str) -> str:
    """The archive's name of what a file in it links to; a way out of the archive leads nowhere."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(address.split("#")[0])))


def _chapter(archive: Archive, name: str, number: int, images: dict[str, int]) -> MarkupElement:
    """A chapter; ids in it get its number, as every chapter may have the same ones."""
    page = read_page(parse_html(decode_html(archive.page(name)), xhtml=True))

    def change(node: MarkupElement) -> Iterable[Node]:
        attributes = dict(node.attributes)
        if attributes.get("id"):
            attributes["id"] = _id(number, attributes["id"])
        if node.tag == "a" and attributes.get("href", "").startswith("#"):
            attributes["href"] = "#" + _id(number, attributes["href"][1:])
        elif node.tag == "a" and ":" not in attributes.get("href", ":"):
            attributes["href"] = ""  # to another chapter, which is no file any more
        if node.tag == "img":
            target = _member(name, attributes.get("src", ""))
            known = target in archive.names and PurePosixPath(target).suffix.lower() in _IMAGE_SUFFIXES
            attributes["src"] = f"{IMAGE}{images.setdefault(target, len(images))}" if known else ""
        return [replace(node, attributes=attributes)]

    return replace(rewrite(page.body, change), tag="section")


def _id(number: int, id: str) -> str:
    return f"c{number + 1}-{id}"
