"""Text that is written as a paragraph is a paragraph, whatever is in it."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st
from strategies import texts

from lmm.importing.elements import element, to_html
from lmm.importing.imported import Context
from lmm.importing.markdown_text import plain
from lmm.importing.pandoc import convert_html
from lmm.markdown import TextBlock, parse_markdown_text
from lmm.markdown.blocks import fenced
from lmm.markdown.parse_markdown import unclosed_construct


@settings(max_examples=10)
@given(st.lists(texts(), min_size=30, max_size=30))
def test_any_text_is_a_paragraph(lines: list[str]) -> None:
    """No heading, no metadata, nothing that opens and takes in what follows. (What Pandoc reads: tests/edge.)"""
    paragraphs = (element("p", line, element("br"), line, element("p", "Next.")) for line in lines)
    written = convert_html(to_html(element("body", *paragraphs)), Context("a.html")).body
    blocks = parse_markdown_text(written)
    assert all(isinstance(block, TextBlock) for block in blocks)
    assert unclosed_construct(written) is None
    assert [block.content for block in blocks].count("Next.") >= len(lines)


@given(texts())
def test_any_text_is_code(text: str) -> None:
    """One block, and the same text in it."""
    code = plain(text).strip("\n")
    blocks = parse_markdown_text(fenced(code, "python") + "\n\nNext.\n")
    assert [block.content for block in blocks] == [fenced(code, "python"), "Next."]


def test_a_language_has_no_braces() -> None:
    """knitr would run the code."""
    assert fenced("x", "{r, echo=TRUE}").startswith("```recho")
