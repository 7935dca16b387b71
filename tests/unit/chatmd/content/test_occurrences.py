"""The key of a part depends on the text of its message, not on its position."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from chatmd.language.agent import CallItem, Doc, Img, Item, MessageItem, OutputItem, SubAgent
from chatmd.sidecar import Occurrence, occurrences

DOC = Doc("a.md", local=True)
PARTS = st.sampled_from(["x", "", DOC, Doc("a.md"), Doc("a.md", True, strip=True), Img("a.png", True), Img("https://e.org/a"),
                         SubAgent("b", True, ("x", DOC))])  # fmt: skip
MESSAGES = st.builds(
    MessageItem, st.sampled_from(["user", "assistant", "system"]), st.lists(PARTS, max_size=3).map(tuple)
)
ITEMS = st.lists(MESSAGES | st.builds(OutputItem, st.just("c"), st.lists(PARTS, max_size=2).map(tuple)), max_size=6)


def keys(items: list[Item]) -> list[str]:
    return [one.key for one in occurrences(items) if one.key]


@given(ITEMS)
def test_every_place_has_a_key_of_its_own(items: list[Item]) -> None:
    assert len(set(keys(items))) == len(keys(items))


@given(ITEMS, ITEMS)
def test_what_comes_later_changes_no_key(items: list[Item], more: list[Item]) -> None:
    assert keys([*items, *more])[: len(keys(items))] == keys(items)


@given(ITEMS, MESSAGES)
def test_other_messages_change_no_key(items: list[Item], other: MessageItem) -> None:
    """Inserting or changing a message keeps the keys of messages with other texts."""
    if other not in items:
        assert set(keys(items)) <= set(keys([other, *items]))


def test_what_is_answered() -> None:
    asked = MessageItem("user", (DOC,))
    said: list[Item] = [MessageItem("assistant", ("x",)), CallItem("c", "f", ("{}",)), OutputItem("c", ("x",))]
    assert [one.answered for one in occurrences([asked])] == [False]
    for item in said:
        assert [one.answered for one in occurrences([asked, item])] == [True]
    again = occurrences([asked, said[0], asked, asked])
    assert [one.answered for one in again] == [True, False, False]
    assert len({one.key for one in again}) == 3


def test_what_tools_said_has_no_key() -> None:
    (one,) = occurrences([OutputItem("c", ("x", DOC))])
    assert one == Occurrence(DOC, "", False)


@pytest.mark.parametrize("pair", list(itertools.combinations(
    [Doc("a"), Doc("a", True), Doc("a", strip=True), Doc("a", markdown=True), Img("a", True), SubAgent("a"),
     SubAgent("a", content=("x",)), SubAgent("a", content=(Doc("a"),))], 2)))  # fmt: skip
def test_parts_that_differ_have_other_keys(pair: tuple[Doc | Img | SubAgent, Doc | Img | SubAgent]) -> None:
    one, other = (occurrences([MessageItem("user", (part,))])[0].key for part in pair)
    assert one != other
