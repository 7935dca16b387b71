"""Lines that fit."""

from __future__ import annotations

from hypothesis import given, strategies as st

from chatmd.terminal.styled import StyledSpan, clipped, columns, folded, plain, wrapped

SPANS = st.lists(
    st.builds(StyledSpan, st.text("ab 日。é\u0301", max_size=20), st.sampled_from(["", "bold"])), max_size=6
)


@given(SPANS, st.integers(2, 30))
def test_wrapped(spans: list[StyledSpan], width: int) -> None:
    """No line is too wide, and nothing but white space is lost."""
    lines = wrapped(spans, width)
    assert all(columns(plain(line)) <= width for line in lines)
    assert "".join(map(plain, lines)).replace(" ", "") == plain(spans).replace(" ", "")


@given(SPANS, st.integers(2, 30))
def test_folded_and_clipped(spans: list[StyledSpan], width: int) -> None:
    """Folding loses nothing; clipping says that it has."""
    assert "".join(map(plain, folded(spans, width))) == plain(spans)
    line = plain(clipped(spans, width))
    assert columns(line) <= width
    assert line == plain(spans) or line.endswith("…")
