"""Figures from the log: how many questions, how well and how fast they were answered; groups of similar questions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo

from lmm_education.exchange_log.exchanges import AUTHOR, LoggedExchange, LoggedSource, asked

_DAYS, _WEEKS = 45, 300  # up to this many days, a bin is a day or a week; above, a month


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of some exchanges.

    `answered` have an answer that cites the course; `uncited` one that does not; `students` are counted anew every day,
    `days` are those with questions. Times are in seconds, None if there is nothing to measure; `cost` is in US dollars,
    None if it is unknown for all exchanges; `unpriced` are exchanges with a model whose price is unknown.
    """

    questions: int = 0
    answered: int = 0
    uncited: int = 0
    not_found: int = 0
    refused: int = 0
    failed: int = 0
    left: int = 0
    up: int = 0
    down: int = 0
    students: int = 0
    days: int = 0
    first_word_median: float | None = None
    first_word_p95: float | None = None
    tokens: int = 0
    cost: float | None = None
    unpriced: int = 0


def figures(exchanges: Sequence[LoggedExchange]) -> Figures:
    """Return the figures of exchanges, without those that the author repeated.

    >>> figures([LoggedExchange("1", 0.0, "Why?", session="a", first_word=2.0, reaction=1)])
    ... # doctest: +NORMALIZE_WHITESPACE
    Figures(questions=1, answered=0, uncited=1, not_found=0, refused=0, failed=0, left=0, up=1, down=0,
            students=1, days=1, first_word_median=2.0, first_word_p95=2.0, tokens=0, cost=None,
            unpriced=0)
    """
    exchanges = [exchange for exchange in exchanges if exchange.via != AUTHOR]
    outcomes = Counter(exchange.outcome for exchange in exchanges)
    reactions = Counter(exchange.reaction for exchange in exchanges)
    answered = sum(exchange.is_answered for exchange in exchanges)
    costs = [exchange.cost for exchange in exchanges if exchange.cost is not None]
    waits = sorted(exchange.first_word for exchange in exchanges if exchange.first_word is not None)
    return Figures(
        questions=len(exchanges),
        answered=answered,
        uncited=outcomes["answered"] - answered,
        not_found=outcomes["not found"],
        refused=outcomes["refused"],
        failed=outcomes["failed"],
        left=outcomes["left"],
        up=reactions[1],
        down=reactions[-1],
        students=len({exchange.session for exchange in exchanges}),
        days=len({day_of(exchange.time, UTC) for exchange in exchanges}),
        first_word_median=quantile(waits, 0.5),
        first_word_p95=quantile(waits, 0.95),
        tokens=sum(exchange.input_tokens + exchange.output_tokens for exchange in exchanges),
        cost=math.fsum(costs) if costs else None,
        unpriced=sum(exchange.is_unpriced for exchange in exchanges),
    )


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed; None without values.

    >>> quantile([1, 2, 3, 4], 0.5), quantile([1, 2, 3, 4], 0.95), quantile([], 0.5)
    (2, 4, None)
    """
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


# -- over time -------------------------------------------------------------------------------------


def day_of(time: float, zone: tzinfo | None) -> date:
    """Return the day of a time in seconds since 1970; without a zone, in this machine's time zone."""
    return datetime.fromtimestamp(time, zone).date()


def over_time(
    exchanges: Iterable[LoggedExchange], first: date, last: date, zone: tzinfo | None = None
) -> dict[date, Figures]:
    """Return figures for every day, week from Monday, or month from `first` to `last`, also those without questions.

    >>> from datetime import UTC
    >>> bins = over_time([LoggedExchange("1", 86400.0, "Why?")], date(1970, 1, 1), date(1970, 1, 3), UTC)
    >>> [(first.day, each.questions) for first, each in bins.items()]
    [(1, 0), (2, 1), (3, 0)]
    """
    days = (last - first).days + 1
    name = bin_name(days)

    def begin(day: date) -> date:
        return day - timedelta(days=day.weekday()) if name == "week" else day.replace(day=1) if name == "month" else day

    found: dict[date, list[LoggedExchange]] = {begin(first + timedelta(days=i)): [] for i in range(days)}
    for exchange in exchanges:
        day = day_of(exchange.time, zone)
        if first <= day <= last:
            found[begin(day)].append(exchange)
    return {day: figures(held) for day, held in found.items()}


def bin_name(days: int) -> str:
    """Return the kind of bins for a range of so many days: ``day``, ``week`` or ``month``."""
    return "day" if days <= _DAYS else "week" if days <= _WEEKS else "month"


# -- sections --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SectionUse:
    """How many times a section was shown to the model, and how many answers cite it."""

    section: LoggedSource
    offered: int = 0
    cited: int = 0


def section_uses(exchanges: Iterable[LoggedExchange], sections: Iterable[LoggedSource]) -> list[SectionUse]:
    """Return how often each section of the course was used: the most cited first, then in the course's order.

    A section is identified by its file and headings, so that it stays the same when its text changes.

    >>> asked = LoggedExchange("1", 0.0, "Why?", sources=(LoggedSource(1, "x", "a.md", ("Leaves",), cited=True),))
    >>> course = [LoggedSource(0, "r", "a.md", ("Roots",)), LoggedSource(0, "l", "a.md", ("Leaves",))]
    >>> uses = section_uses([asked], course)
    >>> [(use.section.section, use.offered, use.cited) for use in uses]
    [('l', 1, 1), ('r', 0, 0)]
    """
    offered: Counter[tuple[str, tuple[str, ...]]] = Counter()
    cited: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for exchange in exchanges:
        offered.update({(source.file, source.headings) for source in exchange.sources})
        cited.update({(source.file, source.headings) for source in exchange.sources if source.cited})
    keyed = [(section, (section.file, section.headings)) for section in sections]
    uses = [SectionUse(section, offered[key], cited[key]) for section, key in keyed]
    return sorted(uses, key=lambda use: (-use.cited, -use.offered))


# -- similar questions, by shared words ------------------------------------------------------------

# This finds similar wordings, not synonyms: "Why are leaves green?" and "What colours foliage?" stay apart. No model is
# asked, so that grouping the log of a term takes a second, costs nothing, and always has the same result.


ALIKE = 0.66
"""The share of common words (Dice) from which two questions are considered the same."""
Words = Callable[[str], Collection[int]]
"""A function that returns the stems of a text's words, without stop words, by which texts are compared."""


@dataclass(slots=True)
class QuestionGroup:
    """Similar questions; `question` is the most frequent wording."""

    exchanges: list[LoggedExchange] = field(default_factory=list)

    @property
    def question(self) -> str:
        return self.wordings[0]

    @property
    def wordings(self) -> list[str]:
        """The different wordings, the most frequent first."""
        return [text for text, _ in Counter(asked(exchange) for exchange in self.exchanges).most_common()]

    @property
    def latest(self) -> LoggedExchange:
        """The exchange that was asked last."""
        return max(self.exchanges, key=lambda exchange: exchange.time)

    @property
    def students(self) -> int:
        """The number of students who asked; one who asked on two days counts twice."""
        return len({exchange.session for exchange in self.exchanges})


def group_questions(exchanges: Iterable[LoggedExchange], words: Words) -> list[QuestionGroup]:
    """Group questions, the largest group first. Each joins the first group whose first question is similar, if any.

    >>> by_word = lambda text: {hash(word) for word in text.lower().strip("?").split()}
    >>> texts = ["why green leaves?", "green leaves?", "what are roots?"]
    >>> groups = group_questions([LoggedExchange(text, 0.0, text) for text in texts], by_word)
    >>> [len(group.exchanges) for group in groups]
    [2, 1]
    """
    by_text: dict[str, list[LoggedExchange]] = defaultdict(list)
    for exchange in exchanges:
        by_text[asked(exchange)].append(exchange)
    groups: list[QuestionGroup] = []
    leaders: list[frozenset[int]] = []
    holding: dict[int, list[int]] = defaultdict(list)  # word -> groups whose first question contains it
    for text, held in sorted(by_text.items(), key=lambda item: (-len(item[1]), item[0])):
        found = frozenset(words(text))
        best = _nearest(found, leaders, holding)
        if best is None:
            best = len(groups)
            groups.append(QuestionGroup())
            leaders.append(found)
            for word in found:
                holding[word].append(best)
        groups[best].exchanges.extend(held)
    return sorted(groups, key=lambda group: -len(group.exchanges))


def _nearest(found: frozenset[int], leaders: Sequence[frozenset[int]], holding: dict[int, list[int]]) -> int | None:
    """Return the most similar group, if one is similar enough."""
    shared = Counter(group for word in found for group in holding.get(word, ()))
    alike = {group: 2 * count / (len(found) + len(leaders[group])) for group, count in shared.items()}
    best = max(alike, key=lambda group: (alike[group], -group), default=None)
    return best if best is not None and alike[best] >= ALIKE else None
