"""The teacher's page: what students ask, how it was answered, and where the notes are silent."""

from __future__ import annotations

import asyncio
import dataclasses
import html
import json
from datetime import datetime, timedelta
from string import Template

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from lmm_education.encode.bm25 import bm25
from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.figures import CourseSection
from lmm_education.exchange_log.log_file import read_log
from lmm_education.exchange_log.writer import LogWriter
from lmm_education.web import page
from lmm_education.web.rendering import to_html
from lmm_education.web.service import NO_STORE, Service, service_of
from lmm_education.web.static_files import static_text
from lmm_education.web.teacher_access import teacher_of
from lmm_education.web.teacher_page import range_html, report_html
from lmm_education.web.teacher_report import Range, Report, chosen_range, make_report
from lmm_education.web.teacher_texts import Wording

_reporting = asyncio.Semaphore(1)  # a report takes a core, which students need


async def show(request: Request) -> Response:
    """``GET /teacher``: the report on the days ``from`` to ``to``, or on so many ``days`` up to today; to others than
    the teacher, the page on which he logs in."""
    access, service = teacher_of(request), service_of(request)
    say = Wording(service.settings.language)
    if not await asyncio.to_thread(lambda: access.has_password):
        return HTMLResponse(_page(service, say, f"<p>{html.escape(say['no_password'])}</p>"), 403, headers=NO_STORE)
    if await asyncio.to_thread(access.session, request) is None:
        return HTMLResponse(_login_page(service, say), headers=NO_STORE)
    range = _range(request)
    async with _reporting:
        body = await asyncio.to_thread(_body, service, range, say)
    return HTMLResponse(_page(service, say, body), headers=NO_STORE)


async def section(request: Request) -> Response:
    """``GET /teacher/sections/ID``: a section, for the teacher, who need not have logged in as a student."""
    if await asyncio.to_thread(teacher_of(request).session, request) is None:
        return JSONResponse({}, 401, headers=NO_STORE)
    return await page.section(request)


def _range(request: Request) -> Range:
    today, asked = datetime.now().date(), request.query_params
    days = asked.get("days", "")
    if days.isascii() and days.isdigit() and 0 < int(days[:5]) < 3660:
        return Range(today - timedelta(days=int(days) - 1), today)
    return chosen_range(asked.get("from", ""), asked.get("to", ""), today)


def _body(service: Service, range: Range, say: Wording) -> str:
    log = service.recorder.log
    if log is None:
        return f"<p>{html.escape(say['no_log'])}</p>"
    told = ""
    if log.lost or log.is_failing:
        told = f'<p class="failure">{html.escape(say["losing"].replace("{n}", str(log.lost)))}</p>'
    try:
        report = _report(service, log, range)
    except LogError as error:
        broken = say["broken"].replace("{error}", str(error))
        return f'{told}<p class="failure">{html.escape(broken)}</p>'
    return f"{told}{range_html(range, say)}{report_html(report, say)}"


def _report(service: Service, log: LogWriter, range: Range) -> Report:
    chosen = range.as_filter(None)
    exchanges: list[LoggedExchange] = []
    down: list[LoggedExchange] = []
    try:
        exchanges = read_log(log.file, chosen, answers=False)
        down = read_log(log.file, dataclasses.replace(chosen, reaction=-1))
    except LogMissing:  # nothing could be written yet
        pass
    sections = [CourseSection(s.id, s.file, s.headings, s.title) for s in service.contents.sections()]
    stems = bm25(service.contents.language)
    return make_report(exchanges, down, sections, range, lambda text: stems.embed_document(text).indices)


def _page(service: Service, say: Wording, body: str) -> str:
    words = {f"t_{name}": html.escape(text) for name, text in say.texts.items()}
    return Template(static_text("teacher.html")).substitute(
        words,
        language=say.language,
        course=html.escape(service.settings.title or service.name),
        texts=html.escape(json.dumps(dict(say.texts))),
        body=body,
    )


def _login_page(service: Service, say: Wording) -> str:
    words = {f"t_{name}": html.escape(text) for name, text in service.texts.items()}
    return Template(static_text("login.html")).substitute(
        words,
        language=say.language,
        title=html.escape(f"{service.settings.title or service.name}: {say['title']}"),
        description=to_html(""),
        hidden="hidden",
        texts=html.escape(json.dumps(dict(service.texts))),
        address="teacher/login",
        then="teacher",
    )
