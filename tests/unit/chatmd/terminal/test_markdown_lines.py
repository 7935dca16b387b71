"""Markdown as lines: golden cases, and what holds for all texts."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases
from hypothesis import given, strategies as st
from strategies_terminal import markdown_texts

from chatmd.terminal.markdown import markdown_lines
from chatmd.terminal.styled import Line, columns, plain


def marked(line: Line) -> str:
    """A line with its styles: ``[bold|text]``."""
    return "".join(f"[{span.style}|{span.text}]" if span.style else span.text for span in line)


@pytest.mark.parametrize("case", read_cases("terminal"), ids=str)
def test_golden(case: Case) -> None:
    """The number in a title is the width."""
    width = int(case.title.partition(":")[0])
    assert [marked(line) for line in markdown_lines(case.source, width)] == case.after.split("\n")[:-1]


@given(markdown_texts(), st.integers(10, 100))  # a sixth heading and one wide letter take nine
def test_lines_fit(text: str, width: int) -> None:
    """Prose is never wider than the terminal, and no line ends in white space."""
    for line in markdown_lines(text, width):
        assert plain(line) == plain(line).rstrip()
        assert columns(plain(line)) <= width or plain(line).startswith("  ") or "```" in text
