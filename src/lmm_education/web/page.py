"""The page of the web chat, and what it asks the server for."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from lmm_education.answer.history import Exchange
from lmm_education.errors import RequestError
from lmm_education.web.chat_events import PageAnswer
from lmm_education.web.completions import checked_question
from lmm_education.web.contents import section_values
from lmm_education.web.rendering import to_html
from lmm_education.web.service import NO_STORE, Service, read_json, server_sent, service_of

_MEDIA = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


async def index(request: Request) -> Response:
    """``GET /``: the page."""
    service = service_of(request)
    return HTMLResponse(page_html(service), headers={"Cache-Control": "no-cache"})


def page_html(service: Service) -> str:
    """The page with the course's words in their places."""
    settings, texts = service.settings, service.texts
    words = {f"t_{name}": html.escape(text) for name, text in texts.items()}
    return Template(_file("page.html")).substitute(
        words,
        language=html.escape(settings.language),
        title=html.escape(settings.title or service.name),
        description=to_html(settings.description),
        welcome=to_html(texts["welcome"]),
        longest=settings.longest_question,
        texts=html.escape(json.dumps(dict(texts))),
    )


async def static(request: Request) -> Response:
    """``GET /static/NAME``: style sheet and script."""
    name = request.path_params["name"]
    if name not in _MEDIA:
        raise RequestError("there is no such file", status=404)
    return Response(_file(name), media_type=_MEDIA[name], headers={"Cache-Control": "no-cache"})


@cache
def _file(name: str) -> str:
    return resources.files("lmm_education.web").joinpath("static", name).read_text(encoding="utf-8")


async def contents(request: Request) -> Response:
    """``GET /contents``: documents with their headings, types of material."""
    return JSONResponse(await asyncio.to_thread(service_of(request).contents.as_json))


async def section(request: Request) -> Response:
    """``GET /sections/ID``: its text, with the passage ``passage`` marked, or the one that fits ``searched`` best."""
    service = service_of(request)
    wanted = {name: request.query_params.get(name, "") for name in ("passage", "searched")}
    searched = wanted["searched"][: service.settings.longest_question]
    values = await asyncio.to_thread(
        section_values, service.searching.searcher, request.path_params["id"], passage=wanted["passage"],
        searched=searched,
    )  # fmt: skip
    return JSONResponse(values)


async def chat(request: Request) -> Response:
    """``POST /chat``: the answer to ``question`` after ``history``, a list of pairs, as server-sent events."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(body.get("question"), service.settings.longest_question)
    stream = _stream(service, question, _history(body.get("history", [])))
    return StreamingResponse(stream, media_type="text/event-stream", headers=NO_STORE)


def _history(pairs: object) -> list[Exchange]:
    found = [pair for pair in pairs if _is_pair(pair)] if isinstance(pairs, list) else None
    if found is None or len(found) < len(pairs):  # type: ignore[arg-type]
        raise RequestError("'history' must be a list of pairs of texts", param="history")
    return [Exchange(question, answer) for question, answer in found]


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)


async def _stream(service: Service, question: str, history: Sequence[Exchange]) -> AsyncGenerator[str]:
    page, events = PageAnswer(service.texts), service.answer(question, history)
    try:
        async with aclosing(events):
            async for event in events:
                for name, values in page.events(event):
                    yield server_sent(values, name)
    except Exception as error:  # the response has begun: what is left is to say so in it
        yield server_sent({"message": service.failed(error).message}, "failure")
