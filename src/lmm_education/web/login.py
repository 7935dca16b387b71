"""Logging in and out, and agreeing: the page for it, and what it sends.

All that changes something is JSON, which pages elsewhere cannot send; and the cookies do not come with their requests.
"""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from lmm_education.errors import Denied, RequestError
from lmm_education.web.access import Access
from lmm_education.web.identify import caller_of, cookie_name, set_cookie
from lmm_education.web.limits import whole_seconds
from lmm_education.web.logins import Logins
from lmm_education.web.passwords import hash_password, matches
from lmm_education.web.rendering import to_html
from lmm_education.web.service import NO_STORE, read_json, service_of
from lmm_education.web.static_files import static_text

_LONGEST = 1000  # characters of a name or a password
_YEAR = 365 * 24 * 3600
_hashing = ThreadPoolExecutor(2, thread_name_prefix="lmm-login")  # each takes 32 MB and a core for 0.1 s


def access_of(request: Request) -> Access:
    """The rules of the course that a request is for."""
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


async def show(request: Request) -> Response:
    """``GET /login``: the page, unless one is in already."""
    service, access = service_of(request), access_of(request)
    if access.identity.login not in ("password", "users") or caller_of(request).admitted:
        return RedirectResponse("./", 303)
    words = {f"t_{name}": html.escape(text) for name, text in service.texts.items()}
    page = Template(static_text("login.html")).substitute(
        words,
        language=html.escape(service.settings.language),
        title=html.escape(service.settings.title or service.name),
        description=to_html(service.settings.description),
        hidden="" if access.identity.login == "users" else "hidden",
        address="login",
        then="./",
        texts=html.escape(json.dumps(dict(service.texts))),
    )
    return HTMLResponse(page, headers=NO_STORE)


async def log_in(request: Request) -> Response:
    """``POST /login``: ``name`` and ``password``; the answer brings the cookie of a session."""
    service, access = service_of(request), access_of(request)
    identity = access.identity
    if identity.login not in ("password", "users"):
        raise RequestError("nobody logs in here", status=404)
    body = await read_json(request)
    name = _text(body, "name").strip() if identity.login == "users" else ""
    logins = await asyncio.to_thread(identity.logins.read)
    await _check(request, access, logins, name, _text(body, "password"), service.texts)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    signed, browser = identity.sessions.begin(name, logins), caller_of(request).browser
    set_cookie(response.headers, request, identity.session_cookie, signed, identity.sessions.seconds)
    if browser:
        device = cookie_name("device", identity.signer)
        set_cookie(response.headers, request, device, access.attempts.mark(name, browser), _YEAR)
    return response


async def _check(
    request: Request, access: Access, logins: Logins, name: str, password: str, texts: Mapping[str, str]
) -> None:
    """Raise `Denied` unless the password is right, and not too many were wrong before."""
    caller, attempts = caller_of(request), access.attempts
    shown = request.cookies.get(cookie_name("device", access.identity.signer), "")
    known, kept = attempts.known(name, caller.browser, shown), logins.kept(name)

    def attempt() -> float | None:
        """None if it was right; else what to wait before the next."""
        if wait := attempts.begin(name, caller.address, known):
            return wait
        if not matches(password, kept or _nobody()) or kept is None:
            return 0
        attempts.succeed(name, caller.address, known)
        return None

    # Counted in there: of a class that logs in at once, two are on their way, and none counts as wrong before.
    wait = await asyncio.get_running_loop().run_in_executor(_hashing, attempt)
    if wait == 0:
        raise Denied(texts["wrong"], status=401, code="wrong_password")
    if wait is not None:
        seconds = whole_seconds(wait)
        message = texts["too_many"].replace("{seconds}", str(seconds))
        raise Denied(message, status=429, code="too_many_attempts", headers={"Retry-After": str(seconds)})


@cache
def _nobody() -> str:
    """What an unknown name is checked with, so that it takes as long as a known one."""
    return hash_password("nobody", b"nobody's salt...")


async def log_out(request: Request) -> Response:
    """``POST /logout``: the session counts no more, here and wherever else its cookie is."""
    await read_json(request)
    identity, session = access_of(request).identity, caller_of(request).session
    if session is not None:
        await asyncio.to_thread(identity.sessions.end, session)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    set_cookie(response.headers, request, identity.session_cookie, "", 0)
    return response


# -- consent ---------------------------------------------------------------------------------------


async def consent_text(request: Request) -> Response:
    """``GET /consent``: to what one has to agree before the first question, as markdown, and what is sent to do so."""
    text, consent = service_of(request).settings.consent, access_of(request).guard.consent
    return JSONResponse({"text": text, "consent": consent}, headers=NO_STORE)


async def agree(request: Request) -> Response:
    """``POST /consent``: ``consent`` as `consent_text` told it; the browser remembers that it was given."""
    guard, body = access_of(request).guard, await read_json(request)
    if not guard.consent or body.get("consent") != guard.consent:
        raise RequestError("this is not what one has to agree to", param="consent", status=409)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    set_cookie(response.headers, request, guard.consent_cookie, guard.agreement(caller_of(request)), _YEAR)
    return response


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise RequestError(f"'{name}' must be a short text", param=name)
    return value
