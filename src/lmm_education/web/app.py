"""`create_app`: a course as a web application; `create_site`: several. Models and store wait for a request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from lmm.errors import LmmError
from lmm_education.answer.answers import AskOptions
from lmm_education.errors import StoreError
from lmm_education.parts import CourseParts
from lmm_education.web import api, page, teacher
from lmm_education.web.http import SecurityHeaders, ToldFailure, static, template
from lmm_education.web.identity import Identify
from lmm_education.web.metrics import CountRequests
from lmm_education.web.service import Service, open_service, service_of
from lmm_education.web.words import words_in

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
ROUTES = (
    ("GET", "/", page.index),
    ("GET", "/static/{name}", static),
    ("GET", "/contents", page.contents),
    ("GET", "/sections/{id}", page.section),
    ("GET", "/material", api.overview),
    ("GET", "/material/{kind}", api.kind),
    ("GET", "/login", page.login),
    ("POST", "/login", page.log_in),
    ("POST", "/logout", page.log_out),
    ("GET", "/consent", page.consent_text),
    ("POST", "/consent", page.agree),
    ("GET", "/pictures/{address}", page.picture),
    ("POST", "/chat", page.chat),
    ("POST", "/reactions", page.react),
    ("GET", "/teacher", teacher.show),
    ("GET", "/teacher/sections/{id}", teacher.section),
    ("POST", "/teacher/login", teacher.log_in),
    ("POST", "/teacher/logout", teacher.log_out),
    ("GET", "/metrics", teacher.metrics),
    ("POST", "/search", api.search),
    ("POST", "/v1/chat/completions", api.completions),
    ("GET", "/v1/models", api.models),
    ("GET", "/v1/models/{name}", api.model),
    ("GET", "/healthz", api.health),
)


def create_app(
    course: CourseParts, *, options: AskOptions | None = None, hosts: Sequence[str] = LOOPBACK, workers: int = 1
) -> Starlette:
    """The web chat and the HTTP API of a course that stays open for as long as the application runs.

    Args:
        course: as `lmm_education.Course.open` gives it.
        options: how questions are answered; by default as configured.
        hosts: names under which requests may come; ``("*",)`` for any, as where a proxy checks them.
        workers: how many processes serve the course, with this one.

    Raises:
        ConfigError: [serve] asks for something unknown.
    """
    service = open_service(course, options, hosts=hosts, workers=workers)
    app = Starlette(
        routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in ROUTES],
        middleware=[
            Middleware(CountRequests, service.metrics),
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, hosts, www_redirect=False),
            Middleware(Identify, service.identity, service.guard.enter, _failed),
        ],
        exception_handlers={HTTPException: _refused, LmmError: _failed, Exception: _failed},
    )
    app.state.service = service
    return app


async def _failed(request: Request, error: Exception) -> Response:
    failure = service_of(request).failed(error)
    return JSONResponse(failure.as_json(), failure.status, headers=dict(failure.headers))


async def _refused(request: Request, error: Exception) -> Response:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    failure = ToldFailure(error.status_code, "invalid_request_error", str(error.detail))
    return JSONResponse(failure.as_json(), error.status_code, headers=error.headers)


# -- several courses -------------------------------------------------------------------------------


def create_site(apps: Mapping[str, Starlette]) -> Starlette:
    """The applications of `create_app`, each under its name, with its own login, limits and log; at least one. A page
    lists them."""
    services: dict[str, Service] = {name: app.state.service for name, app in apps.items()}

    async def index(request: Request) -> Response:
        """The courses' titles and descriptions, in the language of the first."""
        language = next(iter(services.values())).settings.language
        courses = [
            {"address": quote(name), "title": service.settings.title or name, "description": service.description}
            for name, service in services.items()
        ]
        title = words_in(language)["page"]["courses"]
        return template("courses.html", language=language, title=title, courses=courses)

    async def health(request: Request) -> Response:
        readable = {name: await asyncio.to_thread(_is_readable, service) for name, service in services.items()}
        states = {name: "ok" if good else "nothing to search" for name, good in readable.items()}
        return JSONResponse({"courses": states}, 200 if all(readable.values()) else 503)

    routes: list[BaseRoute] = [
        Route("/", index),
        Route("/healthz", health),
        Route("/static/{name}", static),
        *(Route(f"/{name}", _to_the_course(name)) for name in apps),
        *(Mount(f"/{name}", app) for name, app in apps.items()),
    ]
    return Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)])


def _to_the_course(name: str) -> Any:
    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{quote(name)}/", 308)  # relative: a proxy may have put all of this under a path

    return redirect


def _is_readable(service: Service) -> bool:
    try:
        return service.searching.searcher.store.manifest() is not None
    except StoreError:
        return False
