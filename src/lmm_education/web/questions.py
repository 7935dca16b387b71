"""Questions in progress: the queue, the cache of answers, answers shared by all who ask the same question, and the log
entry of each question."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from lmm.loop import ended
from lmm.messages import Message, Retrying, TextDelta, Usage, dialogue_text
from lmm_education.answer.answer import Answer, AnswerEvent, Attempted, Called, Found, Prompted
from lmm_education.answer.verification import failure_text
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource, Outcome
from lmm_education.material import Passage
from lmm_education.search.query import SearchNotice

CACHED = SearchNotice("cached", "this question was asked before; this is the answer from then")
_LONGEST = 20_000  # characters
E = TypeVar("E")


# -- the queue -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """Event: a question is waiting for others to be answered; `ahead` is how many."""

    ahead: int


class Queue:
    """A queue in which at most `size` questions are answered at once; the others wait in order of arrival."""

    def __init__(self, size: int) -> None:
        self.size, self._line, self._moved = size, list[object](), asyncio.Event()

    @contextlib.contextmanager
    def turn(self) -> Iterator[object]:
        """Take a place in the queue for the duration of the block."""
        turn = object()
        self._line.append(turn)
        try:
            yield turn
        finally:
            self._line.remove(turn)
            self._moved.set()
            self._moved = asyncio.Event()

    async def ahead(self, turn: object, reported: int = -1) -> int:
        """Return how many are ahead of a place once it differs from `reported`; 0 when its turn has come."""
        while (ahead := max(0, self._line.index(turn) + 1 - self.size)) == reported:
            await self._moved.wait()
        return ahead


# -- a question in progress ------------------------------------------------------------------------


@dataclass(slots=True)
class ServedQuestion:
    """One question, and what is known of its answer so far. `here` is the section that the student has open, `id` that
    of its exchange in the log. `attempted` is a student's attempt at an exercise, which is never logged."""

    question: str
    student: str
    via: str
    here: Passage | None = None
    is_logged: bool = False
    anew: bool = False
    attempted: Attempted | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(10))
    at: float = field(default_factory=time.time)
    outcome: Outcome = "left"
    error: str = ""
    answer: Answer | None = None
    _begun: float = field(default_factory=time.monotonic)
    _first_word: float | None = None
    _text: list[str] = field(default_factory=list)
    _found: Found | None = None
    _prompted: tuple[Message, ...] = ()

    @property
    def number(self) -> str:
        """The id if a log is kept in which it can be looked up; else empty."""
        return self.id if self.is_logged else ""

    def note(self, event: AnswerEvent | WaitingAnswer) -> None:
        """Record an event of the answer."""
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, Retrying | Called):
            self._text.clear()
        elif isinstance(event, Found):
            self._found = event
        elif isinstance(event, Prompted):
            self._prompted = event.messages
        elif isinstance(event, Answer):
            self.answer = event
            self.outcome = "refused" if event.refused else "answered" if event.answers else "not found"
        if self._first_word is None and isinstance(event, TextDelta | Answer):
            self._first_word = time.monotonic() - self._begun

    def as_exchange(self) -> LoggedExchange:
        """Return the log entry of the question."""
        found = self._found
        answer = self.answer or Answer(self.question, "".join(self._text), found.searched if found else "")
        offered = answer.offered or (found.sources if found else ())
        cited = {source.id for source in answer.cited}
        return LoggedExchange(
            id=self.id, time=self.at, question=self.question, via=self.via, searched=answer.searched,
            answer=answer.text, sources=tuple(logged_source(source, source.id in cited) for source in offered),
            outcome=self.outcome, model=answer.model, first_word=self._first_word,
            total=time.monotonic() - self._begun, input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens, cost=answer.usage.cost, error=self.error,
            cached=CACHED in answer.notices,
            unverified="\n".join(map(failure_text, answer.verification.failures)),
            prompt=dialogue_text(self._prompted) if self.is_logged else "",
            here=" > ".join((self.here.place.file, *self.here.place.headings)) if self.here else "",
        )  # fmt: skip


def logged_source(source: Passage, cited: bool) -> LoggedSource:
    """Return the log entry of a source."""
    place = source.place
    return LoggedSource(
        number=source.number,
        section=source.section or source.id,
        file=place.file,
        headings=place.headings,
        title=source.title,
        cited=cited,
    )


# -- repeated questions ----------------------------------------------------------------------------


class AnswerCache:
    """The latest `size` answers to questions without a conversation before them, valid while the texts are unchanged.

    It belongs to one served course, and so to its models, settings and withheld texts. It is kept in memory, since
    students' questions are stored nowhere unless a log is configured.
    """

    def __init__(self, size: int) -> None:
        self.size, self._stamp = size, ""
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._being_given: dict[tuple[str, str], OngoingAnswer[Any]] = {}

    def get(self, stamp: str, question: str) -> Answer | None:
        """Return the cached answer to this question for this state of the texts, marked as repeated, or None."""
        if stamp == self._stamp and (wording := _wording(question)) in self._answers:
            self._answers.move_to_end(wording)
            return self._answers[wording]
        return None

    def put(self, stamp: str, question: str, answer: Answer) -> None:
        """Store an answer that a model gave, if it is complete: refused and truncated ones may be asked for again.

        >>> cache, used = AnswerCache(1), Usage(requests=1)
        >>> for asked in ("Why?", "And?"):
        ...     cache.put("1", asked, Answer(asked, "So.", asked, usage=used))
        >>> cache.get("1", "Why?") is None, cache.get("1", " And?").notices == (CACHED,), cache.get("2", "And?") is None
        (True, True, True)
        """
        whole = not (answer.refused or answer.cut or answer.stopped)
        if not whole or not answer.usage.requests or len(answer.text) > _LONGEST:
            return
        if stamp != self._stamp:
            self._answers.clear()
            self._stamp = stamp
        self._answers[_wording(question)] = _again(answer)
        while len(self._answers) > self.size:
            self._answers.popitem(last=False)

    async def given_to_all(
        self, stamp: str, question: str, make: Callable[[], AsyncGenerator[E]]
    ) -> AsyncGenerator[E | Answer]:
        """Iterate over the events of an answer. Whoever asks the same question in the meantime receives all of them,
        too, marked as repeated. It continues while anybody reads: if a whole class asks, the model is asked once.
        """
        key = stamp, _wording(question)
        ongoing, first = self._being_given.get(key), False
        if ongoing is None:
            ongoing = self._being_given[key] = OngoingAnswer(make(), functools.partial(self._forget, key))
            first = True
        async with aclosing(ongoing.read()) as events:
            async for event in events:
                yield _again(event) if isinstance(event, Answer) and not first else event

    def _forget(self, key: tuple[str, str], ongoing: OngoingAnswer[Any]) -> None:
        if self._being_given.get(key) is ongoing:
            del self._being_given[key]


class OngoingAnswer(Generic[E]):
    """Events shared by several readers, each from the first one on; `over` is called when no more will come."""

    def __init__(self, events: AsyncGenerator[E], over: Callable[[OngoingAnswer[E]], object]) -> None:
        self._over, self._given, self._has_ended = over, list[E](), False
        self._moved, self._readers = asyncio.Event(), 0
        self._task = asyncio.create_task(self._make(events))

    async def read(self) -> AsyncGenerator[E]:
        """Iterate over all events, or raise the error that ended them; the last reader to leave stops the work."""
        self._readers += 1
        number = 0
        try:
            while number < len(self._given) or not self._has_ended:
                if number < len(self._given):
                    yield self._given[number]
                    number += 1
                else:
                    await self._moved.wait()
            await self._task
        finally:
            self._readers -= 1
            if not self._readers and not self._task.done():
                self._over(self)
                self._task.cancel()
                await ended(self._task)

    async def _make(self, events: AsyncGenerator[E]) -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    self._given.append(event)
                    self._wake()
        finally:
            self._has_ended = True
            self._over(self)
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _again(answer: Answer) -> Answer:
    return replace(answer, usage=Usage(), notices=(CACHED, *answer.notices)) if answer.usage.requests else answer


def _wording(question: str) -> str:
    return " ".join(question.split())
