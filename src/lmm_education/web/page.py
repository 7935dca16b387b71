"""The endpoints of the web chat's page."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from lmm import loop
from lmm.markdown import prose_of
from lmm.markdown.quotations import Quotation
from lmm.messages import Retrying, TextDelta
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent, Attempted, Called, Found
from lmm_education.answer.extractive import NOTICE, sentences_in, shown_sentence, supporting_sentence
from lmm_education.answer.history import Exchange
from lmm_education.answer.quoting import CLOSEST, NOTHING_FOUND
from lmm_education.answer.verification import Failure, mark_of, marked
from lmm_education.errors import LogError, RequestError, StoreError
from lmm_education.exchange_log.exchanges import LONGEST_COMMENT
from lmm_education.material import Location, Passage
from lmm_education.study.exercises import folded, right_choices
from lmm_education.web.api import LONGEST_MESSAGE, check_number, checked_length, checked_question, read_here
from lmm_education.web.contents import Chapter, follow_ups, name_of, starters
from lmm_education.web.http import (
    NO_STORE,
    EventsResponse,
    HttpFailure,
    read_json,
    server_sent,
    short_text,
    stream_of,
    template,
    unless_caller_leaves,
)
from lmm_education.web.login import caller_of, set_cookie
from lmm_education.web.openid import LoginProvider
from lmm_education.web.pictures import POLICY
from lmm_education.web.questions import ServedQuestion, WaitingAnswer
from lmm_education.web.rendering import Picture, title_html, title_text, to_html
from lmm_education.web.service import Service, service_of
from lmm_education.web.words import LANGUAGES, language_of, notice_for, texts_of, theme_of

_LONGEST_SENTENCE = 240  # characters
_PRIVATE = tuple(map(chr, range(0xE000, 0xF8FF)))  # of these, one that a text does not contain is a mark
_MARK = Markup('<span class="unverified" role="note">{}</span>')
PageEvent = tuple[str, Mapping[str, Any]]
"""A name and its values: ``waiting`` (in the queue), ``found``, ``read`` (the model's sources), ``text`` (a piece of
the answer), ``block`` (the HTML of blocks that are complete, and the remaining text), ``restart`` (discard all text),
``answer``."""


@dataclass(slots=True)
class PageAnswer:
    """Turns the events of one answer into those of the page. `exchange` is its id in the log, if one is kept. `known`
    is the number of earlier exchanges that the model sees, `cards` are the course's own questions, `here` is the title
    of the section that the student had open, as HTML."""

    texts: Mapping[str, str]
    exchange: str = ""
    pictures: Callable[[Sequence[Passage]], Picture] | None = None
    original: Callable[[Location], str] = lambda place: ""
    picture: Picture | None = None
    numbers: tuple[int, ...] = ()
    chapters: Sequence[Chapter] = ()
    cards: Sequence[Mapping[str, Any]] = ()
    known: int | None = None
    here: str = ""
    found: Found | None = None
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    tail: str = ""  # the text that is not rendered yet
    block: str = ""  # the finished items of a list, or lines of code, at its beginning
    failures: list[Quotation] = field(default_factory=list)

    def events(self, event: AnswerEvent | WaitingAnswer) -> Iterator[PageEvent]:
        """Iterate over the page's events for an event of the answer."""
        if isinstance(event, WaitingAnswer):
            yield "waiting", {"message": self.texts["queue"].replace("{n}", str(event.ahead))}
        elif isinstance(event, Found):
            self.numbers = tuple(source.number for source in event.sources)
            self.picture = self.pictures(event.sources) if self.pictures else None
            self.found = event
            yield "found", {"sources": len(event.sources)}
        elif isinstance(event, TextDelta):
            if self.found:  # now the question is certainly being answered
                yield "read", {"sources": self._sources(self.found.sources), "known": self.known}
                self.found = None
            self.tail += event.text
            yield "text", {"text": event.text}
        elif isinstance(event, AnswerBlock):
            at = len(self.block)
            self.failures += [each._replace(start=each.start + at, end=each.end + at) for each in event.failures]
            self.block += event.text
            if event.ends:
                self.tail = self.tail[len(self.block) :]
                yield "block", {"html": self._html(self.block, self.failures, self.numbers), "rest": self.tail}
                self.block, self.failures = "", []
        elif isinstance(event, Retrying | Called):
            self.tail, self.block, self.failures = "", "", []
            yield "restart", {"message": self.texts["again"] if isinstance(event, Retrying) else self.texts["thinking"]}
        elif isinstance(event, Answer):
            yield "answer", self._answer(event)

    def _html(self, text: str, failures: Sequence[Failure], numbers: Collection[int]) -> Markup:
        """Render a text with marks after quotations that are not in their sources."""
        marks, place = list[str](), next((char for char in _PRIVATE if char not in text), _PRIVATE[0])

        def mark(failure: Failure) -> str:
            marks.append(notice_for(mark_of(failure), self.texts))
            return place

        text = text.replace(place, "\ufffd")  # a reply may contain all of them
        html = to_html(marked(text, failures, mark), numbers=numbers, picture=self.picture)
        shown = iter(marks)
        return Markup(re.sub(place, lambda _: _MARK.format(next(shown)), html))

    def _answer(self, answer: Answer) -> dict[str, Any]:
        numbers = [source.number for source in answer.cited]
        sources = answer.sources if answer.found else ()
        ours = {NOTHING_FOUND: "nothing_found", CLOSEST: "closest", NOTICE: "quoted"}  # in the words of the page
        text = reduce(lambda text, each: text.replace(each, self.texts[ours[each]]), ours, answer.text)
        text = self.texts["off_topic"] if answer.refused else text
        read = [source for source in answer.offered if source not in sources]
        used = [source.section or source.id for source in answer.cited or answer.offered]
        claims = answer.verification.claims
        return {
            "html": self._html(text, answer.verification.failures, numbers),
            "text": text,
            "found": answer.answers,
            "exchange": self.exchange,
            "here": self.here,
            "known": self.known,
            "sources": [
                source_values(each, supporting_sentence(each, claims), self.original(each.place)) for each in sources
            ],
            "read": self._sources(read),
            "suggests": self.known is not None and answer.answers,
            "next": [*map(title_text, follow_ups(answer.question, used, self.cards, self.chapters))],
            "notices": [
                *(notice_for(notice, self.texts) for notice in answer.notices),
                *([self.texts["cut"]] if answer.cut else []),
                *([self.texts["rests_on_general"]] if answer.rests_on == "general" else []),
            ],
        }

    def _sources(self, sources: Sequence[Passage]) -> list[dict[str, Any]]:
        """Return the values of sources, which are sent twice: when they are found, and with the answer."""
        for source in sources:
            if source.id not in self.shown:
                self.shown[source.id] = source_values(source, original=self.original(source.place))
        return [self.shown[source.id] for source in sources]


def source_values(source: Passage, quoted: str = "", original: str = "") -> dict[str, Any]:
    """Return a source for the page: what it shows, and the ids of section and passage. `quoted` is the sentence that
    supports the answer; without one, the first is shown. Its location in the files is for the author only; `original`
    is the address of the PDF."""
    name = " › ".join(source.place.path(source.title))
    return {
        "number": source.number,
        "name": name,
        "title": title_html(name),
        "page": source.place.page,
        "original": original,
        "sentence": sentence_html(quoted) if quoted else first_words(source.text),
        "type": source.type if source.type != "text" else "",
        "section": source.section or source.id,
        "passage": source.id if source.what == "chunk" else "",
        "quoted": quoted,
    }


@lru_cache(maxsize=2_000)
def first_words(markdown: str) -> str:
    """Return the first sentence of a text as HTML; cached, since a class asks for the same sources.

    >>> first_words("## Leaves\\n\\nA *leaf* is [green](a.md). It falls.")
    'A <em>leaf</em> is green.'
    """
    return sentence_html(next(sentences_in(prose_of(markdown)), ""))


def sentence_html(sentence: str) -> str:
    """Return a sentence as HTML, without links and notes; a long one ends with an ellipsis.

    >>> sentence_html("The slope $b$^[see https://example.org] is 2.")
    'The slope <math display="inline"><mrow><mi>b</mi></mrow></math> is 2.'
    """
    text = cut = shown_sentence(sentence)
    if len(text) > _LONGEST_SENTENCE:
        cut = text[:_LONGEST_SENTENCE].rpartition(" ")[0]
    if cut.count("$") % 2:  # no formula is cut
        cut = cut.rpartition("$")[0].rstrip()
    return title_html(text if cut == text else f"{cut} …" if cut else "")


# -- endpoints ---------------------------------------------------------------------------------------


_NO_PAIRS = "'history' must be a list of pairs of texts"


async def index(request: Request) -> Response:
    """``GET /``: the page, in the course's words."""
    service = service_of(request)
    settings, guard, caller = service.settings, service.guard, caller_of(request)
    texts = texts_of(request, settings)
    glance = await asyncio.to_thread(_glance, service, texts)
    named = settings.login == "proxy" or (caller.session is not None and bool(caller.session.name))
    return template(
        "page.html", **glance, language=language_of(request, settings), languages=LANGUAGES, t=texts,
        theme=theme_of(request), reader=hashlib.sha256(caller.student.encode()).hexdigest()[:12] if named else "",
        welcome=to_html(texts["welcome"]), consent="" if guard.has_agreed(request) else guard.consent,
        consent_text=to_html(settings.consent), logged_in=caller.session is not None,
        logged=texts["logged"].replace("{days}", str(settings.log_days)) if service.log else "",
        longest=settings.longest_question,
    )  # fmt: skip


def _glance(service: Service, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return what a student sees first: title, description, suggested questions, chapters."""
    try:
        chapters, cards = _own(service)
        sections = service.contents.once("number of sections", lambda catalogue: len(catalogue.sections)) or 0
    except StoreError as error:
        service.failed(error)
        chapters, cards, sections = (), [], 0
    numbered = any(chapter.number for chapter in chapters)
    whole = [each for each in chapters if not each.depth and (each.number or not numbered)]
    about = texts["about"].replace("{n}", str(sections))  # as lmm store status counts them
    asked = starters(
        [card["question"] for card in cards],
        chapters,
        texts if service.answering.can_write else {"ask_about": texts["ask_text"]},
    )
    return {
        "title": service.title,
        "description": service.description or (about if sections > 1 else ""),
        "starters": [*map(title_text, asked)],
        "chapters": [(each.number, Markup(title_html(each.title)), each.opens) for each in whole],
    }


def _own(service: Service) -> tuple[tuple[Chapter, ...], list[dict[str, Any]]]:
    """Return the course's chapters and its cards."""
    chapters = service.contents.chapters()
    return chapters, service.contents.study_material()["cards"] if chapters else []


async def contents(request: Request) -> Response:
    """``GET /contents``: the documents with their headings, and the types of material."""
    return JSONResponse(await asyncio.to_thread(service_of(request).contents.as_json))


async def section(request: Request) -> Response:
    """``GET /sections/ID``: the section as HTML, and those ``before`` and ``after`` it. The words ``quoted`` are
    marked if the section contains them as they are, or the ``passage``; with ``whole``, the whole document is shown."""
    shown = await section_of(request)
    return JSONResponse({name: value for name, value in shown.items() if name != "place"})


async def section_of(request: Request) -> dict[str, Any]:
    """Return a section for the teacher, who also sees its ``place`` in a file."""
    service = service_of(request)
    passage, quoted = (request.query_params.get(name, "") for name in ("passage", "quoted"))
    label, whole = texts_of(request, service.settings)["solution"], "whole" in request.query_params
    id, section = request.path_params["id"], service.contents.section
    return await asyncio.to_thread(section, id, passage=passage, quoted=quoted, whole=whole, label=label)


async def where(request: Request) -> Response:
    """``GET /here?here=ADDRESS``: the ``title``, as HTML, of the section that a page of the published book shows;
    nothing if it is not part of the course."""
    found = await read_here(service_of(request), request.query_params)
    return JSONResponse({"title": title_html(name_of(found, found.title))} if found else {}, headers=NO_STORE)


async def picture(request: Request) -> Response:
    """``GET /pictures/ADDRESS``: a picture."""
    data, kind = await asyncio.to_thread(service_of(request).pictures.read, request.path_params["address"])
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, max-age=300", "ETag": tag, "Content-Security-Policy": POLICY}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)


async def original(request: Request) -> Response:
    """``GET /originals/ADDRESS``: the PDF that a text was imported from."""
    path = await asyncio.to_thread(service_of(request).originals.read, request.path_params["address"])
    return FileResponse(path, media_type="application/pdf", headers=NO_STORE)


async def chat(request: Request) -> Response:
    """``POST /chat``: answer ``question`` after ``history``, a list of pairs, as server-sent events. ``here`` is the
    page of the book that the student reads."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(body.get("question"), service.settings.longest_question)
    history = _history(body.get("history", []))
    await service.guard.admit(request)
    here = await read_here(service, body)
    asked = service.asked(question, request, "page", here)
    chapters, cards = await asyncio.to_thread(_own, service)
    page = PageAnswer(
        texts_of(request, service.settings),
        asked.number,
        service.pictures.of_sources,
        chapters=chapters,
        cards=cards,
        original=service.originals.address,
        known=len(service.answering.known(history)) if service.answering.can_write else None,
        here=title_html(name_of(here, here.title)) if here else "",
    )
    stream = _stream(service, asked, history, page)
    return EventsResponse(stream)


async def feedback(request: Request) -> Response:
    """``POST /feedback``: say what is right and what is missing in ``answer`` to the exercise or card with the id
    ``exercise``, as the same events; show its solution where choices can be compared with it, and without a model."""
    service, body = service_of(request), await read_json(request)
    answer = checked_question(body.get("answer"), service.settings.longest_question)
    exercise = await asyncio.to_thread(service.contents.exercise, short_text(body, "exercise"))
    await service.guard.admit(request)
    asked = service.asked(f"{exercise['question']}\n\n{answer}", request, "page")
    solution, choices = exercise["solution"], exercise.get("choices", ())
    right, chosen = ({*map(folded, right_choices(choices, text))} for text in (solution, answer))
    asked.attempted = Attempted(exercise["question"], answer, solution, chosen == right if right else None)
    page = PageAnswer(texts_of(request, service.settings), pictures=service.pictures.of_sources)
    return EventsResponse(_stream(service, asked, [], page))


async def suggest(request: Request) -> Response:
    """``POST /suggestions``: return ``questions`` that lead on from ``question`` and ``answer``, by the model."""
    service, body = service_of(request), await read_json(request)
    question = checked_question(body.get("question"), service.settings.longest_question)
    answer = checked_length(checked_question(body.get("answer"), LONGEST_MESSAGE), "answer")
    if not service.answering.can_write:
        raise RequestError("no language model is set", status=404)
    await service.guard.admit(request)
    found = await unless_caller_leaves(request, loop.run_async(service.suggested(question, answer)))
    return JSONResponse({"questions": found}, headers=NO_STORE)


def _history(pairs: object) -> list[Exchange]:
    if not isinstance(pairs, list):
        raise RequestError(_NO_PAIRS, param="history")
    check_number(2 * len(pairs), "history")
    if not all(isinstance(pair, list) and [*map(type, pair)] == [str, str] for pair in pairs):
        raise RequestError(_NO_PAIRS, param="history")
    return [Exchange(*(checked_length(text, "history") for text in pair)) for pair in pairs]


def _stream(
    service: Service, asked: ServedQuestion, history: Sequence[Exchange], page: PageAnswer
) -> AsyncGenerator[str]:
    def pieces(event: AnswerEvent | WaitingAnswer) -> Iterator[str]:
        return (server_sent(values, name) for name, values in page.events(event))

    def failed(error: Exception) -> str:
        return server_sent({"message": service.failed(error, page.texts).message}, "failure")

    return stream_of(service.answer(asked, history), pieces, failed)


# -- reactions ---------------------------------------------------------------------------------------


_REACTIONS = {"up": 1, "down": -1, "none": 0}


async def react(request: Request) -> Response:
    """``POST /reactions``: record ``reaction`` (up, down or none) and ``comment`` for the student's own answer with the
    id ``exchange``; they replace earlier ones."""
    service, body = service_of(request), await read_json(request)
    exchange, reaction, comment = read_reaction(body)
    log = service.log
    if log is None:
        raise RequestError("no log is kept", status=404)
    student = str(request.state.student)
    try:
        known = await asyncio.to_thread(log.react, exchange, student, _REACTIONS[reaction], comment)
    except LogError:  # reported in the server's log
        failure = HttpFailure(503, "server_error", texts_of(request, service.settings)["not_kept"], "unavailable")
        return JSONResponse(failure.as_json(), failure.status)
    if not known:
        raise RequestError(texts_of(request, service.settings)["too_late"], status=404, param="exchange")
    return JSONResponse({"exchange": exchange, "reaction": reaction, "comment": comment})


def read_reaction(body: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return exchange, reaction and comment of a request.

    Raises:
        RequestError: one of them is invalid.

    >>> read_reaction({"exchange": "1f", "reaction": "up"})
    ('1f', 'up', '')
    """
    exchange, reaction, comment = body.get("exchange"), body.get("reaction"), body.get("comment", "")
    if not isinstance(exchange, str):
        raise RequestError("'exchange' must be the id of an answer", param="exchange")
    if reaction not in _REACTIONS:
        raise RequestError("'reaction' must be up, down or none", param="reaction")
    if not isinstance(comment, str) or len(comment) > LONGEST_COMMENT:
        raise RequestError(f"'comment' must be text of up to {LONGEST_COMMENT} characters", param="comment")
    return exchange, reaction, comment.strip()


# -- login and consent ----------------------------------------------------------------------------

_YEAR = 365 * 24 * 3600


async def login(request: Request) -> Response:
    """``GET /login``: the login page, unless the student is logged in."""
    service = service_of(request)
    if service.settings.login == "none" or caller_of(request).admitted:
        return RedirectResponse("./", 303)
    if service.settings.login in ("proxy", "lti"):
        return PlainTextResponse(service.texts["log_in_there"], 401)
    if service.provider is not None:
        return await service.provider.begin(request)
    return template(
        "login.html", language=language_of(request, service.settings), theme=theme_of(request), title=service.title,
        description=service.description, t=texts_of(request, service.settings), named=service.settings.login == "users",
        address="login", then="./",
    )  # fmt: skip


async def log_in(request: Request) -> Response:
    """``POST /login``: log in with ``name`` and ``password``; the response sets the session cookie."""
    service = service_of(request)
    texts = texts_of(request, service.settings)
    if service.settings.login not in ("password", "users"):
        raise RequestError("there is no login here", status=404)
    body = await read_json(request)
    name = short_text(body, "name").strip() if service.settings.login == "users" else ""
    return await service.students.begin(request, name, short_text(body, "password"), texts)


async def launch(request: Request) -> Response:
    """``GET`` or ``POST /lti/login``: a learning platform announces a user, and is asked to identify him."""
    return await _provider(request).begin(request)


async def came_back(request: Request) -> Response:
    """``GET /login/back``, ``POST /lti/launch``: a user returns from the provider with a proof of identity."""
    service, provider = service_of(request), _provider(request)
    return service.students.arrived(request, await provider.came_back(request))


def _provider(request: Request) -> LoginProvider:
    provider = service_of(request).provider
    if provider is None:
        raise RequestError("there is no login at another server", status=404)
    return provider


async def log_out(request: Request) -> Response:
    """``POST /logout``: end the session."""
    await read_json(request)
    return await service_of(request).students.end(request)


async def consent_text(request: Request) -> Response:
    """``GET /consent``: the text to agree to before the first question, as markdown, and the value to send for that."""
    text, consent = service_of(request).settings.consent, service_of(request).guard.consent
    return JSONResponse({"text": text, "consent": consent}, headers=NO_STORE)


async def agree(request: Request) -> Response:
    """``POST /consent``: record agreement in the browser; ``consent`` is the value that `consent_text` returned."""
    guard, body = service_of(request).guard, await read_json(request)
    if not guard.consent or body.get("consent") != guard.consent:
        raise RequestError("this is not the current consent text", param="consent", status=409)
    response = JSONResponse({"status": "ok"}, headers=NO_STORE)
    set_cookie(response.headers, request, guard.consent_cookie, guard.agreement(caller_of(request)), _YEAR)
    return response
