"""The output of programs, as a terminal would show it, and cut to a limit."""

from __future__ import annotations

import tracemalloc

import pytest

from chatmd.tools.process import Stream, readable


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("\x1b[1;31mred\x1b[0m\x1b[K", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never closed\nafter", "\nafter"),
        ("\x1b(B\x1b=\x1b7x", "x"),
        ("\x9b31mred", "red"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        (" 1 %\r 50 %\r100 %\nnext", "100 %\nnext"),
        ("N\x08N", "N\\x08N"),
        ("bell\x07 null\x00 delete\x7f", "bell\\x07 null\\x00 delete\\x7f"),
        ("\x1b", "\\x1b"),
        ("bytes \udcff\udc80", "bytes \\xff\\x80"),
    ],
)
def test_readable(printed: str, shown: str) -> None:
    assert readable(printed) == shown


def test_a_progress_bar_counts_as_its_last_state() -> None:
    """However long its line has become."""
    stream = Stream(200_000)
    for percent in range(2_000):
        stream.add(f"{percent:>60}\r".encode())
    stream.add(b"done\n")
    assert stream.text == "done\n"


@pytest.mark.parametrize("piece", [b"x" * 65536, b"\0" * 65536, b"line\n" * 13000, b"\xff" * 65536, b"\x1b[" * 30000])
def test_memory_does_not_grow_with_the_output(piece: bytes) -> None:
    stream = Stream(30_000)
    tracemalloc.start()
    try:
        for _ in range(200):
            stream.add(piece)
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stream.size == 200 * len(piece)
    assert peak < 6_000_000
    assert len(stream.text) < 4 * 60_100
