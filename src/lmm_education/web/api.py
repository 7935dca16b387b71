"""The HTTP API: a course as a model that any OpenAI client can talk to, search, and whether all is well.

Of Chat Completions, earlier messages are the history; those of the role ``system`` are left out: a course has its own.
What would change the answer and is not done here (tools, images, several choices) is refused.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from lmm import loop
from lmm.messages import Retrying, TextDelta, Usage
from lmm_education.answer.answers import Answer, AnswerEvent, Called, source_as_json
from lmm_education.answer.history import Exchange
from lmm_education.answer.sources import Source
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.search.query import SearchOptions
from lmm_education.web.http import NO_STORE, read_json, server_sent
from lmm_education.web.material import without_solution
from lmm_education.web.service import CallerLeft, Service, WaitingAnswer, service_of, unless_caller_leaves

_REFUSED = ("tools", "functions", "audio", "logprobs")
_OWN = ("system", "developer")
MOST_MESSAGES = 1000
"""Messages in a request: far more of a conversation than is read."""
LONGEST_MESSAGE = 64 * 1024
"""Characters of an earlier message."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for."""

    question: str
    history: tuple[Exchange, ...] = ()
    stream: bool = False
    include_usage: bool = False


def read_call(body: Mapping[str, Any], *, models: Collection[str], heading: str, longest: int) -> Call:
    """The request in our words; `heading` is the line above the sources that `sources_text` appended to answers.

    Raises:
        RequestError: it is not as it should be, or asks for what a course does not do.

    >>> said = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    >>> asked = {"model": "botany", "messages": [*said, {"role": "user", "content": "Sure?"}]}
    >>> read_call(asked, models=["botany"], heading="Sources", longest=100)
    Call(question='Sure?', history=(Exchange(question='Why?', answer='So.'),), stream=False, include_usage=False)
    """
    if (model := body.get("model")) not in models:
        hint = "there is: " + ", ".join(models)
        raise RequestError(f"the model '{model}' does not exist", hint=hint, status=404, param="model")
    for name in _REFUSED:
        if body.get(name):
            raise RequestError(f"a course does not do '{name}'", param=name)
    if body.get("n", 1) not in (1, None):
        raise RequestError("a course gives one answer", param="n")
    *earlier, last = _messages(body.get("messages"))
    if last[0] != "user":
        raise RequestError("the last message must be the user's", param="messages")
    options = body.get("stream_options")
    usage = bool(options.get("include_usage")) if isinstance(options, Mapping) else False
    question = checked_question(last[1], longest)
    return Call(question, exchanges(earlier, heading), bool(body.get("stream")), usage)


def checked_question(question: object, longest: int) -> str:
    """A question without blanks around it.

    Raises:
        RequestError: it is empty, too long, or no text.
    """
    if not isinstance(question, str):
        raise RequestError("the question must be text", param="question")
    if not question.strip():
        raise RequestError("the question is empty", param="question")
    if len(question) > longest:
        raise RequestError(f"the question has more than {longest} characters", param="question")
    return question.strip()


def check_number(messages: int, param: str) -> None:
    """Refuse a conversation of too many messages.

    Raises:
        RequestError: there are more than `MOST_MESSAGES`.
    """
    if messages > MOST_MESSAGES:
        hint = "leave out the oldest: only the latest are read"
        raise RequestError(f"there are {messages} messages, at most {MOST_MESSAGES} are read", hint=hint, param=param)


def checked_length(text: str, param: str) -> str:
    """A message that is not too long.

    Raises:
        RequestError: it has more than `LONGEST_MESSAGE` characters.
    """
    if len(text) > LONGEST_MESSAGE:
        raise RequestError(f"a message has more than {LONGEST_MESSAGE} characters", status=413, param=param)
    return text


def exchanges(messages: Sequence[tuple[str, str]], heading: str) -> tuple[Exchange, ...]:
    """Questions with the answers that follow them, without the lists of sources; what has no answer is left out."""
    found, questions = [], list[str]()
    for role, text in messages:
        if role == "user":
            questions.append(text)
        elif any(questions):
            answer = text.rpartition(_above_sources(heading))[0] or text
            found.append(Exchange("\n\n".join(filter(None, questions)), answer))
            questions = []
    return tuple(found)


def _messages(messages: object) -> list[tuple[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' must be a list with a question", param="messages")
    check_number(len(messages), "messages")
    found = []
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant", *_OWN):
            raise RequestError("a message must have the role user, assistant or system", param="messages")
        if message["role"] not in _OWN:
            found.append((str(message["role"]), checked_length(_text(message.get("content")), "messages")))
    if not found:
        raise RequestError("there is no question", param="messages")
    return found


def _text(content: object) -> str:
    """A message's text; it may come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise RequestError("a course reads text only", param="messages")
    return "\n\n".join(map(str, texts))


# -- what is sent back -----------------------------------------------------------------------------


def sources_text(sources: Sequence[Source], heading: str) -> str:
    """The list of sources that follows an answer; nothing if there are none."""
    lines = [f"- [{source.number}] {source.path} ({source.place})" for source in sources]
    return _above_sources(heading) + "\n".join(lines) if lines else ""


def _above_sources(heading: str) -> str:
    return f"\n\n**{heading}**\n\n"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What all parts of one response share; `created` is in seconds since 1970. `exchange` is its id in the log, if one
    is kept."""

    id: str
    created: int
    model: str
    exchange: str = ""

    def completion(self, answer: Answer, heading: str) -> dict[str, Any]:
        """A whole response."""
        message = {"role": "assistant", "content": answer.text + sources_text(answer.cited, heading)}
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        head = self._head("chat.completion")
        return head | {"choices": [choice], "usage": usage_values(answer.usage)} | self._extra(answer)

    def piece(self, text: str, **more: str) -> dict[str, Any]:
        """A piece of the text, in a stream."""
        return self._chunk({**more, "content": text}, None)

    def end(self, answer: Answer) -> dict[str, Any]:
        """The last piece, which says why the text ends, and the sources in fields of their own."""
        return self._chunk({}, _finish(answer)) | self._extra(answer)

    def usage(self, answer: Answer) -> dict[str, Any]:
        """What follows where ``include_usage`` was asked for."""
        return self._head("chat.completion.chunk") | {"choices": [], "usage": usage_values(answer.usage)}

    def _extra(self, answer: Answer) -> dict[str, Any]:
        """Beyond the protocol: clients that do not know these fields pass over them."""
        sources = [source_as_json(source) for source in answer.cited]
        exchange = {"exchange": self.exchange} if self.exchange else {}
        return exchange | {"sources": sources, "found": answer.found, "notices": list(answer.notices)}

    def _chunk(self, delta: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass(slots=True)
class CompletionStream:
    """Turns the events of one answer into chunks; `again` is said where a text that was sent is void."""

    envelope: Envelope
    heading: str
    again: str
    include_usage: bool = False
    said: bool = False

    def chunks(self, event: AnswerEvent | WaitingAnswer) -> Iterator[dict[str, Any]]:
        """What is sent next."""
        if isinstance(event, TextDelta):
            yield self._piece(event.text)
        elif isinstance(event, Retrying | Called) and self.said:  # this protocol cannot take back
            yield self._piece(f"\n\n*{self.again}*\n\n")
        elif isinstance(event, Answer):
            text = ("" if self.said else event.text) + sources_text(event.cited, self.heading)
            if text:
                yield self._piece(text)
            yield self.envelope.end(event)
            if self.include_usage:
                yield self.envelope.usage(event)

    def _piece(self, text: str) -> dict[str, Any]:
        role = {} if self.said else {"role": "assistant"}
        self.said = True
        return self.envelope.piece(text, **role)


def usage_values(usage: Usage) -> dict[str, int]:
    """Tokens as OpenAI counts them."""
    sent, received = usage.input_tokens, usage.output_tokens
    return {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}


def _finish(answer: Answer) -> str:
    return "content_filter" if answer.refused else "length" if answer.cut else "stop"


# -- endpoints ---------------------------------------------------------------------------------------


_OWNER = "lmm"
_LEFT = 499  # nobody reads it
_MOST_VALUES = 100  # of each condition of a search
_SOLUTIONS = ("1", "true", "yes")


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
    await service.admit(request)
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


async def overview(request: Request) -> Response:
    """``GET /material``: how much there is of each kind."""
    made = await asyncio.to_thread(service_of(request).material.as_json)
    plan, cards, exercises = made["plan"], made["cards"], made["exercises"]
    return JSONResponse({"plan": len(plan["steps"]), "cards": len(cards), "exercises": len(exercises)})


async def kind(request: Request) -> Response:
    """``GET /material/plan``, ``/material/cards``, ``/material/exercises``; solutions with ``?solutions=true``."""
    name = request.path_params["kind"]
    made = await asyncio.to_thread(service_of(request).material.as_json)
    if name not in made:
        raise RequestError("there is plan, cards and exercises", status=404)
    if name == "exercises" and request.query_params.get("solutions", "").lower() not in _SOLUTIONS:
        return JSONResponse([without_solution(each) for each in made[name]])
    return JSONResponse(made[name])


# -- Chat Completions ------------------------------------------------------------------------------


async def completions(request: Request) -> Response:
    """``POST /v1/chat/completions``, streaming and not."""
    service = service_of(request)
    body, heading = await read_json(request), service.texts["sources"]
    longest = service.settings.longest_question
    call = read_call(body, models=[service.name], heading=heading, longest=longest)
    await service.admit(request)
    asked = service.asked(call.question, request, "api")
    envelope = Envelope(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), service.name, asked.number)
    events = service.answer(asked, call.history)
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


async def _answer(events: AsyncGenerator[AnswerEvent | WaitingAnswer]) -> Answer:
    async with aclosing(events):
        return [event async for event in events if isinstance(event, Answer)][-1]


async def _first(events: AsyncGenerator[AnswerEvent | WaitingAnswer]) -> AnswerEvent:
    async for event in events:
        if isinstance(event, TextDelta | Answer):
            return event
    raise RuntimeError("the stream ended without an answer")


async def _chunks(
    service: Service, stream: CompletionStream, first: AnswerEvent, events: AsyncGenerator[AnswerEvent | WaitingAnswer]
) -> AsyncGenerator[str]:
    try:
        async with aclosing(events):
            yield "".join(map(server_sent, stream.chunks(first)))
            async for event in events:
                if sent := "".join(map(server_sent, stream.chunks(event))):
                    yield sent
            yield server_sent("[DONE]")
    except Exception as error:  # the response has begun: what is left is to say so in it
        yield server_sent(service.failed(error).as_json())
