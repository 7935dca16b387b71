"""Documents become text: exact, stripped, or markdown with formulas and code."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chatmd.content.documents import (
    SourceDocument,
    as_markdown,
    language_of,
    plain_text,
    strip_markup,
)
from chatmd.errors import ChatmdError
from lmm.errors import FetchFailed
from lmm.fetch import FetchRules
from lmm.importing.imported import Imported
from lmm.importing.pandoc import find_pandoc

NOTES = r"""# Energy

Euler's $e^{i\pi}+1=0$ and $a_1 < b_2$.

$$\int_0^1 x^2\,dx = \frac{1}{3}$$

``` python
if a < b and c["x"]:
    print("<b>&amp;</b>")
```

| a | b\_c |
|:--|--:|
| $x$ | `y|z` |

- one
  - two
"""


def converted(raw: SourceDocument) -> Imported:
    return asyncio.run(as_markdown(raw, timeout=60, rules=FetchRules()))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (SourceDocument("é\r\nb\n".encode(), "a.md"), "é\r\nb\n"),
        (SourceDocument("\ufeffé".encode(), "a.md"), "é"),
        (SourceDocument("é".encode("utf-16"), "a.md"), "é"),
        (SourceDocument("é".encode("latin-1"), "a", "text/plain", "iso-8859-1"), "é"),
        (SourceDocument("“é”".encode("cp1252"), "a", "text/plain", "iso-8859-1"), "“é”"),
        (SourceDocument('<meta charset="latin1">é'.encode("latin-1"), "a.html"), '<meta charset="latin1">é'),
        (SourceDocument(b"", "a.md"), ""),
    ],
)
def test_texts_are_as_they_are(raw: SourceDocument, text: str) -> None:
    assert plain_text(raw) == text
    if not raw.kind.is_page:
        assert converted(raw).body == text


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            SourceDocument(b"ab\nc\xe9", "a.md"),
            r"byte 0xe9 is not UTF-8 \(line 2, column 2\) \(convert it, for example with: iconv",
        ),
        (SourceDocument(b"%PDF-1.7", "a.md"), r"this is a PDF file, not text \(add 'markdown' to convert it\)"),
        (SourceDocument(b"\x89PNG", "a.md"), r"this is a PNG image, not text \(a message"),
        (SourceDocument(b"a\0", "a.md"), "this is a binary file, not text"),
        (SourceDocument(b"x" * 9000 + b"\0", "a.md"), "this is a binary file, not text"),
        (SourceDocument(b"\xff", "a", "text/plain", "utf-8"), "byte 0xff is not UTF-8"),
        (SourceDocument(b"a", "a", "text/plain", "klingon"), "it claims to be in klingon, but is not"),
        (
            SourceDocument(b"\\ud800", "a", "text/plain", "unicode_escape"),
            "it claims to be in unicode_escape, but is not",
        ),
        (SourceDocument(b"a", "a", "text/plain", "zip"), "it claims to be in zip, but is not"),
    ],
)
def test_what_is_no_text(raw: SourceDocument, message: str) -> None:
    with pytest.raises(ChatmdError, match=message):
        plain_text(raw)
    with pytest.raises(ChatmdError):
        strip_markup(raw)


def test_strip_knows_pages_from_other_texts() -> None:
    data = b"<p>a\n<b>b</b>"
    assert strip_markup(SourceDocument(data, "a.md")) == "a\nb"
    assert strip_markup(SourceDocument(data, "a.html")) == "a b\n"


def test_notebooks() -> None:
    cells = [{"cell_type": "markdown", "source": "# A $x_1$"}, {"cell_type": "code", "source": "x = 1", "outputs": []}]
    raw = SourceDocument(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}).encode(), "a.ipynb")
    assert converted(raw).body == "# A $x_1$\n\n```python\nx = 1\n```\n"


def test_links_of_pages_are_whole() -> None:
    page = b"<p><a href='../b.html#c'>b</a> <a href='#d'>d</a> <a href='mailto:a@e.org'>m</a> <img src='//f.org/i.png'>"
    page += b"<h2 id=d>D</h2>"
    raw = SourceDocument(page, "p", "text/html", url="https://e.org/x/y/p")
    text = converted(raw).body
    assert "[b](https://e.org/x/b.html#c)" in text
    assert "[d](#d)" in text  # within the page, it stays what it was
    assert "mailto:a@e.org" in text
    assert "![](https://f.org/i.png)" in text
    based = converted(SourceDocument(b"<base href='/z/'>" + page, "p", "text/html", url="https://e.org/x/y/p")).body
    assert "[b](https://e.org/b.html#c)" in based


def test_a_server_knows_the_encoding_better_than_the_page() -> None:
    page = "<meta charset=latin1><p>é".encode()
    assert converted(SourceDocument(page, "p", "text/html", "utf-8")).body == "é\n"


def test_what_cannot_be_converted() -> None:
    with pytest.raises(ChatmdError, match="there is no text in this page"):
        converted(SourceDocument(b"<script>x</script>", "a.html"))
    with pytest.raises(ChatmdError, match="PDF"):
        converted(SourceDocument(b"%PDF-1.7 damaged", "a.pdf"))
    with pytest.raises(ChatmdError, match="this is a ZIP archive"):
        converted(SourceDocument(b"PK\x03\x04" + bytes(30), "a.md"))
    with pytest.raises(FetchFailed, match="it has more than 10 bytes"):
        asyncio.run(as_markdown(SourceDocument(b"<p>" + b"x" * 11, "a.html"), timeout=60, rules=FetchRules(limit=10)))


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="pandoc writes the pages")
@pytest.mark.parametrize("form", ["--mathml", "--mathjax", "--katex", "--webtex=?"])
def test_formulas_and_code_of_real_pages(form: str) -> None:
    """Formulas in each of Pandoc's HTML formats, and code, are restored."""
    command = ["pandoc", "-f", "markdown", "-t", "html", "-s", "--metadata", "title=Energy", form]
    page = subprocess.run(command, input=NOTES.encode(), capture_output=True, check=True).stdout
    text = converted(SourceDocument(page, "p", "text/html", url="https://e.org/")).body
    if not form.startswith("--webtex"):
        assert _spaceless(r"Euler’s $e^{i\pi}+1=0$ and $a_1 < b_2$.") in _spaceless(text)
        assert _spaceless(r"$$\int_0^1 x^2\,dx = \frac{1}{3}$$") in _spaceless(text)
    assert '```python\nif a < b and c["x"]:\n    print("<b>&amp;</b>")\n```' in text
    assert "| a " in text
    assert "- one\n  - two" in text


def _spaceless(text: str) -> str:
    """Remove white space and braces: MathML does not keep those of TeX."""
    return re.sub(r"[\s{}]|\\,", "", text)


@pytest.mark.parametrize(
    ("name", "media_type", "language"),
    [
        ("a.py", "", "py"),
        ("a.rs", "text/plain", "rs"),
        ("b", "text/csv", "csv"),
        ("README", "text/plain", ""),
        ("a.c++", "", ""),
    ],
)
def test_languages(name: str, media_type: str, language: str) -> None:
    assert language_of(name, media_type) == language


@pytest.mark.parametrize("suffix", ["docx", "pptx", "odt", "rtf"])
def test_what_lmm_import_reads_through_pandoc(suffix: str, tmp_path: Path) -> None:
    """The type is detected from the content; an older Pandoc is reported as too old."""
    pandoc = find_pandoc(suffix).program
    file = tmp_path / f"a.{suffix}"
    subprocess.run([pandoc, "-s", "-o", file], input=b"# Leaves\n\nGreen.\n", check=True)
    text = converted(SourceDocument(file.read_bytes(), "a")).body
    assert re.fullmatch("##? Leaves\n\n(<!-- slide 1 -->\n\n)?Green.\n", text)
