"""Compaction holds for every conversation: what belongs together stays together, and what must stay stays."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from chatmd.compaction.compact import (
    LABEL,
    NOTE,
    SHOWN,
    CompactOptions,
    Summary,
    attachment_of,
    compact_text,
    fitting,
    group_items,
    is_pinned,
    is_summary,
    plan_compaction,
    read_summary,
    replace_elements,
)
from chatmd.context import Configuration, Run
from chatmd.errors import NothingToCompact
from chatmd.language.agent import CallItem, Doc, Img, Item, MessageItem, OutputItem, ReasoningItem, read_agent
from chatmd.language.syntax import parse
from lmm.config import load_settings
from lmm.messages import render
from lmm.models.tokens import count_tokens
from lmm.testing import ScriptedModel

_TEXTS = st.sampled_from(
    [
        "",
        "\n",
        "Why?",
        "a longer text, " * 40,
        "|RAW</user>",
        "<system-reminder>\nGo on.\n</system-reminder>",
        "# A\n- b",
    ]
)
_IDS = st.sampled_from(["c1", "c2", "c3"])
_CONTENT = st.lists(_TEXTS | st.sampled_from([Doc("a.md", local=True), Img("b.png")]), max_size=2).map(tuple)
_SAID = st.builds(MessageItem, st.sampled_from(["user", "user", "assistant", "system", "developer"]), _CONTENT)
_ITEMS = st.lists(
    _SAID | st.builds(CallItem, _IDS, st.just("f"), st.just(("{}",))) | st.builds(OutputItem, _IDS, _CONTENT)
    | st.builds(ReasoningItem, _IDS, st.lists(_TEXTS, max_size=1).map(tuple))
    | st.just(MessageItem("user", (render(Summary("## Decisions\n- Use R.").as_message()),))),
    max_size=16,
)  # fmt: skip
_OPTIONS = st.builds(CompactOptions, st.integers(0, 3), st.none() | st.integers(1, 3000))


def pairs(items: list[Item]) -> list[tuple[int, int]]:
    """Where calls stand, and their outputs, told apart from the code under test by looking forward from each output."""
    found, waiting = [], dict[str, deque[int]]()
    for index, item in enumerate(items):
        if isinstance(item, CallItem):
            waiting.setdefault(item.call, deque()).append(index)
        elif isinstance(item, OutputItem) and waiting.get(item.call):
            found.append((waiting[item.call].popleft(), index))
    return found


def sizes_of(items: list[Item]) -> list[int]:
    return [len(repr(item)) // 4 for item in items]


@given(_ITEMS)
def test_groups_hold_together_what_belongs_together(items: list[Item]) -> None:
    """They are the items in order; a call is with its output, and a thought with what it led to."""
    groups = group_items(items)
    assert [index for group in groups for index in group] == list(range(len(items)))
    number = {index: n for n, group in enumerate(groups) for index in group}
    for call, output in pairs(items):
        assert number[call] == number[output]
    for index, (item, following) in enumerate(pairwise(items)):
        if isinstance(item, ReasoningItem) and isinstance(following, (ReasoningItem, CallItem)):
            assert number[index] == number[index + 1]


@given(_ITEMS, _OPTIONS, st.sets(st.integers(0, 15), max_size=3))
@example(
    [MessageItem("user", ("a",)), CallItem("c1", "f", ("{}",)), OutputItem("c1", ("b",))], CompactOptions(0), set()
)
def test_what_must_stay_stays(items: list[Item], options: CompactOptions, fixed: set[int]) -> None:
    """Instructions, what is fixed, the last turns; every item either stays or is told, and no call alone."""
    plan = plan_compaction(items, sizes_of(items), options, fixed)
    stays, gone = set(plan.retained), set(plan.removed)
    assert sorted([*plan.retained, *plan.removed]) == list(range(len(items)))
    assert list(plan.retained) == sorted(plan.retained)
    assert list(plan.removed) == sorted(plan.removed)
    assert all(index in stays for index, item in enumerate(items) if is_pinned(item) or index in fixed)
    assert all((call in gone) == (output in gone) for call, output in pairs(items))
    open_ = [item for item in items if not (isinstance(item, MessageItem) and item.role == "user" and item.is_blank)]
    if open_ and not (isinstance(open_[-1], MessageItem) and open_[-1].role == "assistant"):
        last = max(index for index, item in enumerate(items) if item is open_[-1])
        assert last in stays


@given(_ITEMS, st.integers(1, 3))
def test_the_last_turns_stay_whole(items: list[Item], keep: int) -> None:
    """From the user's message that begins the first of them on."""
    plan = plan_compaction(items, sizes_of(items), CompactOptions(keep))
    asked = [
        index for index, item in enumerate(items)
        if isinstance(item, MessageItem) and item.role == "user" and not item.is_blank and not is_summary(item)
    ]  # fmt: skip
    first = asked[-keep] if len(asked) >= keep else 0
    assert set(range(first, len(items))) <= set(plan.retained)


@given(_ITEMS, st.integers(1, 3), st.integers(1, 3000))
def test_with_a_limit_never_more_stays(items: list[Item], keep: int, to: int) -> None:
    sizes = sizes_of(items)
    free = plan_compaction(items, sizes, CompactOptions(keep))
    bound = plan_compaction(items, sizes, CompactOptions(keep, to))
    assert sum(sizes[i] for i in bound.retained) <= sum(sizes[i] for i in free.retained)


_PIECES = st.sampled_from(
    [
        "<system>Be brief. <!-- x --></system>\n",
        "<user>Why?</user>\n\n",
        "<assistant id='a'>\nRAW|So.|RAW</assistant>",
        "<tool_call tool_call_id='c' function_name='f'>1</tool_call>\n<tool_response tool_call_id='c'/>",
        "<!-- a comment -->\n",
        "<import src='tools.md'/>\n",
        "<developer>Now in French.</developer>",
        "<user>\n\n</user>\n",
        "<msg role='user'>And?</msg>\n",
        "<reasoning id='r'><summary>Hm.</summary></reasoning>\n",
    ]
)
_FILES = st.lists(_PIECES, max_size=12).map("".join)
_LONG = st.sampled_from(
    [f"<{tag}>{'a longer text, ' * 60}</{tag}>\n" for tag in ("user", "assistant", "system", "developer")]
)
_RUN = Run(Path.cwd(), load_settings(env={}), configuration=Configuration(environment={}))


@given(st.lists(_LONG | _PIECES, max_size=16).map("".join), _OPTIONS)
def test_the_conversation_gets_shorter(text: str, options: CompactOptions) -> None:
    """Fewer tokens; instructions in order; and what is written in the file is read back."""
    text = text.replace("<import src='tools.md'/>", "")
    model = ScriptedModel(["## Decisions\n- Ours."] * 20)
    try:
        done = asyncio.run(compact_text(text, _RUN, options, model=model))
    except NothingToCompact:
        return
    assert done.after < done.before
    assert [i for i in done.items if is_pinned(i)] == [i for i in done.was if is_pinned(i)]
    (written,) = [item for item in done.items if is_summary(item)]
    assert read_agent(parse(done.text)).items == done.items
    assert "- Ours." in read_summary(written).text


@given(_FILES, _OPTIONS)
def test_a_file_keeps_what_stays_byte_for_byte(text: str, options: CompactOptions) -> None:
    """The new file means what stays, with the summary where the last of what is gone stood."""
    document = parse(text)
    items = read_agent(document).items
    plan = plan_compaction(items, sizes_of(list(items)), options)
    new = replace_elements(document, [items[index].span.start for index in plan.removed], "<user>SUMMARY</user>\n")
    if not plan.removed:
        assert new == text
        return
    expected = [
        MessageItem("user", ("SUMMARY",)) if index == plan.removed[-1] else item
        for index, item in enumerate(items) if index in plan.retained or index == plan.removed[-1]
    ]  # fmt: skip
    assert list(read_agent(parse(new)).items) == expected
    assert all(items[index].span.text in new for index in plan.retained)
    assert new.count("<!-- a comment -->") == text.count("<!-- a comment -->")
    assert new.count("<import") == text.count("<import")


_LINES = st.text(
    st.characters(blacklist_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"), min_size=1
)
_NAMED = _LINES.filter(str.strip)
_TAGGED = st.lists(
    st.sampled_from([f"<{LABEL}>", f"</{NOTE}>", f"<{SHOWN}-2>", "\n", "\n\n", "x", '"']), min_size=1
).map("".join)


@given(_TAGGED | st.text(), st.lists(_TAGGED | _NAMED, max_size=3).map(tuple), st.lists(_NAMED, max_size=3).map(tuple))
def test_a_summary_is_read_back(text: str, notes: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """Whatever tags it holds."""
    summary = Summary(text, notes, shown, ".chatmd/a.chatmd")
    item = MessageItem("user", (render(summary.as_message()),))
    assert is_summary(item)
    assert read_summary(item) == summary


@pytest.mark.parametrize("room", [300, 1000, 5000])
@given(items=_ITEMS)
def test_what_is_summarised_fits_one_request(room: int, items: list[Item]) -> None:
    """In order, the last ones at least, and earlier summaries whole; everything, where there is room."""
    shown = fitting(items, {}, room)
    whole = [one for item in items if (one := attachment_of(item, {}, room * 4)) is not None]
    summaries = [one for one in whole if one.label == LABEL]
    assert sum(count_tokens(one.text) for one in shown) <= max(room, sum(count_tokens(one.text) for one in summaries))
    assert [one for one in shown if one.label == LABEL] == summaries
    others, rest = ([one.label for one in some if one.label != LABEL] for some in (whole, shown))
    assert others[len(others) - len(rest) :] == rest
    if sum(count_tokens(one.text) + 12 for one in whole) <= room:
        assert list(shown) == whole
