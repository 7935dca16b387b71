"""The HTTP API: a course as a model that any OpenAI client can talk to, in the Chat Completions protocol; search, study
material, health.

Earlier messages are the history, except those with the role ``system``: a course has its own. Parameters that would
change the answer and are not supported (tools, images, several choices) are refused, and so are unknown ones.
"""

from __future__ import annotations

import asyncio
import html
import re
import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm import loop
from lmm.arguments import OptionError, read_options
from lmm.errors import nearest
from lmm.markdown.spans import spans
from lmm.messages import Retrying, TextDelta, Usage
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent, Called
from lmm_education.answer.citations import citations
from lmm_education.answer.history import Exchange
from lmm_education.answer.verification import mark_of
from lmm_education.errors import RequestError
from lmm_education.material import SOURCE, Passage, as_json
from lmm_education.options import SearchOptions
from lmm_education.web.contents import without_solution
from lmm_education.web.gate import GatedSearch
from lmm_education.web.http import (
    CallerLeft,
    EventsResponse,
    address_of,
    read_json,
    required,
    server_sent,
    short_text,
    source_address,
    stream_of,
    unless_caller_leaves,
)
from lmm_education.web.questions import WaitingAnswer
from lmm_education.web.service import Service, service_of
from lmm_education.web.words import notice_for

IGNORED = frozenset(
    (
        "temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "tfs_z", "seed", "stop", "logit_bias",
        "frequency_penalty", "presence_penalty", "repeat_penalty", "repetition_penalty", "repeat_last_n",
        "mirostat", "mirostat_eta", "mirostat_tau", "max_tokens", "max_completion_tokens", "num_predict", "num_keep",
        "num_ctx", "num_batch", "num_gpu", "num_thread", "use_mmap", "use_mlock", "keep_alive", "options",
        "verbosity", "reasoning", "reasoning_effort", "think", "chat_template_kwargs", "tool_choice",
        "parallel_tool_calls", "user", "safety_identifier", "session_id", "chat_id", "conversation_id",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata", "store", "service_tier",
        "provider", "models", "route", "usage", "thinking", "include_reasoning", "reasoning_format", "function_call",
        "features", "variables", "background_tasks", "params", "model_item", "id", "cache_prompt", "samplers",
        "min_tokens", "ignore_eos", "length_penalty", "n_predict", "n_keep", "timings_per_token", "return_progress",
        "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base",
        "dry_allowed_length", "dry_penalty_last_n", "backend_sampling", "skip_special_tokens", "stop_token_ids",
        "enable_thinking", "thinking_budget", "ttl", "id_slot", "slot_id", "priority", "prediction", "request_id",
        "stream_tool_calls", "add_generation_prompt", "continue_final_message", "include_stop_str_in_output",
        "spaces_between_special_tokens", "truncate_prompt_tokens", "max_new_tokens", "do_sample", "use_beam_search",
    )
)  # fmt: skip
"""Parameters that clients send by themselves and that change nothing, because the course decides how it answers: the
response names them in `IGNORED_HEADER`."""
IGNORED_HEADER = "X-Ignored-Parameters"
_ORDINARY: Mapping[str, Any] = {"n": 1, "best_of": 1, "modalities": ["text"], "response_format": {"type": "text"}}
"""Parameters with values that ask for one answer in plain text."""
_MESSAGES = "messages"
_TAKEN = frozenset(("model", _MESSAGES, "stream", "stream_options", "here"))
_OWN = ("system", "developer")
_RESULTS = ("tool", "function")
_PARTS = ("text", "input_text", "output_text")
_LONGEST_RESULT = 2000  # characters
_OWNER = "lmm"
_SHOWN = tuple(name for name in SOURCE if name != "document")


@dataclass(frozen=True, slots=True)
class Call:
    """The parsed request."""

    question: str
    history: tuple[Exchange, ...] = ()
    stream: bool = False
    include_usage: bool = False
    ignored: tuple[str, ...] = ()


def read_call(body: Mapping[str, Any], *, model: str, heading: str, longest: int) -> Call:
    """Parse a request; `heading` is the line above the sources that `sources_text` appended to answers.

    Raises:
        RequestError: the request is invalid, or asks for something that is not supported.

    >>> said = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    >>> asked = {"model": "botany", "messages": [*said, {"role": "user", "content": "Sure?"}]}
    >>> call = read_call(asked, model="botany", heading="Sources", longest=100)
    >>> call.question, call.history
    ('Sure?', (Exchange(question='Why?', answer='So.'),))
    """
    check_model(body, model)
    for name, value in body.items():
        if name in _TAKEN or name in IGNORED or value in (None, False, "", [], {}):
            continue
        if name in ("n", "best_of") and value != 1:
            raise RequestError("a course gives one answer", param=name)
        if value != _ORDINARY.get(name, ...):
            raise RequestError(f"'{name}' is not supported", param=name)
    *earlier, last = _messages(required(body, _MESSAGES))
    if last[0] != "user":
        raise RequestError("the last message must be the user's", param=_MESSAGES)
    options = body.get("stream_options")
    usage = bool(options.get("include_usage")) if isinstance(options, Mapping) else False
    ignored = tuple(name for name, value in body.items() if name in IGNORED and value is not None)
    question = checked_question(last[1], longest)
    return Call(question, exchanges(earlier, heading), bool(body.get("stream")), usage, ignored)


def check_model(body: Mapping[str, Any], model: str) -> None:
    """Check that a request is for this course.

    Raises:
        RequestError: it names no model, or another one.
    """
    hint = f"there is: {model}"
    named = required(body, "model", hint=hint)
    if named != model:
        message = f"the model '{named}' does not exist"
        raise RequestError(message, hint=hint, status=404, param="model", code="model_not_found")


def exchanges(messages: Sequence[tuple[str, str]], heading: str) -> tuple[Exchange, ...]:
    """Return questions with the answers that follow them, without lists of sources; unanswered ones are dropped."""
    found, questions, answers = [], list[str](), list[str]()
    for role, text in (*messages, ("user", "")):
        if role == "user" and answers:
            found.append(Exchange("\n\n".join(filter(None, questions)), "\n\n".join(filter(None, answers))))
            questions, answers = [], []
        if role == "user":
            questions.append(text)
        elif any(questions):
            answers.append(text.rpartition(_above_sources(heading))[0] or text)
    return tuple(found)


def _messages(messages: object) -> list[tuple[str, str]]:
    """Return role and text of each message but the system's. What is no text in earlier ones, such as pictures and
    results of tools in a chat that began with another model, is named in words."""
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' must be a list with a question", param=_MESSAGES)
    check_number(len(messages), _MESSAGES)
    found = []
    for at, message in enumerate(messages):
        roles = ("user", "assistant", *_RESULTS, *_OWN)
        if not isinstance(message, Mapping) or message.get("role") not in roles:
            raise RequestError("a message must have the role user, assistant or system", param=_MESSAGES)
        role = str(message["role"])
        if role not in _OWN:
            text = _text(message.get("content"), role, is_last=at == len(messages) - 1)
            text = f"[result of a tool: {text[:_LONGEST_RESULT]}]" if role in _RESULTS and text else text
            found.append(("assistant" if role in _RESULTS else role, checked_length(text, _MESSAGES)))
    if not found:
        raise RequestError("there is no question", param=_MESSAGES)
    return found


def _text(content: object, role: str, *, is_last: bool) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    if content is None and not (is_last and role == "user"):  # clients keep messages that had no text
        return ""
    texts = list[str]()
    for part in content if isinstance(content, list) else [None]:
        kind = str(part.get("type")) if isinstance(part, Mapping) else ""
        text = part.get("text") if isinstance(part, Mapping) and kind in _PARTS else None
        if not kind or (text is None and is_last) or (kind in _PARTS and not isinstance(text, str)):
            raise RequestError("a course reads text only", param=_MESSAGES)
        texts.append(str(text) if text is not None else f"[{_NAMES.get(kind, kind)}]")
    return "\n\n".join(texts)


_NAMES = {"image_url": "picture", "input_image": "picture", "input_audio": "recording", "input_file": "file"}

# -- responses -------------------------------------------------------------------------------------


def sources_text(sources: Sequence[Passage], heading: str) -> str:
    """Return the list of sources below an answer; empty if there are none."""
    lines = [f"- [{source.number}] {source.path} ({source.place})" for source in sources]
    return _above_sources(heading) + "\n".join(lines) if lines else ""


def _above_sources(heading: str) -> str:
    return f"\n\n**{heading}**\n\n"


_PICTURE = re.compile(
    # In linear time: a bracket ends an address, and of a tag that is not closed soon, the name alone goes.
    r"!\[((?:[^\[\]]|\[[^\[\]]*\])*)\](?:\(\s*<?((?:[^()\s>\[]|\([^()\s\[]*\))*)[^)\n\[]*\)|\[[^\[\]]*\])?"
    r"|<img\b(?:[^>]{0,4000}>)?|<style\b|<[a-z][^<>]{0,500}?\b(?:url\(|background\s*=)(?:[^<>]{0,500}>)?"
    r"|<(?:image|source|video|audio|track|i?frame|object|embed|input|link|script|use)\b[^<>=]{0,500}=(?:[^>]{0,4000}>)?",
    re.IGNORECASE,
)
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*:|//|\\\\", re.IGNORECASE)


def without_remote_pictures(markdown: str) -> str:
    """Return a text in which pictures of other sites, which clients would load, are their descriptions, and without
    HTML tags that load something.

    >>> without_remote_pictures("A ![leaf](leaf.png), ![x](https://evil.example/?q=1), `![x](https://a.b)`")
    'A ![leaf](leaf.png), x, `![x](https://a.b)`'
    """
    if "![" not in markdown and "<" not in markdown:
        return markdown

    def shown(match: re.Match[str]) -> str:
        is_ours = match[2] is not None and not _REMOTE.match(html.unescape(match[2]))
        return match[0] if is_ours else match[1] or ""

    code = [(each.start, each.end) for each in spans(markdown) if each.kind in ("code", "code_block")]
    parts, at = list[str](), 0
    for start, end in [*code, (len(markdown), len(markdown))]:
        parts += [_PICTURE.sub(shown, markdown[at:start]), markdown[start:end]]
        at = max(at, end)
    return "".join(parts)


@dataclass(slots=True)
class CompletionAnswer:
    """An answer for a client in the Chat Completions protocol.

    `texts` are the course's words, `address` is its page's, `exchange` the answer's id in the log, if one is kept.
    Nothing sent can be taken back, so only complete blocks are sent. When the model starts again, the `text` that
    repeats what was `sent` is skipped; where it differs, a notice says so. `said` is all that the client got.
    """

    model: str
    texts: Mapping[str, str]
    address: str
    exchange: str = ""
    include_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    deltas: list[str] = field(default_factory=list)
    sent: str = ""
    text: str = ""

    def pieces(self, event: AnswerEvent | WaitingAnswer) -> Iterator[str]:
        """Iterate over the pieces to send for an event."""
        if isinstance(event, AnswerBlock):
            self.text += event.text if event.is_code else without_remote_pictures(event.text)
            if not self.sent.startswith(self.text):
                goes_on = self.text.startswith(self.sent)
                yield self._piece(self.text[len(self.sent) :] if goes_on else self._void + self.text)
                self.sent = self.text
        elif isinstance(event, Retrying | Called):
            self.text = ""
            if isinstance(event, Called) and self.deltas:
                self.sent = ""
                yield self._piece(self._void)
        elif isinstance(event, Answer):
            text = self._below(event) if self.deltas else without_remote_pictures(event.text) + self._below(event)
            if self.deltas and self.sent != self.text:
                text = self._void + self.text + text
            if text:
                yield self._piece(text)
            yield from self._end(event)

    @property
    def _void(self) -> str:
        return f"\n\n*{self.texts['again']}*\n\n"

    def annotations(self, answer: Answer) -> list[dict[str, Any]]:
        """Return the citations in the text, each with a link that opens its source on the course's page, and quotations
        that are not in their sources, with the type ``unverified``."""
        cited, text = {source.number: source for source in answer.cited}, without_remote_pictures(answer.text)
        addresses = {number: source_address(self.address, source) for number, source in cited.items()}
        titles = {number: ", ".join(filter(None, (each.path, each.place.page))) for number, each in cited.items()}
        begins = len("".join(self.deltas).partition(text)[0]) if self.deltas else 0
        missing = len(answer.text) - len(text)

        def annotation(kind: str, start: int, end: int, **more: str) -> dict[str, Any]:
            return {"type": kind, "start_index": begins + start, "end_index": begins + end, **more}

        return [
            annotation(
                "url_citation",
                start,
                end,
                title=titles[number],
                url=addresses[number],
            )
            for start, end, numbers, known in citations(text, {source.number for source in answer.offered})
            for number in numbers
            if known and number in cited
        ] + [
            annotation("unverified", start, start + len(words), message=notice_for(mark_of(each), self.texts))
            for each in answer.verification.failures
            if (start := text.find(words := answer.text[each.start : each.end], max(0, each.start - missing))) >= 0
        ]

    def _below(self, answer: Answer) -> str:
        """Return the text below an answer: sources and unverified quotations, since most clients show only text."""
        failed = [
            f"- “{' '.join(each.text.split())}”: {notice_for(mark_of(each), self.texts)}"
            for each in answer.verification.failures
        ]
        heading = self.texts["sources"]
        below = sources_text(answer.sources if answer.found else (), heading)
        return (below or _above_sources(heading)) + "\n" * bool(below) + "\n".join(failed) if failed else below

    def beyond(self, answer: Answer) -> dict[str, Any]:
        """Return fields beyond the protocol, which clients ignore if they do not know them. A source has no `document`,
        because Open WebUI iterates over that of each of `sources`, as a list of texts (`Citations.svelte`)."""
        sources, offered = (
            [{"docid": source.place.document} | as_json(source, _SHOWN) for source in found]
            for found in (answer.cited, answer.offered)
        )
        exchange: dict[str, Any] = {"exchange": self.exchange} if self.exchange else {}
        exchange |= {} if answer.answers else {"nearest": offered}
        more = {
            "sources": sources,
            "found": answer.answers,
            "rests_on": answer.rests_on,
            "notices": list(answer.notices),
        }
        return exchange | more | answer.verification.as_json()

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the complete response, if no stream was requested."""
        content = without_remote_pictures(answer.text) + self._below(answer)
        message = {"role": "assistant", "content": content, "annotations": self._cited(answer)}
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        usage = {"usage": usage_values(answer.usage)}
        return self._head("chat.completion") | {"choices": [choice]} | usage | self.beyond(answer)

    def _piece(self, text: str) -> str:
        role = {} if self.deltas else {"role": "assistant"}
        self.deltas.append(text)
        return self._chunk({**role, "content": text}, None)

    def _end(self, answer: Answer) -> Iterator[str]:
        cited = self._cited(answer)
        yield self._chunk({"annotations": cited} if cited else {}, _finish(answer), **self.beyond(answer))
        if self.include_usage:
            yield server_sent(self._head() | {"choices": [], "usage": usage_values(answer.usage)})
        yield server_sent("[DONE]")

    def _cited(self, answer: Answer) -> list[dict[str, Any]]:
        return [{"type": (kind := each.pop("type")), kind: each} for each in self.annotations(answer)]

    def _chunk(self, delta: Mapping[str, Any], finish: str | None, **more: Any) -> str:
        return server_sent(self._head() | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)

    def _head(self, kind: str = "chat.completion.chunk") -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}


def usage_values(usage: Usage) -> dict[str, Any]:
    """Return token counts in the format of Chat Completions."""
    sent, received = usage.input_tokens, usage.output_tokens
    return {
        "prompt_tokens": sent,
        "completion_tokens": received,
        "total_tokens": sent + received,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _finish(answer: Answer) -> str:
    return "content_filter" if answer.refused else "length" if answer.cut else "stop"


# -- endpoints ---------------------------------------------------------------------------------------


async def models(request: Request) -> Response:
    """``GET /v1/models``: list the course."""
    return JSONResponse({"object": "list", "data": [_model(service_of(request).name)]})


async def model(request: Request) -> Response:
    """``GET /v1/models/NAME``: the course as a model."""
    name = request.path_params["name"]
    check_model({"model": name}, service_of(request).name)
    return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}


async def completions(request: Request) -> Response:
    """``POST /v1/chat/completions``, with or without streaming."""
    service, body = service_of(request), await read_json(request)
    heading, longest = service.texts["sources"], service.settings.longest_question
    call = read_call(body, model=service.name, heading=heading, longest=longest)
    await service.guard.admit(request)
    asked = service.asked(call.question, request, "api", await read_here(service, body))
    reply = CompletionAnswer(
        service.name, service.texts, address_of(request), exchange=asked.number, include_usage=call.include_usage
    )
    events = service.answer(asked, call.history)
    headers = {IGNORED_HEADER: ", ".join(call.ignored)} if call.ignored else {}
    try:
        if not call.stream:
            return JSONResponse(reply.whole(await unless_caller_leaves(request, _answer(events))), headers=headers)
        # Until the first piece of text, an error can still set the status.
        first = await unless_caller_leaves(request, _first(events))
    except CallerLeft:
        await events.aclose()
        raise
    sent = stream_of(events, reply.pieces, lambda error: server_sent(service.failed(error).as_json()), first)
    return EventsResponse(sent, headers)


async def _first(events: AsyncGenerator[AnswerEvent | WaitingAnswer]) -> AnswerEvent | WaitingAnswer:
    async for event in events:
        if isinstance(event, TextDelta | Answer):
            break
    return event


async def _answer(events: AsyncGenerator[AnswerEvent | WaitingAnswer]) -> Answer:
    async with aclosing(events):
        return [event async for event in events if isinstance(event, Answer)][-1]


# -- search, study material, health ------------------------------------------------------------------

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
    result = await unless_caller_leaves(request, loop.run_async(searching.asearch(question, options)))
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
