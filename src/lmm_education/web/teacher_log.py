"""The teacher's page: one exchange with its answer, answers that are marked as wrong, and the log to be taken along."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm.disk import files
from lmm.disk.folder import check_named
from lmm_education.errors import LogMissing, RequestError
from lmm_education.exchange_log.exchanges import WRITERS, LogFilter, LoggedExchange, as_questions
from lmm_education.exchange_log.log_file import read_log
from lmm_education.web.http import NO_STORE, read_json, render, short_text
from lmm_education.web.rendering import to_html
from lmm_education.web.service import Service, service_of_teacher
from lmm_education.web.teacher import chosen_days
from lmm_education.web.words import Wording

QUESTIONS = "questions.jsonl"
"""Where wrong answers are kept, in the course's folder, for ``lmm eval questions.jsonl``."""
_TYPES = {"csv": "text/csv", "jsonl": "application/jsonl", "questions": "application/jsonl"}
_writing = asyncio.Lock()


async def exchange(request: Request) -> Response:
    """``GET /teacher/exchanges/ID``: a question with its answer and sources, as the page shows them."""
    service = await service_of_teacher(request)
    found = await asyncio.to_thread(_found, service, request.path_params["id"])
    say = Wording(service.settings.language)
    html = render("exchange.html", exchange=found, answer=to_html(found.answer), say=say)
    return JSONResponse({"title": found.question, "html": html}, headers=NO_STORE)


async def mark_wrong(request: Request) -> Response:
    """``POST /teacher/wrong``: the question of the `exchange` becomes one of the evaluation questions."""
    service = await service_of_teacher(request)
    id = short_text(await read_json(request), "exchange")
    found = await asyncio.to_thread(_found, service, id)
    async with _writing:
        kept = await asyncio.to_thread(keep_wrong, service.answering.course.root / QUESTIONS, found)
    told = Wording(service.settings.language)["kept" if kept else "kept_before"].replace("{file}", QUESTIONS)
    return JSONResponse({"told": told}, headers=NO_STORE)


async def export(request: Request) -> Response:
    """``GET /teacher/export/KIND``: the exchanges of the chosen days, as ``csv``, ``jsonl`` or ``questions``."""
    service, kind = await service_of_teacher(request), request.path_params["kind"]
    if kind not in WRITERS:
        raise RequestError(f"'{kind}' is none of {', '.join(WRITERS)}", status=404)
    chosen = chosen_days(request).as_filter(None)
    text = await asyncio.to_thread(lambda: WRITERS[kind](_read(service, chosen)))
    name = f"{service.name}.csv" if kind == "csv" else QUESTIONS if kind == "questions" else f"{service.name}.jsonl"
    ascii_name = "".join(char if char.isascii() and char.isprintable() and char not in '"\\/' else "_" for char in name)
    headers = {**NO_STORE, "Content-Disposition": f'attachment; filename="{ascii_name}"'}
    return Response(text, media_type=f"{_TYPES[kind]}; charset=utf-8", headers=headers)


def keep_wrong(file: Path, wrong: LoggedExchange) -> bool:
    """Add the question to a question file, without a section: what is right, the author writes. False if it is there.

    Raises:
        FileWriteError: the file cannot be written.
    """
    before = files.read_bytes(check_named(file)) if file.exists() else None
    text = before.decode() if before else ""
    # As with thumbs down: that the course says nothing about it is as wrong as what it said.
    row = json.loads(as_questions([replace(wrong, reaction=-1, outcome="answered")]))
    if any(_question_in(line) == row["question"] for line in text.splitlines()):
        return False
    line = json.dumps({"question": row["question"], "wrong": wrong.answer}, ensure_ascii=False)
    end = "" if not text or text.endswith("\n") else "\n"
    files.replace(file, f"{text}{end}{line}\n", expected=before, mode=0o600)  # as the log, of which it is a part
    return True


def _question_in(line: str) -> object:
    """None of a line that somebody is still writing."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row.get("question") if isinstance(row, dict) else None


def _found(service: Service, id: str) -> LoggedExchange:
    found = next((each for each in _read(service, LogFilter()) if each.id == id), None)
    if found is None:
        raise RequestError("there is no such exchange", status=404)
    return found


def _read(service: Service, chosen: LogFilter) -> list[LoggedExchange]:
    if service.log is None:
        return []
    try:
        return read_log(service.log.file, chosen)
    except LogMissing:  # nothing could be written yet
        return []
