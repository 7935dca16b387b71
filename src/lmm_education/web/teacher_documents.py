"""The teacher's page: the course's documents, what changed in them, a file that is taken, and reading them in."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm.disk.folder import Folder, is_document
from lmm.errors import LmmError
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.ingestion.apply import IngestOptions
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.plan import IngestReport
from lmm_education.parts import CourseParts
from lmm_education.web.http import NO_STORE, read_json, render, short_text
from lmm_education.web.service import Service, service_of_teacher
from lmm_education.web.words import Wording

_BEAT = 5.0  # seconds until a proxy hears something
_LONGEST = 200  # characters of a path
_running = threading.Lock()  # one at a time: it takes a core, which students need


async def take(request: Request) -> Response:
    """``POST /teacher/documents``: a document's `text`, written as the file `name` below the course's folder; over
    another only if it is to `replace` it."""
    service = await service_of_teacher(request)
    body, say = await read_json(request), Wording(service.settings.language)
    name, text = checked_name(short_text(body, "name").strip(), say), body.get("text")
    if not isinstance(text, str) or not _is_text(text):
        raise RequestError(say["no_text"], param="text")
    try:
        await asyncio.to_thread(write, Folder(service.author.root), name, text, body.get("replace") is True)
    except FileExistsError:
        raise RequestError(say["file_exists"].replace("{name}", name), status=409, param="name") from None
    except LmmError as error:
        raise RequestError(str(error), status=409, param="name") from error
    return JSONResponse({"told": say["file_taken"].replace("{name}", name)}, headers=NO_STORE)


def write(folder: Folder, name: str, text: str, replace: bool) -> None:
    """Write a document below a folder.

    Raises:
        FileExistsError: there is a file, and it is not to be replaced.
        LinkOutside: it would lie elsewhere.
        FileWriteError: it cannot be written.
    """
    if not replace and folder.stat(name) is not None:
        raise FileExistsError(name)
    folder.write(name, text)


def checked_name(name: str, say: Wording) -> str:
    """A path below the course's folder, of a document that `lmm ingest` would find there.

    Raises:
        RequestError: it is none.

    >>> checked_name("notes/week-5.md", Wording("en"))
    'notes/week-5.md'
    """
    parts = name.split("/")
    plain = name.isprintable() and not set(name) & set('\\:*?"<>|') and all(part == part.strip() for part in parts)
    if not plain or "" in parts or ".." in parts or len(name) > _LONGEST or not is_document(PurePosixPath(name)):
        raise RequestError(say["bad_file"], param="name")
    return name


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


async def ingest(request: Request) -> Response:
    """``POST /teacher/ingest``: read in those of the stored documents, or of the `files`, that changed; only tell which
    those are with `look`. Blanks come until the report does, so that no proxy takes the connection for dead."""
    service = await service_of_teacher(request)
    body, say = await read_json(request), Wording(service.settings.language)
    names, look = body.get("files", []), body.get("look") is True
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError("'files' must be a list of names", param="files")
    files = [checked_name(name, say) for name in names]
    if not _running.acquire(blocking=False):
        raise RequestError(say["busy"], status=409)
    # A thread of its own: it goes on, and lets the next one begin, when nobody waits for it any more.
    work = asyncio.get_running_loop().run_in_executor(None, _ingested, service, files, look, say)
    return StreamingResponse(_told(work), media_type="application/json", headers=NO_STORE)


async def _told(work: asyncio.Future[Mapping[str, Any]]) -> AsyncGenerator[str]:
    while not work.done():
        done, _ = await asyncio.wait([work], timeout=_BEAT)
        if not done:
            yield " "
    yield json.dumps(work.result(), ensure_ascii=False)


def _ingested(service: Service, files: Sequence[str], look: bool, say: Wording) -> Mapping[str, Any]:
    """What became of the documents, as the page shows it."""
    try:
        values = _report(service.author, files, look)
        return {"told": say["looked" if look else "ingested"], "html": render("documents.html", say=say, **values)}
    except LmmError as error:
        return {"error": {"message": str(error)}}
    finally:
        _running.release()


def _report(course: CourseParts, files: Sequence[str], look: bool) -> dict[str, Any]:
    stored = _stored(course)
    wanted = list(files) or stored
    folder = Folder(course.root)
    there: list[Path] = []
    gone: list[str] = []
    errors: list[LmmError] = []
    for name in wanted:
        try:
            if folder.stat(name) is None:
                gone.append(name)
            else:
                there.append(course.root / name)
        except LmmError as error:  # it was read in from elsewhere
            errors.append(error)
    report = ingest_into(course, there, IngestOptions(dry_run=look)) if there else IngestReport()
    return {"documents": report.documents, "gone": gone, "errors": [*map(str, errors), *map(str, report.errors)]}


def _stored(course: CourseParts) -> list[str]:
    try:
        with course.view() as catalogue:
            return [document.file for document in catalogue.documents]
    except StoreMissing:
        return []
