"""HTTP endpoints besides the OpenAI-compatible ones: search, study material, health; checks of questions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm import loop
from lmm.arguments import OptionError, read_options
from lmm.errors import nearest
from lmm_education.errors import RequestError
from lmm_education.material import Passage
from lmm_education.options import SearchOptions
from lmm_education.web.contents import without_solution
from lmm_education.web.gate import GatedSearch
from lmm_education.web.http import read_json, required, short_text
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


_MOST = 100  # results, and values of a condition
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
    options = _search_options(body).replace(section=await read_here(service, body))
    await service.guard.admit(request)
    searching = GatedSearch(service.searching.course, gate=service.gate, refusal=service.texts["spent"])
    result = await loop.run_async(searching.asearch(question, options))
    return JSONResponse(result.as_json())


def _search_options(body: Mapping[str, Any]) -> SearchOptions:
    given = {name: value for name, value in body.items() if name != "query"}
    try:
        if unknown := sorted(given.keys() - {*_SEARCH_FIELDS}):  # a misspelt filter would match everything
            raise OptionError("search", unknown[0], f"is unknown ({nearest(unknown[0], _SEARCH_FIELDS)})")
        options = SearchOptions(**read_options(SearchOptions, given))
    except OptionError as error:
        raise RequestError(f"'{error.name}' {error.problem}", param=error.name) from None
    values = sum(len(each) if isinstance(each, tuple) else 1 for each in options.where.values())
    many = {"limit": options.limit or 0, "types": len(options.types), "documents": len(options.documents)}
    for name, count in (many | {"where": values}).items():
        if count > _MOST:
            raise RequestError(f"'{name}' is more than {_MOST}", param=name)
    return options


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
