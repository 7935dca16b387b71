"""`create_app`: a course as a web application. Nothing happens at import; models and store wait for a request."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lmm.errors import LmmError
from lmm_education.answer.answers import AskOptions
from lmm_education.answer.run import open_answering
from lmm_education.parts import CourseParts
from lmm_education.web import api, login, material, page, static_files, teacher, teacher_access
from lmm_education.web.access import open_access, state_of
from lmm_education.web.contents import Contents
from lmm_education.web.failures import Failure
from lmm_education.web.identify import Identify
from lmm_education.web.logged import open_recorder
from lmm_education.web.measuring import CountRequests, metrics
from lmm_education.web.pictures import Pictures, picture
from lmm_education.web.reactions import react
from lmm_education.web.security import SecurityHeaders
from lmm_education.web.service import Service, service_of
from lmm_education.web.teacher_access import TeacherAccess
from lmm_education.web.texts import texts_for

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
ROUTES = (
    ("GET", "/", page.index),
    ("GET", "/static/{name}", static_files.static),
    ("GET", "/contents", page.contents),
    ("GET", "/sections/{id}", page.section),
    ("GET", "/material", material.overview),
    ("GET", "/material/{kind}", material.kind),
    ("GET", "/login", login.show),
    ("POST", "/login", login.log_in),
    ("POST", "/logout", login.log_out),
    ("GET", "/consent", login.consent_text),
    ("POST", "/consent", login.agree),
    ("GET", "/pictures/{address}", picture),
    ("POST", "/chat", page.chat),
    ("POST", "/reactions", react),
    ("GET", "/teacher", teacher.show),
    ("GET", "/teacher/sections/{id}", teacher.section),
    ("POST", "/teacher/login", teacher_access.log_in),
    ("POST", "/teacher/logout", teacher_access.log_out),
    ("GET", "/metrics", metrics),
    ("POST", "/search", api.search),
    ("POST", "/v1/chat/completions", api.completions),
    ("GET", "/v1/models", api.models),
    ("GET", "/v1/models/{name}", api.model),
    ("GET", "/healthz", api.health),
)


def create_app(course: CourseParts, *, options: AskOptions | None = None, hosts: Sequence[str] = LOOPBACK) -> Starlette:
    """The web chat and the HTTP API of a course that stays open for as long as the application runs.

    Args:
        course: as `lmm_education.Course.open` gives it.
        options: how questions are answered; by default as configured.
        hosts: names under which requests may come; ``("*",)`` for any, as where a proxy checks them.

    Raises:
        ConfigError: [serve] asks for something unknown.
    """
    course = course.for_students()
    answering, settings = open_answering(course, options), course.settings.serve
    contents = Contents(
        answering.searching.searcher, course.settings.preparation.language, course.settings.study.solutions
    )
    recorder, texts = open_recorder(course), texts_for(settings)
    access = open_access(course, answering, texts)
    app = Starlette(
        routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in ROUTES],
        middleware=[
            Middleware(CountRequests, recorder.metrics),
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, hosts, www_redirect=False),
            Middleware(Identify, access.identity, access.guard.enter, _failed),
        ],
        exception_handlers={HTTPException: _refused, LmmError: _failed, Exception: _failed},
    )
    app.state.access, app.state.pictures = access, Pictures(course.root, access.identity.signer)
    app.state.material = material.Material(contents, course.settings.study, app.state.pictures.of_document)
    app.state.teacher = TeacherAccess(state_of(course), hosts)
    app.state.service = Service(
        course.settings.storage.course, answering, contents, settings, texts, recorder, access.guard, access.topic
    )
    return app


async def _failed(request: Request, error: Exception) -> Response:
    failure = service_of(request).failed(error)
    return JSONResponse(failure.as_json(), failure.status, headers=dict(failure.headers))


async def _refused(request: Request, error: Exception) -> Response:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    failure = Failure(error.status_code, "invalid_request_error", str(error.detail))
    return JSONResponse(failure.as_json(), error.status_code, headers=error.headers)
