"""Logging in and out, for students and for the teacher; wrong passwords are slowed down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from limits import RateLimitItem, parse
from limits.strategies import MovingWindowRateLimiter
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from lmm_education.errors import Denied
from lmm_education.web.accounts import Accounts, Keeper, Session, Sessions, Signer, hash_password, matches
from lmm_education.web.guard import seconds_until, too_soon
from lmm_education.web.http import NO_STORE
from lmm_education.web.identity import caller_of, cookie_name, set_cookie

_YEAR = 365 * 24 * 3600
_OF_A_NAME = parse("6/3 minutes")
OF_A_CLASS, OF_ONE = parse("100/15 minutes"), parse("30/15 minutes")
"""Wrong passwords of an address that many may share, and where one person logs in."""
_hashing = ThreadPoolExecutor(2, thread_name_prefix="lmm-login")  # each takes 32 MB and a core for 0.1 s


class Attempts:
    """Wrong passwords are slowed down, by name and by address, without locking out a class that shares an address.

    Only wrong ones count. A browser in which somebody has logged in before has a measure of its own: who guesses at his
    name from elsewhere does not keep him out.
    """

    def __init__(
        self, signer: Signer, limiter: MovingWindowRateLimiter, of_an_address: RateLimitItem = OF_A_CLASS
    ) -> None:
        self._signer, self._wrong, self._of_an_address = signer, limiter, of_an_address
        self._owner = signer.pseudonym("attempts", "")  # students and teacher share the limiter

    def wait(self, name: str, address: str, known: str = "") -> float:
        """Seconds until another attempt may be made; 0 if it may be now.

        `known` is the mark of a browser in which this name has logged in before.
        """
        full = [each for each in self._counted(name, address, known) if not self._wrong.test(*each)]
        return max((seconds_until(self._wrong.get_window_stats(*each).reset_time) for each in full), default=0)

    def was_wrong(self, name: str, address: str, known: str = "") -> None:
        """Count an attempt."""
        for each in self._counted(name, address, known):
            self._wrong.hit(*each)

    def _counted(self, name: str, address: str, known: str) -> list[tuple[RateLimitItem, str, str, str]]:
        if known:
            return [(_OF_A_NAME, self._owner, "browser", known)]
        by_name = [(_OF_A_NAME, self._owner, "name", name)] if name else []
        return [(self._of_an_address, self._owner, "address", address), *by_name]

    def mark(self, name: str, browser: str) -> str:
        """What a browser keeps after `name` logged in with it; with the course's password, the name is empty."""
        return self._signer.sign("device", self._signer.pseudonym("device", f"{browser} {name}"))

    def known(self, name: str, browser: str, shown: str) -> str:
        """What a browser that shows this mark is counted by; nothing if `name` has not logged in with it."""
        return browser if browser and shown == self.mark(name, browser) else ""


class Login:
    """A way in, with its accounts and sessions: there is one for the students of a course, and one for its teacher."""

    def __init__(self, what: str, signer: Signer, accounts: Accounts, sessions: Sessions, attempts: Attempts) -> None:
        self.accounts, self.sessions, self.attempts = accounts, sessions, attempts
        self.cookie, self.device_cookie = cookie_name(what, signer), cookie_name("device", signer)

    def session(self, connection: HTTPConnection) -> Session | None:
        """The session that a request shows, if it counts."""
        return self.sessions.read(connection.cookies.get(self.cookie, ""), self.accounts.read())

    @property
    def has_password(self) -> bool:
        """Whether one was set that is nobody's in particular.

        Raises:
            FileReadError: that cannot be read.
        """
        return bool(self.accounts.read().password)

    async def check(self, request: Request, name: str, password: str, texts: Mapping[str, str]) -> None:
        """Raise `Denied` unless the password is right, and not too many were wrong before."""
        caller, shown = caller_of(request), request.cookies.get(self.device_cookie, "")
        counted = (name, caller.address, self.attempts.known(name, caller.browser, shown))
        # In there: of a class that logs in at once, two are on their way, and none counts as wrong before.
        wait = await asyncio.get_running_loop().run_in_executor(_hashing, self._attempt, password, counted)
        if wait == 0:
            raise Denied(texts["wrong"], status=401, code="wrong_password")
        if wait is not None:
            raise too_soon(texts["too_many"], wait, code="too_many_attempts")

    def _attempt(self, password: str, counted: tuple[str, str, str]) -> float | None:
        """None if it was right; else what to wait before the next."""
        if wait := self.attempts.wait(*counted):
            return wait
        kept = self.accounts.read().kept(counted[0])
        if matches(password, kept or _nobody()) and kept is not None:
            return None
        self.attempts.was_wrong(*counted)
        return 0

    async def begin(self, request: Request, name: str, password: str, texts: Mapping[str, str]) -> Response:
        """Log in; the answer brings the cookie of a session."""
        await self.check(request, name, password, texts)
        response = JSONResponse({"status": "ok"}, headers=NO_STORE)
        signed, browser = self.sessions.begin(name, self.accounts.read()), caller_of(request).browser
        set_cookie(response.headers, request, self.cookie, signed, self.sessions.seconds)
        if browser:
            set_cookie(response.headers, request, self.device_cookie, self.attempts.mark(name, browser), _YEAR)
        return response

    def arrived(self, request: Request, name: str, provider: Keeper) -> Response:
        """Somebody of whom a provider said who he is: the answer leads to the page, with the cookie of a session."""
        response = RedirectResponse("../", 303, headers=NO_STORE)
        set_cookie(response.headers, request, self.cookie, self.sessions.begin(name, provider), self.sessions.seconds)
        return response

    async def end(self, request: Request) -> Response:
        """Log out: the session counts no more, here and wherever else its cookie is."""
        session = await asyncio.to_thread(self.session, request)
        if session is not None:
            await asyncio.to_thread(self.sessions.end, session)
        response = JSONResponse({"status": "ok"}, headers=NO_STORE)
        set_cookie(response.headers, request, self.cookie, "", 0)
        return response


@cache
def _nobody() -> str:
    """What an unknown name is checked with, so that it takes as long as a known one."""
    return hash_password("nobody", b"nobody's salt...")
