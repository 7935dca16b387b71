"""Whether a request may be answered: login, consent, rate limit, and the topic check, in which the aux model judges
whether question and answer are about what the author allows.

The question is judged while its answer is being generated, the beginning of the answer once there is enough of it.
Nothing is shown until both pass: a student should not read a text that then disappears, and the API cannot take
anything back. The rest is streamed as usual.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from starlette.requests import HTTPConnection, Request

from lmm.errors import LmmError
from lmm.loop import ended
from lmm.messages import Attachment, ChatRequest, Message, Retrying, TextDelta, Usage
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import object_of
from lmm.prompts.templates import Prompts
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent, Called
from lmm_education.answer.history import LABEL, Exchange, conversation_text
from lmm_education.config import ServeSettings
from lmm_education.errors import Denied
from lmm_education.web.gate import CourseGate
from lmm_education.web.login import Caller, Signer, caller_of, cookie_name, route_of
from lmm_education.web.words import texts_of

OPEN = ("/login", "/login/back", "/lti/login", "/lti/launch", "/healthz", "/metrics", "/teacher")
"""Paths that need no student login; those with a login of their own check it themselves."""
OPEN_UNDER = ("/static/", "/teacher/")
LAUNCHED = "/lti/"
"""Paths to which a learning platform sends signed forms."""
SCRIPTED = ("/v1/", "/search")
"""Paths that scripts of other sites may request, if `allowed_origins` names the site."""
CONSENT_HEADER = "X-Consent"
logger = logging.getLogger("lmm.serve")


class Guard:
    """The access rules of one course."""

    def __init__(self, settings: ServeSettings, signer: Signer, gate: CourseGate) -> None:
        self.settings, self._signer, self._gate = settings, signer, gate
        self.consent = hashlib.sha256(settings.consent.encode()).hexdigest()[:16] if settings.consent else ""
        self.consent_cookie = cookie_name("consent", signer)

    def enter(self, connection: HTTPConnection, caller: Caller) -> None:
        """Raise `Denied` unless the request may enter.

        Raises:
            Denied: the request comes from another site's page, or from somebody who is not logged in.
        """
        # Another site's page cannot send JSON without permission, nor our cookies; browsers also send a header.
        elsewhere = connection.headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
        route, by_proxy = route_of(connection.scope), self.settings.login == "proxy"
        # A script of an allowed site may use the API, which ignores cookies.
        scripted = connection.headers.get("origin", "") in self.settings.allowed_origins and route.startswith(SCRIPTED)
        reads = connection.scope["method"] in ("GET", "HEAD")
        if elsewhere and not (reads or scripted or route.startswith(LAUNCHED)):
            raise Denied(self._text(connection, "elsewhere"), status=403, code="cross_site")
        if caller.admitted or route in OPEN or route.startswith(OPEN_UNDER):
            return
        sent = route == "/" and not by_proxy
        headers = {"Location": "login"} if sent else {} if by_proxy else {"WWW-Authenticate": "Bearer"}
        wording = self._text(connection, "log_in")
        raise Denied(wording, status=303 if sent else 401, code="login_required", headers=headers)

    async def admit(self, request: Request) -> None:
        """Count a request that asks or compares, or raise `Denied` if it may not.

        Raises:
            Denied: the required consent was not given, or there were too many requests.
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
        await self._gate.admit(caller.student, limit, self._text(request, "too_often"))

    def _text(self, connection: HTTPConnection, name: str) -> str:
        return texts_of(connection, self.settings)[name]

    # -- consent -----------------------------------------------------------------------------------

    def has_agreed(self, connection: HTTPConnection) -> bool:
        """Return whether consent to the current text was given: by this student in this browser, or in a header."""
        if not self.consent or connection.headers.get(CONSENT_HEADER) == self.consent:
            return True
        return connection.cookies.get(self.consent_cookie, "") == self.agreement(caller_of(connection))

    def agreement(self, caller: Caller) -> str:
        """Return the value of the cookie that records consent."""
        return self._signer.sign("consent", f"{self.consent}-{caller.student}")


# -- topic check -----------------------------------------------------------------------------------


BEGINNING = 400  # characters of an answer that are judged


class Verdict(NamedTuple):
    """A model's judgement, and the tokens that it used."""

    good: bool
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """Checks questions and answers. `allowed` is the author's text, `refusal` what a student reads instead.

    With `strict`, a question that cannot be checked is not answered, and the error is raised; otherwise it is answered,
    and the failure logged.
    """

    allowed: str
    refusal: str
    strict: bool
    model: ChatModel
    prompts: Prompts

    async def judge(self, prompt: str, documents: tuple[Attachment, ...]) -> Verdict:
        """Ask the model for its verdict with a prompt and some texts.

        Raises:
            ModelError: the model cannot be asked, and the check is strict.
        """
        try:
            message = Message("user", self.prompts.fill(prompt, allowed=self.allowed), documents)
            client = Client.of(self.model)
            verdict = await client.value(Ask(ChatRequest((message,))), object_of(allowed={"type": "boolean"}))
            return Verdict(verdict["allowed"], client.usage)
        except LmmError as error:
            if self.strict:
                raise
            logger.warning("a question is answered without a check: %s: %s", type(error).__name__, error)
            return Verdict(True)


class ModerationStream:
    """Judges one question, from the moment this is created, and its answer, whose events pass through `checked`.
    `refused` is set when no further event may follow."""

    def __init__(self, check: TopicCheck, question: str, history: Sequence[Exchange]) -> None:
        self.refused = False
        self._check, self._question = check, question
        earlier = (Attachment(conversation_text(history), LABEL),) if history else ()
        documents = (*earlier, Attachment(question, "question"))
        self._asked = asyncio.create_task(check.judge("topic_question", documents))
        self._text, self._through, self._used = "", False, Usage()
        self._blocks = list[AnswerEvent]()

    async def checked(self, event: AnswerEvent) -> list[AnswerEvent]:
        """Return the events to send for an event: none while text is held back, then the held text, or a refusal.

        Raises:
            ModelError: the answer cannot be checked, and the check is strict.
        """
        if isinstance(event, Answer) and not event.found:  # a fixed text of ours: no model was asked
            return [event]
        if isinstance(event, Retrying | Called):
            self._text, self._blocks, self._through = "", [], False
        if not self._through and isinstance(event, AnswerBlock):
            self._blocks.append(event)
            return []
        if not self._through and isinstance(event, TextDelta):
            self._text += event.text
            # If the question is refused, or could not be judged, there is no need to wait for more text.
            asked = self._asked
            if len(self._text) < BEGINNING and (not asked.done() or (not asked.exception() and asked.result().good)):
                return []
            event = TextDelta(self._text)
        if not self._through and isinstance(event, TextDelta | Answer):
            self._through = await self._judge_both(event.text)
            if not self._through:
                self.refused = True
                return [Answer(self._question, self._check.refusal, usage=self._used, found=False, refused=True)]
            blocks, self._blocks = self._blocks, []
            return [event, *blocks] if isinstance(event, TextDelta) else [self._counted(event)]
        return [self._counted(event) if isinstance(event, Answer) else event]

    def _counted(self, answer: Answer) -> Answer:
        return replace(answer, usage=answer.usage + self._used)

    async def _judge_both(self, beginning: str) -> bool:
        """Return whether the question and the beginning of the answer are both allowed."""
        first = await self._asked
        self._used += first.usage
        if not first.good:
            return False
        documents = (Attachment(self._question, "question"), Attachment(beginning[: 2 * BEGINNING], "answer"))
        second = await self._check.judge("topic_answer", documents)
        self._used += second.usage
        return second.good

    async def close(self) -> None:
        """Cancel the check of the question."""
        self._asked.cancel()
        await ended(self._asked)
