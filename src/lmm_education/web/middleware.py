"""What every request to a course passes, in one layer: who asks, whether he may come in, headers, counting."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmm.errors import LmmError
from lmm_education.web.http import add_headers, headers_for
from lmm_education.web.identity import route_of, set_cookie
from lmm_education.web.metrics import LEFT
from lmm_education.web.service import Service

_AGE = 180 * 24 * 3600  # seconds that a browser is remembered


class CourseMiddleware:
    """Sets ``request.state.student`` and ``request.state.caller``, adds `HEADERS` and a new browser's cookie to the
    response, and counts the request. `failed` makes a response of an error."""

    def __init__(
        self, app: ASGIApp, service: Service, failed: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        self.app, self.service, self.failed = app, service, failed
        self.headers = headers_for(service.settings.frame_ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, status, identity = Request(scope), LEFT, self.service.identity
        fresh = secrets.token_urlsafe(16) if _opens_a_page(scope) else ""
        request.state.framed = identity.framed
        is_new = False

        async def send_out(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                add_headers(message, self.headers)
                if is_new:
                    signed = identity.signer.sign("student", fresh)
                    set_cookie(MutableHeaders(scope=message), request, identity.student_cookie, signed, _AGE)
            await send(message)

        try:
            # In a thread where it is looked up who has logged in: a database may be slow.
            asks = identity.login not in ("none", "proxy")
            caller = (
                await asyncio.to_thread(identity.caller, request, fresh) if asks else identity.caller(request, fresh)
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


def _opens_a_page(scope: Scope) -> bool:
    return scope["method"] == "GET" and route_of(scope) in ("/", "/login")
