"""Which items of a conversation stay as they are, and which a summary stands for.

Messages of the system and the developer stay, wherever they stand, and so do the last turns. Items that belong
together go together: a call, its output and the thoughts before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from chatmd.compaction.summary import is_summary
from chatmd.language.agent import CallItem, Item, MessageItem, OutputItem, ReasoningItem

KEEP = 3
SUMMARY_TOKENS = 1500
"""What room is left for the summary, where there is enough."""


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """`keep` counts turns that stay. With `to`, fewer stay if the conversation would have more tokens than that."""

    keep: int = KEEP
    to: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Indices of items, in order: what `stays`, and what is `gone`; the summary comes where the last of that stood."""

    stays: tuple[int, ...]
    gone: tuple[int, ...]


def plan_compaction(
    items: Sequence[Item], sizes: Sequence[int], options: CompactOptions, fixed: Collection[int] = ()
) -> CompactionPlan:
    """What stays and what goes of `items`, which have `sizes` in tokens. `fixed` are indices that have to stay.

    The user's last message stays while it is unanswered, whatever the options say, and with it the last reply
    and what its calls returned. Where a single turn is longer than `to`, its beginning is told too.

    >>> said = [MessageItem("system", ("Be brief.",)), MessageItem("user", ("1",)), MessageItem("assistant", ("2",)),
    ...     MessageItem("user", ("3",)), MessageItem("assistant", ("4",))]
    >>> plan_compaction(said, [5] * 5, CompactOptions(keep=1))
    CompactionPlan(stays=(0, 3, 4), gone=(1, 2))
    """
    groups = group_items(items)
    pinned = {index for index, item in enumerate(items) if is_pinned(item)}
    held = {number for number, group in enumerate(groups) if any(i in fixed and i not in pinned for i in group)}
    weights = [sum(sizes[i] for i in group if i not in pinned) for group in groups]
    always = sum(sizes[i] for i in pinned) + sum(weights[number] for number in held)
    keeping = _chosen(_candidates(items, groups, options), weights, always, options.to)
    kept = keeping | held
    stays = pinned | {i for number in kept for i in groups[number]}
    gone = tuple(i for i in range(len(items)) if i not in stays)
    if all(is_summary(items[i]) or _is_blank(items[i]) for i in gone):
        return CompactionPlan(tuple(range(len(items))), ())
    return CompactionPlan(tuple(sorted(stays)), gone)


def is_pinned(item: Item) -> bool:
    """Whether an item is part of what the agent is, rather than of what was said to it."""
    return isinstance(item, MessageItem) and item.role in ("system", "developer")


def group_items(items: Sequence[Item]) -> tuple[tuple[int, ...], ...]:
    """Runs of indices that must not be parted, in order, all of them together `items`.

    A call and its output are in one group, whatever stands between them; thoughts and a text are with the calls
    that follow them.

    >>> group_items([MessageItem("user"), ReasoningItem("r"), CallItem("c", "f", ()), OutputItem("c")])
    ((0,), (1, 2, 3))
    """
    ends = _answers(items)
    groups, start, reach = [], 0, 0
    for index, item in enumerate(items):
        reach = max(reach, ends.get(index, index))
        if index >= reach and (index + 1 == len(items) or not _goes_on(item, items[index + 1])):
            groups.append(tuple(range(start, index + 1)))
            start = index + 1
    if start < len(items):
        groups.append(tuple(range(start, len(items))))
    return tuple(groups)


def _answers(items: Sequence[Item]) -> dict[int, int]:
    """Where each call's output stands. Ids may come again and again: the first output is the first call's."""
    waiting: dict[str, deque[int]] = {}
    found: dict[int, int] = {}
    for index, item in enumerate(items):
        if isinstance(item, CallItem):
            waiting.setdefault(item.call, deque()).append(index)
        elif isinstance(item, OutputItem) and waiting.get(item.call):
            found[waiting[item.call].popleft()] = index
    return found


def _goes_on(item: Item, following: Item) -> bool:
    """Whether two neighbours are parts of one reply, or a call without an output has others beside it."""
    if isinstance(item, ReasoningItem):
        return isinstance(following, (ReasoningItem, CallItem)) or _is_assistant(following)
    if _is_assistant(item):
        return isinstance(following, CallItem)
    return isinstance(item, CallItem) and isinstance(following, (CallItem, OutputItem))


def _is_assistant(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "assistant"


def _is_blank(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "user" and item.is_blank


def _is_user(item: Item) -> bool:
    """Whether the user says something here."""
    return isinstance(item, MessageItem) and item.role == "user" and not item.is_blank and not is_summary(item)


def _candidates(
    items: Sequence[Item], groups: Sequence[tuple[int, ...]], options: CompactOptions
) -> Iterator[tuple[int, frozenset[int]]]:
    """What to keep of the groups, most first: all from a number on, and some before that."""
    turns = _turns(items, groups)
    end = len(groups)
    while end and all(_is_blank(items[i]) for i in groups[end - 1]):  # where the user is to write
        end -= 1
    is_open = end > 0 and not _is_assistant(items[groups[end - 1][-1]])
    for keep in range(options.keep, 0, -1):
        yield (turns[-keep] if keep <= len(turns) else 0), frozenset()
    if not options.keep and not is_open:
        yield end, frozenset()
        return
    begin = turns[-1] if turns else 0
    asked = frozenset(n for n in range(begin, end) if all(_is_user(items[i]) for i in groups[n]))
    if not options.keep:
        yield begin, frozenset()
    for first in range(begin + 1, end):
        yield first, frozenset(n for n in asked if n < first)


def _turns(items: Sequence[Item], groups: Sequence[tuple[int, ...]]) -> list[int]:
    """Numbers of the groups with which a turn begins: the user says something, having not just done so."""
    found, before_is_user = [], False
    for number, group in enumerate(groups):
        if all(is_pinned(items[i]) for i in group):
            continue
        is_user = all(_is_user(items[i]) for i in group)
        if is_user and not before_is_user:
            found.append(number)
        before_is_user = is_user
    return found


def _chosen(
    candidates: Iterator[tuple[int, frozenset[int]]], weights: Sequence[int], always: int, to: int | None
) -> set[int]:
    """The numbers of the first candidate's groups, or of the first that fits; of the last, if none does."""
    sums = [0, *accumulate(weights)]
    first, extra = len(weights), frozenset[int]()
    for first, extra in candidates:
        size = always + sums[-1] - sums[first] + sum(weights[number] for number in extra)
        if to is None or size + min(SUMMARY_TOKENS, to // 4) <= to:
            break
    return {*range(first, len(weights)), *extra}
