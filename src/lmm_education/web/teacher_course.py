"""What the teacher can change on the page: the course's documents."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm.disk.folder import SUFFIXES, Folder, is_document
from lmm.errors import LmmError
from lmm.importing import import_file
from lmm.importing.formats import FORMATS, suffix_of
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.reports import IngestReport
from lmm_education.options import IngestOptions
from lmm_education.parts import CourseParts
from lmm_education.web.http import NO_STORE, read_body, read_json, render
from lmm_education.web.service import Service, service_of_teacher
from lmm_education.web.words import Wording

_BEAT = 5.0  # seconds between blanks that keep the connection open
_LONGEST = 200  # characters of a path
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
        told = say["file_converted"].replace("{name}", target)
        html = render("upload.html", say=say, notes=report.notes, text=report.text, file=target)
        return {"told": told, "file": target, "html": html}
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
    if not plain or "" in parts or ".." in parts or len(name) > _LONGEST or not is_document(PurePosixPath(name)):
        raise RequestError(say["bad_file"], param="name")
    return name


async def ingest(request: Request) -> Response:
    """``POST /teacher/ingest``: read in the documents that are new or have changed, or the `files`; with `look`, only
    list them. Blanks are sent until the report is ready, so that no proxy closes the connection."""
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
        return {"error": {"message": error.at_prompt}}
    finally:
        _running.release()


def _report(course: CourseParts, files: Sequence[str], look: bool) -> dict[str, Any]:
    folder, stored = Folder(course.root), _stored(course)
    wanted = list(files) or stored
    there = list[Path]() if files else _beside(stored, course.root)
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


def _beside(stored: Sequence[str], root: Path) -> list[Path]:
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
