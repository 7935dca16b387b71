"""HTTP endpoints besides the OpenAI-compatible ones: search, study material, health; checks of questions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm import loop
from lmm_education.errors import RequestError
from lmm_education.material import Passage
from lmm_education.search.query import SearchOptions
from lmm_education.web.gate import GatedSearch
from lmm_education.web.http import read_json, required, short_text
from lmm_education.web.panels import without_solution
from lmm_education.web.service import Service, service_of

MOST_MESSAGES = 1000
"""Messages allowed in a request: far more than a conversation needs."""
LONGEST_MESSAGE = 64 * 1024
"""Characters allowed in an earlier message."""


def checked_question(question: object, longest: int) -> str:
    """Return a question without surrounding whitespace.

    Raises:
        RequestError: it is empty, too long, or not a string.
    """
    if not isinstance(question, str):
        raise RequestError("the question must be text", param="question")
    if not question.strip():
        raise RequestError("the question is empty", param="question")
    if len(question) > longest:
        raise RequestError(f"the question has more than {longest} characters", param="question")
    return question.strip()


def check_number(messages: int, param: str) -> None:
    """Check that a conversation does not have too many messages.

    Raises:
        RequestError: there are more than `MOST_MESSAGES`.
    """
    if messages > MOST_MESSAGES:
        hint = "leave out the oldest"
        raise RequestError(
            f"there are {messages} messages, at most {MOST_MESSAGES} are allowed", hint=hint, param=param
        )


def checked_length(text: str, param: str) -> str:
    """Return a message unchanged if it is not too long.

    Raises:
        RequestError: it has more than `LONGEST_MESSAGE` characters.
    """
    if len(text) > LONGEST_MESSAGE:
        raise RequestError(f"a message has more than {LONGEST_MESSAGE} characters", status=413, param=param)
    return text


async def read_here(service: Service, body: Mapping[str, Any]) -> Passage | None:
    """Return the section that the reader has open, by ``here``, its address in the published book; None if the address
    is not part of the course. The address itself is not passed on.

    Raises:
        RequestError: the address is too long, or not a string.
    """
    address = short_text({"here": body.get("here") or ""}, "here")
    return await asyncio.to_thread(service.contents.section_at, address) if address else None


# -- endpoints ---------------------------------------------------------------------------------------


_MOST_VALUES = 100  # for each condition of a search
_SEARCH_FIELDS = ("query", "limit", "types", "documents", "where", "companion", "here")
_SOLUTIONS = ("1", "true", "yes")


async def health(request: Request) -> Response:
    """``GET /healthz``: report whether the store is readable and the model is likely to answer."""
    service = service_of(request)
    state = await service.health()
    return JSONResponse({"status": state, "course": service.name}, 200 if state == "ok" else 503)


async def search(request: Request) -> Response:
    """``POST /search``: return what `lmm search --json` prints, for ``query``, ``limit``, ``types``, ``documents``,
    ``where``, ``companion`` and ``here``."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(required(body, "query"), service.settings.longest_question)
    options = replace(_search_options(body), here=await read_here(service, body))
    await service.guard.admit(request)
    searching = GatedSearch(service.searching.course, gate=service.gate, refusal=service.texts["spent"])
    result = await loop.run_async(searching.asearch(question, options))
    return JSONResponse(result.as_json())


def _search_options(body: Mapping[str, Any]) -> SearchOptions:
    if unknown := sorted(body.keys() - _SEARCH_FIELDS):  # a filter with a misspelt name would match everything
        hint = "there are: " + ", ".join(_SEARCH_FIELDS)
        raise RequestError(f"'{unknown[0]}' is not supported", hint=hint, param=unknown[0])
    limit, companion, where = body.get("limit"), body.get("companion"), body.get("where", {})
    if limit is not None and (type(limit) is not int or not 1 <= limit <= 100):
        raise RequestError("'limit' must be a whole number from 1 to 100", param="limit")
    if companion is not None and not isinstance(companion, bool):
        raise RequestError("'companion' must be true or false", param="companion")
    if not isinstance(where, Mapping) or len(where) > _MOST_VALUES:
        raise RequestError(f"'where' must be an object of up to {_MOST_VALUES} keys", param="where")
    conditions = {key: _values(value, "where") for key, value in where.items()}
    types, documents = (tuple(map(str, _values(body.get(name, []), name))) for name in ("types", "documents"))
    return SearchOptions(limit, types, documents, conditions, companion=companion)


def _values(value: object, name: str) -> tuple[str | int | bool, ...]:
    values = value if isinstance(value, list) else [value]
    if len(values) > _MOST_VALUES:
        raise RequestError(f"'{name}' has more than {_MOST_VALUES} values", param=name)
    if not all(isinstance(item, str | int | bool) for item in values):
        raise RequestError(f"'{name}' must have texts, numbers, or lists of them", param=name)
    return tuple(values)


async def overview(request: Request) -> Response:
    """``GET /material``: return the number of items of each kind of study material."""
    made = await asyncio.to_thread(service_of(request).contents.study_material)
    plan, cards, exercises = made["plan"], made["cards"], made["exercises"]
    return JSONResponse({"plan": len(plan["steps"]), "cards": len(cards), "exercises": len(exercises)})


async def kind(request: Request) -> Response:
    """``GET /material/plan``, ``/material/cards``, ``/material/exercises``; with ``?solutions=true``, solutions too."""
    name = request.path_params["kind"]
    made = await asyncio.to_thread(service_of(request).contents.study_material)
    if name not in made:
        raise RequestError("there are plan, cards and exercises", status=404)
    if name == "exercises" and request.query_params.get("solutions", "").lower() not in _SOLUTIONS:
        return JSONResponse([without_solution(each) for each in made[name]])
    return JSONResponse(made[name])
