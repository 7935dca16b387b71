"""Questions that ask about the same, put together by the words that they share.

That finds other wordings, not other words: "Why are leaves green?" and "What colours foliage?" stay apart. No model
is asked, so that a log of a term is grouped in a second, at no cost, and the same every time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from lmm_education.exchange_log.exchanges import LoggedExchange

ALIKE = 0.66
"""The share of words that two questions have in common (Dice) from which on they are taken for one."""
Words = Callable[[str], Collection[int]]
"""What a text is compared by: the stems of its words, without those that every text has."""


@dataclass(slots=True)
class Group:
    """Questions about the same; `question` is the most frequent wording."""

    exchanges: list[LoggedExchange] = field(default_factory=list)

    @property
    def question(self) -> str:
        return self.wordings[0]

    @property
    def wordings(self) -> list[str]:
        """The different wordings, the most frequent first."""
        return [text for text, _ in Counter(asked(exchange) for exchange in self.exchanges).most_common()]

    @property
    def students(self) -> int:
        """How many asked; one who asked on two days counts twice."""
        return len({exchange.session for exchange in self.exchanges})


def asked(exchange: LoggedExchange) -> str:
    """The question so that it can be understood alone: as it was rewritten, if it was.

    >>> asked(LoggedExchange("1", 0.0, "And why?", searched="Why is a leaf green?"))
    'Why is a leaf green?'
    """
    return " ".join((exchange.searched or exchange.question).split())


def group_questions(exchanges: Iterable[LoggedExchange], words: Words) -> list[Group]:
    """Groups, the largest first. A question joins the first group whose first question is alike, else begins one.

    >>> by_word = lambda text: {hash(word) for word in text.lower().strip("?").split()}
    >>> texts = ["why green leaves?", "green leaves?", "what are roots?"]
    >>> groups = group_questions([LoggedExchange(text, 0.0, text) for text in texts], by_word)
    >>> [len(group.exchanges) for group in groups]
    [2, 1]
    """
    by_text: dict[str, list[LoggedExchange]] = defaultdict(list)
    for exchange in exchanges:
        by_text[asked(exchange)].append(exchange)
    groups: list[Group] = []
    leaders: list[frozenset[int]] = []
    holding: dict[int, list[int]] = defaultdict(list)  # word -> groups whose first question has it
    for text, held in sorted(by_text.items(), key=lambda item: (-len(item[1]), item[0])):
        found = frozenset(words(text))
        best = _nearest(found, leaders, holding)
        if best is None:
            best = len(groups)
            groups.append(Group())
            leaders.append(found)
            for word in found:
                holding[word].append(best)
        groups[best].exchanges.extend(held)
    return sorted(groups, key=lambda group: -len(group.exchanges))


def _nearest(found: frozenset[int], leaders: Sequence[frozenset[int]], holding: dict[int, list[int]]) -> int | None:
    """The group that is most alike, if one is alike enough."""
    shared = Counter(group for word in found for group in holding.get(word, ()))
    alike = {group: 2 * count / (len(found) + len(leaders[group])) for group, count in shared.items()}
    best = max(alike, key=lambda group: (alike[group], -group), default=None)
    return best if best is not None and alike[best] >= ALIKE else None
