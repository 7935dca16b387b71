"""Whether a request may be answered: who has logged in, who has agreed, who asks too often."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from functools import partial

from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.requests import HTTPConnection, Request

from lmm_education.config import ServeSettings
from lmm_education.errors import Denied
from lmm_education.web.accounts import Signer
from lmm_education.web.identity import Caller, caller_of, cookie_name, route_of
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


def seconds_until(moment: float) -> float:
    """Seconds until a time (seconds since 1970), at least a little."""
    return max(0.01, moment - time.time())


def too_soon(message: str, wait: float, *, code: str) -> Denied:
    """A refusal that says when to come again; ``{seconds}`` in the message is that.

    >>> too_soon("In {seconds} seconds.", 8.2, code="x").headers
    {'Retry-After': '9'}
    """
    seconds = str(max(1, math.ceil(wait)))
    return Denied(message.replace("{seconds}", seconds), status=429, code=code, headers={"Retry-After": seconds})
