"""One question with its answer, as the log keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lmm_education.payloads import plain

Outcome = Literal["answered", "not found", "refused", "failed", "left"]
"""``answered``; ``not found``: the course says nothing about it; ``refused``: it is not about the course, or the budget
was spent; ``failed``: see `error`; ``left``: the student stopped the answer or went away."""
LONGEST_COMMENT = 2000  # characters


@dataclass(frozen=True, slots=True)
class LoggedSource:
    """A section that the model was shown, or a passage of it; `cited`: the answer cites it under `number`."""

    number: int
    section: str
    file: str
    headings: tuple[str, ...] = ()
    title: str = ""
    cited: bool = False


@dataclass(frozen=True, slots=True)
class LoggedExchange:
    """A question and what came of it.

    `time` is in seconds since 1970; `session` is a name for the student that means nothing, another one every day;
    `via` is where the question came from: ``page`` or ``api``. `searched` is what was looked up: the question,
    rewritten where it follows others. `first_word` and `total` are in seconds; `first_word` is None where there was
    none. `cost` is in US dollars, None where the price is not known. `reaction` is 1 (good), -1 (bad) or 0.
    """

    id: str
    time: float
    question: str
    session: str = ""
    via: str = "page"
    searched: str = ""
    answer: str = ""
    sources: tuple[LoggedSource, ...] = ()
    outcome: Outcome = "answered"
    model: str = ""
    first_word: float | None = None
    total: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    reaction: int = 0
    comment: str = ""
    error: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer from the course: one that cites something.

        >>> LoggedExchange("1", 0.0, "Why?").is_answered
        False
        """
        return self.outcome == "answered" and any(source.cited for source in self.sources)


def exchange_as_values(exchange: LoggedExchange) -> dict[str, Any]:
    """As JSON holds it."""
    values = {name: getattr(exchange, name) for name in LoggedExchange.__slots__}
    return values | {"sources": [source_as_values(source) for source in exchange.sources]}


def source_as_values(source: LoggedSource) -> dict[str, Any]:
    """As JSON holds it.

    >>> source_as_values(LoggedSource(1, "s", "a.md", ("Leaves",)))["headings"]
    ['Leaves']
    """
    return {name: getattr(source, name) for name in LoggedSource.__slots__} | {"headings": list(source.headings)}


def source_of(values: Mapping[str, Any]) -> LoggedSource:
    """The source that `source_as_values` wrote; fields of later versions are left out."""
    known = {name: values[name] for name in LoggedSource.__slots__ if name in values}
    return LoggedSource(**known | {"headings": tuple(values.get("headings", ()))})


def storable(text: str) -> str:
    """A text as UTF-8 can hold it: a request may have halves of surrogate pairs.

    >>> storable("green \\ud800"), storable("grün")
    ('green ?', 'grün')
    """
    return str(plain(text))
