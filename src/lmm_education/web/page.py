"""The page of the web chat, and what it asks the server for."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from lmm_education.answer.history import Exchange
from lmm_education.errors import RequestError
from lmm_education.web.chat_events import PageAnswer
from lmm_education.web.completions import check_number, checked_length, checked_question
from lmm_education.web.contents import Hidden, section_values
from lmm_education.web.identify import caller_of
from lmm_education.web.logged import Asked, student_of
from lmm_education.web.rendering import to_html
from lmm_education.web.service import NO_STORE, Service, read_json, server_sent, service_of
from lmm_education.web.static_files import static_text

_NO_PAIRS = "'history' must be a list of pairs of texts"


async def index(request: Request) -> Response:
    """``GET /``: the page."""
    service = service_of(request)
    guard, caller = service.guard, caller_of(request)
    consent = "" if guard is None or guard.has_agreed(request) else guard.consent
    page = page_html(service, consent=consent, logged_in=caller.session is not None)
    return HTMLResponse(page, headers={"Cache-Control": "no-store"})


def page_html(service: Service, *, consent: str = "", logged_in: bool = False) -> str:
    """The page with the course's words in their places; `consent` is what is sent to agree, if one has to."""
    settings, texts = service.settings, service.texts
    words = {f"t_{name}": html.escape(text) for name, text in texts.items()}
    return Template(static_text("page.html")).substitute(
        words,
        language=html.escape(settings.language),
        title=html.escape(settings.title or service.name),
        description=to_html(settings.description),
        welcome=to_html(texts["welcome"]),
        logged=_notice(service),
        consent=html.escape(consent),
        consent_text=to_html(settings.consent),
        log_out=_log_out(texts) if logged_in else "",
        longest=settings.longest_question,
        texts=html.escape(json.dumps(dict(texts))),
    )


def _log_out(texts: Mapping[str, str]) -> str:
    log_out, enter = html.escape(texts["log_out"]), html.escape(texts["enter"])
    return f'<button type="button" id="log-out" data-enter="{enter}">{log_out}</button>'


def _notice(service: Service) -> str:
    """What students are told of the log, if one is kept."""
    if service.recorder.log is None:
        return ""
    text = service.texts["logged"].replace("{days}", str(service.settings.log_days))
    return f'<p class="note">{html.escape(text)}</p>'


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
        searched=searched, hidden=Hidden(service.answering.course.settings.study.solutions, service.texts["solution"]),
        pictures=request.app.state.pictures.of_document,
    )  # fmt: skip
    return JSONResponse(values)


async def chat(request: Request) -> Response:
    """``POST /chat``: the answer to ``question`` after ``history``, a list of pairs, as server-sent events."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(body.get("question"), service.settings.longest_question)
    service.admit(request)
    asked = service.recorder.asked(question, student_of(request), "page")
    page = PageAnswer(service.texts, asked.number, request.app.state.pictures.of_sources)
    stream = _stream(service, asked, _history(body.get("history", [])), page)
    return StreamingResponse(stream, media_type="text/event-stream", headers=NO_STORE)


def _history(pairs: object) -> list[Exchange]:
    if not isinstance(pairs, list):
        raise RequestError(_NO_PAIRS, param="history")
    check_number(2 * len(pairs), "history")
    if not all(map(_is_pair, pairs)):
        raise RequestError(_NO_PAIRS, param="history")
    return [Exchange(*(checked_length(text, "history") for text in pair)) for pair in pairs]


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)


async def _stream(service: Service, asked: Asked, history: Sequence[Exchange], page: PageAnswer) -> AsyncGenerator[str]:
    events = asked.events(service.answer(asked.question, history))
    try:
        async with aclosing(events):
            async for event in events:
                for name, values in page.events(event):
                    yield server_sent(values, name)
    except Exception as error:  # the response has begun: what is left is to say so in it
        yield server_sent({"message": service.failed(error).message}, "failure")
