"""Several courses in one server, each with its own login, limits and log; and a page that lists them."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Mapping
from string import Template
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from lmm_education.errors import StoreError
from lmm_education.web.rendering import to_html
from lmm_education.web.security import SecurityHeaders
from lmm_education.web.service import Service
from lmm_education.web.static_files import static, static_text
from lmm_education.web.texts import TEXTS


def create_site(apps: Mapping[str, Starlette]) -> Starlette:
    """The applications of `create_app`, each under its name; at least one."""
    services: dict[str, Service] = {name: app.state.service for name, app in apps.items()}

    async def index(request: Request) -> Response:
        return HTMLResponse(site_html(services), headers={"Cache-Control": "no-cache"})

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


def site_html(services: Mapping[str, Service]) -> str:
    """The page with the titles and descriptions of the courses, in the language of the first."""
    language = next(iter(services.values())).settings.language
    items = "".join(
        f'<li><h2><a href="{quote(name)}/">{html.escape(service.settings.title or name)}</a></h2>\n'
        f"{to_html(service.settings.description)}</li>\n"
        for name, service in services.items()
    )
    return Template(static_text("site.html")).substitute(
        language=language, title=html.escape(TEXTS[language]["courses"]), courses=items
    )


def _to_the_course(name: str) -> Any:
    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{quote(name)}/", 308)  # relative: a proxy may have put all of this under a path

    return redirect


def _is_readable(service: Service) -> bool:
    try:
        return service.searching.searcher.store.manifest() is not None
    except StoreError:
        return False
