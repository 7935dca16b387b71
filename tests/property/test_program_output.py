"""What is kept of a program's output, whatever it prints and however it arrives."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, strategies as st

from chatmd.tools.process import Stream, readable
from chatmd.tools.text_files import cut

UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# Bytes of which the hard cases are made: escapes, line ends, pieces of characters, and text.
HARD = (
    *(b"a", b"b c", b"\n", b"\r", b"\r\n", b"\x08", b"\0", b"\x07", "ü€😀".encode(), b"\xe2\x82", b"\xff"),
    *(b"\x1b", b"\x1b[31m", b"\x1b[", b"1;2m", b"\x1b]0;title\x07", b"\x1b]8;;", b"\x1b\\", b"\xc2\x9b1m"),
)
PIECES = st.lists(st.sampled_from(HARD) | st.binary(max_size=6), max_size=40).map(b"".join)


def read(data: bytes, cuts: list[int], limit: int) -> Stream:
    stream = Stream(limit)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        stream.add(data[start:end])
    return stream


@given(PIECES, st.lists(st.integers(0, 400), max_size=8), st.integers(1, 60))
def test_it_does_not_matter_in_which_pieces_output_arrives(data: bytes, cuts: list[int], limit: int) -> None:
    once, pieces = read(data, [], limit), read(data, cuts, limit)
    assert (pieces.size, pieces.text) == (once.size, once.text)


@given(PIECES)
def test_nothing_that_moves_a_cursor_is_left(data: bytes) -> None:
    text = read(data, [], 10_000).text
    assert not UNREADABLE.search(text)
    assert readable(text) == text


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n\t")))
def test_plain_text_is_kept_to_the_character(text: str) -> None:
    assert read(text.encode(), [], 10_000).text == text


@given(st.lists(st.text("ab ü", max_size=12), max_size=60), st.integers(1, 80))
def test_too_much_is_cut_in_the_middle_and_the_rest_is_counted(lines: list[str], limit: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    shown = cut(text, limit)
    if len(text) <= limit:
        assert shown == text
        return
    found = re.search(r"\n\[… ([\d,]+) characters left out, in lines? (\d+)(?: to (\d+))? …\]\n", shown)
    assert found is not None
    head, tail = shown[: found.start()], shown[found.end() :]
    assert len(head) + len(tail) <= limit
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(found[1].replace(",", "")) == len(text) - len(head) - len(tail)
