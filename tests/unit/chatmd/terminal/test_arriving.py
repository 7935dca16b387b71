"""Streamed markdown: for any split, the same words are shown, each once, and none is removed."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st
from strategies_terminal import markdown_texts

from lmm.terminal_markdown import Arriving, markdown_lines, plain


@given(markdown_texts(), st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(20, 90))
def test_pieces_are_as_the_whole(text: str, sizes: list[int], width: int) -> None:
    """Pieces of these sizes, repeated, give the words of the whole; items keep their numbers."""
    arriving, lines, at, turn = Arriving(), list[str](), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        arriving.feed(text[at : at + size])
        lines += markdown_lines(arriving.final(), width)
        at, turn = at + size, turn + 1
    lines += markdown_lines(arriving.end(), width)
    assert _words(lines) == _words(markdown_lines(text, width))


def _words(lines: list[str]) -> list[str]:
    return re.sub(r"\d+\. ", "", " ".join(map(plain, lines))).split()
