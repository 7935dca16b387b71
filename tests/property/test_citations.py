"""Citations in answers: cleaning while streaming is cleaning, and no number stays that was not offered."""

from __future__ import annotations

import re

from hypothesis import example, given, strategies as st

from lmm_education.answer.sources import CitationStream, clean, decided

PIECES = st.sampled_from(
    ["[1]", " [2]", "[9]", " [1, 9]", "[1-3]", "[", "]", "(", "1", ",", " ", "\n", "\n\n", "`", "``", "```", "$", "$$",
     "~~~", "word", "x", "\n```\n", "```r\n", "5", "-", "[12](u)", "\\", "–", ".", "\t"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25)


@given(TEXTS)
@example(["```", "", "\n", "x"])
@example(["`", "``", "a`"])
@example(["\n```\n", "\n", "[9]"])
@example(["[1,", "\n\n", "9]", "\n\n", "x"])
@example([" ", "``", "`", "[9]"])
@example(["`````\n[9]\n", "```\n", "[9]"])
@example(["`", "a [9] " * 30, "`", " [9]"])
@example(["$5 ", "[9] " * 30, "\n\n", "[9]"])
def test_streaming_is_cleaning(pieces: list[str]) -> None:
    """However an answer is cut into pieces, what is shown is the cleaned answer, and nothing is taken back."""
    stream = CitationStream({1, 2})
    shown = "".join(stream.feed(piece) for piece in pieces)
    rest, whole = stream.finish()
    assert shown + rest == whole.text == clean("".join(pieces), {1, 2}).text


@given(TEXTS)
@example(["$", "[1]", "$$", "[1-3]", "[1]", "$"])
def test_what_is_decided_stays(pieces: list[str]) -> None:
    """The decided beginning of a text is cleaned in the same way, whatever follows."""
    text = "".join(pieces)
    for end in range(len(text)):
        beginning = text[:end]
        now = clean(beginning[: decided(beginning)], {1, 2}).text
        assert clean(text, {1, 2}).text.startswith(now)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_only_offered_numbers_stay(numbers: list[int]) -> None:
    """In plain text every citation that stays was offered, and every other one is reported."""
    text = " ".join(f"word [{n}]." for n in numbers)
    result = clean(text, range(1, 11))
    assert (
        {int(n) for n in re.findall(r"\[(\d+)\]", result.text)} == {n for n in numbers if n <= 10} == set(result.cited)
    )
    assert set(result.removed) == {n for n in numbers if n > 10}
    assert clean(result.text, range(1, 11)).text == result.text
