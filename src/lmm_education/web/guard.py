"""Whether a request may be answered: who has logged in, who has agreed, who asks too often, what is left to spend."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from starlette.requests import HTTPConnection, Request

from lmm.errors import LmmError
from lmm.messages import TextDelta, Usage
from lmm_education.answer.answers import Answer, AnswerEvent
from lmm_education.errors import Denied
from lmm_education.serve_settings import ServeSettings
from lmm_education.web.budget import Budget, Reservation
from lmm_education.web.identify import Caller, caller_of, cookie_name, route_of
from lmm_education.web.limits import Buckets, whole_seconds
from lmm_education.web.signing import Signer

OPEN = ("/login", "/healthz", "/metrics", "/teacher")
"""Paths that need no student's login; those that have their own look after themselves."""
OPEN_UNDER = ("/static/", "/teacher/")
CONSENT_HEADER = "X-Consent"
_BURST = 0.5  # of what a student may ask in a minute, at once
_LEAST = 3
logger = logging.getLogger("lmm.serve")


class Guard:
    """The rules of one course. Only the server's event loop calls it, but for `within_budget`.

    `clock` is in seconds, and never goes back.
    """

    def __init__(
        self,
        settings: ServeSettings,
        texts: Mapping[str, str],
        signer: Signer,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._texts, self._signer, self._budget, self._clock = settings, texts, signer, budget, clock
        self._buckets = Buckets(*_measure(settings.questions_per_minute or 1))
        self.consent = hashlib.sha256(settings.consent.encode()).hexdigest()[:16] if settings.consent else ""
        self.consent_cookie = cookie_name("consent", signer)
        self._warned = False
        self._told = ""  # the day for which the log has been told that all is spent

    def enter(self, connection: HTTPConnection, caller: Caller) -> None:
        """Let a request in, or say what is to be done.

        Raises:
            Denied: it comes from another site's page, or from somebody who has not logged in.
        """
        # A page elsewhere cannot send JSON unasked, nor our cookies; browsers say so besides.
        if connection.headers.get("sec-fetch-site", "") in ("cross-site", "same-site") and _changes(connection):
            raise Denied(self._texts["elsewhere"], status=403, code="cross_site")
        route = route_of(connection.scope)
        if caller.admitted or route in OPEN or route.startswith(OPEN_UNDER):
            return
        if route == "/" and self._settings.login != "proxy":
            raise Denied(self._texts["log_in"], status=303, code="login_required", headers={"Location": "login"})
        headers = {"WWW-Authenticate": "Bearer"} if self._settings.login != "proxy" else {}
        raise Denied(self._texts["log_in"], status=401, code="login_required", headers=headers)

    def admit(self, request: Request) -> None:
        """Let a question be asked; one is counted.

        Raises:
            Denied: nobody has agreed to what he must agree to, or he asks too often.
        """
        caller = caller_of(request)
        if not self.has_agreed(request):
            raise Denied(
                self._texts["consent_needed"],
                status=403,
                code="consent_required",
                hint=f"GET consent says to what; then send the header {CONSENT_HEADER}",
            )
        own = caller.key.questions_per_minute if caller.key else None
        limit = self._settings.questions_per_minute if own is None else own
        if not limit:
            return
        burst, every = _measure(limit)
        wait = self._buckets.take(caller.student, self._clock(), burst=burst, every=every)
        if wait > 0:
            seconds = whole_seconds(wait)
            message = self._texts["too_often"].replace("{seconds}", str(seconds))
            raise Denied(message, status=429, code="rate_limit_exceeded", headers={"Retry-After": str(seconds)})

    # -- consent -----------------------------------------------------------------------------------

    def has_agreed(self, connection: HTTPConnection) -> bool:
        """Whether consent was given to the text as it is now: by this student in this browser, or in a header."""
        if not self.consent or connection.headers.get(CONSENT_HEADER) == self.consent:
            return True
        signed = connection.cookies.get(self.consent_cookie, "")
        return self._signer.read("consent", signed) == self._agreed(caller_of(connection))

    def agreement(self, caller: Caller) -> str:
        """What a browser keeps when consent was given in it."""
        return self._signer.sign("consent", self._agreed(caller))

    def _agreed(self, caller: Caller) -> str:
        return f"{self.consent}-{caller.student}"

    # -- the budget --------------------------------------------------------------------------------

    async def within_budget(self, events: AsyncGenerator[AnswerEvent]) -> AsyncGenerator[AnswerEvent]:
        """The events of an answer, if there is something left of the day's budget.

        Raises:
            Denied: there is not.
        """
        if self._budget is None:
            async with aclosing(events):
                async for event in events:
                    yield event
            return
        reservation, said = await asyncio.to_thread(self._reserve, self._budget), False
        try:
            async with aclosing(events):
                async for event in events:
                    said = said or isinstance(event, TextDelta)
                    if isinstance(event, Answer):
                        self._check_price(event)
                        await _settled(self._budget, reservation, event.usage)
                    yield event
        except LmmError:
            if not said:  # a model that is down costs nothing
                await _settled(self._budget, reservation, Usage())
            raise

    def _check_price(self, answer: Answer) -> None:
        """Say once if what a model costs is not known: then a limit in dollars limits nothing."""
        usage = answer.usage
        if self._settings.daily_cost and usage.requests and usage.cost is None and not self._warned:
            self._warned = True
            logger.warning(
                "the price of %s is not known: daily_cost does not count it, daily_tokens does", answer.model
            )

    def _reserve(self, budget: Budget) -> Reservation:
        reservation = budget.reserve()
        if reservation is not None:
            return reservation
        if self._told != (today := budget.now().date().isoformat()):
            self._told = today
            spent = budget.spent()
            logger.warning("the budget of the day is spent: %d tokens, $%.2f", spent.tokens, spent.cost)
        after = {"Retry-After": str(whole_seconds(budget.until_tomorrow()))}
        raise Denied(self._texts["spent"], status=429, code="insufficient_quota", headers=after)


async def _settled(budget: Budget, reservation: Reservation, usage: Usage) -> None:
    """Count an answer that is there: that it cannot be counted is the teacher's concern, not the student's."""
    try:
        await asyncio.to_thread(budget.settle, reservation, usage)
    except LmmError as error:
        logger.error("%s: %s", type(error).__name__, error)


def _measure(per_minute: int) -> tuple[float, float]:
    """How many at once, and after how many seconds another one."""
    return max(_LEAST, per_minute * _BURST), 60 / per_minute


def _changes(connection: HTTPConnection) -> bool:
    return connection.scope["method"] not in ("GET", "HEAD")
