"""Every question with what came of it: into the log, if one is kept, and into the metrics."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from lmm.disk.folder import configured
from lmm.messages import Retrying, TextDelta
from lmm.powers import require
from lmm_education.answer.answers import Answer, AnswerEvent, Called, Found
from lmm_education.answer.sources import Source
from lmm_education.errors import Denied
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource, Outcome
from lmm_education.exchange_log.writer import LogWriter
from lmm_education.parts import CourseParts
from lmm_education.web.metrics import Metrics

T = TypeVar("T")
_LONGEST_ERROR = 1000  # characters


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where questions and answers are counted, and kept if `log` is there."""

    metrics: Metrics = field(default_factory=Metrics)
    log: LogWriter | None = None
    started: float = field(default_factory=time.time)

    def asked(self, question: str, student: str, via: str) -> Asked:
        """A question that was just asked."""
        return Asked(self, question, student, via)


def open_recorder(course: CourseParts) -> Recorder:
    """The recorder of a course, with its log if one is configured; the log is closed with the course."""
    settings = course.settings.serve
    if not settings.log:
        return Recorder()
    require(settings.powers, "serve.log")
    log = LogWriter(configured(course.root, settings.log), days=settings.log_days)
    course.closing.callback(log.close)
    return Recorder(log=log)


@dataclass(slots=True)
class Asked:
    """One question on its way: `events` passes its answer through. `id` is that of the exchange in the log."""

    recorder: Recorder
    question: str
    student: str
    via: str
    id: str = field(default_factory=lambda: secrets.token_hex(10))
    at: float = field(default_factory=time.time)
    _begun: float = field(default_factory=time.monotonic)
    _first_word: float | None = None
    _text: str = ""
    _found: Found | None = None
    _answer: Answer | None = None

    @property
    def number(self) -> str:
        """The id, if there is a log to look it up in; else nothing."""
        return self.id if self.recorder.log is not None else ""

    async def events(self, events: AsyncGenerator[AnswerEvent]) -> AsyncGenerator[AnswerEvent]:
        """The events of its answer, as they come; what came of it is written down before anybody reads the answer, so
        that he can react to it, or when there will be none."""
        outcome, error = "left", ""  # type: Outcome, str
        self.recorder.metrics.running += 1
        try:
            async with aclosing(events):
                async for event in events:
                    self._note(event)
                    if isinstance(event, Answer):
                        self._write_down(_outcome(event))
                    yield event
        except Exception as failure:
            outcome = "refused" if isinstance(failure, Denied) else "failed"
            error = f"{type(failure).__name__}: {failure}"[:_LONGEST_ERROR]
            self.recorder.metrics.errors.add(type(failure).__name__)
            raise
        finally:
            self.recorder.metrics.running -= 1
            if self._answer is None:
                self._write_down(outcome, error)

    def _note(self, event: AnswerEvent) -> None:
        if isinstance(event, TextDelta):
            self._text += event.text
        elif isinstance(event, Retrying | Called):
            self._text = ""
        elif isinstance(event, Found):
            self._found = event
        elif isinstance(event, Answer):
            self._answer = event
        if self._first_word is None and isinstance(event, TextDelta | Answer):
            self._first_word = time.monotonic() - self._begun

    def _write_down(self, outcome: Outcome, error: str = "") -> None:
        exchange = self._exchange(outcome, error)
        metrics = self.recorder.metrics
        metrics.exchanges.add(self.via, outcome)
        metrics.answer.observe(exchange.total)
        if exchange.first_word is not None:
            metrics.first_word.observe(exchange.first_word)
        metrics.tokens.add("input", amount=exchange.input_tokens)
        metrics.tokens.add("output", amount=exchange.output_tokens)
        metrics.cost.add(amount=exchange.cost or 0.0)
        if self.recorder.log is not None:
            self.recorder.log.add(exchange, self.student)

    def _exchange(self, outcome: Outcome, error: str) -> LoggedExchange:
        answer = self._answer or Answer(self.question, self._text, self._found.searched if self._found else "")
        offered = answer.offered or (self._found.sources if self._found else ())
        cited = {source.id for source in answer.cited}
        return LoggedExchange(
            id=self.id, time=self.at, question=self.question, via=self.via, searched=answer.searched,
            answer=answer.text, sources=tuple(logged_source(source, source.id in cited) for source in offered),
            outcome=outcome, model=answer.model, first_word=self._first_word, total=time.monotonic() - self._begun,
            input_tokens=answer.usage.input_tokens, output_tokens=answer.usage.output_tokens,
            cost=answer.usage.cost, error=error,
        )  # fmt: skip


def _outcome(answer: Answer) -> Outcome:
    return "refused" if answer.refused else "answered" if answer.found else "not found"


def logged_source(source: Source, cited: bool) -> LoggedSource:
    """What the log keeps of a source."""
    place = source.place
    return LoggedSource(source.number, source.section or source.id, place.file, place.headings, source.title, cited)


# -- callers ---------------------------------------------------------------------------------------


class CallerLeft(Exception):
    """Nobody is there any more to whom an answer could be given."""


async def unless_caller_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What some work comes to, unless the caller goes away before: then it is stopped. The request's body was read.

    Raises:
        CallerLeft: the caller went away.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeft
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await working


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def student_of(request: Request) -> str:
    """Who asks: an opaque name."""
    return str(request.state.student)
