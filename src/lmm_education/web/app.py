"""`create_app` makes a web application of a course. Models and stores open on first use.

`CourseMiddleware` handles every request to a course: it identifies the caller, checks access, adds headers, counts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmm.errors import LmmError
from lmm_education.options import AskOptions
from lmm_education.parts import CourseParts
from lmm_education.web import api, page, teacher
from lmm_education.web.guard import CONSENT_HEADER
from lmm_education.web.http import (
    HEADERS,
    POLICY,
    CallerLeft,
    HttpFailure,
    static,
)
from lmm_education.web.login import route_of, set_cookie
from lmm_education.web.metrics import LEFT
from lmm_education.web.service import Service, service_of
from lmm_education.web.words import texts_of

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
ROUTES = (  # matched in this order
    ("POST", "/chat", page.chat),
    ("POST", "/v1/chat/completions", api.completions),
    ("GET", "/", page.index),
    ("GET", "/static/{name}", static),
    ("GET", "/contents", page.contents),
    ("GET", "/sections/{id}", page.section),
    ("GET", "/here", page.where),
    ("GET", "/material", api.overview),
    ("GET", "/material/{kind}", api.kind),
    ("GET", "/login", page.login),
    ("POST", "/login", page.log_in),
    ("GET", "/login/back", page.came_back),
    ("GET", "/lti/login", page.launch),
    ("POST", "/lti/login", page.launch),
    ("POST", "/lti/launch", page.came_back),
    ("POST", "/logout", page.log_out),
    ("GET", "/consent", page.consent_text),
    ("POST", "/consent", page.agree),
    ("GET", "/pictures/{address}", page.picture),
    ("GET", "/originals/{address}", page.original),
    ("POST", "/feedback", page.feedback),
    ("POST", "/suggestions", page.suggest),
    ("POST", "/reactions", page.react),
    ("GET", "/teacher", teacher.show),
    ("GET", "/teacher/sections/{id}", teacher.section),
    ("GET", "/teacher/exchanges/{id}", teacher.exchange),
    ("POST", "/teacher/wrong", teacher.mark_wrong),
    ("GET", "/teacher/export/{kind}", teacher.export),
    ("POST", "/teacher/documents", teacher.take_document),
    ("POST", "/teacher/ingest", teacher.ingest),
    ("POST", "/teacher/login", teacher.log_in),
    ("POST", "/teacher/logout", teacher.log_out),
    ("GET", "/metrics", teacher.metrics),
    ("POST", "/search", api.search),
    ("GET", "/v1/models", api.models),
    ("GET", "/v1/models/{name}", api.model),
    ("GET", "/healthz", api.health),
)


def create_app(
    course: CourseParts, *, options: AskOptions | None = None, hosts: Sequence[str] = LOOPBACK, workers: int = 1
) -> Starlette:
    """Create the web chat and HTTP API of a course, which must stay open while the application runs.

    Args:
        course: what `lmm_education.Course.open` returns.
        options: how questions are answered; by default as configured.
        hosts: host names that requests may use; ``("*",)`` allows any, for instance behind a proxy that checks them.
        workers: number of processes that serve the course, including this one.

    Raises:
        ConfigError: a setting in [serve] is invalid.
    """
    service = Service(course, options, hosts=hosts, workers=workers)
    # Scripts of allowed sites may send keys, but no cookies.
    origins, sent = sorted(service.settings.allowed_origins), ["Authorization", "Content-Type", CONSENT_HEADER]
    scripts: dict[str, Any] = {"allow_origins": origins, "allow_methods": ["GET", "POST"], "allow_headers": sent}
    app = Starlette(
        routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in ROUTES],
        middleware=[
            *([Middleware(CORSMiddleware, **scripts)] if origins else []),
            Middleware(TrustedHostMiddleware, hosts, www_redirect=False),
            Middleware(CourseMiddleware, service, _failed),
        ],
        exception_handlers={HTTPException: _refused, CallerLeft: _left, LmmError: _failed, Exception: _failed},
    )
    app.state.service = service
    return app


async def _failed(request: Request, error: Exception) -> Response:
    service = service_of(request)
    failure = service.failed(error, texts_of(request, service.settings))
    return JSONResponse(failure.as_json(), failure.status, headers=dict(failure.headers))


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=int(LEFT))


async def _refused(request: Request, error: Exception) -> Response:
    """Respond to an unknown path or a method that is not allowed."""
    assert isinstance(error, HTTPException)
    where = f"there is nothing at {request.url.path[:100]}; OpenAI's clients use /v1/chat/completions and /v1/models"
    detail = where if error.status_code == 404 else str(error.detail)
    failure = HttpFailure(error.status_code, "invalid_request_error", detail)
    return JSONResponse(failure.as_json(), error.status_code, headers=error.headers)


# -- middleware of a course ------------------------------------------------------------------------


_AGE = 180 * 24 * 3600  # lifetime of the browser cookie in seconds


class CourseMiddleware:
    """Middleware that sets ``request.state.student`` and ``request.state.caller``, adds `HEADERS` and a new browser's
    cookie to the response, and counts the request. `failed` turns an error into a response."""

    def __init__(
        self, app: ASGIApp, service: Service, failed: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        self.app, self.service, self.failed = app, service, failed
        ancestors = service.settings.frame_ancestors
        policy = {"Content-Security-Policy": POLICY + " ".join(["'self'", *ancestors])} if ancestors else {}
        self.headers = HEADERS | policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, status, identity = Request(scope), LEFT, self.service.identity
        opens = scope["method"] == "GET" and route_of(scope) in ("/", "/login")
        fresh = secrets.token_urlsafe(16) if opens else ""
        request.state.framed = identity.framed
        is_new = False

        async def send_out(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():  # a picture has a stricter policy of its own
                    headers.setdefault(name, value)
                if is_new:
                    signed = identity.signer.sign("student", fresh)
                    set_cookie(headers, request, identity.student_cookie, signed, _AGE)
            await send(message)

        try:
            # In a thread if a session must be looked up: a database may be slow.
            is_stored = identity.login not in ("none", "proxy")
            caller = (
                await asyncio.to_thread(identity.caller, request, fresh)
                if is_stored
                else identity.caller(request, fresh)
            )
            scope.setdefault("state", {}).update(caller=caller, student=caller.student)
            self.service.guard.enter(request, caller)
            is_new = bool(fresh) and caller.browser == fresh
        except LmmError as error:
            app: ASGIApp = await self.failed(request, error)
        else:
            app = self.app
        try:
            await app(scope, receive, send_out)
        finally:
            self.service.metrics.note_request(scope.get("route"), status)
