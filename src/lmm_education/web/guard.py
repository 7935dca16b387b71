"""Whether a request may be answered: who has logged in, who has agreed, who asks too often, and whether question and
answer are about what the course is for, in its author's words; the aux model judges that.

The question is judged while its answer is being made; the beginning of the answer when there is enough of it. Nothing
is shown before both are through: a student who reads a text that then disappears has been told something wrong, and
the API cannot take anything back. The rest streams as always.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.requests import HTTPConnection, Request

from lmm.errors import LmmError
from lmm.loop import ended
from lmm.markdown.quotations import Quotation
from lmm.messages import Attachment, ChatRequest, Message, Retrying, TextDelta, Usage
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import Schema, object_of
from lmm.prompts.templates import Prompts
from lmm_education.answer.answer import Answer, AnswerEvent, Called
from lmm_education.answer.history import LABEL, Exchange, conversation_text
from lmm_education.config import ServeSettings
from lmm_education.errors import Denied
from lmm_education.web.accounts import Signer
from lmm_education.web.http import seconds_until, too_soon
from lmm_education.web.login import Caller, caller_of, cookie_name, route_of
from lmm_education.web.words import texts_of

OPEN = ("/login", "/login/back", "/lti/login", "/lti/launch", "/healthz", "/metrics", "/teacher")
"""Paths that need no student's login; those that have their own look after themselves."""
OPEN_UNDER = ("/static/", "/teacher/")
LAUNCHED = "/lti/"
"""Paths to which a learning platform's page sends forms, signed."""
SCRIPTED = ("/v1/", "/search")
"""Paths that scripts of other sites may use, where `allowed_origins` names the site."""
CONSENT_HEADER = "X-Consent"
_LEAST = 3  # questions at once
logger = logging.getLogger("lmm.serve")


class Guard:
    """The rules of one course."""

    def __init__(self, settings: ServeSettings, signer: Signer, limiter: MovingWindowRateLimiter) -> None:
        self.settings, self._signer, self._limiter = settings, signer, limiter
        self.consent = hashlib.sha256(settings.consent.encode()).hexdigest()[:16] if settings.consent else ""
        self.consent_cookie = cookie_name("consent", signer)

    def enter(self, connection: HTTPConnection, caller: Caller) -> None:
        """Let a request in, or say what is to be done.

        Raises:
            Denied: it comes from another site's page, or from somebody who has not logged in.
        """
        # A page elsewhere cannot send JSON unasked, nor our cookies; browsers say so besides.
        elsewhere = connection.headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
        route, by_proxy = route_of(connection.scope), self.settings.login == "proxy"
        # A script of an allowed site may ask the API, which reads no cookie that it could bring.
        scripted = connection.headers.get("origin", "") in self.settings.allowed_origins and route.startswith(SCRIPTED)
        reads = connection.scope["method"] in ("GET", "HEAD")
        if elsewhere and not (reads or scripted or route.startswith(LAUNCHED)):
            raise Denied(self._text(connection, "elsewhere"), status=403, code="cross_site")
        if caller.admitted or route in OPEN or route.startswith(OPEN_UNDER):
            return
        sent = route == "/" and not by_proxy
        headers = {"Location": "login"} if sent else {} if by_proxy else {"WWW-Authenticate": "Bearer"}
        told = self._text(connection, "log_in")
        raise Denied(told, status=303 if sent else 401, code="login_required", headers=headers)

    async def admit(self, request: Request) -> None:
        """Let a question be asked; one is counted.

        Raises:
            Denied: nobody has agreed to what he must agree to, or he asks too often.
        """
        caller = caller_of(request)
        if not self.has_agreed(request):
            raise Denied(
                self._text(request, "consent_needed"),
                status=403,
                code="consent_required",
                hint=f"GET /consent returns the text; then send the header {CONSENT_HEADER}",
            )
        own = caller.key.questions_per_minute if caller.key else None
        limit = self.settings.questions_per_minute if own is None else own
        # Only what counts elsewhere takes time for which a thread is worth it.
        here = isinstance(self._limiter.storage, MemoryStorage)
        count = partial(self._wait, caller.student, limit)
        if limit and (wait := count() if here else await asyncio.to_thread(count)):
            raise too_soon(self._text(request, "too_often"), wait, code="rate_limit_exceeded")

    def _text(self, connection: HTTPConnection, name: str) -> str:
        return texts_of(connection, self.settings)[name]

    def _wait(self, student: str, limit: int) -> float:
        """Count a question, of which half of a minute's may be asked at once; else the seconds until it may be."""
        burst = max(_LEAST, limit // 2)
        item = RateLimitItemPerSecond(burst, math.ceil(60 * burst / limit))
        try:
            if self._limiter.hit(item, "asked", student):
                return 0
            return seconds_until(self._limiter.get_window_stats(item, "asked", student).reset_time)
        except StorageError as error:  # that it cannot be counted is the teacher's concern, not the student's
            logger.error("%s: %s", type(error).__name__, error)
            return 0

    # -- consent -----------------------------------------------------------------------------------

    def has_agreed(self, connection: HTTPConnection) -> bool:
        """Whether consent was given to the text as it is now: by this student in this browser, or in a header."""
        if not self.consent or connection.headers.get(CONSENT_HEADER) == self.consent:
            return True
        return connection.cookies.get(self.consent_cookie, "") == self.agreement(caller_of(connection))

    def agreement(self, caller: Caller) -> str:
        """What a browser keeps when consent was given in it."""
        return self._signer.sign("consent", f"{self.consent}-{caller.student}")


# -- whether it is about what the course is for ----------------------------------------------------


BEGINNING = 400  # characters of an answer by which it is judged


class Verdict(NamedTuple):
    """What a model thinks, and what it took to ask it."""

    good: bool
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """Checks what is said. `allowed` is the author's text, `refusal` what a student reads instead of an answer.

    `strict`: what cannot be checked is not answered, and the error goes on; else it is answered, and the log told.
    """

    allowed: str
    refusal: str
    strict: bool
    model: ChatModel
    prompts: Prompts

    async def judge(self, prompt: str, documents: tuple[Attachment, ...]) -> Verdict:
        """What the model says to a prompt on some texts.

        Raises:
            ModelError: it cannot be asked, and the check is strict.
        """
        try:
            message = Message("user", self.prompts.fill(prompt, allowed=self.allowed), documents)
            client = Client.of(self.model)
            said = await client.value(Ask(ChatRequest((message,))), _verdict())
            return Verdict(said["allowed"], client.usage)
        except LmmError as error:
            if self.strict:
                raise
            logger.warning("a question is answered without a check: %s: %s", type(error).__name__, error)
            return Verdict(True)


@cache
def _verdict() -> Schema:
    return object_of(allowed={"type": "boolean"})


class ModerationStream:
    """The judging of one question, which begins at once, and of its answer, whose events go through `checked`.
    `refused` when nothing more is to be said."""

    def __init__(self, check: TopicCheck, question: str, history: Sequence[Exchange]) -> None:
        self.refused = False
        self._check, self._question = check, question
        earlier = (Attachment(conversation_text(history), LABEL),) if history else ()
        documents = (*earlier, Attachment(question, "question"))
        self._asked = asyncio.create_task(check.judge("topic_question", documents))
        self._held, self._through, self._used = "", False, Usage()

    async def checked(self, event: AnswerEvent) -> AnswerEvent | None:
        """What may be told of an event: nothing while its text is held back, a refusal in its place, or all held back.

        Raises:
            ModelError: it cannot be checked, and the check is strict.
        """
        if isinstance(event, Answer) and not event.found:  # no model was asked: these are our words
            return event
        if isinstance(event, Retrying | Called):
            self._held, self._through = "", False
        if not self._through and isinstance(event, Quotation):  # its text is held back; the answer has it
            return None
        if not self._through and isinstance(event, TextDelta):
            self._held += event.text
            # Where the question is refused, or could not be judged, there is nothing to wait for.
            asked = self._asked
            if len(self._held) < BEGINNING and (not asked.done() or (not asked.exception() and asked.result().good)):
                return None
            event = TextDelta(self._held)
        if not self._through and isinstance(event, TextDelta | Answer):
            self._through = await self._judge_both(event.text)
            if not self._through:
                self.refused = True
                return Answer(self._question, self._check.refusal, usage=self._used, found=False, refused=True)
        return replace(event, usage=event.usage + self._used) if isinstance(event, Answer) else event

    async def _judge_both(self, beginning: str) -> bool:
        """Whether the question is good, and the beginning of the answer."""
        first = await self._asked
        self._used += first.usage
        if not first.good:
            return False
        documents = (Attachment(self._question, "question"), Attachment(beginning[: 2 * BEGINNING], "answer"))
        second = await self._check.judge("topic_answer", documents)
        self._used += second.usage
        return second.good

    async def close(self) -> None:
        """Ask no more."""
        self._asked.cancel()
        await ended(self._asked)
