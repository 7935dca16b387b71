"""What the teacher can change on the page: users, API keys, and the course's texts, limits and documents."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm.config_tables import Origin, Setting, keys_of
from lmm.disk.folder import Folder, is_document
from lmm.errors import ConfigError, DocumentError, LmmError
from lmm_education.config import ServeSettings
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.ingestion.apply import IngestOptions
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.plan import IngestReport
from lmm_education.parts import CourseParts
from lmm_education.web.accounts import Logins, checked_name, new_key, new_password
from lmm_education.web.http import NO_STORE, read_json, render, short_text
from lmm_education.web.service import Service, service_of_teacher
from lmm_education.web.settings_file import LIVE
from lmm_education.web.words import Wording

_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "questions_per_minute": int,
    "daily_tokens": int,
    "daily_cost": float,
}
_LONG = ("description", "welcome")
_writing = asyncio.Lock()


def shown(service: Service) -> dict[str, Any]:
    """Return what the page shows: the names of logins by kind, and the form's fields or why it is not available.

    Raises:
        FileReadError: the logins cannot be read.
    """
    logins, say = service.students.accounts.read(), Wording(service.settings.language)
    path, why = service.file.path, ""
    if path is None:
        why = say["no_file"]
    elif not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        why = say["not_writable"].replace("{file}", str(path))
    return {
        "logins": {kind: sorted(getattr(logins, kind)) for kind in _kinds(service.settings)},
        "fields": [] if why else [_field(name, getattr(service.settings, name)) for name in LIVE],
        "no_file": why,
    }


def _field(name: str, value: Any) -> dict[str, str]:
    """Return a setting as a field of the form."""
    kind = "number" if name in _NUMBERS else "long" if name in _LONG else "text"
    shown = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return {"name": name, "value": shown, "kind": kind}


# -- users and keys --------------------------------------------------------------------------------


def _kinds(settings: ServeSettings) -> list[str]:
    """Return the kinds of logins that the course has: its own users, if any, and API keys if there is a login."""
    users = ["users"] if settings.login == "users" else []
    return [*users, *(["keys"] if settings.login not in ("none", "proxy") else [])]


async def add_login(request: Request) -> Response:
    """``POST /teacher/logins/KIND``: add a user or a key called `name`, or with `again`, replace its password or key.
    The response contains the secret, which cannot be read afterwards."""
    service, say, kind, body = await _about_logins(request)
    name, again = short_text(body, "name").strip(), body.get("again") is True
    secret = new_password() if kind == "users" else new_key()

    def add(logins: Logins) -> Logins:
        _check_known(name, getattr(logins, kind), again, say)
        if kind == "users":
            return logins.with_user(name, secret)
        limit = logins.keys[name].questions_per_minute if again else None
        return logins.with_key(name, secret, limit)

    return await _changed(service, kind, add, {"told": say[f"made_{kind}"].replace("{name}", name), "secret": secret})


async def remove_login(request: Request) -> Response:
    """``POST /teacher/logins/KIND/remove``: remove the user or key called `name`, and end its sessions."""
    service, say, kind, body = await _about_logins(request)
    name = short_text(body, "name")

    def remove(logins: Logins) -> Logins:
        _check_known(name, getattr(logins, kind), True, say)
        return logins.without(kind, {name})

    return await _changed(service, kind, remove, {"told": say["removed"].replace("{name}", name)})


def _check_known(name: str, known: Mapping[str, Any], wanted: bool, say: Wording) -> None:
    try:
        checked_name(name)
    except ConfigError:
        raise RequestError(say["bad_name"], param="name") from None
    if (name in known) != wanted:
        message = say["no_such" if wanted else "taken"].replace("{name}", name)
        raise RequestError(message, status=404 if wanted else 409, param="name")


async def _about_logins(request: Request) -> tuple[Service, Wording, Literal["users", "keys"], Mapping[str, Any]]:
    service, kind = await service_of_teacher(request), request.path_params["kind"]
    if kind not in _kinds(service.settings):
        raise RequestError("this course has none of these", status=404)
    named = cast(Literal["users", "keys"], kind)
    return service, Wording(service.settings.language), named, await read_json(request)


async def _changed(
    service: Service, kind: str, change: Callable[[Logins], Logins], result: Mapping[str, str]
) -> Response:
    logins = await asyncio.to_thread(service.students.accounts.change, change)
    say, names = Wording(service.settings.language), sorted(getattr(logins, kind))
    return JSONResponse({**result, "html": render("logins.html", kind=kind, names=names, say=say)}, headers=NO_STORE)


# -- texts and limits ------------------------------------------------------------------------------


async def change_settings(request: Request) -> Response:
    """``POST /teacher/settings``: write texts and limits from the form into config.toml; they take effect at once. If
    one of them is invalid, none is written, and the response says why, by field."""
    service = await service_of_teacher(request)
    say, body = Wording(service.settings.language), await read_json(request)
    values, errors = checked(body, say)
    if errors:
        return JSONResponse({"errors": errors}, 400, headers=NO_STORE)
    async with _writing:
        changed = {name: value for name, value in values.items() if value != getattr(service.settings, name)}
        if changed:
            try:
                service.take(await asyncio.to_thread(service.file.write, changed))
            except (ConfigError, DocumentError) as error:
                message = say["not_written"].replace("{error}", str(error))
                raise RequestError(message, status=409) from error
    return JSONResponse({"told": say["saved" if changed else "unchanged"]}, headers=NO_STORE)


def checked(body: Mapping[str, Any], say: Wording) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the valid settings of a form, and an error message for each invalid one.

    >>> checked({"title": "Plants", "daily_cost": "1.5", "daily_tokens": "-1", "nosuch": ""}, Wording("en"))
    ({'title': 'Plants', 'daily_cost': 1.5}, {'daily_tokens': 'Enter a whole number; 0: no limit.'})
    """
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name in LIVE:
        if name in body:
            try:
                values[name] = _value(name, body[name])
            except (ConfigError, TypeError, ValueError, OverflowError):
                whole = "amount" if _NUMBERS.get(name) is float else "whole"
                errors[name] = say[whole if name in _NUMBERS else "no_text"]
    return values, errors


def _value(name: str, given: Any) -> Any:
    """Return a setting's value from the text of its field.

    Raises:
        ConfigError, ValueError, TypeError: the text is invalid.
    """
    if not isinstance(given, str):
        raise TypeError
    given.encode()  # raises for a lone surrogate, which no file can contain
    if "\0" in given or "\x7f" in given:
        raise ValueError
    number = _NUMBERS.get(name)
    value = number(given) if number else given.strip()
    if value in (float("inf"), float("-inf")) or value != value:
        raise ValueError
    return keys_of(ServeSettings)[name].convert(Setting(value, Origin("flags", name)), "serve")


# -- documents -------------------------------------------------------------------------------------


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
