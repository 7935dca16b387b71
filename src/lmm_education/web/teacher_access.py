"""Who is the teacher: whoever shows the password that ``lmm serve teacher`` set. Students' logins do not count here."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm.listening import is_loopback
from lmm_education.errors import Denied
from lmm_education.web.attempts import Attempts
from lmm_education.web.identify import caller_of, cookie_name, set_cookie
from lmm_education.web.limits import whole_seconds
from lmm_education.web.logins import LoginFile
from lmm_education.web.passwords import matches
from lmm_education.web.service import NO_STORE, read_json, service_of
from lmm_education.web.sessions import Session, Sessions
from lmm_education.web.signing import Signer
from lmm_education.web.state import ServeState

_HOURS = 12  # until a session ends
_LONGEST = 1000  # characters of a password
_NEEDED = "metrics need the teacher's password"
_checking = asyncio.Semaphore(1)  # each takes 32 MB and a core, which students need


class TeacherAccess:
    """One for each course; kept in the application's state under ``teacher``. `local`: only this machine is let in."""

    def __init__(self, state: ServeState, hosts: Iterable[str]) -> None:
        signer = Signer(state.key() + b" teacher")
        self.local = all(is_loopback(host) for host in hosts)
        self.logins = LoginFile(state.teacher)
        self.sessions = Sessions(signer, state.teacher_ended, _HOURS)
        self.cookie = cookie_name("teacher", signer)
        self.attempts = Attempts(signer)

    @property
    def has_password(self) -> bool:
        """Whether one was set.

        Raises:
            FileReadError: that cannot be read.
        """
        return bool(self.logins.read().password)

    def session(self, request: Request) -> Session | None:
        """The teacher's session, if the request comes from him."""
        return self.sessions.read(request.cookies.get(self.cookie, ""), self.logins.read())

    async def check(self, request: Request, password: str, texts: Mapping[str, str]) -> None:
        """Raise `Denied` unless the password is right, and not too many were wrong before."""
        address = caller_of(request).address
        wait = self.attempts.begin("", address)
        if wait > 0:
            seconds = whole_seconds(wait)
            message = texts["too_many"].replace("{seconds}", str(seconds))
            raise Denied(message, status=429, code="too_many_attempts", headers={"Retry-After": str(seconds)})
        async with _checking:
            right = await asyncio.to_thread(matches, password, self.logins.read().password)
        if not right:
            raise Denied(texts["wrong"], status=401, code="wrong_password")
        self.attempts.succeed("", address)

    async def may_measure(self, request: Request) -> None:
        """Raise `Denied` unless the request may read the metrics.

        It shows the teacher's session or, as Prometheus does, his password (HTTP Basic, any user name). Where none is
        set, it comes from this machine, for which alone the server is there.
        """
        if self.session(request) is not None:
            return
        if not self.has_password:
            peer = request.client.host if request.client else ""
            if self.local and is_loopback(peer):
                return
            raise Denied(_NEEDED, status=403, code="no_password", hint="lmm serve teacher")
        shown = _basic(request.headers.get("authorization", ""))
        if shown is None:
            headers = {"WWW-Authenticate": 'Basic realm="metrics"'}
            raise Denied(_NEEDED, status=401, code="password_required", headers=headers)
        await self.check(request, shown, service_of(request).texts)


def teacher_of(request: Request) -> TeacherAccess:
    """Who is the teacher of the course that a request is for."""
    access = request.app.state.teacher
    assert isinstance(access, TeacherAccess)
    return access


async def log_in(request: Request) -> Response:
    """``POST /teacher/login``: ``password``; the answer brings the cookie of a session."""
    access, body = teacher_of(request), await read_json(request)
    password = body.get("password")
    await access.check(request, password[:_LONGEST] if isinstance(password, str) else "", service_of(request).texts)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    signed = access.sessions.begin("", access.logins.read())
    set_cookie(response.headers, request, access.cookie, signed, access.sessions.seconds)
    return response


async def log_out(request: Request) -> Response:
    """``POST /teacher/logout``: the session counts no more."""
    await read_json(request)
    access = teacher_of(request)
    session = access.session(request)
    if session is not None:
        await asyncio.to_thread(access.sessions.end, session)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    set_cookie(response.headers, request, access.cookie, "", 0)
    return response


def _basic(header: str) -> str | None:
    """The password in a header ``Authorization: Basic``.

    >>> _basic("Basic " + base64.b64encode(b"me:a:b").decode()), _basic("Bearer x")
    ('a:b', None)
    """
    kind, _, shown = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(shown, validate=True).decode().partition(":")[2][:_LONGEST]
    except (binascii.Error, UnicodeDecodeError):
        return None
