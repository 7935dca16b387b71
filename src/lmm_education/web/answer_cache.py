"""The same question again: answers that were given, and those that are being given to all who ask it meanwhile."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Generic, TypeVar

from lmm.loop import ended
from lmm.messages import Usage
from lmm_education.answer.answer import Answer
from lmm_education.search.query import SearchNotice

CACHED = SearchNotice("cached", "this question was asked before; this is the answer from then")
_LONGEST = 20_000  # characters
E = TypeVar("E")


class AnswerCache:
    """The latest `size` answers to questions that follow no others, for as long as the texts are as they were.

    It belongs to one course as it is served, and so to its models, settings and what is withheld; it is in memory,
    since what students ask is kept nowhere unless a log was asked for.
    """

    def __init__(self, size: int) -> None:
        self.size, self._stamp = size, ""
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._being_given: dict[tuple[str, str], OngoingAnswer[Any]] = {}

    def get(self, stamp: str, question: str) -> Answer | None:
        """The answer to this question, if it was given over the texts in this state; it says that it is not new."""
        if stamp == self._stamp and (wording := _wording(question)) in self._answers:
            self._answers.move_to_end(wording)
            return self._answers[wording]
        return None

    def put(self, stamp: str, question: str, answer: Answer) -> None:
        """Keep an answer for which a model was asked, if it is whole: who was refused, or told half, may ask again.

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
        """The events of an answer; who asks the same meanwhile is told them too, from the first on, and that it is not
        his alone. It is made as long as anybody reads it: a class that presses the same button asks the model once.
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
    """Events as they are made, for several readers, each from the first on; `over` is called when no more will come."""

    def __init__(self, events: AsyncGenerator[E], over: Callable[[OngoingAnswer[E]], object]) -> None:
        self._events, self._over = events, over
        self._told: list[E] = []
        self._moved = asyncio.Event()
        self._readers = 0
        self._task = asyncio.create_task(self._make())
        self._task.add_done_callback(self._is_done)

    async def read(self) -> AsyncGenerator[E]:
        """All events, or the error that ended them; who is the last to stop reading stops them."""
        self._readers += 1
        number = 0
        try:
            while number < len(self._told) or not self._task.done():
                if number < len(self._told):
                    yield self._told[number]
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

    async def _make(self) -> None:
        async with aclosing(self._events):
            async for event in self._events:
                self._told.append(event)
                self._wake()

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._over(self)
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _again(answer: Answer) -> Answer:
    return replace(answer, usage=Usage(), notices=(CACHED, *answer.notices)) if answer.usage.requests else answer


def _wording(question: str) -> str:
    return " ".join(question.split())
