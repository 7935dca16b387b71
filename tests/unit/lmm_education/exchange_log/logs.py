"""Exchanges of all kinds, for tests of the log."""

from __future__ import annotations

from hypothesis import strategies as st
from strategies import texts

from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource

LAST = 4e9  # seconds since 1970
_COUNTS = st.integers(0, 10**9)
_SECONDS = st.floats(0, 1e5)


def sources() -> st.SearchStrategy[LoggedSource]:
    """A source; few different ones, so that sections are found several times."""
    few = st.sampled_from(["a.md", "b.md", "ü > ö.md"])
    return st.builds(
        LoggedSource, _COUNTS, texts(), few, st.lists(st.sampled_from(["A", "B", ""]), max_size=2).map(tuple), texts(),
        st.booleans(),
    )  # fmt: skip


def exchanges() -> st.SearchStrategy[LoggedExchange]:
    """An exchange with any texts."""
    return st.builds(
        LoggedExchange,
        id=st.uuids().map(str),
        time=st.floats(0, LAST, exclude_max=True),
        question=texts(),
        via=st.sampled_from(["page", "api"]),
        searched=texts(),
        answer=texts(),
        sources=st.lists(sources(), max_size=3).map(tuple),
        outcome=st.sampled_from(["answered", "not found", "refused", "failed", "left"]),
        model=texts(),
        first_word=st.none() | _SECONDS,
        total=_SECONDS,
        input_tokens=_COUNTS,
        output_tokens=_COUNTS,
        cost=st.none() | st.floats(0, 100),
        reaction=st.sampled_from([-1, 0, 1]),
        comment=texts(),
        error=texts(),
        cached=st.booleans(),
        unverified=st.sampled_from(["", "“a leaf”: not found in the sources"]),
    )


def logs() -> st.SearchStrategy[list[LoggedExchange]]:
    """Exchanges with ids of their own, oldest first."""
    found = st.lists(exchanges(), max_size=6, unique_by=lambda exchange: exchange.id)
    return found.map(lambda held: sorted(held, key=lambda exchange: (exchange.time, exchange.id)))
