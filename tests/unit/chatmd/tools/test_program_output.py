"""The output of programs, as a terminal would show it, and cut to a limit."""

from __future__ import annotations

import tracemalloc

import pytest

from chatmd.tools.process import Stream, readable, report


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
    stream = Stream(30_000)
    for percent in range(2_000):
        stream.add(f"{percent:>60}\r".encode())
    stream.add(b"done\n")
    assert stream.text(30_000) == "done\n"


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
    assert len(stream.text(30_000)) < 30_100


def test_report_shares_the_room() -> None:
    """Space that one stream does not need is used by the other."""
    out, err = Stream(1000), Stream(1000)
    out.add(b"o\n" * 2000)
    err.add(b"short\n")
    text = report("exit code 2", {"stdout": out, "stderr": err}, 1000)
    assert text.startswith("exit code 2\n\nstdout:\no\n")
    assert "\n\nstderr:\nshort\n" in text
    assert 900 < len(text) < 1100
    err.add(b"e" * 4000)
    both = report("exit code 2", {"stdout": out, "stderr": err}, 1000)
    assert both.count("left out …]") == 2
    assert len(both) < 1200
