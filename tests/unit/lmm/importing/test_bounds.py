"""A small book that was made to keep its reader busy: it is refused, or read in a time that grows with its size."""

from __future__ import annotations

import io
import zipfile

import pytest

from lmm.errors import FileReadError
from lmm.importing import read_epub
from lmm.importing.imported import Context

BOX = '<container><rootfile full-path="p.opf"/></container>'
ITEM = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
REF = '<itemref idref="a"/>'


def book(body: str, *, times: int = 1, box: str = BOX) -> bytes:
    """A book of one page, which the order of reading names so many times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/container.xml", box)
        archive.writestr("p.opf", f"<package>{ITEM}{REF * times}</package>")
        archive.writestr("a.xhtml", f"<html><body>{body}</body></html>")
    return out.getvalue()


def read(data: bytes) -> str:
    """The markdown of a book."""
    return read_epub.read(data, Context("a.epub", "")).body


def test_a_page_is_read_once() -> None:
    """However often the order names it: 5,000 times took minutes."""
    assert read(book("<p>Leaves.</p>", times=5_000)) == "Leaves.\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (book("<p>a</p>" * 400_000), "its pages have more than 2 MB unpacked"),  # 15 kB
        (book(f'<table><tr><td colspan="200">{"leaf " * 30_000}</td><td>b</td></tr></table>'), "letters"),
        (book("<p>a</p>", box="<!DOCTYPE" * 200_000), "no valid XML"),
    ],
    ids=["pages", "table", "doctypes"],
)
def test_what_grows_is_refused(data: bytes, says: str) -> None:
    """Before it is unpacked, or written."""
    assert len(data) < 163_000
    with pytest.raises(FileReadError, match=says):
        read(data)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>a" + "\xa0" * 200_000 + "b</p>", "a" + "\xa0" * 200_000 + "b"),
        ("<ul><li>a</li>" + "<i>b</i>" * 30_000 + "</ul>", "- a*" + "b" * 30_000 + "*"),
        ("<p>" + "<b>b</b> " * 30_000 + "</p>", "**b** " * 29_999 + "**b**"),
    ],
    ids=["blanks", "items", "runs"],
)
def test_what_is_long_is_read(body: str, text: str) -> None:
    """In linear time; a list with more beside its items, and blanks that do not break, took the square of it."""
    assert read(book(body)) == text + "\n"
