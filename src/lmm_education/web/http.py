"""Requests and responses: JSON, server-sent events, errors, pages made from templates, security headers.

Values in templates are escaped, except `Markup` from `lmm_education.web.rendering`. Students see only errors about
their own request; problems with models, keys and stores go to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lmm import loop
from lmm.errors import ModelBusy, ModelTimeout
from lmm_education.errors import Denied, RequestError, SearchError
from lmm_education.exchange_log.figures import day_of
from lmm_education.material import Passage

T = TypeVar("T")
LARGEST = 512 * 1024  # bytes of a request: enough for a long conversation
_LONGEST_NAME = 1000  # characters of a name or a password
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)
HEADERS = {
    "Content-Security-Policy": f"{POLICY}'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
NO_STORE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of a page or a stream that no proxy may cache or buffer."""


# -- JSON and events --------------------------------------------------------------------------------


async def read_json(request: Request) -> Mapping[str, Any]:
    """Return the body of a request, a JSON object.

    Only requests with the content type JSON are read: another site's page cannot send those without permission.

    Raises:
        RequestError: the body is something else, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the request must be JSON", hint="Content-Type: application/json", status=415)
    try:
        text = (await read_body(request, LARGEST)).decode("utf-8-sig")
        body = json.loads(text)
        if "\\u" in text and not is_unicode(body):
            raise RequestError("the request contains an unpaired surrogate")
    except (ValueError, RecursionError):
        raise RequestError("the request is not JSON") from None
    if not isinstance(body, dict):
        raise RequestError("the request must be a JSON object")
    return body


def is_unicode(values: object) -> bool:
    """Return whether the strings in some values can be encoded as UTF-8.

    >>> is_unicode({"a": ["\\U0001f343"]}), is_unicode({"a": ["\\ud83c"]})
    (True, False)
    """
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, of at most `most` bytes.

    Raises:
        RequestError: it is larger, or incomplete.
    """
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise RequestError(f"the request has more than {most} bytes", status=413)
    except ClientDisconnect:
        raise RequestError("the request is incomplete", status=408) from None
    return bytes(data)


def required(body: Mapping[str, Any], name: str, *, hint: str = "") -> Any:
    """Return a parameter of a request.

    Raises:
        RequestError: it is missing.
    """
    if body.get(name) is None:
        raise RequestError(f"'{name}' is missing", hint=hint, param=name, code="missing_required_parameter")
    return body[name]


def short_text(body: Mapping[str, Any], name: str) -> str:
    """Return a name or a password from a request.

    Raises:
        RequestError: it is too long, or not a string.
    """
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise RequestError(f"'{name}' must be a short text", param=name)
    return value


def server_sent(values: Mapping[str, Any] | str, event: str = "") -> str:
    """Format one server-sent event.

    >>> server_sent({"a": 1}, "text")
    'event: text\\ndata: {"a": 1}\\n\\n'
    """
    data = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
    return f"event: {event}\ndata: {data}\n\n" if event else f"data: {data}\n\n"


class CallerLeft(Exception):
    """The client disconnected before the answer was complete."""


async def unless_caller_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or stop it if the client disconnects. The request's body must have been read.

    Raises:
        CallerLeft: the client disconnected.
    """

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done() or working.cancelled():
            raise CallerLeft
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await loop.ended(working)


async def stream_of(
    events: AsyncGenerator[T], pieces: Callable[[T], Iterator[str]], failed: Callable[[Exception], str], *first: T
) -> AsyncGenerator[str]:
    """Iterate over what is sent for the events of an answer, after those that were read `first`. The response has
    begun: an error can only be reported inside of it, as `failed` writes it."""
    try:
        async with aclosing(events):
            for event in first:
                if sent := "".join(pieces(event)):
                    yield sent
            async for event in events:
                if sent := "".join(pieces(event)):
                    yield sent
    except Exception as error:
        yield failed(error)


class EventsResponse(StreamingResponse):
    """Server-sent events, until they end or the client disconnects; starlette's own class needs a task group for it."""

    def __init__(self, events: AsyncGenerator[str], headers: Mapping[str, str] = {}) -> None:
        super().__init__(events, media_type="text/event-stream", headers={**NO_STORE, **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(CallerLeft):
            await unless_caller_leaves(Request(scope, receive), self.stream_response(send))


# -- addresses -------------------------------------------------------------------------------------


def is_encrypted(connection: HTTPConnection) -> bool:
    """Return whether a request came by TLS; a proxy says so in a header."""
    return "https" in (connection.url.scheme, connection.headers.get("x-forwarded-proto", "").strip().lower())


def address_of(connection: HTTPConnection) -> str:
    """Return the address of a course's page as configured, else as the client sees it, with a slash at the end."""
    if known := connection.app.state.service.settings.address:
        return f"{known.rstrip('/')}/"
    return str(connection.base_url.replace(scheme="https") if is_encrypted(connection) else connection.base_url)


def source_address(page: str, source: Passage) -> str:
    """Return the link that opens a source on the page of its course.

    >>> from lmm_education.material import Lines, Location
    >>> place = Location("d", "a.md", Lines(3, 4), ("Leaves",))
    >>> source_address("http://127.0.0.1:8000/", Passage("c7", place, section="s2"))
    'http://127.0.0.1:8000/#section=s2&passage=c7'
    """
    passage = {"passage": source.id} if source.what == "chunk" else {}
    return f"{page}#{urlencode({'section': source.section or source.id, **passage})}"


# -- errors ----------------------------------------------------------------------------------------


_ERRORS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """An error as it is reported over HTTP. `logged`: whether it also goes to the server's log."""

    status: int
    type: str
    message: str
    code: str | None = None
    param: str | None = None
    logged: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the error in OpenAI's format.

        >>> HttpFailure(400, "invalid_request_error", "No.").as_json()["error"]["message"]
        'No.'
        """
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def failure_of(error: BaseException, texts: Mapping[str, str]) -> HttpFailure:
    """Return what is reported about an error; for an unexpected one, no more than that it happened.

    >>> from lmm.errors import ModelKeyMissing
    >>> failure_of(ModelKeyMissing("no key", where="/home/me"), {"failure": "Later."}).message
    'Later.'
    """
    if isinstance(error, RequestError):
        kind = "server_error" if error.status >= 500 else _ERRORS.get(error.status, "invalid_request_error")
        headers = error.headers
        return HttpFailure(error.status, kind, error.at_prompt, error.code, error.param, logged=False, headers=headers)
    if isinstance(error, SearchError):
        return HttpFailure(400, "invalid_request_error", error.at_prompt, logged=False)
    if isinstance(error, ModelBusy):
        return HttpFailure(429, "rate_limit_error", texts["busy"], "rate_limit_exceeded")
    if isinstance(error, ModelTimeout):
        return HttpFailure(504, "server_error", texts["failure"], "timeout")
    return HttpFailure(503, "server_error", texts["failure"], "unavailable")


def too_soon(message: str, wait: float, *, code: str) -> Denied:
    """Return a refusal with the seconds to wait, also in place of ``{seconds}`` in the message.

    >>> too_soon("In {seconds} seconds.", 8.2, code="x").headers
    {'Retry-After': '9'}
    """
    seconds = str(max(1, math.ceil(wait)))
    return Denied(message.replace("{seconds}", seconds), status=429, code=code, headers={"Retry-After": seconds})


# -- files ----------------------------------------------------------------------------------------


_EMBEDDED = "embed.js"  # the only file that other sites' pages load
_FONT = "font/woff2"
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "woff2": _FONT}


async def static(request: Request) -> Response:
    """``GET /static/NAME``: a style sheet, script or icon."""
    name = request.path_params["name"]
    if name not in _names():
        raise RequestError("there is no such file", status=404)
    kind = _KINDS[name.rpartition(".")[2]]
    headers = {"Cache-Control": "max-age=604800" if kind == _FONT else "no-cache"}
    if name == _EMBEDDED:
        headers |= {"Cross-Origin-Resource-Policy": "cross-origin"}
    return Response(_bytes("static", name), media_type=kind, headers=headers)


def template(name: str, status: int = 200, **values: Any) -> Response:
    """Return the page made from a template and some values; it is not cached."""
    return HTMLResponse(render(name, **values), status, headers=NO_STORE)


def render(name: str, **values: Any) -> str:
    """Return the text made from a template and some values.

    >>> "&lt;b&gt;" in render("base.html", language="en", title="<b>")
    True
    """
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: _bytes("templates", name).decode()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["day"] = lambda time, say: say.day(time if isinstance(time, date) else day_of(time, None))
    return environment


@cache
def _names() -> frozenset[str]:
    files = resources.files(__package__).joinpath("static").iterdir()
    return frozenset(file.name for file in files if file.name.rpartition(".")[2] in _KINDS)


@cache
def _bytes(folder: str, name: str) -> bytes:
    return resources.files(__package__).joinpath(folder, name).read_bytes()
