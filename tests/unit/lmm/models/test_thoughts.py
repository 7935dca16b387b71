"""Thoughts between tags are found alike, whatever pieces a reply comes in, and what is shown is what is kept."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lmm.messages import Retrying, TextDelta
from lmm.models.replies import ThoughtTags

WORDS = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "◁think▷",
    "Hm.",
    "A leaf",
    "\n",
    "\n\n",
    " ",
    "`",
    "```\n",
    "<th",
    "- ",
]


def read(pieces: list[str]) -> tuple[str, list[str]]:
    """The text and the thoughts."""
    tags, shown = ThoughtTags(), ""
    for event in (event for piece in [*pieces, ""] for event in (tags.feed(piece) if piece else tags.end())):
        shown = "" if isinstance(event, Retrying) else shown + (event.text if isinstance(event, TextDelta) else "")
    assert shown == tags.text
    return tags.text, [thought.text for thought in tags.thoughts]


@given(st.lists(st.sampled_from(WORDS), max_size=9).map("".join), st.integers(1, 5))
def test_in_any_pieces(text: str, size: int) -> None:
    assert read([text[i : i + size] for i in range(0, len(text), size)]) == read([text] if text else [])
