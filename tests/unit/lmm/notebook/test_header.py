"""Completing a header: what is added, where, and what is left alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from strategies import documents, written_documents

from lmm import Document
from lmm.markdown import ErrorBlock, HeaderBlock, parse_markdown_text
from lmm.markdown.blocks import ForeignHeader
from lmm.markdown.lookalikes import find_lookalikes
from lmm.notebook.header import make_docid, missing_keys


def completed(text: str) -> str:
    """`text` with its header completed; the file is called notes.md."""
    document = Document.from_text(text, title="notes")
    document.complete()
    return document.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "---\ntitle: notes\ndocid: ID\n---\n"),
        ("Text.\n", "---\ntitle: notes\ndocid: ID\n---\n\nText.\n"),
        ("Text.\n\n## Leaves {#l}\n", "---\ntitle: Leaves\ndocid: ID\n---\n\nText.\n\n## Leaves {#l}\n"),
        ("# A: b\n", '---\ntitle: "A: b"\ndocid: ID\n---\n\n# A: b\n'),
        ("\ufeff# A\r\n", "\ufeff---\r\ntitle: A\r\ndocid: ID\r\n---\r\n\r\n# A\r\n"),
        ("---\ntitle: T # mine\n---\nText.\n", "---\ntitle: T # mine\ndocid: ID\n---\nText.\n"),
        ("---\n# c\nlang: de\n---\n", "---\n# c\nlang: de\ntitle: notes\ndocid: ID\n---\n"),
        ("---\n?: why?\n---\n# A\n", "---\n?: why?\ntitle: A\ndocid: ID\n---\n# A\n"),
        ("---\n- lang: de\n---\n", "---\n- lang: de\n- title: notes\n- docid: ID\n---\n"),
        ("---\ntitle:\ndocid: x\n---\n# A\n", "---\ntitle: A\ndocid: x\n---\n# A\n"),
        ("---\ntitle: ''\ndocid: ''\n---\n# A\n", "---\ntitle: ''\ndocid: ID\n---\n# A\n"),
        ("---\ntitle=: T\n~docid: x\n---\n", "---\ntitle=: T\n~docid: x\n---\n"),
        ("---\ntitle: T\ndocid: x\n---\nText.", "---\ntitle: T\ndocid: x\n---\nText."),
        ("---\ntitle: a: b\n---\nText.\n", "---\ntitle: a: b\n---\nText.\n"),
        ("---\n? a\n: b\n---\nText.\n", "---\n? a\n: b\n---\nText.\n"),
        *((torn, torn) for torn in (
            '+++\ntitle = "T"\n\n# A\n', '{"title": "T",}\n\n# A\n', '{\n "title": "T"\n\n# A\n',
            "---\ntitle: T\n\n# A\n\n---\n?: why?\n---\nText.\n",
        )),
    ],
    ids=[
        "empty", "text", "heading", "quoted", "BOM and CRLF", "docid only", "end of the header", "with a prompt",
        "list form", "no title yet", "empty on purpose", "the author's and the model's spelling", "complete",
        "broken", "uneditable", "TOML without end", "JSON", "JSON without end", "YAML without end",
    ],
)  # fmt: skip
def test_complete_header(text: str, expected: str) -> None:
    """Title and docid are added where they are missing; nothing that is there changes."""
    assert re.sub(r"notes-[0-9a-f]{6}", "ID", completed(text)) == expected


@given(written_documents() | documents())
def test_completing_only_adds_lines(text: str) -> None:
    """Every byte of the document stays, in order; completing again does nothing; a header then says both."""
    result = completed(text)
    rest = iter(result.removeprefix("\ufeff"))
    empty = [
        block.source for block in parse_markdown_text(text)[:1] if "title" in block.source or "docid" in block.source
    ]
    assert empty or all(any(one == other for other in rest) for one in text.removeprefix("\ufeff"))
    assert completed(result) == result
    first = parse_markdown_text(result)[0]
    unread = any(one.header for one in find_lookalikes(parse_markdown_text(result)))
    assert isinstance(first, HeaderBlock | ErrorBlock | ForeignHeader) or unread
    if result != text:
        assert isinstance(first, HeaderBlock)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", ["title", "docid"]),
        ("# A\n", ["title", "docid"]),
        ("---\ntitle: 0\n---\n", ["docid"]),
        ("---\ntitle: ''\ndocid: null\n---\n", ["docid"]),
        ("---\ndocid=: x\n~title: y\n---\n", []),
    ],
)
def test_missing_keys(text: str, missing: list[str]) -> None:
    """A key counts as there under any spelling, unless it is empty."""
    assert missing_keys(parse_markdown_text(text)) == missing


@pytest.mark.parametrize(
    ("text", "title"),
    [("# A\n\n## B\n", "A"), ("## B 1\n\n## B 2\n", "notes"), ("Text.\n", "notes"), ("```\n# not\n```\n", "notes")],
)
def test_default_title(text: str, title: str) -> None:
    """The only topmost heading's, else the file's name."""
    assert completed(text).startswith(f"---\ntitle: {title}\n")


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("notes", "notes"),
        ("01 Linear Models", "01-linear-models"),
        ("Größe & Maß", "groe-ma"),
        ("naïve_bayes.v2", "naive-bayes-v2"),
        ("日本", "document"),
        ("x" * 90, "x" * 40),
    ],
)
def test_docid(name: str, slug: str) -> None:
    """Readable, and another one for another text under the same name."""
    assert re.fullmatch(rf"{re.escape(slug)}-[0-9a-f]{{6}}", make_docid(name, "text"))
    assert make_docid(name, "text") == make_docid(name, "text") != make_docid(name, "other text")
