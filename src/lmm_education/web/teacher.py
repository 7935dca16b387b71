"""The teacher's page: what students ask, how it was answered, and what the notes lack."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm.disk import files
from lmm.disk.folder import SUFFIXES, Folder, check_named, is_document
from lmm.errors import LmmError
from lmm.hosts import is_loopback
from lmm.importing import import_file
from lmm.importing.formats import FORMATS, suffix_of
from lmm_education.catalogue import Catalogue
from lmm_education.encode.bm25 import bm25
from lmm_education.errors import Denied, LogError, LogMissing, RequestError, StoreMissing
from lmm_education.exchange_log import figures
from lmm_education.exchange_log.exchanges import (
    AUTHOR,
    WRITERS,
    LogFilter,
    LoggedExchange,
    LoggedSource,
    as_questions,
)
from lmm_education.exchange_log.log_file import LogWriter, read_log
from lmm_education.exchange_log.open_questions import QUESTIONS, open_questions, question_rows, questions_marked_wrong
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.reports import IngestReport
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.web import page
from lmm_education.web.gate import NEARLY_SPENT
from lmm_education.web.http import NO_STORE, read_body, read_json, render, short_text, template
from lmm_education.web.metrics import MEDIA_TYPE
from lmm_education.web.rendering import to_html
from lmm_education.web.service import Service, service_of, service_of_teacher
from lmm_education.web.words import Wording, theme_of

# -- the report ------------------------------------------------------------------------------------

RANGES = (7, 30, 180)
"""Ranges of days up to today to choose from."""
_LONGEST, _LATEST = 3660, 100  # days, exchanges
OUTCOMES = ("answered", "uncited", "not_found", "refused", "failed", "left")
"""What can become of a question: names in `Figures` and in the texts."""
_MIDNIGHT = datetime.min.time()


@dataclass(frozen=True, slots=True)
class Range:
    """A range of days, both ends included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    def as_filter(self, zone: tzinfo | None) -> LogFilter:
        """Return a filter for the exchanges of these days; without a zone, in this machine's time zone."""
        begin = datetime.combine(self.first, _MIDNIGHT, zone)
        end = datetime.combine(self.last + timedelta(days=1), _MIDNIGHT, zone)
        return LogFilter(since=begin.timestamp(), until=end.timestamp())


class TeacherReport:
    """A report on the exchanges of a range of days. `down` are those with thumbs down, with their answers; `wrong` are
    questions whose answer the teacher marked as wrong."""

    def __init__(
        self,
        exchanges: Sequence[LoggedExchange],
        down: Sequence[LoggedExchange],
        sections: Iterable[LoggedSource],
        range: Range,
        words: figures.Words,
        zone: tzinfo | None = None,
        wrong: Collection[str] = (),
    ) -> None:
        self.open = open_questions(exchanges, words, wrong)
        exchanges = [exchange for exchange in exchanges if exchange.via != AUTHOR]
        self.range, self.total = range, figures.figures(exchanges)
        self.bins = figures.over_time(exchanges, range.first, range.last, zone)
        self.asked = figures.group_questions(exchanges, words)
        self.down, self.latest = tuple(reversed(down)), tuple(reversed(exchanges[-_LATEST:]))
        failed = defaultdict[str, list[LoggedExchange]](list)
        for exchange in exchanges:
            if exchange.outcome == "failed":
                failed[exchange.error.partition(":")[0]].append(exchange)
        self.failures = sorted(failed.items(), key=lambda item: -len(item[1]))
        self.uses = figures.section_uses(exchanges, sections)

    def tiles(self, say: Wording) -> list[tuple[str, str, str]]:
        """Return the figures at the top: name, value, and a remark."""
        total = self.total
        shares = (f"{say.number(getattr(total, name))} {say[name]}" for name in OUTCOMES if getattr(total, name))
        wait = "–" if total.first_word_median is None else say.number(total.first_word_median, 1)
        p95 = "" if total.first_word_p95 is None else f"{say['p95']}: {say.number(total.first_word_p95, 1)}"
        used = [f"{say['tokens']}: {say.number(total.tokens)}"]
        used += [say["unpriced"].format(count=say.number(total.unpriced))] if total.unpriced else []
        return [
            (say["questions"], say.number(total.questions), ", ".join(shares)),
            (say["students_a_day"], say.number(total.students / total.days, 1), say["students_help"]),
            (say["up"], say.number(total.up), f"{say['down']}: {say.number(total.down)}"),
            (say["wait"], wait, p95),
            (say["cost"], "–" if total.cost is None else say.number(total.cost, 2), ", ".join(used)),
        ]

    def over_time(self, say: Wording) -> tuple[list[str], list[list[str]]]:
        """Return a table of outcomes, waiting times and costs by day, week or month: its heads and its rows."""
        unit, used = figures.bin_name(self.range.days), "cost" if self.total.cost else "tokens"
        columns = [(name, say[name], 0) for name in OUTCOMES if getattr(self.total, name)]
        columns += [("first_word_median", f"{say['wait']}, {say['median']}", 1), ("first_word_p95", say["p95"], 1)]
        columns += [(used, say[used], 2 * (used == "cost"))]
        rows = []
        for day, counted in self.bins.items():
            values = ((getattr(counted, name), digits) for name, _, digits in columns)
            shown = ("–" if value is None else say.number(value, digits) for value, digits in values)
            rows.append([say.day(day, unit), *shown])
        return [say[unit], *(title for _, title, _ in columns)], rows


# -- the page --------------------------------------------------------------------------------------

_reporting = asyncio.Semaphore(1)  # a report uses a core, which students need


async def show(request: Request) -> Response:
    """``GET /teacher``: the report on the days ``from`` to ``to``, or on the last ``days``; the login page if the
    teacher is not logged in."""
    service = service_of(request)
    say = Wording(service.settings.language)
    if not await asyncio.to_thread(lambda: service.teacher.has_password):
        return _page(service, say, 403, message=say["no_password"])
    if await asyncio.to_thread(service.teacher.session, request) is None:
        title = f"{service.title}: {say['title']}"
        return template("login.html", language=say.language, theme=theme_of(request), title=title, description="",
                        t=service.texts, named=False, address="teacher/login", then="teacher")  # fmt: skip
    async with _reporting:
        values = await asyncio.to_thread(_shown_values, service, chosen_days(request), say)
    return _page(service, say, theme=theme_of(request), logged_in=True, **values)


async def section(request: Request) -> Response:
    """``GET /teacher/sections/ID``: a section, for a teacher who need not be logged in as a student."""
    await service_of_teacher(request)
    return JSONResponse(await page.section_of(request))


def chosen_days(request: Request) -> Range:
    """Return the range of days that a request names, ``from`` and ``to`` in any order, else the last 30 days."""
    today, asked = datetime.now().date(), request.query_params
    days = asked.get("days", "")
    if days.isascii() and days.isdigit() and 0 < int(days[:5]) < _LONGEST:
        return Range(today - timedelta(days=int(days) - 1), today)
    try:
        one, other = sorted(date.fromisoformat(asked.get(name, "")) for name in ("from", "to"))
    except ValueError:
        return Range(today - timedelta(days=RANGES[1] - 1), today)
    other = min(max(other, date(1971, 1, 1)), date(9000, 1, 1))
    return Range(max(one, other - timedelta(days=_LONGEST)), other)


def _shown_values(service: Service, range: Range, say: Wording) -> dict[str, Any]:
    """Return what the page shows: the report, or why there is none."""
    log, failures = service.log, _warnings(service, say)
    if log is None:
        return {"message": say["no_log"], "failures": failures}
    try:
        return {"failures": failures, "report": _report(service, log, range)}
    except LmmError as error:
        reason = say["broken"].replace("{error}", error.at_prompt) if isinstance(error, LogError) else error.at_prompt
        return {"failures": [*failures, reason]}


def _warnings(service: Service, say: Wording) -> list[str]:
    """Return warnings about what goes wrong while students ask."""
    log, budget, found = service.log, service.gate.budget, []
    if log is not None and (log.lost or log.is_failing):
        found.append(say["losing"].replace("{n}", str(log.lost)))
    if service.model.reason:
        found.append(say["model_down"].replace("{reason}", service.model.reason))
    if budget is not None and (share := budget.share(budget.spent())) >= NEARLY_SPENT:
        found.append(say["nearly_spent"].replace("{percent}", f"{share:.0%}"))
    return found


def _report(service: Service, log: LogWriter, range: Range) -> TeacherReport:
    chosen = range.as_filter(None)
    exchanges, down = _read(log, chosen, answers=False), _read(log, replace(chosen, reaction=-1))
    sections = service.contents.once("sections of the report", _sections) or []
    stems = bm25(service.author.settings.preparation.language)
    wrong = questions_marked_wrong(service.searching.course.root / QUESTIONS)
    return TeacherReport(exchanges, down, sections, range, lambda text: stems.embed_document(text).indices, wrong=wrong)


def _sections(catalogue: Catalogue) -> list[LoggedSource]:
    return [LoggedSource(0, s.id, s.place.file, s.place.headings, title) for s, title in catalogue.sections]


def _page(service: Service, say: Wording, status: int = 200, **shown: Any) -> Response:
    values = {"message": "", "failures": [], "report": None, "logged_in": False} | shown
    language, course = say.language, service.title
    return template("teacher.html", status, language=language, course=course, say=say, ranges=RANGES, **values)


# -- login and metrics -----------------------------------------------------------------------------

_LONGEST_PASSWORD = 1000  # characters
_NEEDED = "metrics need the teacher's password"


async def log_in(request: Request) -> Response:
    """``POST /teacher/login``: log in with ``password``; the response sets the session cookie."""
    service, password = service_of(request), short_text(await read_json(request), "password")
    response = await service.teacher.begin(request, "", password, service.texts)
    await _check_is_own(service, password)
    return response


async def _check_is_own(service: Service, password: str) -> None:
    """Raise `Denied` if the teacher's password is the same as the students'."""
    if await asyncio.to_thread(service.students.accounts.opens_with, password):
        raise Denied(Wording(service.settings.language)["not_theirs"], status=403, code="students_password")


async def log_out(request: Request) -> Response:
    """``POST /teacher/logout``: end the session."""
    await read_json(request)
    return await service_of(request).teacher.end(request)


async def metrics(request: Request) -> Response:
    """``GET /metrics``: the metrics in Prometheus' format."""
    await may_measure(request)
    service = service_of(request)
    await service.model.check()
    counted = service.metrics.text()
    return Response(counted, media_type=MEDIA_TYPE, headers=NO_STORE)


async def may_measure(request: Request) -> None:
    """Raise `Denied` unless the request may read the metrics.

    It needs the teacher's session or, as Prometheus sends it, his password (HTTP Basic, any user name). If no password
    is set, the request must come from this machine, and the server must be open to it alone.
    """
    service = service_of(request)
    teacher = service.teacher
    if await asyncio.to_thread(teacher.session, request) is not None:
        return
    if not await asyncio.to_thread(lambda: teacher.has_password):
        peer = request.client.host if request.client else ""
        if service.local and is_loopback(peer):
            return
        raise Denied(_NEEDED, status=403, code="no_password", hint="lmm serve teacher")
    shown = _basic(request.headers.get("authorization", ""))
    if shown is None:
        headers = {"WWW-Authenticate": 'Basic realm="metrics"'}
        raise Denied(_NEEDED, status=401, code="password_required", headers=headers)
    await teacher.check(request, "", shown, service.texts)
    await _check_is_own(service, shown)


def _basic(header: str) -> str | None:
    """Return the password in a header ``Authorization: Basic``.

    >>> _basic("Basic " + base64.b64encode(b"me:a:b").decode()), _basic("Bearer x")
    ('a:b', None)
    """
    kind, _, shown = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(shown, validate=True).decode().partition(":")[2][:_LONGEST_PASSWORD]
    except (binascii.Error, UnicodeDecodeError):
        return None


# -- the log ---------------------------------------------------------------------------------------

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
    """``POST /teacher/wrong``: add the question of the `exchange` to the evaluation questions."""
    service = await service_of_teacher(request)
    id = short_text(await read_json(request), "exchange")
    found = await asyncio.to_thread(_found, service, id)
    async with _writing:
        added = await asyncio.to_thread(keep_wrong, service.searching.course.root / QUESTIONS, found)
    message = Wording(service.settings.language)["kept" if added else "kept_before"].replace("{file}", QUESTIONS)
    return JSONResponse({"told": message}, headers=NO_STORE)


async def export(request: Request) -> Response:
    """``GET /teacher/export/KIND``: the exchanges of the chosen days, as ``csv``, ``jsonl`` or ``questions``."""
    service, kind = await service_of_teacher(request), request.path_params["kind"]
    if kind not in WRITERS:
        raise RequestError(f"'{kind}' is none of {', '.join(WRITERS)}", status=404)
    chosen = chosen_days(request).as_filter(None)
    text = await asyncio.to_thread(lambda: WRITERS[kind](_read(service.log, chosen)))
    name = f"{service.name}.csv" if kind == "csv" else QUESTIONS if kind == "questions" else f"{service.name}.jsonl"
    ascii_name = "".join(char if char.isascii() and char.isprintable() and char not in '"\\/' else "_" for char in name)
    headers = {**NO_STORE, "Content-Disposition": f'attachment; filename="{ascii_name}"'}
    return Response(text, media_type=f"{_TYPES[kind]}; charset=utf-8", headers=headers)


def keep_wrong(file: Path, wrong: LoggedExchange) -> bool:
    """Add the question to a question file, without a section: the author adds the right one. False if it is there.

    Raises:
        FileWriteError: the file cannot be written.
    """
    before = files.read_bytes(check_named(file)) if file.exists() else None
    text = before.decode() if before else ""
    # As with thumbs down: saying wrongly that the course has no answer is as bad as a wrong answer.
    row = json.loads(as_questions([replace(wrong, reaction=-1, outcome="answered")]))
    if any(row_before.get("question") == row["question"] for row_before in question_rows(text)):
        return False
    line = json.dumps({"question": row["question"], "wrong": wrong.answer}, ensure_ascii=False)
    end = "" if not text or text.endswith("\n") else "\n"
    files.replace(file, f"{text}{end}{line}\n", expected=before, private=True)  # as the log, of which it is a part
    return True


def _found(service: Service, id: str) -> LoggedExchange:
    found = next((each for each in _read(service.log, LogFilter()) if each.id == id), None)
    if found is None:
        raise RequestError("there is no such exchange", status=404)
    return found


def _read(log: LogWriter | None, chosen: LogFilter, *, answers: bool = True) -> list[LoggedExchange]:
    try:
        return read_log(log.file, chosen, answers=answers) if log else []
    except LogMissing:  # nothing could be written yet
        return []


# -- the course's documents --------------------------------------------------------------------------

_BEAT = 5.0  # seconds between blanks that keep the connection open
_LONGEST_PATH = 200  # characters
_LARGEST, _PATIENCE = 50_000_000, 120.0  # bytes of a file, seconds to convert it
_BYTES = "application/octet-stream"
_importing = threading.Lock()
_running = threading.Lock()  # one at a time: it uses a core, which students need


async def take_document(request: Request) -> Response:
    """``POST /teacher/documents?name=NAME``: take a file into the course's folder; other formats than markdown are
    converted as `lmm import` does it. With ``replace``, existing files are replaced. Nothing is read in yet."""
    service = await service_of_teacher(request)
    say = Wording(service.settings.language)
    if request.headers.get("content-type", "") != _BYTES:  # which another site's page cannot send
        raise RequestError("the request must be a file", hint=f"Content-Type: {_BYTES}", status=415)
    name, replace = request.query_params.get("name", "").strip(), "replace" in request.query_params
    target = checked_document(f"{name.rpartition('.')[0]}.md" if suffix_of(name) in FORMATS else name, say)
    try:
        data = await read_body(request, _LARGEST)
    except RequestError as error:
        raise RequestError(say["take_file"], status=error.status, param="name") from None
    folder = Folder(service.author.root)
    try:
        if await asyncio.to_thread(folder.stat, target) is not None and not replace:
            raise RequestError(say["file_exists"].replace("{name}", target), status=409, param="name")
        if target == name:
            text = data.decode("utf-8-sig")
            if "\0" in text:
                raise ValueError
            await asyncio.to_thread(folder.write, target, data)
            return JSONResponse({"told": say["file_taken"].replace("{name}", name), "file": target}, headers=NO_STORE)
    except ValueError:
        raise RequestError(say["take_file"], param="name") from None
    except RequestError:
        raise
    except LmmError as error:
        raise RequestError(error.at_prompt, status=409, param="name") from error
    if not _importing.acquire(blocking=False):
        raise RequestError(say["busy"], status=409)
    work = asyncio.get_running_loop().run_in_executor(None, _imported, folder, name, target, data, replace, say)
    return StreamingResponse(_when_done(work), media_type="application/json", headers=NO_STORE)


def _imported(folder: Folder, name: str, target: str, data: bytes, replace: bool, say: Wording) -> Mapping[str, Any]:
    """Convert a file, and return the markdown with what was lost, as the page shows it."""
    try:
        with TemporaryDirectory(prefix="lmm-upload-") as place:
            source = Path(place, PurePosixPath(name).name)
            source.write_bytes(data)
            report = import_file(source, timeout=_PATIENCE)
            for image in report.images:
                file = str(PurePosixPath(target).parent / image.relative_to(place).as_posix())
                if not replace and folder.stat(file) is not None:
                    raise LmmError(say["file_exists"].replace("{name}", file))
                folder.write(file, image.read_bytes())
            folder.write(target, report.text)
        message = say["file_converted"].replace("{name}", target)
        html = render("upload.html", say=say, notes=report.notes, text=report.text, file=target)
        return {"told": message, "file": target, "html": html}
    except (LmmError, OSError) as error:
        return {"error": {"message": str(error)}}
    finally:
        _importing.release()


def checked_document(name: str, say: Wording) -> str:
    """Return a path inside the course's folder if `lmm ingest` would find a document there.

    Raises:
        RequestError: the path is invalid.

    >>> checked_document("notes/week-5.md", Wording("en"))
    'notes/week-5.md'
    """
    parts = name.split("/")
    plain = name.isprintable() and not set(name) & set('\\:*?"<>|') and all(part == part.strip() for part in parts)
    if not plain or "" in parts or ".." in parts or len(name) > _LONGEST_PATH or not is_document(PurePosixPath(name)):
        raise RequestError(say["bad_file"], param="name")
    return name


async def ingest(request: Request) -> Response:
    """``POST /teacher/ingest``: read in the documents that are new or have changed, or the `files`; with `look`, only
    list them. Blanks are sent until the report is ready, so that no proxy closes the connection."""
    service = await service_of_teacher(request)
    body, say = await read_json(request), Wording(service.settings.language)
    names, dry_run = body.get("files", []), body.get("look") is True
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError("'files' must be a list of names", param="files")
    files = [checked_document(name, say) for name in names]
    if not _running.acquire(blocking=False):
        raise RequestError(say["busy"], status=409)
    # In a thread of its own: it goes on, and releases the lock at the end, even if the client leaves.
    work = asyncio.get_running_loop().run_in_executor(None, _ingested, service, files, dry_run, say)
    return StreamingResponse(_when_done(work), media_type="application/json", headers=NO_STORE)


async def _when_done(work: asyncio.Future[Mapping[str, Any]]) -> AsyncGenerator[str]:
    while not work.done():
        done, _ = await asyncio.wait([work], timeout=_BEAT)
        if not done:
            yield " "
    yield json.dumps(work.result(), ensure_ascii=False)


def _ingested(service: Service, files: Sequence[str], dry_run: bool, say: Wording) -> Mapping[str, Any]:
    """Ingest documents and return the result as the page shows it."""
    try:
        values = _read_in(service.author, files, dry_run)
        return {"told": say["looked" if dry_run else "ingested"], "html": render("documents.html", say=say, **values)}
    except LmmError as error:
        return {"error": {"message": error.at_prompt}}
    finally:
        _running.release()


def _read_in(course: CourseParts, files: Sequence[str], dry_run: bool) -> dict[str, Any]:
    folder, stored = Folder(course.root), _stored(course)
    wanted = list(files) or stored
    paths = list[Path]() if files else _patterns_of(stored, course.root)
    gone: list[str] = []
    errors: list[LmmError] = []
    for name in wanted:
        try:
            if folder.stat(name) is None:
                gone.append(name)
            else:
                paths.append(course.root / name)
        except LmmError as error:  # the document was read in from outside the folder
            errors.append(error)
    report = ingest_into(course, paths, IngestOptions(dry_run=dry_run)) if paths else IngestReport()
    return {"documents": report.documents, "gone": gone, "errors": [*map(str, errors), *map(str, report.errors)]}


def _patterns_of(stored: Sequence[str], root: Path) -> list[Path]:
    """Return patterns for the folders that documents were read in from, so that new ones are found; at first, for the
    course's folder."""
    folders = dict.fromkeys(PurePosixPath(file).parent for file in stored) or {PurePosixPath("."): None}
    return [
        root / folder / f"*{suffix}"
        for folder in folders
        for suffix in SUFFIXES
        if any((root / folder).glob(f"*{suffix}"))
    ]


def _stored(course: CourseParts) -> list[str]:
    try:
        with course.view() as catalogue:
            return [document.file for document in catalogue.documents]
    except StoreMissing:
        return []
