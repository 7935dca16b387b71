"""The teacher's page: users, keys for programs, and the course's texts and limits, to be changed there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm.config_tables import keys_of
from lmm.errors import ConfigError, DocumentError
from lmm_education.config import ServeSettings
from lmm_education.errors import RequestError
from lmm_education.web.accounts import Logins, checked_name, new_key, new_password
from lmm_education.web.http import NO_STORE, read_json, render, short_text
from lmm_education.web.service import Service, service_of_teacher
from lmm_education.web.settings_file import LIVE
from lmm_education.web.words import Wording

_KEYS = {key.name: key for key in keys_of(ServeSettings) if key.name in LIVE}
_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "questions_per_minute": int,
    "daily_tokens": int,
    "daily_cost": float,
}
_LONG = ("description", "welcome")
_writing = asyncio.Lock()


def shown(service: Service) -> dict[str, Any]:
    """What the page shows of it: names by kind, and the fields of the form or why there is none.

    Raises:
        FileReadError: who may log in cannot be read.
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
    """A setting as the form has it."""
    kind = "number" if name in _NUMBERS else "long" if name in _LONG else "text"
    shown = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return {"name": name, "value": shown, "kind": kind}


# -- users and keys --------------------------------------------------------------------------------


def _kinds(settings: ServeSettings) -> list[str]:
    """Whom the course lets in by name: its own users, and programs wherever somebody logs in here."""
    users = ["users"] if settings.login == "users" else []
    return [*users, *(["keys"] if settings.login not in ("none", "proxy") else [])]


async def add_login(request: Request) -> Response:
    """``POST /teacher/logins/KIND``: a user or a key of a `name`, or another password or key for one that is there if
    `again`; the answer tells the secret, which nobody can read afterwards."""
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
    """``POST /teacher/logins/KIND/remove``: the user or key of a `name` counts no more, nor do his sessions."""
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
        told = say["no_such" if wanted else "taken"].replace("{name}", name)
        raise RequestError(told, status=404 if wanted else 409, param="name")


async def _about_logins(request: Request) -> tuple[Service, Wording, Literal["users", "keys"], Mapping[str, Any]]:
    service, kind = await service_of_teacher(request), request.path_params["kind"]
    if kind not in _kinds(service.settings):
        raise RequestError("this course has none of these", status=404)
    named = cast(Literal["users", "keys"], kind)
    return service, Wording(service.settings.language), named, await read_json(request)


async def _changed(
    service: Service, kind: str, change: Callable[[Logins], Logins], told: Mapping[str, str]
) -> Response:
    logins = await asyncio.to_thread(service.students.accounts.change, change)
    say, names = Wording(service.settings.language), sorted(getattr(logins, kind))
    return JSONResponse({**told, "html": render("logins.html", kind=kind, names=names, say=say)}, headers=NO_STORE)


# -- texts and limits ------------------------------------------------------------------------------


async def change_settings(request: Request) -> Response:
    """``POST /teacher/settings``: texts and limits as the form has them, written into config.toml; they count at once.
    If one will not do, none is written, and the answer says why, by field."""
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
                told = say["not_written"].replace("{error}", str(error))
                raise RequestError(told, status=409) from error
    return JSONResponse({"told": say["saved" if changed else "unchanged"]}, headers=NO_STORE)


def checked(body: Mapping[str, Any], say: Wording) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings in a form, and by field what is wrong with others.

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
    """As the settings have it.

    Raises:
        ConfigError, ValueError, TypeError: it is none.
    """
    if not isinstance(given, str):
        raise TypeError
    given.encode()  # half of a character, which no file can hold
    if "\0" in given or "\x7f" in given:
        raise ValueError
    number = _NUMBERS.get(name)
    value = number(given) if number else given.strip()
    if value in (float("inf"), float("-inf")) or value != value:
        raise ValueError
    return _KEYS[name].check(value, lambda table, key: name)
