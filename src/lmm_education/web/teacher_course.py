"""What the teacher can change on the page: the course's documents."""

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

_BEAT = 5.0  # seconds between blanks that keep the connection open
_LONGEST = 200  # characters of a path
_running = threading.Lock()  # one at a time: it uses a core, which students need


async def take_document(request: Request) -> Response:
    """``POST /teacher/documents``: write a document's `text` to the file `name` in the course's folder. An existing
    file is overwritten only with `replace`."""
    service = await service_of_teacher(request)
    say = Wording(service.settings.language)
    try:
        body = await read_json(request)
    except RequestError as error:
        if error.status != 413:
            raise
        raise RequestError(say["take_file"], status=413, param="text") from None
    name, text = checked_document(short_text(body, "name").strip(), say), body.get("text")
    if not isinstance(text, str) or "\0" in text:
        raise RequestError(say["take_file"], param="text")
    try:
        await asyncio.to_thread(write_document, Folder(service.author.root), name, text, body.get("replace") is True)
    except FileExistsError:
        raise RequestError(say["file_exists"].replace("{name}", name), status=409, param="name") from None
    except LmmError as error:
        raise RequestError(str(error), status=409, param="name") from error
    return JSONResponse({"told": say["file_taken"].replace("{name}", name)}, headers=NO_STORE)


def write_document(folder: Folder, name: str, text: str, replace: bool) -> None:
    """Write a document into a folder.

    Raises:
        FileExistsError: the file exists, and `replace` is not set.
        LinkOutside: the path leads out of the folder.
        FileWriteError: the file cannot be written.
    """
    if not replace and folder.stat(name) is not None:
        raise FileExistsError(name)
    folder.write(name, text)


def checked_document(name: str, say: Wording) -> str:
    """Return a path inside the course's folder if `lmm ingest` would find a document there.

    Raises:
        RequestError: the path is invalid.

    >>> checked_document("notes/week-5.md", Wording("en"))
    'notes/week-5.md'
    """
    parts = name.split("/")
    plain = name.isprintable() and not set(name) & set('\\:*?"<>|') and all(part == part.strip() for part in parts)
    if not plain or "" in parts or ".." in parts or len(name) > _LONGEST or not is_document(PurePosixPath(name)):
        raise RequestError(say["bad_file"], param="name")
    return name


async def ingest(request: Request) -> Response:
    """``POST /teacher/ingest``: read in the stored documents, or the `files`, that have changed; with `look`, only list
    them. Blanks are sent until the report is ready, so that no proxy closes the connection."""
    service = await service_of_teacher(request)
    body, say = await read_json(request), Wording(service.settings.language)
    names, look = body.get("files", []), body.get("look") is True
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError("'files' must be a list of names", param="files")
    files = [checked_document(name, say) for name in names]
    if not _running.acquire(blocking=False):
        raise RequestError(say["busy"], status=409)
    # In a thread of its own: it goes on, and releases the lock at the end, even if the client leaves.
    work = asyncio.get_running_loop().run_in_executor(None, _ingested, service, files, look, say)
    return StreamingResponse(_when_done(work), media_type="application/json", headers=NO_STORE)


async def _when_done(work: asyncio.Future[Mapping[str, Any]]) -> AsyncGenerator[str]:
    while not work.done():
        done, _ = await asyncio.wait([work], timeout=_BEAT)
        if not done:
            yield " "
    yield json.dumps(work.result(), ensure_ascii=False)


def _ingested(service: Service, files: Sequence[str], look: bool, say: Wording) -> Mapping[str, Any]:
    """Ingest documents and return the result as the page shows it."""
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
        except LmmError as error:  # the document was read in from outside the folder
            errors.append(error)
    report = ingest_into(course, there, IngestOptions(dry_run=look)) if there else IngestReport()
    return {"documents": report.documents, "gone": gone, "errors": [*map(str, errors), *map(str, report.errors)]}


def _stored(course: CourseParts) -> list[str]:
    try:
        with course.view() as catalogue:
            return [document.file for document in catalogue.documents]
    except StoreMissing:
        return []
