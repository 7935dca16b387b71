"""Reading HTML files. Nothing is fetched: images elsewhere stay links."""

from __future__ import annotations

from dataclasses import replace

from lmm.errors import FileReadError
from lmm.importing.epub_pages import with_scripts
from lmm.importing.html_page import decode_html, read_page
from lmm.importing.imported import Context, Imported, ImportedImage, first_title
from lmm.importing.pandoc import convert_html


def read(data: bytes, context: Context) -> Imported:
    """Convert an HTML page to markdown.

    Raises:
        FileReadError: there is no text in it.
    """
    images: list[ImportedImage] = []
    page = read_page(with_scripts(decode_html(data)), images, prefix=context.prefix, online=context.online)
    if page is None:
        hint = "pages made by scripts are empty files: save it from the browser as 'complete', or print it to PDF"
        raise FileReadError("there is no text in this page", hint=hint)
    document = convert_html(page.body, context)
    title = _title(page.title, document.body) if context.online else page.title
    notes = page.notes + document.notes
    return replace(page, body=document.body, title=title, images=tuple(images), notes=notes)


def _title(title: str, body: str) -> str:
    """Return a page's title without the name of its site: its first heading, if the title contains it."""
    first = first_title(body)
    return first if first and first in title else title
