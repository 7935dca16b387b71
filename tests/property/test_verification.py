"""Verifying an answer while it arrives tells what verifying the whole tells, behind each quotation."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from lmm.markdown.quotations import Quotation
from lmm_education.answer.verification import QuotationStream, verify
from lmm_education.material import Lines, Location, Passage

LEAF = Passage("1", Location("d", "a.md", Lines(1, 1)), "A leaf is green all year, said Ann.", number=1, language="en")
PIECES = st.sampled_from(
    ["“a leaf is ", "green” ", "blue all year”", "’s", "‘a leaf is blue’", '"it is not green"', "\n", "\n\n", "> ",
     "x ", "> it is not green\n", "```", "\n```\n", "`", "[1].", "[!NOTE]", "$"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=3), max_size=15))
@example(["‘a leaf is blue’", "s", " and more’ x"])
@example(["“a leaf is ", "‘a leaf is blue’", "’s", "green” "])
@example(["> it is not green\n", "> ", "x ", "\n", "\n", "x "])
def test_streaming_is_verifying(pieces: list[str]) -> None:
    stream, text = QuotationStream([LEAF], ""), "".join(pieces)
    told = [event for piece in pieces for event in stream.feed(piece)] + list(stream.finish())
    assert "".join(event.text for event in told if not isinstance(event, Quotation)) == text
    at, failed = 0, []
    for event in told:
        if isinstance(event, Quotation):
            assert event.end <= at
            assert text[event.start : event.end].strip()
            failed.append((event.start, event.end))
        else:
            at += len(event.text)
    ends = [end for _, end in failed]
    assert ends == sorted(set(ends))  # one that is inside of another ends before it


@given(st.lists(PIECES, max_size=15))
def test_what_fails_is_where_it_says(pieces: list[str]) -> None:
    text = "".join(pieces)
    for failure in verify(text, [LEAF]).failures:
        assert 0 <= failure.start < failure.end <= len(text)
