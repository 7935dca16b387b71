"""Text that is written as a paragraph is a paragraph, whatever is in it."""

from __future__ import annotations

from hypothesis import given
from strategies import texts

from lmm.importing import escape
from lmm.importing.elements import element
from lmm.importing.to_markdown import to_markdown
from lmm.markdown import TextBlock, parse_markdown_text
from lmm.markdown.blocks import fenced
from lmm.markdown.parse_markdown import unclosed_construct


@given(texts())
def test_any_text_is_a_paragraph(text: str) -> None:
    """No heading, no metadata, nothing that opens and takes in what follows. (What Pandoc reads: tests/edge.)"""
    written = to_markdown(element("body", element("p", text), element("p", "Next.")))
    blocks = parse_markdown_text(written)
    assert all(isinstance(block, TextBlock) for block in blocks)
    assert unclosed_construct(written) is None
    assert blocks[-1].content == "Next."


@given(texts())
def test_any_text_is_code(text: str) -> None:
    """One block, and the same text in it."""
    code = escape.plain(text).strip("\n")
    blocks = parse_markdown_text(fenced(code, "python") + "\n\nNext.\n")
    assert [block.content for block in blocks] == [fenced(code, "python"), "Next."]


def test_a_language_has_no_braces() -> None:
    """knitr would run the code."""
    assert fenced("x", "{r, echo=TRUE}").startswith("```recho")


def test_formulas_end_where_they_should() -> None:
    """No dollar, backslash or comment in them takes the end away."""
    assert escape.formula("a $ b") == r"$a \$ b$"
    assert escape.formula("a\\") == "$a$"
    assert escape.formula(r"a \\") == r"$a \\$"
    assert escape.formula("a % all\n\nb \\% c") == r"$a b \% c$"
    assert escape.formula("  ") == ""
