"""What every endpoint works with: the course, its search and answers, the words; and answers across event loops."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request

from lmm import loop
from lmm.errors import LmmError
from lmm.messages import TextDelta
from lmm_education.answer.answers import AnswerEvent
from lmm_education.answer.history import Exchange
from lmm_education.answer.run import Answering
from lmm_education.errors import RequestError
from lmm_education.search.run import CourseSearch
from lmm_education.settings import ServeSettings
from lmm_education.web.contents import Contents
from lmm_education.web.failures import Failure, failure_of
from lmm_education.web.guard import Guard
from lmm_education.web.logged import Recorder
from lmm_education.web.security import LARGEST
from lmm_education.web.topic import TopicCheck

NO_STORE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of a stream: no proxy keeps it, or holds it back."""
logger = logging.getLogger("lmm.serve")


@dataclass(frozen=True, slots=True)
class Service:
    """One course as it is served; kept in the application's state under ``service``."""

    name: str
    answering: Answering
    contents: Contents
    settings: ServeSettings
    texts: Mapping[str, str]
    recorder: Recorder = field(default_factory=Recorder)
    guard: Guard | None = None
    topic: TopicCheck | None = None

    @property
    def searching(self) -> CourseSearch:
        return self.answering.searching

    async def answer(self, question: str, history: Sequence[Exchange]) -> AsyncGenerator[AnswerEvent]:
        """`_stream` on the one background loop, where all models are at home; closing it stops the model."""
        arrived = Arrived(asyncio.get_running_loop())

        async def pump() -> None:
            try:
                async with aclosing(self._stream(question, history)) as events:
                    async for event in events:
                        arrived.put(event)
            finally:
                arrived.put(None)

        pumping = asyncio.create_task(loop.run_async(pump()))
        try:
            while events := await arrived.take():
                for event in events:
                    yield event
            await pumping  # raises what ended it
        finally:
            pumping.cancel()

    def _stream(self, question: str, history: Sequence[Exchange]) -> AsyncGenerator[AnswerEvent]:
        """The answer's events, as far as the course's rules let them through."""
        events = self.answering.stream(question, history)
        if self.topic is not None:
            events = self.topic.stream(events, question, history)
        return events if self.guard is None else self.guard.within_budget(events)

    def admit(self, request: Request) -> None:
        """Let a question be asked; one is counted.

        Raises:
            Denied: it may not be.
        """
        if self.guard is not None:
            self.guard.admit(request)

    def failed(self, error: BaseException) -> Failure:
        """What is told about an error; the log gets all of it that the caller may not see."""
        failure = failure_of(error, self.texts)
        if failure.logged:
            logger.error("%s: %s: %s", self.name, type(error).__name__, error, exc_info=_unforeseen(error))
        return failure


class Arrived:
    """Events on their way from one event loop to another, `reader`. Where the reader is busy, pieces of text are joined
    meanwhile: the more there is to do, the less there is to do for each piece."""

    def __init__(self, reader: asyncio.AbstractEventLoop) -> None:
        self._reader, self._lock = reader, threading.Lock()
        self._events: list[AnswerEvent] = []
        self._over = False
        self._there = asyncio.Event()

    def put(self, event: AnswerEvent | None) -> None:
        """Add an event, None for the end; from any thread."""
        with self._lock:
            waits = not self._events and not self._over
            if event is None:
                self._over = True
            elif isinstance(event, TextDelta) and self._events and isinstance(self._events[-1], TextDelta):
                self._events[-1] = TextDelta(self._events[-1].text + event.text)
            else:
                self._events.append(event)
        if waits:
            self._reader.call_soon_threadsafe(self._there.set)

    async def take(self) -> list[AnswerEvent]:
        """What has arrived, as soon as something has; nothing at the end."""
        await self._there.wait()
        with self._lock:
            events, self._events = self._events, []
            if not self._over:
                self._there.clear()
        return events


def _unforeseen(error: BaseException) -> BaseException | None:
    """The error itself, whose traceback is of use, unless it is one of ours, which say what is wrong."""
    return None if isinstance(error, LmmError) else error


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


async def read_json(request: Request) -> Mapping[str, Any]:
    """The body of a request: a JSON object.

    Only requests that say that they are JSON are read: a page elsewhere cannot send those unasked.

    Raises:
        RequestError: it is something else, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the request must be JSON", hint="Content-Type: application/json", status=415)
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > LARGEST:
                raise RequestError(f"the request has more than {LARGEST} bytes", status=413)
    except ClientDisconnect:
        raise RequestError("the request has no end", status=408) from None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise RequestError("the request is no JSON") from None
    if not isinstance(body, dict):
        raise RequestError("the request must be a JSON object")
    return body


def server_sent(values: Mapping[str, Any] | str, event: str = "") -> str:
    """One server-sent event.

    >>> server_sent({"a": 1}, "text")
    'event: text\\ndata: {"a": 1}\\n\\n'
    """
    data = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
    return f"event: {event}\ndata: {data}\n\n" if event else f"data: {data}\n\n"
