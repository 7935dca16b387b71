"""A served course: what all endpoints use, and the way of a question through queue, budget, topic check and log."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar

from limits.strategies import MovingWindowRateLimiter
from markupsafe import Markup
from starlette.requests import Request

from lmm import loop
from lmm.errors import ConfigError, FileReadError, Interrupted, LmmError
from lmm.hosts import is_loopback
from lmm.messages import Attachment, ChatRequest, Message, TextDelta
from lmm.models.chat import shared_chat
from lmm.models.client import Client
from lmm.models.port import Ask, connected
from lmm.models.structured import object_of
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent, Found
from lmm_education.answer.answering import Answering
from lmm_education.answer.history import Exchange
from lmm_education.config import StorageSettings
from lmm_education.database import Database
from lmm_education.errors import Denied, StoreError
from lmm_education.exchange_log.log_file import LogWriter, log_place
from lmm_education.material import Passage
from lmm_education.options import AskOptions
from lmm_education.parts import CourseParts
from lmm_education.prompts.templates import course_prompts
from lmm_education.search.rerank import can_write
from lmm_education.search.search import CourseSearch
from lmm_education.web.contents import FOLLOW_UPS, Contents
from lmm_education.web.gate import CourseGate, Spending
from lmm_education.web.guard import Guard, ModerationStream, TopicCheck
from lmm_education.web.http import HttpFailure, failure_of
from lmm_education.web.login import OF_ONE, Accounts, Attempts, Identity, Login, Signer
from lmm_education.web.metrics import Metrics, ModelHealth
from lmm_education.web.openid import open_provider
from lmm_education.web.pictures import Originals, Pictures
from lmm_education.web.questions import AnswerCache, Queue, ServedQuestion, WaitingAnswer
from lmm_education.web.rendering import to_html
from lmm_education.web.state import Spent, open_limiter, open_state, secret_key
from lmm_education.web.words import texts_for

T = TypeVar("T")
logger = logging.getLogger("lmm.serve")
A_CLASS = 400
"""Answers in progress at once, unless the configuration limits the concurrent calls of the model."""
_BEGINNERS, _BEGINNING = 3, 0.02
"""As many questions begin within so many seconds, or, where the event loop is late, at each of its turns: if all of a
class were looked up side by side, the first word of each would come as late as that of the last."""
_LOOK_UP, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds for which an answer pauses after a block for each question that is still looked up, and at most: a first word
is awaited more than a further one."""
_TEACHER_HOURS = 12  # until a session ends
_BESIDES = 1500  # estimated tokens of a question besides its context: instructions, history, the answer
_LONGEST_ERROR, _LONGEST_SUGGESTION = 1000, 200  # characters


class Service:
    """One served course, with the texts that its students may see; stored in the application's state as ``service``.

    `local`: only this machine has access. `students` and `teacher` are the two logins. `author` is the course with all
    its texts, for the teacher only.
    """

    def __init__(
        self, course: CourseParts, options: AskOptions | None = None, *, hosts: Collection[str] = (), workers: int = 1
    ) -> None:
        """Prepare to serve an open course by the rules in [serve]. `workers` is the number of processes that serve it
        and share the concurrent calls of the model.

        Raises:
            ConfigError: [serve] has an invalid value, or one that cannot be applied: no password has been set, there is
                no model to check topics, or the model is an agent's program.
            FileReadError: the server's database cannot be used.
        """
        self.author, course = course, course.for_students()
        self.name, self.settings = course.settings.storage.course, course.settings.serve
        settings, database = self.settings, state_of(course)
        names = (getattr(course.models, tier).model for tier in ("major", "minor", "aux"))
        if not settings.agent and (agent := next((name for name in names if name.provider == "ACP"), None)):
            fact = f"{agent} answers with your own account, which students' questions would use"
            raise ConfigError(fact, where="[serve]", hint="set agent = true under [serve], or choose another model")
        limiter, key, accounts = open_limiter(settings), secret_key(database), Accounts(database)
        signer, for_teacher = Signer(key), Signer(key + b" teacher")
        if settings.login == "password" and not accounts.read().password:
            raise ConfigError("no password is set yet", where="[serve] login", hint="lmm serve password")
        if settings.login == "users" and not accounts.read().users:
            raise ConfigError("there are no users yet", where="[serve] login", hint="lmm serve users add NAME")
        self.provider, attempts = open_provider(settings, signer, database), Attempts(signer, limiter)
        self.students = Login("session", signer, accounts, settings.session_hours, attempts, self.provider)
        accounts, attempts = Accounts(database, "teacher"), Attempts(for_teacher, limiter, OF_ONE)
        self.teacher = Login("teacher", for_teacher, accounts, _TEACHER_HOURS, attempts)
        self.identity = Identity(settings, signer, self.students)
        # Enough for a class, unless the concurrency of the model is set: its default is for one person's documents.
        is_set = course.models.is_set("major", "concurrency")
        at_once = max(1, course.models.major.concurrency // workers) if is_set else A_CLASS
        self.gate = open_gate(course, database, Queue(at_once), limiter)
        self.guard = Guard(settings, signer, self.gate)
        major = course.major or shared_chat(course.models.major.replace(concurrency=at_once))
        self.answering = Answering(CourseSearch(course), options or AskOptions(), major=major)
        self.texts, self.answers = texts_for(settings), AnswerCache(settings.cached_answers)
        self.pictures = Pictures(course.root, signer, inside=bool(course.settings.storage.addresses))
        self.originals = Originals(self.author, signer)
        self.contents = Contents(self.searching, course.settings.study, self.pictures.of_document)
        self.log: LogWriter | None = None
        if settings.log:  # closed with the course
            self.log = LogWriter(log_place(settings, course.root), days=settings.log_days)
            course.closing.callback(self.log.close)
        self.model = ModelHealth(course.models.major)
        self.metrics = Metrics(self.log, self.model)
        self.topic = _topic(course, self.answering, self.texts["off_topic"]) if settings.allowed_content else None
        self.local = all(is_loopback(host) for host in hosts)
        self._connections: AsyncExitStack | None = None
        self._beginning = asyncio.Semaphore(_BEGINNERS)
        self._looked_up = set[str]()  # ids of questions whose material is being looked for
        self._answering = set[asyncio.Task[Any]]()  # those that read answers in progress
        self._stops = False

    @property
    def title(self) -> str:
        """The title for students: the configured one, the course's own, its name, or its folder's."""
        with contextlib.suppress(StoreError):
            if title := self.settings.title or self.contents.title():
                return title
        return name_of(self.author)

    @property
    def description(self) -> Markup:
        """The text below the title, as HTML."""
        return to_html(self.settings.description)

    @property
    def searching(self) -> CourseSearch:
        return self.answering.searching

    async def health(self) -> str:
        """Return ``ok``, or what is wrong, in words that anybody may read."""
        try:
            await asyncio.to_thread(self._stamp)
        except StoreError:
            return "nothing to search"
        return "the model does not answer" if await self.model.check() else "ok"

    def asked(self, question: str, request: Request, via: str, here: Passage | None = None) -> ServedQuestion:
        """Return a new question; `here` is the section that the reader has open. With ``Cache-Control: no-cache`` in
        the request, it gets a new answer."""
        anew = "no-cache" in request.headers.get("cache-control", "")
        return ServedQuestion(
            question, str(request.state.student), via, here, is_logged=self.log is not None, anew=anew
        )

    async def answer(
        self, asked: ServedQuestion, history: Sequence[Exchange]
    ) -> AsyncGenerator[AnswerEvent | WaitingAnswer]:
        """Iterate over the events of the answer, after positions in the queue; closing the iterator stops the model.

        The outcome is logged before the answer is returned, so that a reaction to it finds it, or when the answer
        fails.

        Raises:
            LmmError: the question cannot be answered.
        """
        self.metrics.running.inc()
        reader = self._reader(None)
        try:
            async with aclosing(loop.bridge(self._events(asked, history))) as events:
                async for event in events:
                    asked.note(event)
                    if isinstance(event, Answer):
                        self._write_down(asked)
                    yield event
                    reader = self._reader(reader)
        except Interrupted as left:  # while a model wrote what to search for
            raise asyncio.CancelledError from left
        except asyncio.CancelledError:
            if not self._stops:
                raise
            reader.uncancel()
            raise Denied(self.texts["failure"], status=503, code="stopped") from None
        except Exception as failure:
            asked.outcome = "refused" if isinstance(failure, Denied) else "failed"
            asked.error = f"{type(failure).__name__}: {failure}"[:_LONGEST_ERROR]
            self.model.note(failure)
            self.metrics.errors.labels(type(failure).__name__).inc()
            raise
        finally:
            self.metrics.running.dec()
            self._answering.discard(reader)
            if asked.answer is None:
                self._write_down(asked)

    async def suggested(self, question: str, answer: str) -> list[str]:
        """Return questions that lead on from an answer, written by the model that answers.

        Raises:
            LmmError: the model does not answer, or the day's budget is used up.
        """
        assert self.answering.major is not None
        prompt = course_prompts(self.searching.course.models.prompts.folder).fill("follow_up", count=str(FOLLOW_UPS))
        documents = (Attachment(question, "question"), Attachment(answer, "answer"))
        client, texts = Client.of(self.answering.major), {"type": "array", "items": {"type": "string"}}
        async with self.gate.passing(self.texts["spent"]) as spending:
            reply = await client.value(
                Ask(ChatRequest((Message("user", prompt, documents),))), object_of(questions=texts)
            )
            await spending.settle(client.usage, client.name)
        found = (" ".join(text.split()) for text in reply["questions"])
        return list(dict.fromkeys(text for text in found if 0 < len(text) <= _LONGEST_SUGGESTION))[:FOLLOW_UPS]

    def _reader(self, before: asyncio.Task[Any] | None) -> asyncio.Task[Any]:
        """Return the task that reads an answer now, in place of the one before."""
        reader = asyncio.current_task()
        assert reader is not None
        if reader is not before:
            self._answering.discard(before)
            self._answering.add(reader)
        return reader

    def stop(self) -> None:
        """End the answers in progress, because the server ends: students read that, and the log has what was said."""
        self._stops = True
        for reader in tuple(self._answering):
            reader.cancel()

    async def _events(
        self, asked: ServedQuestion, history: Sequence[Exchange]
    ) -> AsyncGenerator[AnswerEvent | WaitingAnswer]:
        """Iterate over the same events, in the event loop of the models."""
        question = asked.question if asked.here is None else f"{asked.question}\0{asked.here.place}"
        caches = self.answers.size and not history and not asked.attempted
        stamp = await asyncio.to_thread(self._stamp) if caches else None
        if stamp and not asked.anew and (known := self.answers.get(stamp, question)):
            yield Found(known.searched, known.offered)
            yield dataclasses.replace(known, question=asked.question)
            return
        make = functools.partial(self._in_turn, asked, history)
        events = make() if asked.anew or not stamp else self.answers.given_to_all(stamp, question, make)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Answer) and stamp:
                    self.answers.put(stamp, question, event)
                yield event

    async def _in_turn(
        self, asked: ServedQuestion, history: Sequence[Exchange]
    ) -> AsyncGenerator[AnswerEvent | WaitingAnswer]:
        ahead = -1
        with self.gate.queue.turn() as turn:
            while (ahead := await self.gate.queue.ahead(turn, ahead)) > 0:
                yield WaitingAnswer(ahead)
            self._looked_up.add(asked.id)
            try:
                await self._beginning.acquire()
                asyncio.get_running_loop().call_later(_BEGINNING, self._beginning.release)
                async with (
                    self.gate.spending(self.texts["spent"]) as spending,
                    aclosing(self._answer(asked, history, spending)) as events,
                ):
                    async for event in events:
                        self._looked_up.discard(asked.id)
                        yield event
                        if isinstance(event, AnswerBlock) and len(self._looked_up) > _BEGINNERS:
                            await asyncio.sleep(min(_LOOK_UP * len(self._looked_up), _LONGEST_PAUSE))
            finally:
                self._looked_up.discard(asked.id)

    def _stamp(self) -> str:
        """Return a stamp of the current state of the texts, after reading what every question needs of it."""
        with self.searching.course.view() as catalogue:
            _ = catalogue.frequencies
            return catalogue.reader.stamp

    async def _answer(
        self, asked: ServedQuestion, history: Sequence[Exchange], spending: Spending
    ) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the answer's events that the topic check lets through."""
        question, answering = asked.question, self.answering.at(asked.here)
        stream = answering.feedback(asked.attempted) if asked.attempted else answering.stream(question, history)
        if self._connections is None and answering.major is not None:  # opening them takes 30 ms of processor time
            self._connections = stack = AsyncExitStack()
            self.searching.course.closing.callback(lambda: loop.run(stack.aclose()))
            await stack.enter_async_context(connected(answering.major))
        moderation = (
            ModerationStream(self.topic, answering.resolve_this(question, history), history) if self.topic else None
        )
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    for checked in await moderation.checked(event) if moderation else [event]:
                        spending.has_begun = spending.has_begun or isinstance(checked, TextDelta)
                        if isinstance(checked, Answer):
                            if checked.usage.requests:
                                self.model.note(None)
                            await spending.settle(checked.usage, checked.model)
                        yield checked
                    if moderation and moderation.refused:
                        return
        finally:
            if moderation:
                await moderation.close()

    def _write_down(self, asked: ServedQuestion) -> None:
        exchange = asked.as_exchange()
        self.metrics.note(exchange)
        if self.log is not None and not asked.attempted:
            self.log.add(exchange, asked.student)

    def failed(self, error: BaseException, texts: Mapping[str, str] | None = None) -> HttpFailure:
        """Return what is reported about an error, in these words; details that the caller may not see are logged."""
        failure = failure_of(error, texts or self.texts)
        if failure.logged and not (isinstance(error, FileReadError) and not self.gate.reports.is_new(str(error.where))):
            # Only unexpected errors need a traceback; our own say what is wrong.
            trace = None if isinstance(error, LmmError) else error
            logger.error("%s: %s: %s", self.name, type(error).__name__, error, exc_info=trace)
        return failure


def service_of(request: Request) -> Service:
    """Return the service of a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


async def service_of_teacher(request: Request) -> Service:
    """Return the service of a teacher's request.

    Raises:
        Denied: the teacher is not logged in.
    """
    service = service_of(request)
    if await asyncio.to_thread(service.teacher.session, request) is None:
        raise Denied(service.texts["log_in"], status=401, code="login_required")
    return service


# -- opening ---------------------------------------------------------------------------------------


def name_of(course: CourseParts) -> str:
    """Return the configured title of a course, else its name, else that of its folder."""
    settings = course.settings
    named = settings.storage.course != StorageSettings().course
    return settings.serve.title or (settings.storage.course if named else course.root.name)


def state_of(course: CourseParts) -> Database:
    """Open the database of a course's server; it is closed with the course."""
    database = open_state(course.root, course.settings.storage.course, course.settings.serve)
    course.closing.callback(database.close)
    return database


def open_gate(
    course: CourseParts,
    database: Database,
    queue: Queue | None = None,
    limiter: MovingWindowRateLimiter | None = None,
) -> CourseGate:
    """Open the gate of a course.

    Raises:
        FileReadError: the server's database cannot be used.
    """
    expected = Spent(course.settings.answer.context_tokens + _BESIDES)
    return CourseGate(course.settings.serve, database, expected, queue, limiter)


def _topic(course: CourseParts, answering: Answering, refusal: str) -> TopicCheck:
    settings, aux = course.settings.serve, answering.aux or shared_chat(course.models.aux)
    if not can_write(aux.name):
        raise ConfigError(
            f"{aux.name} cannot check the topic of questions",
            where="[serve] allowed_content",
            hint="set a model under [aux] in config.toml",
        )
    prompts = course_prompts(course.models.prompts.folder)
    strict = settings.on_check_failure == "refuse"
    return TopicCheck(settings.topics, refusal, strict, aux, prompts)
