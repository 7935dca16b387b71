"""Markdown that arrives: however it is cut, the same lines come, each once, and none is taken back."""

from __future__ import annotations

from hypothesis import given, strategies as st
from strategies_terminal import markdown_texts

from chatmd.terminal.markdown import Arriving, markdown_lines
from chatmd.terminal.styled import plain


def arrived(text: str, sizes: list[int], width: int, room: int) -> list[str]:
    """All lines that become final, of pieces of these sizes, over and over."""
    arriving, lines, at, turn = Arriving(), list[str](), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        arriving.feed(text[at : at + size])
        lines += map(plain, arriving.final(width, room))
        at, turn = at + size, turn + 1
    return lines + [plain(line) for line in arriving.end(width)]


@given(markdown_texts(), st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(10, 90))
def test_pieces_are_as_the_whole(text: str, sizes: list[int], width: int) -> None:
    """With room for all of it, the lines are those of the whole text."""
    assert arrived(text, sizes, width, 10_000) == [plain(line) for line in markdown_lines(text, width)]


@given(markdown_texts(), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_nothing_is_lost_on_a_small_screen(text: str, sizes: list[int]) -> None:
    """A block that does not fit is printed in parts; every word is there once, in order."""
    whole = [plain(line) for line in markdown_lines(text, 60)]
    parts = arrived(text, sizes, 60, 4)
    assert "".join("".join(whole).split()) == "".join("".join(parts).split())


def test_a_paragraph_longer_than_the_screen() -> None:
    """Its first lines are printed while it arrives."""
    arriving = Arriving()
    arriving.feed("word " * 200)
    assert len(arriving.final(40, 6)) > 10
    assert len(arriving.rest(40)) <= 6
