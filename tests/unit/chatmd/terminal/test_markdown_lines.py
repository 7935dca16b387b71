"""Markdown as lines: golden cases, and properties of all texts."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from golden_files import Case, read_cases
from hypothesis import given, strategies as st
from rich.text import Text
from strategies_terminal import markdown_texts

from lmm.terminal import columns
from lmm.terminal_markdown import markdown_lines, plain


def marked(line: str) -> str:
    """Return a line with its styles: ``[bold|text]``."""
    text = Text.from_ansi(line)
    at, out = 0, ""
    for span in text.spans:
        out += f"{text.plain[at : span.start]}[{span.style}|{text.plain[span.start : span.end]}]"
        at = span.end
    return out + text.plain[at:]


@pytest.mark.parametrize("case", read_cases("terminal"), ids=str)
def test_golden(case: Case) -> None:
    """The number in a title is the width."""
    width = int(case.title.partition(":")[0])
    assert [marked(line) for line in markdown_lines(case.source, width)] == case.after.split("\n")[:-1]


@given(markdown_texts(), st.integers(20, 100))
def test_lines_fit(text: str, width: int) -> None:
    """Prose is never wider than the terminal, no line ends in white space, and no letter is lost."""
    lines = [plain(line) for line in markdown_lines(text, width)]
    for line in lines:
        assert line == line.rstrip()
        assert columns(line) <= width or line.startswith("  ")
    letters = Counter(re.sub(r"\W|_|\d", "", re.sub("```python|x = 1|http://y.z", "", text)))
    assert letters <= Counter("".join(lines))
