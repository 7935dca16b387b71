"""The HTTP API: a course as a model that any OpenAI client can talk to, search, and whether all is well."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm import loop
from lmm.messages import TextDelta
from lmm_education.answer.answers import Answer, AnswerEvent
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.search.query import SearchOptions
from lmm_education.web.completions import CompletionStream, Envelope, checked_question, read_call
from lmm_education.web.logged import CallerLeft, student_of, unless_caller_leaves
from lmm_education.web.service import NO_STORE, Service, read_json, server_sent, service_of

_OWNER = "lmm"
_LEFT = 499  # nobody reads it
_MOST_VALUES = 100  # of each condition of a search


async def models(request: Request) -> Response:
    """``GET /v1/models``: the course."""
    return JSONResponse({"object": "list", "data": [_model(service_of(request).name)]})


async def model(request: Request) -> Response:
    """``GET /v1/models/NAME``."""
    name = request.path_params["name"]
    if name != service_of(request).name:
        raise RequestError(f"the model '{name}' does not exist", status=404, param="model")
    return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}


async def health(request: Request) -> Response:
    """``GET /healthz``: whether there is a store that can be read. The model is not asked."""
    service = service_of(request)
    store = service.searching.searcher.store
    if await asyncio.to_thread(store.manifest) is None:
        raise StoreMissing("there is nothing to search yet", hint="lmm ingest PATH")
    return JSONResponse({"status": "ok", "course": service.name})


async def search(request: Request) -> Response:
    """``POST /search``: what `lmm search --json` prints, for ``query``, ``limit``, ``types``, ``documents``,
    ``where`` and ``companion``."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(body.get("query"), service.settings.longest_question)
    options = _search_options(body)
    service.admit(request)
    result = await loop.run_async(service.searching.asearch(question, options))
    return JSONResponse(result.as_json())


def _search_options(body: Mapping[str, Any]) -> SearchOptions:
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


# -- Chat Completions ------------------------------------------------------------------------------


async def completions(request: Request) -> Response:
    """``POST /v1/chat/completions``, streaming and not."""
    service = service_of(request)
    body, heading = await read_json(request), service.texts["sources"]
    longest = service.settings.longest_question
    call = read_call(body, models=[service.name], heading=heading, longest=longest)
    service.admit(request)
    asked = service.recorder.asked(call.question, student_of(request), "api")
    envelope = Envelope(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), service.name, asked.number)
    events = asked.events(service.answer(call.question, call.history))
    if not call.stream:
        try:
            answer = await unless_caller_leaves(request, _answer(events))
        except CallerLeft:
            return Response(status_code=_LEFT)
        return JSONResponse(envelope.completion(answer, heading))
    first = await _first(events)  # until there is a piece of text, an error can still be told as a status
    stream = CompletionStream(envelope, heading, service.texts["again"], call.include_usage)
    chunks = _chunks(service, stream, first, events)
    return StreamingResponse(chunks, media_type="text/event-stream", headers=NO_STORE)


async def _answer(events: AsyncGenerator[AnswerEvent]) -> Answer:
    async with aclosing(events):
        return [event async for event in events if isinstance(event, Answer)][-1]


async def _first(events: AsyncGenerator[AnswerEvent]) -> AnswerEvent:
    async for event in events:
        if isinstance(event, TextDelta | Answer):
            return event
    raise RuntimeError("the stream ended without an answer")


async def _chunks(
    service: Service, stream: CompletionStream, first: AnswerEvent, events: AsyncGenerator[AnswerEvent]
) -> AsyncGenerator[str]:
    try:
        async with aclosing(events):
            for chunk in stream.chunks(first):
                yield server_sent(chunk)
            async for event in events:
                for chunk in stream.chunks(event):
                    yield server_sent(chunk)
            yield server_sent("[DONE]")
    except Exception as error:  # the response has begun: what is left is to say so in it
        yield server_sent(service.failed(error).as_json())
