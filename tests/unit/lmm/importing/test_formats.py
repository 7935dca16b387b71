"""What a document is, by its bytes, its type, its name."""

from __future__ import annotations

import pytest

from lmm.importing.formats import file_kind

ZIP = b"PK\x03\x04" + bytes(26)


@pytest.mark.parametrize(
    ("data", "name", "media_type", "suffix", "is_text"),
    [
        (b"<p>", "a.html", "", ".html", True),
        (b"<p>", "a", "text/html", ".html", True),
        (b"<p>", "a.html", "text/plain", ".html", True),  # as GitHub sends files
        (b"<p>", "a.md", "text/html", ".html", True),
        (b"\n<!DOCTYPE HTML>", "a", "", ".html", True),
        (b"<!doctype html>", "a.md", "", "", True),
        (b"<!doctype html>", "a.txt", "text/plain", "", True),
        (b"# A", "a.md", "text/markdown", "", True),
        (b"{}", "a.ipynb", "application/json", ".ipynb", True),
        (b"{}", "a.json", "application/json", "", True),
        (b"%PDF-1.4", "a.txt", "text/plain", ".pdf", False),
        (ZIP, "a.docx", "", ".docx", False),
        (ZIP + b"mimetypeapplication/epub+zip", "a", "", ".epub", False),
        (ZIP + b"[Content_Types].xml word/document.xml", "a", "", ".docx", False),
        (ZIP + b"[Content_Types].xml ppt/presentation.xml", "a", "", ".pptx", False),
        (ZIP + b"[Content_Types].xml xl/workbook.xml", "a.zip", "", ".xlsx", False),
        (ZIP + b"mimetypeapplication/vnd.oasis.opendocument.text", "a", "", ".odt", False),
        (ZIP, "a", "application/vnd.openxmlformats-officedocument.presentationml.presentation", ".pptx", False),
        (b"{\\rtf1 a}", "a.txt", "text/plain", ".rtf", False),
        (b"\\section{A}", "a.tex", "application/x-tex", "", True),
        (ZIP, "a.zip", "", "", False),
        (b"\x89PNG\r\n", "a.txt", "", "", False),
        (b"a\0b", "a.txt", "text/plain", "", False),
        ("é".encode("utf-16"), "a.txt", "", "", True),
        (b"", "a.txt", "", "", True),
    ],
)
def test_kinds(data: bytes, name: str, media_type: str, suffix: str, is_text: bool) -> None:
    kind = file_kind(data, name=name, media_type=media_type)
    assert (kind.suffix, kind.is_text) == (suffix, is_text)
