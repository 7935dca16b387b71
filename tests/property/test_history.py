"""The history of a conversation: the latest part of it, whatever its length."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from lmm_education.answer.history import Exchange, conversation_text

SIZES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9000)), min_size=1, max_size=12)


@given(SIZES)
@example([(1, 1)] * 2000)
@example([(0, 9000), (0, 9000)])
def test_the_latest_that_fit_are_given_whole(sizes: list[tuple[int, int]]) -> None:
    """As many whole exchanges as fit into 8,000 characters; of a last one that is longer alone, its end."""
    history = [Exchange("q" * asked, "a" * answered) for asked, answered in sizes]
    whole = [f"Question: {exchange.question}\n\nAnswer: {exchange.answer}" for exchange in history]
    while len(whole) > 1 and sum(map(len, whole)) > 8000:
        del whole[0]
    assert conversation_text(history) == "\n\n".join(whole)[-8000:]
