"""Counting words."""

from __future__ import annotations

import pytest

from lmm.markdown.tree import count_words


@pytest.mark.parametrize(("text", "words"), [("", 0), ("a green\n\nleaf", 3), ("葉" * 100, 51)])
def test_words_are_counted_in_all_scripts(text: str, words: int) -> None:
    """Two characters of a script without spaces are about a word."""
    assert count_words(text) == words
