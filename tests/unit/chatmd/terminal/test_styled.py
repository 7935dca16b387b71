"""Styled lines fit the width of the terminal."""

from __future__ import annotations

from hypothesis import given, strategies as st
from rich.text import Text

from lmm.terminal import columns
from lmm.terminal_markdown import plain, render


@given(st.text("ab 日。é", max_size=80), st.integers(2, 30))
def test_render(text: str, width: int) -> None:
    """No line is too wide, or ends in blanks, and only white space is lost."""
    lines = [plain(line) for line in render(Text(text, "bold"), width)]
    assert all(columns(line) <= width and line == line.rstrip() for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
