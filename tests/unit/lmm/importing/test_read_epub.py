"""Books, packed by hand."""

from __future__ import annotations

import io
import zipfile

import pytest

from lmm.errors import FileReadError
from lmm.importing.imported import Context, Imported, ImportedImage
from lmm.importing.pandoc import find_pandoc
from lmm.importing.read_epub import read

PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>A Book</dc:title><dc:language>fr</dc:language></metadata>
<manifest><item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="b" href="text/b%20c.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/a.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>"""
FILES = {
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    "OPS/book.opf": PACKAGE,
    "OPS/nav.xhtml": "<html><body><nav><a href='text/a.xhtml'>One</a></nav></body></html>",
    "OPS/text/a.xhtml": '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title/>'
    '<script src="x.js"/></head><body><h1><a id="x"/>One</h1><p>See <a href="b%20c.xhtml#y">Two</a> and '
    '<a href="#x">here</a>. <img src="../img/dot.png" alt="dot"/> <img src="../../../../etc/passwd"/></p>'
    "</body></html>",
    "OPS/text/b c.xhtml": '<html><body><h1 id="x">Two</h1><p><img src="../img/dot.png"/><img src="https://x.org/a.png"/>'
    "</p></body></html>",
    "OPS/img/dot.png": "GIF89a",
    "../../evil.txt": "evil",
}


def book(**changes: str) -> Imported:
    """The book with some files replaced or added; `OPS__a` is `OPS/a`."""
    files = FILES | {name.replace("__", "/"): text for name, text in changes.items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return read(out.getvalue(), Context("a.epub", "", "EPUB", "epub", find_pandoc("epub").program))


def test_chapters_in_reading_order_with_their_images() -> None:
    """Links to other chapters are text, as these are no files any more; no image comes from elsewhere."""
    document = book()
    assert (document.title, document.language) == ("A Book", "fr")
    assert document.body == (
        "# One {#a.xhtml_x}\n\nSee Two and [here](#a.xhtml_x). ![dot](lmm-image:0)\n\n# Two\n\n![](lmm-image:0)\n"
    )
    assert document.images == (ImportedImage(b"GIF89a"),)


def test_titles_that_stand_only_in_the_contents_are_headings() -> None:
    """The paragraph that says the same is the heading; else the title comes before the text."""
    pages = {"OPS__text__a.xhtml": "<html><body><p class='t'>One</p><p>Text.</p></body></html>"}
    pages["OPS__text__b c.xhtml"] = (
        "<html><body><p>More text.</p><pre><span class=linenos>1</span>x</pre></body></html>"
    )
    nav = "<html><body><nav><ol><li><a href='text/a.xhtml'>One</a><ol><li><a href='text/b%20c.xhtml'>Two</a></li></ol>"
    document = book(**pages, **{"OPS__nav.xhtml": f"{nav}</li></ol></nav></body></html>"})
    assert document.body == "# One\n\nText.\n\n## Two\n\nMore text.\n\n```\nx\n```\n"


def test_notes_in_a_file_of_their_own_are_notes() -> None:
    """Where the link says that it leads to a note, or the note leads back."""
    page = "<html><body><h1>One</h1><p>Text.<sup><a href='b%20c.xhtml#n' id='r'>1</a></sup></p></body></html>"
    notes = "<html><body><p id='n'><a href='a.xhtml#r'>1.</a> A note.</p></body></html>"
    document = book(**{"OPS__text__a.xhtml": page.replace("'", '"'), "OPS__text__b c.xhtml": notes.replace("'", '"')})
    assert document.body == "# One\n\nText.[^1]\n\n[^1]: A note.\n"


def test_notes_of_older_books_and_a_list_of_pages() -> None:
    """Notes on the same page, without types of EPUB 3; what the contents call a page of the book is no mark."""
    page = "<html><body><h1>One</h1><p>Text<a href='#n' id='r'>1</a>.</p><ol><li id='n'>A note."
    page = page.replace("'", '"') + '<a href="#r">b</a></li></ol></body></html>'
    nav = '<nav epub:type="page-list"><ol><li><a href="text/b c.xhtml#n2">n2</a></li></ol></nav>'
    more = '<p>More<a epub:type="noteref" href="#n2">2</a>.</p><aside epub:type="footnote" id="n2">Another.</aside>'
    pages = {"OPS__text__a.xhtml": page, "OPS__text__b c.xhtml": f"<html><body>{more}</body></html>"}
    document = book(**pages, **{"OPS__nav.xhtml": f"<html xmlns:epub='e'><body>{nav}</body></html>"})
    assert document.body == "# One\n\nText[^1].\n\nMore[^2].\n\n[^1]: A note.\n\n[^2]: Another.\n"


def test_a_protected_book_is_refused_and_scrambled_fonts_are_not() -> None:
    """What the publisher protects stays so."""
    method = '<encryption xmlns="e"><EncryptedData><EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
    book(**{"META-INF__encryption.xml": method.format("http://www.idpf.org/2008/embedding")})
    with pytest.raises(FileReadError, match="copy-protected"):
        book(**{"META-INF__encryption.xml": method.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")})


def test_a_book_of_pictures_is_refused() -> None:
    """There is no text to import."""
    empty = "<html><body><img src='x.png'/></body></html>"
    with pytest.raises(FileReadError, match="pictures"):
        book(**{"OPS__text__a.xhtml": empty, "OPS__text__b c.xhtml": empty})


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("<p>a</p>" * 400_000, "its pages have more than 2 MB unpacked"),
        (f'<table><tr><td colspan="200">{"leaf " * 30_000}</td><td>b</td></tr></table>', "letters"),
        ('<table><tr><td colspan="999999" rowspan="999999">a</td></tr></table>', "cells"),
        ("<div>" * 20_000, "open at once"),
    ],
    ids=["pages", "letters", "cells", "depth"],
)
def test_a_small_book_that_grows_is_refused(page: str, says: str) -> None:
    """Before it is unpacked, parsed or written."""
    with pytest.raises(FileReadError, match=says):
        book(**{"OPS__text__a.xhtml": f"<html><body>{page}</body></html>"})
